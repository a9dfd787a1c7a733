// Package unruly is a test provider directly on plugin protocol 6 that breaks the protocol's rules on command.
//
// A command is an attribute misbehave = "STAGE:FAULT"; Stages and Faults list them. Without a command its answers are
// valid. Its objects exist only in their states. The README of the module lists its resources.
package unruly

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/millipede-iac/millipede/test/providers/act"
	"github.com/millipede-iac/millipede/test/providers/record"
)

// Serve serves the provider until its client goes. The environment may spoil the handshake (UNRULY_HANDSHAKE) and the
// schemas (UNRULY_SCHEMA).
func Serve(env act.Env, getenv func(string) string) error {
	stage, err := env.Open("unruly", rand.Reader)
	if err != nil {
		return err
	}
	if spoiled, err := spoilHandshake(getenv("UNRULY_HANDSHAKE")); spoiled || err != nil {
		return errors.Join(err, stage.Log.Close())
	}
	err = tf6server.Serve("registry.opentofu.org/millipede/unruly", func() tfprotov6.ProviderServer {
		return New(stage, getenv("UNRULY_SCHEMA"))
	})
	return errors.Join(err, stage.Log.Close())
}

// New returns the provider. The schema fault is a value that UNRULY_SCHEMA may have.
func New(stage *act.Stage, schemaFault string) tfprotov6.ProviderServer {
	return &server{stage: stage, schemaFault: schemaFault}
}

type server struct {
	stage       *act.Stage
	schemaFault string
}

// flood writes a long text to standard error.
func (s *server) flood() {
	line := strings.Repeat("unruly ", 147) + "\n"
	for range 1 << 10 {
		fmt.Fprint(s.stage.Complaints, line)
	}
}

// object is a decoded message: nil for null.
type object map[string]tftypes.Value

// decode reads a message's object.
func decode(t tftypes.Type, dv *tfprotov6.DynamicValue) (object, error) {
	if dv == nil {
		return nil, nil
	}
	v, err := dv.Unmarshal(t)
	if err != nil || v.IsNull() || !v.IsKnown() {
		return nil, err
	}
	o := object{}
	return o, v.As((*map[string]tftypes.Value)(&o))
}

// text returns a known text of the object, or the empty one.
func (o object) text(name string) string {
	var s string
	if v, ok := o[name]; !ok || v.IsNull() || !v.IsKnown() || v.As(&s) != nil {
		return ""
	}
	return s
}

// truth returns a known truth of the object, or false.
func (o object) truth(name string) bool {
	var b bool
	if v, ok := o[name]; !ok || v.IsNull() || !v.IsKnown() || v.As(&b) != nil {
		return false
	}
	return b
}

// answer prepares an answer, records the call, and misbehaves if that was commanded.
func (s *server) answer(ctx context.Context, op record.Op, typeName, stage, command string, t tftypes.Type,
	o object) *answer {
	a := &answer{call: ctx, server: s, object: o, typ: t}
	e := record.Entry{Op: op, Type: typeName, Name: o.text("name"), ID: o.text("id")}
	err := s.stage.Do(ctx, e, act.Script{}, func(*record.Entry) error {
		a.misbehave(stage, command)
		return a.err
	})
	a.err = err
	return a
}

// fillIn fills in computed attributes: the prior value, or unknown.
func fillIn(schema *tfprotov6.Schema, o, prior object) {
	for _, attribute := range schema.Block.Attributes {
		if !attribute.Computed || !o[attribute.Name].IsNull() {
			continue
		}
		if prior != nil && !prior[attribute.Name].IsNull() {
			o[attribute.Name] = prior[attribute.Name]
			continue
		}
		o[attribute.Name] = tftypes.NewValue(attribute.Type, tftypes.UnknownValue)
	}
}

