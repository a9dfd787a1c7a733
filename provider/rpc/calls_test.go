package rpc

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/tfplugin6"
)

func TestUnknownValuesKeepTheirRefinementsBothWays(t *testing.T) {
	refined := cty.UnknownVal(cty.String).Refine().NotNull().StringPrefix("id-").NewValue()
	var sent *tfplugin6.PlanResourceChange_Request
	p := plugin6(t, &thing6{plan: func(r *tfplugin6.PlanResourceChange_Request) (*tfplugin6.PlanResourceChange_Response,
		error) {
		sent = r
		return &tfplugin6.PlanResourceChange_Response{PlannedState: r.ProposedNewState}, nil
	}}, Options{})
	proposed := thing(cty.StringVal("a"), refined)
	resp, diags := p.PlanResourceChange(t.Context(), provider.PlanRequest{TypeName: "thing", Proposed: proposed,
		Config: proposed, PriorPrivate: []byte("p")})
	noProblems(t, diags)
	if !resp.Planned.RawEquals(proposed) {
		t.Errorf("planned %#v", resp.Planned)
	}
	if prior, err := decodeValue(sent.PriorState, thingType); err != nil || !prior.IsNull() {
		t.Errorf("an absent prior object was sent as %#v (%v)", prior, err)
	}
	if string(sent.PriorPrivate) != "p" || sent.ProviderMeta != nil || sent.PriorIdentity != nil {
		t.Errorf("sent %+v", sent)
	}
}

func TestPlannedDestroyIsSentOnlyToPluginsThatAskForIt(t *testing.T) {
	null := cty.NullVal(thingType)
	request := provider.PlanRequest{TypeName: "thing", Prior: thing(cty.StringVal("a"), cty.StringVal("1")),
		Proposed: null, Config: null, PriorPrivate: []byte("p")}
	for claim, asks := range map[string]bool{"asks": true, "does not ask": false} {
		t.Run(claim, func(t *testing.T) {
			called := false
			p := plugin6(t, &thing6{
				schema: func(r *tfplugin6.GetProviderSchema_Response) {
					r.ServerCapabilities = &tfplugin6.ServerCapabilities{PlanDestroy: asks}
				},
				plan: func(r *tfplugin6.PlanResourceChange_Request) (*tfplugin6.PlanResourceChange_Response, error) {
					called = true
					return &tfplugin6.PlanResourceChange_Response{PlannedState: r.ProposedNewState,
						PlannedPrivate: r.PriorPrivate}, nil
				},
			}, Options{})
			resp, diags := p.PlanResourceChange(t.Context(), request)
			noProblems(t, diags)
			if called != asks || !resp.Planned.RawEquals(null) || string(resp.Private) != "p" {
				t.Errorf("called: %v; response %#v", called, resp)
			}
		})
	}
}

func TestProviderMetaAndIdentityAreSentWhereTheProviderTakesThem(t *testing.T) {
	var sent *tfplugin6.ReadResource_Request
	p := plugin6(t, &thing6{
		schema: func(r *tfplugin6.GetProviderSchema_Response) {
			r.ProviderMeta = &tfplugin6.Schema{Block: &tfplugin6.Schema_Block{Attributes: []*tfplugin6.Schema_Attribute{
				{Name: "m", Type: []byte(`"string"`), Optional: true}}}}
		},
		identity: func() (*tfplugin6.GetResourceIdentitySchemas_Response, error) {
			return &tfplugin6.GetResourceIdentitySchemas_Response{IdentitySchemas: map[string]*tfplugin6.ResourceIdentitySchema{
				"thing": {IdentityAttributes: []*tfplugin6.ResourceIdentitySchema_IdentityAttribute{{Name: "id",
					Type: []byte(`"string"`), RequiredForImport: true}}},
			}}, nil
		},
		read: func(r *tfplugin6.ReadResource_Request) (*tfplugin6.ReadResource_Response, error) {
			sent = r
			return &tfplugin6.ReadResource_Response{NewState: r.CurrentState, NewIdentity: r.CurrentIdentity,
				Private: []byte("new")}, nil
		},
	}, Options{})
	identity := cty.ObjectVal(map[string]cty.Value{"id": cty.StringVal("1")})
	prior := thing(cty.StringVal("a"), cty.StringVal("1"))
	resp, diags := p.ReadResource(t.Context(), provider.ReadRequest{TypeName: "thing", Prior: prior,
		Identity: identity})
	noProblems(t, diags)
	if !resp.Object.RawEquals(prior) || !resp.Identity.RawEquals(identity) || string(resp.Private) != "new" {
		t.Errorf("response %#v", resp)
	}
	if meta, err := decodeValue(sent.ProviderMeta, cty.Object(map[string]cty.Type{"m": cty.String})); err != nil ||
		!meta.IsNull() || sent.ProviderMeta == nil {
		t.Errorf("absent metadata was sent as %#v (%v)", meta, err)
	}
}

