package planning

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/state"
)

// allowed rejects the removal of an object that prevent_destroy protects. An argument that could never be evaluated
// is rejected with every change, so that its author learns of it before it is needed.
func (p *Planner) allowed(o *object, c *plan.Change) diag.List {
	block := p.block(o)
	if o.deposed != state.CurrentObject || block == nil || block.PreventDestroy == nil {
		return nil
	}
	ends := c.Action == plan.Delete || c.Action == plan.DeleteThenCreate || c.Action == plan.CreateThenDelete
	prevent, diags := p.prevents(o, block.PreventDestroy, ends)
	if diags.HasErrors() || !prevent || !ends {
		return diags
	}
	return diags.Append(diag.New(diag.Error, "Resource instance cannot be destroyed",
		fmt.Sprintf("The plan wants to destroy %s, which has lifecycle.prevent_destroy set. To continue, turn "+
			"lifecycle.prevent_destroy off, or leave the object out of the plan with the -target or -exclude option.",
			o.addr),
		block.Range.Ptr()))
}

// block returns the block of an object, which may exist although the instance of its module does not; nil if there
// is none.
func (p *Planner) block(o *object) *config.Resource {
	if o.resource != nil {
		return o.resource.Code.Config
	}
	if i, ok := p.Static.ResourceVertex(o.addr.Config()); ok {
		return p.Static.Nodes[i].Resource
	}
	return nil
}

// prevents evaluates prevent_destroy. It must be known only if the object is to be removed.
func (p *Planner) prevents(o *object, e hcl.Expression, ends bool) (bool, diag.List) {
	var diags diag.List
	expr := p.Code.Expr(e)
	for _, r := range expr.References() {
		switch subject := r.Subject.(type) {
		case addr.CountAttr, addr.ForEachAttr:
			diags = diags.Append(diag.New(diag.Error, "Invalid reference in prevent_destroy",
				fmt.Sprintf("The argument cannot depend on %s: it also holds for instances that are not in the "+
					"configuration any more, which have no such value.", subject), r.Range.Ptr()))
		}
	}
	if diags.HasErrors() {
		return false, diags
	}
	invalid := func(why string) (bool, diag.List) {
		return false, diags.Append(diag.New(diag.Error, "Invalid value for prevent_destroy",
			fmt.Sprintf("The lifecycle argument prevent_destroy of %s %s.", o.addr, why), e.Range().Ptr()))
	}
	v := cty.UnknownVal(cty.Bool)
	if scope := p.scopeOf(o, expr); scope != nil {
		v, diags = expr.Eval(scope, cty.Bool, eval.Once, cty.NilVal)
	}
	switch bare, found := v.Unmark(); {
	case diags.HasErrors():
		return false, diags
	case has(found, marks.Sensitive):
		return invalid("must not be sensitive, since the plan shows whether it holds")
	case has(found, marks.Ephemeral):
		return invalid("must not be ephemeral, since it has to hold until the plan is applied")
	case !ends:
		return false, diags
	case !bare.IsKnown() || bare.IsNull():
		return invalid("must be true or false, and known when planning")
	default:
		return bare.True(), diags
	}
}

func has(found cty.ValueMarks, m any) bool {
	_, ok := found[m]
	return ok
}

// scopeOf returns the scope of an expression in an object's block; nil if the expression has references and there
// is no instance of its module.
func (p *Planner) scopeOf(o *object, expr *eval.Expr) *eval.Scope {
	m := p.Store.Module(o.addr.Module)
	if o.resource != nil {
		m = o.resource.Module()
	}
	if m == nil && len(expr.References()) == 0 {
		m = p.Store.Root()
	}
	if m == nil {
		return nil
	}
	return m.Scope
}
