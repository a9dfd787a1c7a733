package unruly

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Stages are the calls at which a fault can be commanded, with the place of the command.
var Stages = []string{
	"validate", "upgrade", "read", "plan", "plan_destroy", "apply", "destroy", // unruly_thing
	"data",                   // unruly_data
	"open", "renew", "close", // unruly_token
	"configure",          // the provider block
	"import", "function", // by the import's ID, by the first argument
}

// answer is the provider's next answer.
type answer struct {
	call   context.Context
	server *server

	object  map[string]tftypes.Value // nil for a null object
	typ     tftypes.Type
	unknown bool // the whole object is
	bytes   []byte
	absent  bool // there is no object in the message at all
	replace []*tftypes.AttributePath
	diags   []*tfprotov6.Diagnostic
	err     error
}

// fault is one way to break the rules, or to keep the caller waiting.
type fault struct {
	What string // for the reader of the README
	do   func(*answer)
}

// set gives an attribute of the answer's object another value. A null object stays null.
func (a *answer) set(name string, t tftypes.Type, v any) {
	if a.object != nil {
		a.object[name] = tftypes.NewValue(t, v)
	}
}

// complain adds a diagnostic.
func (a *answer) complain(severity tfprotov6.DiagnosticSeverity, at *tftypes.AttributePath) {
	a.diags = append(a.diags, &tfprotov6.Diagnostic{
		Severity: severity, Summary: "Unruly", Detail: "The provider was told to complain.", Attribute: at,
	})
}

// parts changes the blocks of the answer's object.
func (a *answer) parts(change func([]tftypes.Value) []tftypes.Value) {
	block, ok := a.object["part"]
	if !ok || !block.IsKnown() {
		return
	}
	var parts []tftypes.Value
	if err := block.As(&parts); err != nil {
		a.err = err
		return
	}
	a.object["part"] = tftypes.NewValue(block.Type(), change(slices.Clone(parts)))
}

// newPart is a block that no configuration has.
func newPart(note string) tftypes.Value {
	t := part("part", tfprotov6.SchemaNestedBlockNestingModeList, 0, 0).Block.ValueType()
	return tftypes.NewValue(t, map[string]tftypes.Value{
		"key": tftypes.NewValue(tftypes.String, "unruly"), "note": tftypes.NewValue(tftypes.String, note),
	})
}

// nowhere is a path that no schema has.
var nowhere = tftypes.NewAttributePath().WithAttributeName("nowhere").WithElementKeyInt(7)