// settle gives unknown attributes a value.
func (o object) settle() {
	for name, v := range o {
		switch {
		case v.IsKnown():
		case v.Type().Is(tftypes.String):
			o[name] = tftypes.NewValue(tftypes.String, "unruly-"+cmp.Or(o.text("name"), "object"))
		case v.Type().Is(tftypes.Number):
			o[name] = tftypes.NewValue(tftypes.Number, big.NewFloat(1))
		default:
			o[name] = tftypes.NewValue(v.Type(), nil)
		}
	}
}

// schemaOf returns the schema of a resource type. There is no other for the extra types.
func schemaOf(typeName string) *tfprotov6.Schema {
	if typeName == "unruly_thing" {
		return thing
	}
	return shapes
}

// ValidateResourceConfig checks the command.
func (s *server) ValidateResourceConfig(ctx context.Context, req *tfprotov6.ValidateResourceConfigRequest) (
	*tfprotov6.ValidateResourceConfigResponse, error) {
	diags, err := s.validate(ctx, schemaOf(req.TypeName), req.Config, "validate")
	return &tfprotov6.ValidateResourceConfigResponse{Diagnostics: diags}, err
}

// validate checks the command of a configuration. It is not on the record.
func (s *server) validate(ctx context.Context, schema *tfprotov6.Schema, config *tfprotov6.DynamicValue,
	stage string) ([]*tfprotov6.Diagnostic, error) {
	o, err := decode(schema.ValueType(), config)
	if err != nil {
		return nil, err
	}
	a := &answer{call: ctx, server: s, object: o, typ: schema.ValueType()}
	if command := o.text("misbehave"); command != "" {
		if err := check(command); err != nil {
			a.diags = append(a.diags, &tfprotov6.Diagnostic{
				Severity: tfprotov6.DiagnosticSeverityError, Summary: "No such misbehaviour", Detail: err.Error(),
				Attribute: tftypes.NewAttributePath().WithAttributeName("misbehave"),
			})
		}
		a.misbehave(stage, command)
	}
	return a.diags, a.err
}

// UpgradeResourceState reads a stored object; all versions of a schema are alike.
func (s *server) UpgradeResourceState(ctx context.Context, req *tfprotov6.UpgradeResourceStateRequest) (
	*tfprotov6.UpgradeResourceStateResponse, error) {
	t := schemaOf(req.TypeName).ValueType()
	if req.RawState == nil || !json.Valid(req.RawState.JSON) {
		return nil, errors.New("the stored object is no JSON")
	}
	v, err := req.RawState.UnmarshalWithOpts(t, tfprotov6.UnmarshalOpts{
		ValueFromJSONOpts: tftypes.ValueFromJSONOpts{IgnoreUndefinedAttributes: true},
	})
	if err != nil {
		return nil, err
	}
	o := object{}
	if err := v.As((*map[string]tftypes.Value)(&o)); err != nil {
		return nil, err
	}
	a := &answer{call: ctx, server: s, object: o, typ: t}
	a.misbehave("upgrade", o.text("misbehave"))
	return &tfprotov6.UpgradeResourceStateResponse{UpgradedState: a.encode(), Diagnostics: a.diags}, a.err
}

// ReadResource returns the object as it is.
func (s *server) ReadResource(ctx context.Context, req *tfprotov6.ReadResourceRequest) (*tfprotov6.ReadResourceResponse,
	error) {
	t := schemaOf(req.TypeName).ValueType()
	o, err := decode(t, req.CurrentState)
	if err != nil {
		return nil, err
	}
	a := s.answer(ctx, record.Read, req.TypeName, "read", o.text("misbehave"), t, o)
	return &tfprotov6.ReadResourceResponse{NewState: a.encode(), Private: req.Private, Diagnostics: a.diags}, a.err
}

