// Package instance evaluates one instance of a resource: its provider, its placement, its conditions, and the
// body of its block.
//
// Planning and applying use the results; named.go has the evaluation of named values, which is shared as well.
// The package makes no decisions, keeps no state, and asks no worker.
package instance

import (
	"bytes"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/wire"
)

// Evaluator evaluates the instances of a configuration.
type Evaluator struct {
	Store *values.Store
	// Package returns the selected package of a provider.
	Package func(addr.Provider) wire.Package
}

// Instance is an instance as evaluated before a worker is asked. For an instance without a block, Resource and
// all fields that come from the block are nil.
type Instance struct {
	Addr addr.Instance
	// Provider is the provider instance; Wire is its form for workers. Place is the pool and the limits.
	Provider addr.ProviderInstance
	Wire     wire.Provider
	Place    program.Placement
	Schema   *schema.Schema
	Identity *schema.Identity // nil for a type without one
	// Meta is the module's provider_meta, encoded for the wire; see values.Code.Meta.
	Meta []byte

	// Resource is the block in its module instance, Rep the values of count and each.
	Resource *values.Resource
	Rep      eval.Repetition
	// Config is the evaluated body with marks, Bare the same without marks; Sensitive are the paths that the
	// configuration made sensitive.
	Config, Bare cty.Value
	Sensitive    []cty.Path
	// Checks are the outcomes of the preconditions.
	Checks []Outcome

	// Unconfigured is set if a part of the provider's configuration is not known yet.
	Unconfigured bool

	ephemeral bool // the configuration of the provider has ephemeral values
}

// Options configure the evaluation of a block.
type Options struct {
	// Lenient makes the result a null object if the body cannot be evaluated.
	Lenient bool
	// Self is what self means in the body, or caller in that of an action; the zero value for nothing.
	Self cty.Value
}

// Block evaluates the block of an instance: its provider, then its preconditions, then its body. If there are
// errors, the instance has the results up to the first one.
func (e Evaluator) Block(r *values.Resource, k addr.Key, o Options) (*Instance, diag.List) {
	in := &Instance{Addr: r.Addr().Instance(k), Resource: r, Schema: r.Code.Schema, Identity: r.Code.Identity}
	expansion, diags := r.Expansion()
	if diags.HasErrors() {
		return in, diags
	}
	in.Rep = expansion.Repetition(k)
	c := r.Code.Config
	if in.Schema == nil {
		return in, diag.List{UnknownType(c.Source, c.Addr, c.TypeRange.Ptr())}
	}
	in.Provider, diags = r.Module().ProviderOf(c, in.Rep)
	if diags.HasErrors() {
		return in, diags
	}
	if diags = diags.Append(e.served(in)); diags.HasErrors() {
		return in, diags
	}
	if len(c.Preconditions) > 0 {
		conditions := r.CheckPreconditions(in.Place.Address, in.Rep)
		in.Checks = Outcomes("resource", in.Addr.Config().String(), conditions)
		diags = diags.Append(conditions.Diags)
	}
	if diags.HasErrors() {
		return in, diags
	}
	value, more := r.Bound().Eval(in.Rep, o.Self)
	if o.Lenient && more.HasErrors() {
		value, more = cty.NullVal(in.Schema.Block.ImpliedType()), nil
	}
	if diags = diags.Append(more); diags.HasErrors() {
		return in, diags
	}
	in.Config = value
	in.Bare, in.Sensitive = marks.Separate(value, marks.Sensitive)
	in.Place.Region = values.Region(value)
	return in, diags
}

// Stored returns an instance for an object of the state, without its block: with the provider that the object
// belongs to, and the schema for reading it. object is its value, which may determine its region; cty.NilVal if
// the object cannot be read.
func (e Evaluator) Stored(
	a addr.Instance, p addr.ProviderInstance, s *schema.Schema, object cty.Value,
) (*Instance, diag.List) {
	in := &Instance{Addr: a, Provider: p, Schema: s}
	diags := e.served(in)
	if !diags.HasErrors() && object != cty.NilVal {
		in.Place.Region = values.Region(object)
	}
	return in, diags
}

// served evaluates the configuration of the provider, and the module's provider_meta.
func (e Evaluator) served(in *Instance) diag.List {
	wp, cfg, diags := values.WireProvider(e.Store, in.Provider, e.Package(in.Provider.Provider), in.Addr.Config())
	if in.Wire = wp; diags.HasErrors() {
		return diags
	}
	in.ephemeral, in.Unconfigured = cfg.Ephemeral, cfg.Unknown
	var more diag.List
	in.Meta, more = e.Store.Code.Meta(in.Addr.Config(), in.Provider.Provider)
	if diags = diags.Append(more); diags.HasErrors() {
		return diags
	}
	in.Place = program.Placement{
		Provider: in.Provider, ResourceType: in.Addr.Resource.Type, Module: in.Addr.Module, Address: in.Addr.String(),
		ProviderConfig: cfg.Strings, ProviderRegion: values.Region(cfg.Value),
	}
	return diags
}