func TestAnswerThatDoesNotFitItsSchemaIsTheProvidersError(t *testing.T) {
	wrong := &tfplugin6.DynamicValue{Json: []byte(`{"name":["a","b"]}`)}
	request := provider.ReadRequest{TypeName: "thing", Prior: thing(cty.StringVal("a"), cty.StringVal("1"))}
	t.Run("a read", func(t *testing.T) {
		p := plugin6(t, &thing6{read: func(*tfplugin6.ReadResource_Request) (*tfplugin6.ReadResource_Response, error) {
			return &tfplugin6.ReadResource_Response{NewState: wrong}, nil
		}}, Options{})
		resp, diags := p.ReadResource(t.Context(), request)
		d := onlyProblem(t, diags, "Invalid provider response")
		if d.Extra != nil || !strings.Contains(d.Detail, "example.com/test/thing") ||
			!strings.Contains(d.Detail, "ReadResource") {
			t.Errorf("the problem is %#v", d)
		}
		if !resp.Object.RawEquals(cty.NullVal(thingType)) {
			t.Errorf("the object is %#v", resp.Object)
		}
	})
	t.Run("an apply, whose effect is then not known", func(t *testing.T) {
		p := plugin6(t, &thing6{apply: func(context.Context, *tfplugin6.ApplyResourceChange_Request) (
			*tfplugin6.ApplyResourceChange_Response, error) {
			return &tfplugin6.ApplyResourceChange_Response{NewState: wrong}, nil
		}}, Options{})
		_, diags := p.ApplyResourceChange(t.Context(), provider.ApplyRequest{TypeName: "thing", Planned: request.Prior,
			Config: request.Prior})
		d := onlyProblem(t, diags, "Invalid provider response")
		if _, lost := d.Extra.(*provider.Lost); !lost {
			t.Error("the call does not count as lost")
		}
	})
	t.Run("a write-only value", func(t *testing.T) {
		told := cty.ObjectVal(map[string]cty.Value{"name": cty.StringVal("a"), "id": cty.StringVal("1"),
			"secret": cty.StringVal("s")})
		p := plugin6(t, &thing6{read: func(*tfplugin6.ReadResource_Request) (*tfplugin6.ReadResource_Response, error) {
			return &tfplugin6.ReadResource_Response{NewState: packed(t, told, thingType)}, nil
		}}, Options{})
		_, diags := p.ReadResource(t.Context(), request)
		if d := onlyProblem(t, diags, "Invalid provider response"); !strings.Contains(d.Detail, ".secret") {
			t.Errorf("the detail does not name the attribute: %s", d.Detail)
		}
	})
	t.Run("a deferral that was not allowed", func(t *testing.T) {
		p := plugin6(t, &thing6{read: func(r *tfplugin6.ReadResource_Request) (*tfplugin6.ReadResource_Response,
			error) {
			return &tfplugin6.ReadResource_Response{NewState: r.CurrentState, Deferred: &tfplugin6.Deferred{}}, nil
		}}, Options{})
		_, diags := p.ReadResource(t.Context(), request)
		onlyProblem(t, diags, "Invalid provider response")
	})
	t.Run("a deferral that was allowed", func(t *testing.T) {
		told := false
		p := plugin6(t, &thing6{read: func(r *tfplugin6.ReadResource_Request) (*tfplugin6.ReadResource_Response,
			error) {
			told = r.ClientCapabilities.GetDeferralAllowed()
			return &tfplugin6.ReadResource_Response{NewState: r.CurrentState,
				Deferred: &tfplugin6.Deferred{Reason: tfplugin6.Deferred_ABSENT_PREREQ}}, nil
		}}, Options{})
		ctx, deferral := provider.AllowDeferral(t.Context())
		if _, diags := p.ReadResource(ctx, request); len(diags) > 0 {
			t.Error(diags.Err())
		}
		if !told || deferral.Reason() != provider.AbsentPrerequisite {
			t.Errorf("the provider was told that it is allowed: %v; the reason is %q", told, deferral.Reason())
		}
	})
}