// PlanResourceChange plans the proposed object.
func (s *server) PlanResourceChange(ctx context.Context, req *tfprotov6.PlanResourceChangeRequest) (
	*tfprotov6.PlanResourceChangeResponse, error) {
	schema := schemaOf(req.TypeName)
	t := schema.ValueType()
	prior, err1 := decode(t, req.PriorState)
	proposed, err2 := decode(t, req.ProposedNewState)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	resp := &tfprotov6.PlanResourceChangeResponse{PlannedPrivate: req.PriorPrivate}
	var a *answer
	if proposed == nil {
		a = s.answer(ctx, record.Plan, req.TypeName, "plan_destroy", prior.text("misbehave"), t, nil)
	} else {
		fillIn(schema, proposed, prior)
		if _, ok := proposed["secret_wo"]; ok {
			proposed["secret_wo"] = tftypes.NewValue(tftypes.String, nil)
		}
		a = s.answer(ctx, record.Plan, req.TypeName, "plan", proposed.text("misbehave"), t, proposed)
		if prior != nil && schema == thing && !prior["name"].Equal(proposed["name"]) {
			resp.RequiresReplace = append(resp.RequiresReplace, tftypes.NewAttributePath().WithAttributeName("name"))
		}
		//lint:ignore SA1019 to claim the old type system is what the attribute is for
		resp.UnsafeToUseLegacyTypeSystem = proposed.truth("legacy")
	}
	resp.RequiresReplace = append(resp.RequiresReplace, a.replace...)
	resp.PlannedState, resp.Diagnostics = a.encode(), a.diags
	return resp, a.err
}

// ApplyResourceChange applies the planned change.
func (s *server) ApplyResourceChange(ctx context.Context, req *tfprotov6.ApplyResourceChangeRequest) (
	*tfprotov6.ApplyResourceChangeResponse, error) {
	t := schemaOf(req.TypeName).ValueType()
	prior, err1 := decode(t, req.PriorState)
	planned, err2 := decode(t, req.PlannedState)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	resp := &tfprotov6.ApplyResourceChangeResponse{Private: req.PlannedPrivate}
	var a *answer
	if planned == nil {
		a = s.answer(ctx, record.Delete, req.TypeName, "destroy", prior.text("misbehave"), t, nil)
	} else {
		op := record.Update
		if prior == nil {
			op = record.Create
		}
		planned.settle()
		a = s.answer(ctx, op, req.TypeName, "apply", planned.text("misbehave"), t, planned)
		//lint:ignore SA1019 to claim the old type system is what the attribute is for
		resp.UnsafeToUseLegacyTypeSystem = planned.truth("legacy")
	}
	resp.NewState, resp.Diagnostics = a.encode(), a.diags
	return resp, a.err
}

// ImportResourceState makes an object of any ID up. An ID that is a command is obeyed; besides the faults, there are
// "import:nothing" for no object, "import:two" for two, "import:other" for one of another type.
func (s *server) ImportResourceState(ctx context.Context, req *tfprotov6.ImportResourceStateRequest) (
	*tfprotov6.ImportResourceStateResponse, error) {
	t := schemaOf(req.TypeName).ValueType()
	o := object{}
	if t, ok := t.(tftypes.Object); ok {
		for name, t := range t.AttributeTypes {
			o[name] = tftypes.NewValue(t, nil)
		}
	}
	for _, block := range schemaOf(req.TypeName).Block.BlockTypes {
		if t := block.ValueType(); t.Is(tftypes.List{}) || t.Is(tftypes.Set{}) {
			o[block.TypeName] = tftypes.NewValue(t, []tftypes.Value{})
		} else if t.Is(tftypes.Map{}) {
			o[block.TypeName] = tftypes.NewValue(t, map[string]tftypes.Value{})
		}
	}
	o["id"] = tftypes.NewValue(tftypes.String, req.ID)
	if _, ok := o["name"]; ok {
		o["name"] = tftypes.NewValue(tftypes.String, req.ID)
	}
	a := s.answer(ctx, record.Import, req.TypeName, "import", req.ID, t, o)
	one := &tfprotov6.ImportedResource{TypeName: req.TypeName, State: a.encode()}
	resp := &tfprotov6.ImportResourceStateResponse{ImportedResources: []*tfprotov6.ImportedResource{one},
		Diagnostics: a.diags}
	switch req.ID {
	case "import:nothing":
		resp.ImportedResources = nil
	case "import:two":
		resp.ImportedResources = append(resp.ImportedResources, one)
	case "import:other":
		one.TypeName = "unruly_other"
	}
	return resp, a.err
}

