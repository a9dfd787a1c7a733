package rpc

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"google.golang.org/grpc"

	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/tfplugin5"
	"github.com/millipede-iac/millipede/provider/tfplugin6"
)

// actor6 is a plugin with the action act.
type actor6 struct {
	thing6
	planned *tfplugin6.PlanAction_Response
	// mayDefer is what the last request to plan said.
	mayDefer bool
	invoke   func(*tfplugin6.InvokeAction_Request, grpc.ServerStreamingServer[tfplugin6.InvokeAction_Event]) error
}

func newActor() *actor6 {
	s := &actor6{planned: &tfplugin6.PlanAction_Response{}}
	s.schema = func(r *tfplugin6.GetProviderSchema_Response) {
		r.ActionSchemas = map[string]*tfplugin6.ActionSchema{"act": {Schema: &tfplugin6.Schema{Block: &tfplugin6.Schema_Block{
			Attributes: []*tfplugin6.Schema_Attribute{{Name: "text", Type: []byte(`"string"`), Required: true}}}}}}
	}
	return s
}

func (s *actor6) ValidateActionConfig(_ context.Context, r *tfplugin6.ValidateActionConfig_Request) (
	*tfplugin6.ValidateActionConfig_Response, error) {
	return &tfplugin6.ValidateActionConfig_Response{Diagnostics: []*tfplugin6.Diagnostic{
		{Severity: tfplugin6.Diagnostic_ERROR, Summary: "validated " + r.ActionType}}}, nil
}

func (s *actor6) PlanAction(_ context.Context, r *tfplugin6.PlanAction_Request) (
	*tfplugin6.PlanAction_Response, error) {
	s.mayDefer = r.ClientCapabilities.GetDeferralAllowed()
	return s.planned, nil
}

func (s *actor6) InvokeAction(r *tfplugin6.InvokeAction_Request,
	stream grpc.ServerStreamingServer[tfplugin6.InvokeAction_Event]) error {
	return s.invoke(r, stream)
}

var actConfig = cty.ObjectVal(map[string]cty.Value{"text": cty.StringVal("t")})

func progressEvent(text string) *tfplugin6.InvokeAction_Event {
	return &tfplugin6.InvokeAction_Event{Type: &tfplugin6.InvokeAction_Event_Progress_{
		Progress: &tfplugin6.InvokeAction_Event_Progress{Message: text}}}
}

func completedEvent(problems ...*tfplugin6.Diagnostic) *tfplugin6.InvokeAction_Event {
	return &tfplugin6.InvokeAction_Event{Type: &tfplugin6.InvokeAction_Event_Completed_{
		Completed: &tfplugin6.InvokeAction_Event_Completed{Diagnostics: problems}}}
}

func TestTheProgressOfAnActionArrivesBeforeItsEnd(t *testing.T) {
	s := newActor()
	s.invoke = func(r *tfplugin6.InvokeAction_Request,
		stream grpc.ServerStreamingServer[tfplugin6.InvokeAction_Event]) error {
		return errors.Join(stream.Send(progressEvent("one")), stream.Send(progressEvent("two")),
			stream.Send(completedEvent(&tfplugin6.Diagnostic{Severity: tfplugin6.Diagnostic_WARNING,
				Summary: "done with " + r.ActionType})))
	}
	var got []string
	diags := plugin6(t, s, Options{}).InvokeAction(t.Context(), "act", actConfig, func(text string) {
		got = append(got, text)
	})
	if fmt.Sprint(got) != "[one two]" || len(diags) != 1 || diags[0].Summary != "done with act" {
		t.Errorf("the progress is %v, the problems are %v", got, diags)
	}
}