// Faults are all faults by name.
var Faults = map[string]fault{
	"change_value": {"`value` is \"unruly\", whatever was asked for",
		func(a *answer) { a.set("value", tftypes.String, "unruly") }},
	"drop_value":    {"`value` is null", func(a *answer) { a.set("value", tftypes.String, nil) }},
	"unknown_value": {"`value` is unknown", func(a *answer) { a.set("value", tftypes.String, tftypes.UnknownValue) }},
	"change_name":   {"`name` is \"unruly\"", func(a *answer) { a.set("name", tftypes.String, "unruly") }},
	"change_id":     {"`id` is \"unruly\"", func(a *answer) { a.set("id", tftypes.String, "unruly") }},
	"unknown_id":    {"`id` is unknown", func(a *answer) { a.set("id", tftypes.String, tftypes.UnknownValue) }},
	"change_size":   {"`size` is 666", func(a *answer) { a.set("size", tftypes.Number, big.NewFloat(666)) }},
	"infinite_size": {"`size` is infinite",
		func(a *answer) { a.set("size", tftypes.Number, big.NewFloat(math.Inf(1))) }},
	"change_items": {"`items` has one more element", func(a *answer) {
		var items []tftypes.Value
		t := tftypes.List{ElementType: tftypes.String}
		if v, ok := a.object["items"]; ok && v.IsKnown() {
			a.err = v.As(&items)
		}
		a.set("items", t, append(slices.Clone(items), tftypes.NewValue(tftypes.String, "unruly")))
	}},
	"reveal_secret": {"the write-only `secret_wo` has a value",
		func(a *answer) { a.set("secret_wo", tftypes.String, "revealed") }},
	"extra_part": {"there is one more `part` block", func(a *answer) {
		a.parts(func(p []tftypes.Value) []tftypes.Value { return append(p, newPart("extra")) })
	}},
	"drop_part": {"there is no `part` block",
		func(a *answer) { a.parts(func([]tftypes.Value) []tftypes.Value { return nil }) }},
	"change_part": {"the first `part` block is another one", func(a *answer) {
		a.parts(func(p []tftypes.Value) []tftypes.Value {
			if len(p) > 0 {
				p[0] = newPart("changed")
			}
			return p
		})
	}},
	"null":           {"the object is null", func(a *answer) { a.object = nil }},
	"unknown_object": {"the whole object is unknown", func(a *answer) { a.unknown = true }},
	"leave":          {"the object is there, where it should be null (destroy, plan_destroy)", leave},
	"extra_attribute": {"the object has an attribute that the schema lacks", func(a *answer) {
		a.retype(func(types map[string]tftypes.Type) { types["unruly"] = tftypes.String })
		a.set("unruly", tftypes.String, "extra")
	}},
	"missing_attribute": {"the object lacks `value`", func(a *answer) {
		a.retype(func(types map[string]tftypes.Type) { delete(types, "value") })
		delete(a.object, "value")
	}},
	"wrong_type": {"`value` is a list", func(a *answer) {
		t := tftypes.List{ElementType: tftypes.String}
		a.retype(func(types map[string]tftypes.Type) { types["value"] = t })
		a.set("value", t, []tftypes.Value{tftypes.NewValue(tftypes.String, "unruly")})
	}},
	"garbage": {"the object is no MessagePack", func(a *answer) { a.bytes = []byte{0xc1, 0xff, 0x00} }},
	"absent":  {"there is no object in the message", func(a *answer) { a.absent = true }},
	"huge": {"`id` is a text of 8 MiB; gRPC's default limit is 4",
		func(a *answer) { a.set("id", tftypes.String, strings.Repeat("x", 8<<20)) }},
	"replace": {"a new object is needed because of `value`",
		func(a *answer) { a.replace = append(a.replace, tftypes.NewAttributePath().WithAttributeName("value")) }},
	"replace_nowhere": {"a new object is needed because of an attribute that is not there",
		func(a *answer) { a.replace = append(a.replace, nowhere) }},
	"error": {"an error, with the object as it should be",
		func(a *answer) { a.complain(tfprotov6.DiagnosticSeverityError, nil) }},
	"error_at_value": {"an error at `value`", func(a *answer) {
		a.complain(tfprotov6.DiagnosticSeverityError, tftypes.NewAttributePath().WithAttributeName("value"))
	}},
	"error_nowhere": {"an error at a place that is not there",
		func(a *answer) { a.complain(tfprotov6.DiagnosticSeverityError, nowhere) }},
	"error_null": {"an error and a null object", func(a *answer) {
		a.object = nil
		a.complain(tfprotov6.DiagnosticSeverityError, nil)
	}},
	"error_unknown_id": {"an error, and `id` is unknown", func(a *answer) {
		a.set("id", tftypes.String, tftypes.UnknownValue)
		a.complain(tfprotov6.DiagnosticSeverityError, nil)
	}},
	"warn": {"a warning", func(a *answer) { a.complain(tfprotov6.DiagnosticSeverityWarning, nil) }},
	"severity": {"a diagnostic of no severity",
		func(a *answer) { a.complain(tfprotov6.DiagnosticSeverityInvalid, nil) }},
	"grpc": {"a gRPC error of code Internal",
		func(a *answer) { a.err = status.Error(codes.Internal, "unruly inside") }},
	"undone": {"a gRPC error of code Unimplemented", func(a *answer) {
		a.err = status.Error(codes.Unimplemented,
			"unruly and lazy")
	}},
	"exhausted": {"a gRPC error of code ResourceExhausted",
		func(a *answer) { a.err = status.Error(codes.ResourceExhausted, "unruly and tired") }},
	"panic": {"the plugin panics", func(*answer) { panic("unruly: told to panic") }},
	"crash": {"the plugin writes 1 MiB to standard error and exits with status 1", func(a *answer) {
		a.server.flood()
		a.server.stage.Exit(1)
	}},
	"flood": {"the plugin writes 1 MiB to standard error", func(a *answer) { a.server.flood() }},
	"hang": {"the plugin answers when the call is cancelled, or it is asked to stop",
		func(a *answer) { <-a.call.Done(); a.err = context.Cause(a.call) }},
	"hang_deaf": {"the plugin never answers", func(*answer) { select {} }},
}

// leave puts an object where there is none.
func leave(a *answer) {
	if a.object != nil {
		return
	}
	a.object = map[string]tftypes.Value{}
	if t, ok := a.typ.(tftypes.Object); ok {
		for name, t := range t.AttributeTypes {
			a.object[name] = tftypes.NewValue(t, nil)
		}
	}
	a.set("name", tftypes.String, "left")
	a.set("id", tftypes.String, "left")
	a.set("part", a.object["part"].Type(), []tftypes.Value{})
}

// retype encodes the object with another type than the schema's.
func (a *answer) retype(change func(map[string]tftypes.Type)) {
	t, ok := a.typ.(tftypes.Object)
	if !ok {
		return
	}
	types := maps.Clone(t.AttributeTypes)
	change(types)
	a.typ = tftypes.Object{AttributeTypes: types}
}

// encode returns the object for the message.
func (a *answer) encode() *tfprotov6.DynamicValue {
	switch {
	case a.absent:
		return nil
	case a.bytes != nil:
		return &tfprotov6.DynamicValue{MsgPack: a.bytes}
	}
	v := tftypes.NewValue(a.typ, nil)
	if a.unknown {
		v = tftypes.NewValue(a.typ, tftypes.UnknownValue)
	} else if a.object != nil {
		v = tftypes.NewValue(a.typ, a.object)
	}
	encoded, err := tfprotov6.NewDynamicValue(a.typ, v)
	if err != nil {
		panic(fmt.Sprintf("unruly: encoding an answer: %s", err))
	}
	return &encoded
}

// check returns the error of a value of misbehave.
func check(command string) error {
	stage, name, _ := strings.Cut(command, ":")
	if !slices.Contains(Stages, stage) {
		return fmt.Errorf("%q is no stage: there are %s", stage, strings.Join(Stages, ", "))
	}
	if _, ok := Faults[name]; !ok {
		return fmt.Errorf("%q is not a known fault: there are %s", name, strings.Join(slices.Sorted(maps.Keys(Faults)), ", "))
	}
	return nil
}

// misbehave commits the fault that the command names for the stage, if any.
func (a *answer) misbehave(stage, command string) {
	if at, name, _ := strings.Cut(command, ":"); at == stage {
		if d, ok := Faults[name]; ok {
			d.do(a)
		}
	}
}