// ValidateDataResourceConfig checks the command.
func (s *server) ValidateDataResourceConfig(ctx context.Context, req *tfprotov6.ValidateDataResourceConfigRequest) (
	*tfprotov6.ValidateDataResourceConfigResponse, error) {
	diags, err := s.validate(ctx, source, req.Config, "validate")
	return &tfprotov6.ValidateDataResourceConfigResponse{Diagnostics: diags}, err
}

// ReadDataSource returns the configuration with an id.
func (s *server) ReadDataSource(ctx context.Context, req *tfprotov6.ReadDataSourceRequest) (
	*tfprotov6.ReadDataSourceResponse, error) {
	o, err := decode(source.ValueType(), req.Config)
	if err != nil {
		return nil, err
	}
	fillIn(source, o, nil)
	o.settle()
	a := s.answer(ctx, record.Lookup, req.TypeName, "data", o.text("misbehave"), source.ValueType(), o)
	return &tfprotov6.ReadDataSourceResponse{State: a.encode(), Diagnostics: a.diags}, a.err
}

// ValidateEphemeralResourceConfig checks the command.
func (s *server) ValidateEphemeralResourceConfig(ctx context.Context,
	req *tfprotov6.ValidateEphemeralResourceConfigRequest) (*tfprotov6.ValidateEphemeralResourceConfigResponse, error) {
	diags, err := s.validate(ctx, source, req.Config, "validate")
	return &tfprotov6.ValidateEphemeralResourceConfigResponse{Diagnostics: diags}, err
}

// OpenEphemeralResource returns the configuration with an id. Tokens that misbehave when renewed want that at once.
func (s *server) OpenEphemeralResource(ctx context.Context, req *tfprotov6.OpenEphemeralResourceRequest) (
	*tfprotov6.OpenEphemeralResourceResponse, error) {
	o, err := decode(source.ValueType(), req.Config)
	if err != nil {
		return nil, err
	}
	fillIn(source, o, nil)
	o.settle()
	command := o.text("misbehave")
	a := s.answer(ctx, record.Open, req.TypeName, "open", command, source.ValueType(), o)
	resp := &tfprotov6.OpenEphemeralResourceResponse{Result: a.encode(), Private: []byte(command), Diagnostics: a.diags}
	if strings.HasPrefix(command, "renew:") {
		resp.RenewAt = time.Unix(1, 0)
	}
	return resp, a.err
}

// RenewEphemeralResource does nothing, unless the command requests a fault.
func (s *server) RenewEphemeralResource(ctx context.Context, req *tfprotov6.RenewEphemeralResourceRequest) (
	*tfprotov6.RenewEphemeralResourceResponse, error) {
	a := s.answer(ctx, record.Renew, req.TypeName, "renew", string(req.Private), source.ValueType(), nil)
	return &tfprotov6.RenewEphemeralResourceResponse{Private: req.Private, Diagnostics: a.diags}, a.err
}

// CloseEphemeralResource does nothing, unless the command requests a fault.
func (s *server) CloseEphemeralResource(ctx context.Context, req *tfprotov6.CloseEphemeralResourceRequest) (
	*tfprotov6.CloseEphemeralResourceResponse, error) {
	a := s.answer(ctx, record.Close, req.TypeName, "close", string(req.Private), source.ValueType(), nil)
	return &tfprotov6.CloseEphemeralResourceResponse{Diagnostics: a.diags}, a.err
}