func TestValueThatDoesNotFitTheSchemaIsNotSent(t *testing.T) {
	p := plugin6(t, &thing6{}, Options{})
	diags := p.ValidateResourceConfig(t.Context(), "thing", cty.ObjectVal(map[string]cty.Value{"name": cty.True}))
	onlyProblem(t, diags, "Value does not fit the provider's schema")
	onlyProblem(t, p.ValidateResourceConfig(t.Context(), "thong", cty.EmptyObjectVal), `unknown resource type "thong"`)
}

func TestProblemsComeWithTheObjectThatIsKnownToExist(t *testing.T) {
	partly := thing(cty.StringVal("a"), cty.StringVal("1"))
	p := plugin6(t, &thing6{apply: func(context.Context, *tfplugin6.ApplyResourceChange_Request) (
		*tfplugin6.ApplyResourceChange_Response, error) {
		return &tfplugin6.ApplyResourceChange_Response{
			NewState: packed(t, partly, thingType), Private: []byte("p"),
			Diagnostics: []*tfplugin6.Diagnostic{{Severity: tfplugin6.Diagnostic_INVALID, Summary: "half done"}},
		}, nil
	}}, Options{})
	resp, diags := p.ApplyResourceChange(t.Context(), provider.ApplyRequest{TypeName: "thing", Planned: partly,
		Config: partly})
	if d := onlyProblem(t, diags, "half done"); d.Severity != diag.Error || d.Extra != nil {
		t.Errorf("the problem is %#v", d)
	}
	if !resp.Object.RawEquals(partly) || string(resp.Private) != "p" {
		t.Errorf("response %#v", resp)
	}
}

