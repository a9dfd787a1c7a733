package planning

import (
	"bytes"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coding"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/provider/schema"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

// work is what an object's vertex remembers between its steps.
type work struct {
	provider addr.ProviderInstance
	schema   *schema.Schema
	identity *schema.Identity
	rep      eval.Repetition
	// config is the evaluated body, with marks, and bare without; marked are the paths that the configuration made sensitive.
	config, bare cty.Value
	marked       []cty.Path
	prior        *state.Object
	place        program.Placement
	checks       []checkOutcome
	// triggered tells that replace_triggered_by asks for a new object.
	triggered bool
	// importing is set when the object is imported.
	importing *plan.Importing
	// private is what an open ephemeral object must be closed with; opened tells that it is open.
	private []byte
	opened  bool
	// renewing is what went wrong while it was renewed.
	renewing diag.List
}

// prepareObject computes the first step of an object's vertex.
func (p *Planner) prepareObject(vx vertex) program.Step {
	o := vx.object
	o.work = &work{}
	switch {
	case o.orphan != plan.NoReason:
		return p.prepareOrphan(o)
	case o.addr.Resource.Mode == addr.Data:
		return p.prepareData(vx.node, o)
	case o.addr.Resource.Mode == addr.Ephemeral:
		return p.prepareEphemeral(vx.node, o)
	default:
		return p.prepareManaged(o)
	}
}

// completeObject takes the answer to the last step of an object's vertex.
func (p *Planner) completeObject(vx vertex, r *wire.Result) program.Step {
	o := vx.object
	switch {
	case o.orphan != plan.NoReason:
		return p.completeOrphan(o, r)
	case o.addr.Resource.Mode == addr.Data:
		return p.completeData(o, r)
	case o.addr.Resource.Mode == addr.Ephemeral:
		return p.completeEphemeral(o, r)
	default:
		return p.completeManaged(o, r)
	}
}

// setUp finds the provider and evaluates the body of an object that has a block.
func (p *Planner) setUp(o *object) (wire.Provider, diag.List) {
	r := o.resource
	w := o.work
	e, _ := r.Expansion()
	w.rep = e.Repetition(o.addr.Key)
	if r.Code.Schema == nil {
		return wire.Provider{}, diag.Errors("Invalid resource type",
			fmt.Sprintf("The provider %s does not support resource type %q.", r.Code.Config.Source.Display(), o.addr.Resource.Type), r.Code.Config.TypeRange.Ptr())
	}
	w.schema, w.identity = r.Code.Schema, r.Code.Identity
	var diags diag.List
	w.provider, diags = r.Module().ProviderOf(r.Code.Config, w.rep)
	if diags.HasErrors() {
		return wire.Provider{}, diags
	}
	wp, cfg, more := values.WireProvider(p.Store, w.provider, p.Package(w.provider.Provider), o.addr.Config())
	diags = diags.Append(more)
	if diags.HasErrors() {
		return wp, diags
	}
	w.place = program.Placement{
		Provider: w.provider, ResourceType: o.addr.Resource.Type, Module: o.addr.Module,
		Address: o.addr.String(), ProviderConfig: cfg.Strings, ProviderRegion: values.Region(cfg.Value),
	}
	if p.Mode != plan.RefreshOnly || len(r.Code.Config.Preconditions) > 0 {
		conditions := r.CheckPreconditions(o.addr.String(), w.rep)
		w.checks = outcomes("resource", o.addr.Config().String(), conditions)
		diags = diags.Append(conditions.Diags)
		if diags.HasErrors() {
			return wp, diags
		}
	}
	var bodyDiags diag.List
	w.config, bodyDiags = r.Bound().Eval(w.rep, cty.NilVal)
	if len(p.Imports) > 0 && o.addr.Resource.Mode == addr.Managed && bodyDiags.HasErrors() {
		// The import command plans nothing, and who imports may still be writing the block.
		w.config, bodyDiags = cty.NullVal(w.schema.Block.ImpliedType()), nil
	}
	diags = diags.Append(bodyDiags)
	if diags.HasErrors() {
		return wp, diags
	}
	w.bare, w.marked = marks.Separate(w.config, marks.Sensitive)
	w.place.Region = values.Region(w.config)
	return wp, diags
}

// ranges returns where the paths of a problem lead to in the object's block.
func (o *object) ranges() func(cty.Path) *hcl.Range {
	if o.resource == nil {
		return nil
	}
	return func(path cty.Path) *hcl.Range {
		if len(path) > 0 && o.resource.Code.Body != nil {
			if rng := eval.ConfigRange(o.resource.Bound().Expanded(o.work.rep, cty.NilVal), path); rng != nil {
				return rng
			}
		}
		return o.resource.Code.Config.Range.Ptr()
	}
}

// encodeConfig codes the evaluated body without its marks for the wire.
func (w *work) encodeConfig() ([]byte, error) {
	return coding.EncodeValue(w.bare, w.schema.Block.ImpliedType())
}

// decode decodes an object of the type; the value comes without marks.
func (w *work) decode(b []byte) (cty.Value, error) {
	ty := w.schema.Block.ImpliedType()
	if b == nil {
		return cty.NullVal(ty), nil
	}
	return coding.DecodeValue(b, ty)
}

// decodeUnless is decode, unless the bytes are the same as those of a value that is there already.
func (w *work) decodeUnless(b, same []byte, v cty.Value) (cty.Value, error) {
	if (b == nil) == (same == nil) && bytes.Equal(b, same) {
		return v, nil
	}
	return w.decode(b)
}

// decodeIdentity decodes an identity object; cty.NilVal when there is none.
func (w *work) decodeIdentity(b []byte) (cty.Value, error) {
	if b == nil || w.identity == nil {
		return cty.NilVal, nil
	}
	return coding.DecodeValue(b, w.identity.Body.ImpliedType())
}

// broken is our own mistake, or a worker's, in what travelled.
func broken(doing string, err error) program.Step {
	return program.Step{Diags: diag.Errors("Failed to exchange a value with a worker", doing+": "+err.Error()+".\n\nThis is a bug in Millipede.", nil)}
}