// Postconditions evaluates the postconditions on the value of the object.
func (in *Instance) Postconditions(self cty.Value) ([]Outcome, diag.List) {
	if len(in.Resource.Code.Config.Postconditions) == 0 {
		return nil, nil
	}
	c := in.Resource.CheckPostconditions(in.Place.Address, in.Rep, self)
	return Outcomes("resource", in.Addr.Config().String(), c), c.Diags
}

// Range returns the place of a path in the block: the block itself if the path is not there, nil without a
// block. It expands the body, so it is called only when there is a problem.
func (in *Instance) Range(path cty.Path) *hcl.Range {
	if in.Resource == nil {
		return nil
	}
	return Range(in.Resource, in.Rep, path)
}

// Range returns the place of a path of an instance in the block of its resource.
func Range(r *values.Resource, rep eval.Repetition, path cty.Path) *hcl.Range {
	if len(path) > 0 && r.Code.Body != nil {
		if rng := eval.ConfigRange(r.Bound().Expanded(rep, cty.NilVal), path); rng != nil {
			return rng
		}
	}
	return r.Code.Config.Range.Ptr()
}

// EncodeConfig encodes the evaluated body, without its marks, for the wire.
func (in *Instance) EncodeConfig() ([]byte, error) {
	return coding.EncodeValue(in.Bare, in.Schema.Block.ImpliedType())
}

// Decode decodes an object of the type, without marks. Empty bytes are a null object.
func (in *Instance) Decode(b []byte) (cty.Value, error) { return Decode(b, in.Schema) }

// DecodeUnless returns v if b equals same, and otherwise decodes b.
func (in *Instance) DecodeUnless(b, same []byte, v cty.Value) (cty.Value, error) {
	if (b == nil) == (same == nil) && bytes.Equal(b, same) {
		return v, nil
	}
	return in.Decode(b)
}

// DecodeIdentity decodes an identity object; the result is cty.NilVal for empty bytes.
func (in *Instance) DecodeIdentity(b []byte) (cty.Value, error) {
	if b == nil || in.Identity == nil {
		return cty.NilVal, nil
	}
	return coding.DecodeValue(b, in.Identity.Body.ImpliedType())
}

// Marked marks the parts of a value that are sensitive by the schema or by the configuration.
func (in *Instance) Marked(v cty.Value) cty.Value {
	return values.MarkSensitive(v, in.Schema.Block, in.Sensitive)
}

// Unread is the value of data that has not been read yet: the configuration, with all computed attributes
// unknown.
func (in *Instance) Unread() cty.Value {
	return in.Marked(values.UnknownComputed(in.Config, in.Schema.Block))
}

// Encode encodes a value for the wire, without its marks.
func Encode(v cty.Value, s *schema.Schema) ([]byte, error) {
	return coding.EncodeValue(marks.Without(v), s.Block.ImpliedType())
}

// Decode decodes an object with a schema, without marks. Empty bytes are a null object.
func Decode(b []byte, s *schema.Schema) (cty.Value, error) {
	if b == nil {
		return cty.NullVal(s.Block.ImpliedType()), nil
	}
	return coding.DecodeValue(b, s.Block.ImpliedType())
}

// Broken is the step of a vertex that ends because of a bug, of ours or of a worker's, in a message between the
// two.
func Broken(doing string, err error) program.Step {
	return program.Step{Diags: diag.Errors("Failed to exchange a value with a worker",
		doing+": "+err.Error()+".\n\nThis is a bug in Millipede.", nil)}
}

// Notes returns the notes for views about an object that was changed or read.
func Notes(action string, v cty.Value) program.Notes {
	key, id := values.IDOf(v)
	return program.Notes{Action: action, ID: id, IDKey: key}
}

// UnknownType is the diagnostic for a resource type that the provider does not have.
func UnknownType(p addr.Provider, r addr.Resource, subject *hcl.Range) *diag.Diagnostic {
	summary, what := "Invalid resource type", "resource type"
	switch r.Mode {
	case addr.Data:
		summary, what = "Invalid data source", "data source"
	case addr.Ephemeral:
		summary, what = "Invalid ephemeral resource", "ephemeral resource"
	case addr.List:
		summary, what = "Invalid list resource", "list resource"
	case addr.Action:
		summary, what = "Invalid action", "action"
	}
	return diag.New(diag.Error, summary,
		fmt.Sprintf("The provider %s does not support %s %q.", p.Display(), what, r.Type), subject)
}
