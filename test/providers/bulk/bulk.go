// Package bulk is a test provider for measurements with very many objects: its calls need little CPU time.
//
// terraform-plugin-framework needs 1 to 2 ms of CPU for the plan of one fleet_machine, because the time grows with the
// square of the number of attributes. That is several times as much as the engine needs for the object, so on one
// machine a measurement with fleet measures the framework. This provider uses plugin protocol 6 without it. Its objects
// exist in the cloud of package cloud, and its calls are recorded like those of fleet.
package bulk

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/millipede-iac/millipede/test/providers/act"
	"github.com/millipede-iac/millipede/test/providers/cloud"
	"github.com/millipede-iac/millipede/test/providers/record"
)

// typeName is the resource type without identities, and that of all objects in the cloud.
const typeName = "bulk_item"

// Serve serves the provider over plugin protocol 6 until its client goes.
func Serve(env act.Env) error {
	debug.SetGCPercent(400) // the process has next to no memory to look through, and otherwise does so all the time
	stage, err := env.Open("bulk", rand.Reader)
	if err != nil {
		return err
	}
	err = tf6server.Serve("registry.opentofu.org/millipede/bulk", func() tfprotov6.ProviderServer { return New(stage) })
	return errors.Join(err, stage.Log.Close())
}

// New returns the provider.
func New(stage *act.Stage) tfprotov6.ProviderServer { return &server{stage: stage} }

type server struct {
	refused
	stage *act.Stage
}

// timed are the operations whose duration an attribute determines.
var timed = []record.Op{record.Plan, record.Create, record.Read, record.Update, record.Delete}

// item is the schema of bulk_item.
var item = &tfprotov6.Schema{Block: &tfprotov6.SchemaBlock{
	Description: "An object.",
	Attributes: append([]*tfprotov6.SchemaAttribute{
		{Name: "name", Type: tftypes.String, Required: true, Description: "The name; another one replaces the object."},
		{Name: "value", Type: tftypes.String, Optional: true, Description: "Changed in place."},
		{Name: "id", Type: tftypes.String, Computed: true, Description: "The name and a random suffix."},
		{Name: "ip", Type: tftypes.String, Computed: true, Description: "A random address."},
		{Name: "revision", Type: tftypes.Number, Computed: true,
			Description: "1 when created; unknown in plans of updates, which add 1."},
	}, durations()...),
}}

// itemType is the type of the objects of bulk_item.
var itemType = item.ValueType()

// durations returns the attributes plan_ms, create_ms and so on.
func durations() []*tfprotov6.SchemaAttribute {
	var all []*tfprotov6.SchemaAttribute
	for _, op := range timed {
		all = append(all, &tfprotov6.SchemaAttribute{Name: string(op) + "_ms", Type: tftypes.Number, Optional: true,
			Description: "How long a " + string(op) + " lasts, in milliseconds."})
	}
	return all
}

// GetMetadata names the resource type.
func (s *server) GetMetadata(context.Context, *tfprotov6.GetMetadataRequest) (*tfprotov6.GetMetadataResponse, error) {
	return &tfprotov6.GetMetadataResponse{ServerCapabilities: capabilities(),
		Resources:     []tfprotov6.ResourceMetadata{{TypeName: typeName}, {TypeName: listedName}},
		ListResources: []tfprotov6.ListResourceMetadata{{TypeName: listedName}}}, nil
}

// GetProviderSchema describes the resource type. The provider has no configuration.
func (s *server) GetProviderSchema(context.Context, *tfprotov6.GetProviderSchemaRequest) (
	*tfprotov6.GetProviderSchemaResponse, error) {
	return &tfprotov6.GetProviderSchemaResponse{
		ServerCapabilities:  capabilities(),
		Provider:            &tfprotov6.Schema{Block: &tfprotov6.SchemaBlock{}},
		ResourceSchemas:     map[string]*tfprotov6.Schema{typeName: item, listedName: item},
		ListResourceSchemas: map[string]*tfprotov6.Schema{listedName: listConfig},
	}, nil
}

