package values

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
)

// static describes the declarations of a module; it implements eval.Static.
type static struct {
	node *config.Node
	code *Code
}

func (s static) Module() addr.Module { return s.node.Path }

func (s static) Declares(n addr.Named) bool {
	m := s.node.Module
	var ok bool
	switch n := n.(type) {
	case addr.Variable:
		_, ok = m.Variables[n.Name]
	case addr.Local:
		_, ok = m.Locals[n.Name]
	case addr.ModuleCall:
		_, ok = m.Calls[n.Name]
	case addr.Output:
		_, ok = m.Outputs[n.Name]
	}
	return ok
}

func (s static) Names(like addr.Named) []string {
	m := s.node.Module
	switch like := like.(type) {
	case addr.Variable:
		return names(m.Variables)
	case addr.Local:
		return names(m.Locals)
	case addr.ModuleCall:
		return names(m.Calls)
	case addr.Output:
		return names(m.Outputs)
	case addr.Resource:
		var out []string
		for r := range m.Resources {
			if r.Mode == like.Mode {
				out = append(out, r.String())
			}
		}
		return out
	}
	return nil
}

func (s static) Resource(r addr.Resource) (eval.StaticResource, bool) {
	c := s.node.Module.Resources[r]
	if c == nil {
		return eval.StaticResource{}, false
	}
	out := eval.StaticResource{HasCount: c.Count != nil, HasForEach: c.ForEach != nil, Check: c.Check}
	out.Block = s.code.Resource(c).Value()
	return out, true
}

// CheckReference returns the problems of a reference outside of expressions, such as in depends_on.
func (m *Module) CheckReference(r *addr.Reference) diag.List {
	return eval.CheckOrder(eval.Reference{Reference: r}, static{m.Node, m.store.Code})
}

// testStatic is static with the additional variables of a test.
type testStatic struct {
	static
	given map[string]cty.Value
}

func (s testStatic) Declares(n addr.Named) bool {
	if v, ok := n.(addr.Variable); ok {
		if _, given := s.given[v.Name]; given {
			return true
		}
	}
	return s.static.Declares(n)
}

// CheckTrigger returns the reference in an element of replace_triggered_by, for an instance with a repetition.
func (m *Module) CheckTrigger(e hcl.Expression, rep eval.Repetition) (*addr.Reference, diag.List) {
	if m.store.Phase == Validating && rep.CountIndex != cty.NilVal {
		rep.CountIndex = cty.Zero // any number is valid
	}
	if m.store.Phase == Validating && rep.EachKey != cty.NilVal {
		rep.EachKey = cty.StringVal("")
	}
	ref, diags := eval.EvalReference(e, rep)
	if diags.HasErrors() {
		return nil, diags
	}
	var resource addr.Resource
	switch s := ref.Subject.(type) {
	case addr.Resource:
		resource = s
	case addr.ResourceRef:
		resource = s.Resource
	default:
		return ref, diags
	}
	if m.Node.Module.Resources[resource] == nil {
		return nil, diags.Append(diag.New(diag.Error, "Undeclared resource in replace_triggered_by",
			fmt.Sprintf("The argument names %s, which is not declared in %s.", resource, m.Addr.Display()),
			e.Range().Ptr()))
	}
	block := m.Node.Module.Resources[resource]
	one, single := ref.Subject.(addr.ResourceRef)
	if single && one.Key == addr.NoKey && (block.Count != nil || block.ForEach != nil) {
		return nil, diags.Append(diag.New(diag.Error, "Missing resource instance key",
			fmt.Sprintf("The resource %s has several instances, so an attribute is one of a single instance. Name the "+
				"instance by its key, or the whole resource without an attribute.", resource), e.Range().Ptr()))
	}
	s := m.store.Code.Resource(block).Schema
	if len(ref.Remaining) == 0 || s == nil {
		return ref, diags
	}
	return ref, diags.Append(eval.CheckTraversal(ref.Remaining, s.Block))
}

func names[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for name := range m {
		out = append(out, name)
	}
	return out
}
