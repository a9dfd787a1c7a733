package values

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/lang/schema"
)

// listValue describes the value of a list block: data is a list of objects with the attributes identity, state and
// display_name.
var listValue = &schema.Block{Attributes: map[string]*schema.Attribute{
	"data": {Type: cty.DynamicPseudoType, Computed: true},
}}

// DefaultListLimit is how many objects a list block returns at most if it has no argument limit.
const DefaultListLimit = 100

// maxListLimit is the greatest limit; greater ones mean the same.
const maxListLimit = 1 << 40

// ListOptions are the evaluated arguments of a list block outside of its config block.
type ListOptions struct {
	IncludeObject bool
	// Limit is 0 if it is unknown, which only a validation allows.
	Limit int64
}

// ListOptions evaluates include_resource and limit of a list block, for an instance with a repetition.
func (r *Resource) ListOptions(rep eval.Repetition) (ListOptions, diag.List) {
	o := ListOptions{Limit: DefaultListLimit}
	var diags diag.List
	c := r.Code.Config
	if c.IncludeResource != nil {
		v, more := r.listOption(c.IncludeResource, "include_resource", cty.Bool, rep)
		diags = diags.Append(more)
		o.IncludeObject = v != cty.NilVal && v.IsKnown() && v.True()
	}
	if c.Limit != nil {
		v, more := r.listOption(c.Limit, "limit", cty.Number, rep)
		diags = diags.Append(more)
		o.Limit = 0
		if v != cty.NilVal && v.IsKnown() {
			var exact bool
			if o.Limit, exact = whole(v); !exact || o.Limit < 1 {
				diags = diags.Append(diag.New(diag.Error, "Invalid limit", "The limit of a list block is a whole "+
					"number of objects, at least 1.", c.Limit.Range().Ptr()))
			}
		}
	}
	return o, diags
}

// whole converts a number that is expected to be whole.
func whole(v cty.Value) (int64, bool) {
	f := v.AsBigFloat()
	if !f.IsInt() {
		return 0, false
	}
	n, _ := f.Int64()
	return min(n, maxListLimit), true
}

// listOption evaluates one argument; the value is cty.NilVal after an error.
func (r *Resource) listOption(e hcl.Expression, name string, ty cty.Type, rep eval.Repetition) (cty.Value, diag.List) {
	v, diags := r.module.store.Code.Expr(e).Eval(r.module.Scope, ty, rep, cty.NilVal)
	if diags.HasErrors() {
		return cty.NilVal, diags
	}
	var problem string
	bare, _ := v.UnmarkDeep()
	switch {
	case marks.Contains(v, marks.Ephemeral):
		problem = "it is ephemeral"
	case bare.IsNull():
		problem = "it is null"
	case !bare.IsKnown() && r.module.store.Phase != Validating:
		problem = "it is not known: a query reads lists and the state, and nothing else"
	default:
		return bare, diags
	}
	return cty.NilVal, diags.Append(diag.New(diag.Error, "Invalid "+name+" argument",
		fmt.Sprintf("The argument %s of a list block cannot be used: %s.", name, problem), e.Range().Ptr()))
}