func capabilities() *tfprotov6.ServerCapabilities {
	return &tfprotov6.ServerCapabilities{PlanDestroy: true, GetProviderSchemaOptional: true}
}

// StopProvider is recorded. The server ends the contexts of all calls itself.
func (s *server) StopProvider(ctx context.Context, _ *tfprotov6.StopProviderRequest) (*tfprotov6.StopProviderResponse,
	error) {
	err := s.stage.Do(ctx, record.Entry{Op: record.Stop}, act.Script{}, func(*record.Entry) error { return nil })
	return &tfprotov6.StopProviderResponse{}, err
}

// ValidateResourceConfig accepts every configuration: engines check its type.
func (s *server) ValidateResourceConfig(context.Context, *tfprotov6.ValidateResourceConfigRequest) (
	*tfprotov6.ValidateResourceConfigResponse, error) {
	return &tfprotov6.ValidateResourceConfigResponse{}, nil
}

// UpgradeResourceState reads a stored object. Attributes that the schema does not have are dropped.
func (s *server) UpgradeResourceState(_ context.Context, req *tfprotov6.UpgradeResourceStateRequest) (
	*tfprotov6.UpgradeResourceStateResponse, error) {
	if req.RawState == nil {
		return nil, errors.New("there is no stored object")
	}
	var stored map[string]any // tftypes would need five times as long
	if err := json.Unmarshal(req.RawState.JSON, &stored); err != nil {
		return nil, fmt.Errorf("the stored object: %w", err)
	}
	o := object{}
	for _, a := range item.Block.Attributes {
		if err := tftypes.ValidateValue(a.Type, stored[a.Name]); err != nil {
			return nil, fmt.Errorf("the stored attribute %s: %w", a.Name, err)
		}
		o[a.Name] = tftypes.NewValue(a.Type, stored[a.Name])
	}
	upgraded, err := o.encode()
	return &tfprotov6.UpgradeResourceStateResponse{UpgradedState: upgraded}, err
}

// PlanResourceChange plans the proposed object.
func (s *server) PlanResourceChange(ctx context.Context, req *tfprotov6.PlanResourceChangeRequest) (
	*tfprotov6.PlanResourceChangeResponse, error) {
	prior, err1 := decode(req.PriorState)
	planned, err2 := decode(req.ProposedNewState)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	resp := &tfprotov6.PlanResourceChangeResponse{PlannedState: req.ProposedNewState, PlannedPrivate: req.PriorPrivate}
	subject := planned
	switch {
	case planned == nil:
		subject = prior
	case prior == nil:
		planned.unknown("id", "ip", "revision")
	case bytes.Equal(req.PriorState.MsgPack, req.ProposedNewState.MsgPack): // quick, because most plans change nothing
	case !planned.same(prior):
		planned.unknown("revision")
		if !planned["name"].Equal(prior["name"]) {
			resp.RequiresReplace = []*tftypes.AttributePath{tftypes.NewAttributePath().WithAttributeName("name")}
		}
	}
	err := s.stage.Do(ctx, subject.entry(record.Plan), subject.script(), func(*record.Entry) (err error) {
		if planned != nil && !planned["revision"].IsKnown() {
			resp.PlannedState, err = planned.encode()
		}
		return err
	})
	resp.Diagnostics = failed(record.Plan, err)
	return resp, nil
}

