package rpc

import (
	"context"
	"errors"
	"io"

	"github.com/zclconf/go-cty/cty"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/tfplugin6"
)

// errNoCompletion is the end of a stream without the message that the action is over.
var errNoCompletion = status.Error(codes.Unavailable, "the stream ended before the action was over")

// ValidateActionConfig implements provider.Invoker.
func (p *Provider) ValidateActionConfig(ctx context.Context, typeName string, config cty.Value) diag.List {
	_, s, diags := p.shape(ctx, action, typeName)
	if diags.HasErrors() {
		return diags
	}
	var e encoder
	req := &tfplugin6.ValidateActionConfig_Request{ActionType: typeName, Config: e.value(config, s.ty)}
	if diags := e.failed(typeName); diags != nil {
		return diags
	}
	resp, err := p.stub.ValidateActionConfig(ctx, req)
	if err != nil {
		return p.lost(ctx, "ValidateActionConfig", err)
	}
	return problems(resp.Diagnostics)
}

// PlanAction implements provider.Invoker.
func (p *Provider) PlanAction(ctx context.Context, typeName string, config cty.Value) diag.List {
	_, s, diags := p.shape(ctx, action, typeName)
	if diags.HasErrors() {
		return diags
	}
	var e encoder
	req := &tfplugin6.PlanAction_Request{ActionType: typeName, Config: e.value(config, s.ty),
		ClientCapabilities: allowed(ctx)}
	if diags := e.failed(typeName); diags != nil {
		return diags
	}
	resp, err := p.stub.PlanAction(ctx, req)
	if err != nil {
		return p.lost(ctx, "PlanAction", err)
	}
	d := p.decode("PlanAction", typeName, resp.Diagnostics)
	d.deferral(ctx, resp.Deferred)
	return d.diags
}

// InvokeAction implements provider.Invoker.
func (p *Provider) InvokeAction(ctx context.Context, typeName string, config cty.Value,
	progress func(string)) diag.List {
	_, s, diags := p.shape(ctx, action, typeName)
	if diags.HasErrors() {
		return diags
	}
	var e encoder
	req := &tfplugin6.InvokeAction_Request{ActionType: typeName, Config: e.value(config, s.ty),
		ClientCapabilities: clientCapabilities}
	if diags := e.failed(typeName); diags != nil {
		return diags
	}
	ctx, end := context.WithCancel(ctx) // ends the stream, also if it has not been read to its end
	defer end()
	stream, err := p.stub.InvokeAction(ctx, req)
	if err != nil {
		return p.lost(ctx, "InvokeAction", err)
	}
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			err = errNoCompletion
		}
		if err != nil {
			return p.lost(ctx, "InvokeAction", err)
		}
		switch e := event.Type.(type) {
		case *tfplugin6.InvokeAction_Event_Progress_:
			progress(e.Progress.GetMessage())
		case *tfplugin6.InvokeAction_Event_Completed_:
			return problems(e.Completed.GetDiagnostics())
		}
	}
}

var _ provider.Invoker = (*Provider)(nil)