func TestCallWithoutAnAnswerIsLost(t *testing.T) {
	v := thing(cty.StringVal("a"), cty.StringVal("1"))
	request := provider.ApplyRequest{TypeName: "thing", Planned: v, Config: v}
	t.Run("because the plugin died", func(t *testing.T) {
		var server *grpc.Server
		conn := connect(t, func(s *grpc.Server) {
			server = s
			tfplugin6.RegisterProviderServer(s,
				&thing6{apply: func(context.Context, *tfplugin6.ApplyResourceChange_Request) (
					*tfplugin6.ApplyResourceChange_Response, error) {
					go server.Stop() // cuts the connection while this call runs; connect's clean-up waits for its end
					<-t.Context().Done()
					return nil, nil
				}})
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p, err := New(conn, 6, Options{Name: "n", ExitReason: func() string { return "Its last words." }})
		if err != nil {
			t.Fatal(err)
		}
		_, diags := p.ApplyResourceChange(ctx, request)
		d := onlyProblem(t, diags, "Plugin did not respond")
		if _, lost := d.Extra.(*provider.Lost); !lost || !strings.Contains(d.Detail, "Its last words.") ||
			!strings.Contains(d.Detail, "ApplyResourceChange") {
			t.Errorf("the problem is %#v", d)
		}
	})
	t.Run("because the caller gave up", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		p := plugin6(t, &thing6{apply: func(ctx context.Context, _ *tfplugin6.ApplyResourceChange_Request) (
			*tfplugin6.ApplyResourceChange_Response, error) {
			cancel(errors.New("enough"))
			<-ctx.Done()
			return nil, ctx.Err()
		}}, Options{})
		_, diags := p.ApplyResourceChange(ctx, request)
		d := onlyProblem(t, diags, "Request cancelled")
		if _, lost := d.Extra.(*provider.Lost); !lost || !strings.Contains(d.Detail, "enough") {
			t.Errorf("the problem is %#v", d)
		}
	})
	t.Run("unless the plugin has no such method", func(t *testing.T) {
		p := plugin6(t, &thing6{}, Options{})
		_, diags := p.MoveResourceState(t.Context(), provider.MoveRequest{TargetType: "thing"})
		if d := onlyProblem(t, diags, "Unsupported plugin method"); d.Extra != nil {
			t.Error("the call counts as lost")
		}
	})
	t.Run("unless the call that failed came before it", func(t *testing.T) {
		p := plugin6(t, &thing6{schema: func(*tfplugin6.GetProviderSchema_Response) {}}, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, diags := p.ApplyResourceChange(ctx, request)
		if d := onlyProblem(t, diags, "Request cancelled"); d.Extra != nil {
			t.Error("an apply that was never sent counts as lost")
		}
	})
	t.Run("also when the plugin broke it off with an error", func(t *testing.T) {
		p := plugin6(t, &thing6{apply: func(context.Context, *tfplugin6.ApplyResourceChange_Request) (
			*tfplugin6.ApplyResourceChange_Response, error) {
			return nil, status.Error(codes.Unknown, "no idea.")
		}}, Options{})
		_, diags := p.ApplyResourceChange(t.Context(), request)
		if d := onlyProblem(t, diags, "Plugin error"); !strings.Contains(d.Detail, "failed: no idea.") ||
			d.Extra == nil {
			t.Errorf("the problem is %#v", d)
		}
	})
}

func TestMessagesMayBeLarge(t *testing.T) {
	long := strings.Repeat("x", 8<<20)
	p := plugin6(t, &thing6{read: func(r *tfplugin6.ReadResource_Request) (*tfplugin6.ReadResource_Response, error) {
		return &tfplugin6.ReadResource_Response{NewState: r.CurrentState}, nil
	}}, Options{})
	resp, diags := p.ReadResource(t.Context(), provider.ReadRequest{TypeName: "thing", Prior: thing(cty.StringVal(long),
		cty.NullVal(cty.String))})
	noProblems(t, diags)
	if len(resp.Object.GetAttr("name").AsString()) != len(long) {
		t.Error("the value was cut")
	}
}

func TestStoredObjectsAreUpgradedInTheFormInWhichTheyWereStored(t *testing.T) {
	p := plugin6(t, &thing6{upgrade: func(r *tfplugin6.UpgradeResourceState_Request) (
		*tfplugin6.UpgradeResourceState_Response, error) {
		if r.Version != 1 || r.RawState.Flatmap["name"] != "a" && string(r.RawState.Json) != `{"name":"a"}` {
			return nil, errors.New("that is not what was stored")
		}
		return &tfplugin6.UpgradeResourceState_Response{UpgradedState: &tfplugin6.DynamicValue{
			Json: []byte(`{"name":"a","id":"1","secret":null}`)}}, nil
	}}, Options{})
	for claim, r := range map[string]provider.UpgradeRequest{
		"JSON":    {TypeName: "thing", Version: 1, JSON: []byte(`{"name":"a"}`)},
		"flatmap": {TypeName: "thing", Version: 1, Flatmap: map[string]string{"name": "a"}},
	} {
		t.Run(claim, func(t *testing.T) {
			v, diags := p.UpgradeResourceState(t.Context(), r)
			noProblems(t, diags)
			if !v.RawEquals(thing(cty.StringVal("a"), cty.StringVal("1"))) {
				t.Errorf("upgraded to %#v", v)
			}
		})
	}
}

func TestImportedObjectsAreReadByTheirOwnType(t *testing.T) {
	p := plugin6(t, &thing6{
		schema: func(r *tfplugin6.GetProviderSchema_Response) {
			r.ResourceSchemas["other"] = &tfplugin6.Schema{Block: &tfplugin6.Schema_Block{
				Attributes: []*tfplugin6.Schema_Attribute{{Name: "n", Type: []byte(`"number"`), Required: true}}}}
		},
		imp: func(r *tfplugin6.ImportResourceState_Request) (*tfplugin6.ImportResourceState_Response, error) {
			return &tfplugin6.ImportResourceState_Response{ImportedResources: []*tfplugin6.ImportResourceState_ImportedResource{
				{TypeName: "thing", State: packed(t, thing(cty.StringVal(r.Id), cty.StringVal("1")), thingType),
					Private: []byte("p")},
				{TypeName: "other", State: &tfplugin6.DynamicValue{Json: []byte(`{"n":3}`)}},
				{TypeName: "stranger"},
			}}, nil
		},
	}, Options{})
	imported, diags := p.ImportResourceState(t.Context(), provider.ImportRequest{TypeName: "thing", ID: "a"})
	onlyProblem(t, diags, `unknown resource type "stranger"`)
	if len(imported) != 2 || imported[0].Object.GetAttr("name").AsString() != "a" ||
		!imported[1].Object.GetAttr("n").RawEquals(cty.NumberIntVal(3)) {
		t.Errorf("imported %#v", imported)
	}
	_, diags = p.ImportResourceState(t.Context(), provider.ImportRequest{TypeName: "thing",
		Identity: cty.EmptyObjectVal})
	onlyProblem(t, diags, "No identity schema found")
}

func TestEphemeralObjectTellsWhenToRenew(t *testing.T) {
	at := time.Date(2031, 4, 5, 6, 7, 8, 0, time.UTC)
	var renew *timestamppb.Timestamp
	p := plugin6(t, &thing6{open: func(r *tfplugin6.OpenEphemeralResource_Request) (
		*tfplugin6.OpenEphemeralResource_Response, error) {
		return &tfplugin6.OpenEphemeralResource_Response{Result: r.Config, Private: []byte("p"), RenewAt: renew}, nil
	}}, Options{})
	for _, want := range []time.Time{{}, at} {
		opened, diags := p.OpenEphemeral(t.Context(), "thing", thing(cty.StringVal("a"), cty.NullVal(cty.String)))
		noProblems(t, diags)
		if !opened.RenewAt.Equal(want) || string(opened.Private) != "p" {
			t.Errorf("opened %#v", opened)
		}
		renew = timestamppb.New(at)
	}
}

func TestFunctionCall(t *testing.T) {
	str, null := cty.StringVal, cty.NullVal(cty.String)
	blame := int64(1)
	called := 0
	p := plugin6(t, &thing6{call: func(r *tfplugin6.CallFunction_Request) (*tfplugin6.CallFunction_Response, error) {
		called++
		var parts []string
		for _, a := range r.Arguments {
			v, err := decodeValue(a, cty.String)
			switch {
			case err != nil:
				return nil, err
			case v.IsNull():
				return &tfplugin6.CallFunction_Response{Error: &tfplugin6.FunctionError{Text: "null part",
					FunctionArgument: &blame}}, nil
			case v.AsString() == "!":
				return &tfplugin6.CallFunction_Response{Error: &tfplugin6.FunctionError{Text: "bad day"}}, nil
			}
			parts = append(parts, v.AsString())
		}
		return &tfplugin6.CallFunction_Response{Result: packed(t, str(strings.Join(parts[1:], parts[0])), cty.String)},
			nil
	}}, Options{})
	call := func(args ...cty.Value) (cty.Value, error) { return p.CallFunction(t.Context(), "join", args) }

	if v, err := call(str("-"), str("a"), str("b")); err != nil || v.AsString() != "a-b" {
		t.Errorf("the result is %#v, %v", v, err)
	}
	called = 0
	if v, err := call(str("-"), cty.UnknownVal(cty.String)); err != nil || v.IsKnown() ||
		v.Type() != cty.String || called != 0 {
		t.Errorf("with an unknown argument the result is %#v, %v, after %d calls", v, err, called)
	}
	for claim, c := range map[string]struct {
		args  []cty.Value
		at    int // -1: the error concerns no argument
		words string
	}{
		"a null argument that is not allowed": {[]cty.Value{null}, 0, "null"},
		"an argument that the plugin blames":  {[]cty.Value{str("-"), null}, 1, "null part"},
		"an error without an argument":        {[]cty.Value{str("!")}, -1, "bad day"},
		"an argument of another type":         {[]cty.Value{cty.EmptyObjectVal}, 0, "string required"},
		"too few arguments":                   {nil, -1, "it was given 0"},
	} {
		t.Run(claim, func(t *testing.T) {
			_, err := call(c.args...)
			if err == nil || !strings.Contains(err.Error(), c.words) {
				t.Fatalf("the error is %v", err)
			}
			var arg function.ArgError
			if errors.As(err, &arg) {
				if arg.Index != c.at {
					t.Errorf("argument %d is blamed", arg.Index)
				}
			} else if c.at != -1 {
				t.Error("no argument is blamed")
			}
		})
	}
	if _, err := p.CallFunction(t.Context(), "fold", nil); err == nil {
		t.Error("a function that does not exist was called")
	}
}