// ApplyResourceChange creates, updates or deletes an object.
func (s *server) ApplyResourceChange(ctx context.Context, req *tfprotov6.ApplyResourceChangeRequest) (
	*tfprotov6.ApplyResourceChangeResponse, error) {
	prior, err1 := decode(req.PriorState)
	planned, err2 := decode(req.PlannedState)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	op, subject, effect := record.Update, planned, s.update
	switch {
	case planned == nil:
		op, subject, effect = record.Delete, prior, s.remove
	case prior == nil:
		op, effect = record.Create, s.create
	}
	resp := &tfprotov6.ApplyResourceChangeResponse{NewState: req.PriorState, Private: req.PlannedPrivate}
	err := s.stage.Do(ctx, subject.entry(op), subject.script(), func(e *record.Entry) error {
		o, err := effect(prior, planned)
		if err != nil {
			return err
		}
		e.ID = o.text("id")
		if resp.NewIdentity, err = identityOf(req.TypeName, e.ID); err != nil {
			return err
		}
		resp.NewState, err = o.encode()
		return err
	})
	resp.Diagnostics = failed(op, err)
	return resp, nil
}

func (s *server) create(_, planned object) (object, error) {
	o, err := s.stage.Cloud.Create(typeName, planned.text("name"), "", planned.stored())
	return planned.with(o), err
}

func (s *server) update(prior, planned object) (object, error) {
	o, err := s.stage.Cloud.Update(prior.inCloud(), planned.stored())
	return planned.with(o), err
}

func (s *server) remove(prior, _ object) (object, error) {
	err := s.stage.Cloud.Delete(typeName, prior.text("id"))
	if errors.Is(err, cloud.ErrGone) {
		err = nil
	}
	return nil, err
}

// ReadResource reads the object, and reports whether it still exists.
func (s *server) ReadResource(ctx context.Context, req *tfprotov6.ReadResourceRequest) (
	*tfprotov6.ReadResourceResponse, error) {
	known, err := decode(req.CurrentState)
	if err != nil {
		return nil, err
	}
	resp := &tfprotov6.ReadResourceResponse{NewState: req.CurrentState, Private: req.Private}
	err = s.stage.Do(ctx, known.entry(record.Read), known.script(), func(*record.Entry) error {
		found, err := s.stage.Cloud.Refresh(known.inCloud())
		now := known.with(found)
		if errors.Is(err, cloud.ErrGone) {
			now, err = nil, nil
		}
		if err == nil {
			resp.NewState, err = now.encode()
		}
		if err == nil {
			resp.NewIdentity, err = identityOf(req.TypeName, now.text("id"))
		}
		return err
	})
	resp.Diagnostics = failed(record.Read, err)
	return resp, nil
}

// ImportResourceState finds an object by its ID.
func (s *server) ImportResourceState(ctx context.Context, req *tfprotov6.ImportResourceStateRequest) (
	*tfprotov6.ImportResourceStateResponse, error) {
	resp := &tfprotov6.ImportResourceStateResponse{}
	id, err := importedID(req)
	if err != nil {
		return nil, err
	}
	err = s.stage.Do(ctx, record.Entry{Op: record.Import, Type: req.TypeName, ID: id}, act.Script{},
		func(e *record.Entry) error {
			found, err := s.stage.Cloud.Get(typeName, id)
			if err != nil {
				return err
			}
			e.Name = found.Name
			empty := object{}
			for _, a := range item.Block.Attributes {
				empty[a.Name] = tftypes.NewValue(a.Type, nil)
			}
			state, err := empty.with(found).encode()
			if err != nil {
				return err
			}
			identity, err := identityOf(req.TypeName, found.ID)
			resp.ImportedResources = []*tfprotov6.ImportedResource{{TypeName: req.TypeName, State: state,
				Identity: identity}}
			return err
		})
	resp.Diagnostics = failed(record.Import, err)
	return resp, nil
}

// failed returns the diagnostic of an operation that failed.
func failed(op record.Op, err error) []*tfprotov6.Diagnostic {
	if err == nil {
		return nil
	}
	return []*tfprotov6.Diagnostic{{Severity: tfprotov6.DiagnosticSeverityError,
		Summary: fmt.Sprintf("The %s failed", op), Detail: err.Error()}}
}