// A provider that ended without saying how the action had ended may have carried it out.
func TestAnActionWithoutAnEndIsLost(t *testing.T) {
	for claim, end := range map[string]error{"the stream broke": errors.New("broken"), "the stream ended": nil} {
		s := newActor()
		s.invoke = func(_ *tfplugin6.InvokeAction_Request,
			stream grpc.ServerStreamingServer[tfplugin6.InvokeAction_Event]) error {
			return errors.Join(stream.Send(progressEvent("one")), end)
		}
		diags := plugin6(t, s, Options{}).InvokeAction(t.Context(), "act", actConfig, func(string) {})
		if len(diags) != 1 {
			t.Fatalf("%s: the problems are %v", claim, diags)
		}
		if _, lost := diags[0].Extra.(*provider.Lost); !lost {
			t.Errorf("%s: the problem has %+v", claim, diags[0].Extra)
		}
	}
}

func TestAProviderMayRefuseAnActionAndDeferItIfThatIsAllowed(t *testing.T) {
	s := newActor()
	p := plugin6(t, s, Options{})
	onlyProblem(t, p.ValidateActionConfig(t.Context(), "act", actConfig), "validated act")
	onlyProblem(t, p.ValidateActionConfig(t.Context(), "other", actConfig), `unknown action "other"`)
	unknown := cty.ObjectVal(map[string]cty.Value{"text": cty.UnknownVal(cty.String)})
	noProblems(t, p.PlanAction(t.Context(), "act", unknown))
	s.planned.Deferred = &tfplugin6.Deferred{Reason: tfplugin6.Deferred_ABSENT_PREREQ}
	onlyProblem(t, p.PlanAction(t.Context(), "act", actConfig), "Invalid provider response")
	ctx, deferral := provider.AllowDeferral(t.Context())
	noProblems(t, p.PlanAction(ctx, "act", actConfig))
	if !s.mayDefer || deferral.Reason() != provider.AbsentPrerequisite {
		t.Errorf("the provider was told that it may: %v; the reason is %q", s.mayDefer, deferral.Reason())
	}
}

// actor5 is a plugin of version 5 with the action act.
type actor5 struct{ thing5 }

func (s *actor5) GetSchema(ctx context.Context, r *tfplugin5.GetProviderSchema_Request) (
	*tfplugin5.GetProviderSchema_Response, error) {
	resp, err := s.thing5.GetSchema(ctx, r)
	block := &tfplugin5.Schema_Block{
		Attributes: []*tfplugin5.Schema_Attribute{{Name: "text", Type: []byte(`"string"`), Required: true}}}
	resp.ActionSchemas = map[string]*tfplugin5.ActionSchema{"act": {Schema: &tfplugin5.Schema{Block: block}}}
	return resp, err
}

func (s *actor5) PlanAction(context.Context, *tfplugin5.PlanAction_Request) (*tfplugin5.PlanAction_Response, error) {
	return &tfplugin5.PlanAction_Response{}, nil
}

func (s *actor5) InvokeAction(r *tfplugin5.InvokeAction_Request,
	stream grpc.ServerStreamingServer[tfplugin5.InvokeAction_Event]) error {
	return errors.Join(stream.Send(&tfplugin5.InvokeAction_Event{Type: &tfplugin5.InvokeAction_Event_Progress_{
		Progress: &tfplugin5.InvokeAction_Event_Progress{Message: "five " + r.ActionType}}}),
		stream.Send(&tfplugin5.InvokeAction_Event{Type: &tfplugin5.InvokeAction_Event_Completed_{
			Completed: &tfplugin5.InvokeAction_Event_Completed{}}}))
}

func TestAPluginOfVersion5InvokesActions(t *testing.T) {
	p := plugin5(t, &actor5{}, Options{})
	noProblems(t, withoutWarnings(p.PlanAction(t.Context(), "act", actConfig)))
	var got []string
	noProblems(t, withoutWarnings(p.InvokeAction(t.Context(), "act", actConfig, func(text string) {
		got = append(got, text)
	})))
	if fmt.Sprint(got) != "[five act]" {
		t.Errorf("the progress is %v", got)
	}
}
