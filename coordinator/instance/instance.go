// Package instance evaluates one instance of a resource: its provider, where it is to be worked on, its conditions,
// the body
// of its block.
//
// Planning and applying go by what it finds; see named.go for what they and others evaluate besides instances. The
// package
// decides nothing, keeps nothing, and asks no worker.
package instance

import (
	"bytes"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coding"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/provider/schema"
	"github.com/millipede-iac/millipede/wire"
)

// Evaluator evaluates the instances of a configuration.
type Evaluator struct {
	Store *values.Store
	// Package returns the selected package of a provider.
	Package func(addr.Provider) wire.Package
}

// Instance is what is known of one instance before a worker is asked. Of one without a block, Resource is nil, and so
// is all
// that comes from the block.
type Instance struct {
	Addr addr.Instance
	// Provider serves the instance; Wire is how workers are told so. Place is where they are.
	Provider addr.ProviderInstance
	Wire     wire.Provider
	Place    program.Placement
	Schema   *schema.Schema
	Identity *schema.Identity // nil for a type without one
	// Meta is what the module tells the provider, coded for the wire; see values.Code.Meta.
	Meta []byte

	// Resource is the block in its module instance, Rep the instance's count or each.
	Resource *values.Resource
	Rep      eval.Repetition
	// Config is the evaluated body, with marks, and Bare without; Sensitive are the paths that the configuration made
	// so.
	Config, Bare cty.Value
	Sensitive    []cty.Path
	// Checks are the outcomes of the preconditions.
	Checks []Outcome
}

// Options say how a block is evaluated.
type Options struct {
	// Lenient takes a body that cannot be evaluated for a null object.
	Lenient bool
}

// Block evaluates the block of an instance: its provider, then its preconditions, then its body. With errors, the
// instance
// holds what was found until then.
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
	conditions := r.CheckPreconditions(in.Addr.String(), in.Rep)
	in.Checks = Outcomes("resource", in.Addr.Config().String(), conditions)
	if diags = diags.Append(conditions.Diags); diags.HasErrors() {
		return in, diags
	}
	value, more := r.Bound().Eval(in.Rep, cty.NilVal)
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

// Stored returns an instance by what the state has of it: the provider that the object belongs to, and the schema
// that it is
// read by. object is its value, as far as that says in which region it is; cty.NilVal when it cannot be read.
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

// served evaluates the configuration of the provider, and what the module tells it.
func (e Evaluator) served(in *Instance) diag.List {
	wp, cfg, diags := values.WireProvider(e.Store, in.Provider, e.Package(in.Provider.Provider), in.Addr.Config())
	if in.Wire = wp; diags.HasErrors() {
		return diags
	}
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
	c := in.Resource.CheckPostconditions(in.Addr.String(), in.Rep, self)
	return Outcomes("resource", in.Addr.Config().String(), c), c.Diags
}

// Range returns where a path of the object leads to in its block: the block itself where nothing there is about it, nil
// without a block. The body is expanded for it, which is only done when there is a problem.
func (in *Instance) Range(path cty.Path) *hcl.Range {
	if in.Resource == nil {
		return nil
	}
	return Range(in.Resource, in.Rep, path)
}

// Range returns where a path of an instance leads to in the block of its resource.
func Range(r *values.Resource, rep eval.Repetition, path cty.Path) *hcl.Range {
	if len(path) > 0 && r.Code.Body != nil {
		if rng := eval.ConfigRange(r.Bound().Expanded(rep, cty.NilVal), path); rng != nil {
			return rng
		}
	}
	return r.Code.Config.Range.Ptr()
}

// EncodeConfig codes the evaluated body, without its marks, for the wire.
func (in *Instance) EncodeConfig() ([]byte, error) {
	return coding.EncodeValue(in.Bare, in.Schema.Block.ImpliedType())
}

// Decode decodes an object of the type; the value comes without marks. No bytes are a null object.
func (in *Instance) Decode(b []byte) (cty.Value, error) { return Decode(b, in.Schema) }

// DecodeUnless is Decode, unless the bytes are the same as those of a value that is there already.
func (in *Instance) DecodeUnless(b, same []byte, v cty.Value) (cty.Value, error) {
	if (b == nil) == (same == nil) && bytes.Equal(b, same) {
		return v, nil
	}
	return in.Decode(b)
}

// DecodeIdentity decodes an identity object; cty.NilVal when there is none.
func (in *Instance) DecodeIdentity(b []byte) (cty.Value, error) {
	if b == nil || in.Identity == nil {
		return cty.NilVal, nil
	}
	return coding.DecodeValue(b, in.Identity.Body.ImpliedType())
}

// Marked marks a value of the object with what the schema, and what the configuration makes sensitive.
func (in *Instance) Marked(v cty.Value) cty.Value {
	return values.MarkSensitive(v, in.Schema.Block, in.Sensitive)
}

// Unread is the value of data that nobody has read yet: the configuration, with all unknown that reading finds.
func (in *Instance) Unread() cty.Value {
	return in.Marked(values.UnknownComputed(in.Config, in.Schema.Block))
}

// Encode codes a value for the wire, without its marks.
func Encode(v cty.Value, s *schema.Schema) ([]byte, error) {
	bare, _ := v.UnmarkDeep()
	return coding.EncodeValue(bare, s.Block.ImpliedType())
}

// Decode decodes an object by a schema; the value comes without marks. No bytes are a null object.
func Decode(b []byte, s *schema.Schema) (cty.Value, error) {
	if b == nil {
		return cty.NullVal(s.Block.ImpliedType()), nil
	}
	return coding.DecodeValue(b, s.Block.ImpliedType())
}

// Broken is the step of a vertex that ends by a mistake of ours, or of a worker, in what travelled between the two.
func Broken(doing string, err error) program.Step {
	return program.Step{Diags: diag.Errors("Failed to exchange a value with a worker",
		doing+": "+err.Error()+".\n\nThis is a bug in Millipede.", nil)}
}

// Notes are what views want to know of an object that something was done to.
func Notes(action string, v cty.Value) program.Notes {
	key, id := values.IDOf(v)
	return program.Notes{Action: action, ID: id, IDKey: key}
}

// UnknownType is the diagnostic of a resource type that its provider does not have.
func UnknownType(p addr.Provider, r addr.Resource, subject *hcl.Range) *diag.Diagnostic {
	summary, what := "Invalid resource type", "resource type"
	switch r.Mode {
	case addr.Data:
		summary, what = "Invalid data source", "data source"
	case addr.Ephemeral:
		summary, what = "Invalid ephemeral resource", "ephemeral resource"
	}
	return diag.New(diag.Error, summary,
		fmt.Sprintf("The provider %s does not support %s %q.", p.Display(), what, r.Type), subject)
}
