package operation

import (
	"cmp"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/planning"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/lang/schema"
)

// relevant returns the attributes of resources to which changes refer, directly or through named values and other
// resources, sorted by resource. Drift in these attributes may be a reason for the plan. It is based on the text of
// expressions: b[count.index] is a reference to b.
func relevant(p *plan.Plan, store *values.Store, static *graph.Static, scope planning.Scope) []plan.Relevant {
	t := &tracer{code: store.Code, seen: map[usageKey]bool{}, blocks: map[blockKey]bool{}}
	for _, c := range p.Changes {
		if c.Action != plan.NoOp {
			t.block(c.Addr.Module, c.Addr.Resource, nil)
		}
	}
	for _, o := range p.Outputs {
		if o.Action != plan.NoOp {
			t.output(addr.RootInstance, o.Name)
		}
	}
	if p.Mode != plan.Destroy { // which evaluates outputs and changes only those of the root
		t.calledOutputs(store, static, scope)
	}
	for len(t.pending) > 0 {
		next := t.pending[len(t.pending)-1]
		t.pending = t.pending[:len(t.pending)-1]
		t.follow(next)
	}
	slices.SortFunc(t.found, func(a, b plan.Relevant) int {
		if c := cmp.Compare(a.Resource.String(), b.Resource.String()); c != 0 {
			return c
		}
		return cmp.Compare(values.PathKey(a.Attribute), values.PathKey(b.Attribute))
	})
	return t.found
}

// calledOutputs traces the outputs of called modules. They are not stored, so each one with a value is new to every
// plan.
func (t *tracer) calledOutputs(store *values.Store, static *graph.Static, scope planning.Scope) {
	for path, n := range store.Code.Tree.Modules {
		if path.IsRoot() {
			continue
		}
		for _, m := range store.Instances(path) {
			for name := range n.Module.Outputs {
				i, ok := static.Find(graph.OutputNode, path, addr.Output{Name: name})
				if v, _ := m.OutputValue(name).Unmark(); ok && scope.Node(i) && !v.IsNull() {
					t.output(m.Addr, name)
				}
			}
		}
	}
}

// usage is a reference and its position.
type usage struct {
	module addr.ModuleInstance
	// repeated is the resource whose block contains a reference to count or each.
	repeated addr.Resource
	*addr.Reference
}

type usageKey struct {
	module    addr.ModuleInstance
	repeated  addr.Resource
	subject   addr.Named
	remaining string
}

type blockKey struct {
	module   addr.ModuleInstance
	resource addr.Resource
}

// tracer follows references transitively, each only once, so that the cost is proportional to the number of
// references.
type tracer struct {
	code    *values.Code
	seen    map[usageKey]bool
	blocks  map[blockKey]bool // blocks that were traced completely
	pending []usage
	found   []plan.Relevant
}

// follow traces the expressions of the subject of a reference.
func (t *tracer) follow(u usage) {
	n := t.code.Tree.Modules[u.module.Module()]
	if n == nil {
		return
	}
	switch subject := u.Subject.(type) {
	case addr.Variable:
		if !u.module.IsRoot() {
			caller, _ := u.module.Parent()
			t.add(caller, addr.Resource{}, t.code.ArgumentReferences(n, subject.Name))
		}
	case addr.Local:
		if l := n.Module.Locals[subject.Name]; l != nil {
			t.add(u.module, addr.Resource{}, t.code.Expr(l.Expr).References())
		}
	case addr.ModuleOutput:
		t.output(u.module.Child(subject.Call.Name, subject.Call.Key), subject.Output)
	case addr.ModuleCallInstance:
		t.outputs(u.module.Child(subject.Name, subject.Key))
	case addr.ModuleCall:
		t.outputs(u.module.Child(subject.Name, addr.NoKey))
	case addr.CountAttr, addr.ForEachAttr:
		if r := n.Module.Resources[u.repeated]; r != nil {
			for _, e := range []hcl.Expression{r.Count, r.ForEach} {
				t.add(u.module, addr.Resource{}, t.code.Expr(e).References())
			}
		}
	case addr.Resource:
		t.block(u.module, subject, u.Remaining)
	case addr.ResourceRef:
		t.block(u.module, subject.Resource, u.Remaining)
	}
}

func (t *tracer) output(m addr.ModuleInstance, name string) {
	if n := t.code.Tree.Modules[m.Module()]; n != nil {
		if o := n.Module.Outputs[name]; o != nil {
			t.add(m, addr.Resource{}, t.code.Expr(o.Expr).References())
		}
	}
}

func (t *tracer) outputs(m addr.ModuleInstance) {
	if n := t.code.Tree.Modules[m.Module()]; n != nil {
		for name := range n.Module.Outputs {
			t.output(m, name)
		}
	}
}

// block traces the body of a resource block: all of it, or the argument or the blocks at a traversal.
func (t *tracer) block(m addr.ModuleInstance, r addr.Resource, into hcl.Traversal) {
	key := blockKey{m, r}
	n := t.code.Tree.Modules[m.Module()]
	if n == nil || t.blocks[key] {
		return
	}
	rc := n.Module.Resources[r]
	if rc == nil {
		return
	}
	code := t.code.Resource(rc)
	if code.Body == nil {
		return
	}
	if len(into) == 0 {
		t.blocks[key] = true
		t.add(m, r, code.Body.References())
		return
	}
	if part := entered(code.Schema.Block, into[0]); part != nil {
		refs, _ := eval.BodyReferences(rc.Config, part) // attributes of other parts are no problem here
		t.add(m, r, refs)
	}
}

// entered returns the part of a block at a step; nil if it is not configurable.
func entered(b *schema.Block, step hcl.Traverser) *schema.Block {
	var name string
	switch step := step.(type) {
	case hcl.TraverseAttr:
		name = step.Name
	case hcl.TraverseIndex:
		if step.Key.Type() != cty.String || step.Key.IsNull() || !step.Key.IsKnown() {
			return nil
		}
		name = step.Key.AsString()
	}
	if a := b.Attributes[name]; a != nil {
		return &schema.Block{Attributes: map[string]*schema.Attribute{name: a}}
	}
	if nested := b.Blocks[name]; nested != nil {
		return &schema.Block{Blocks: map[string]*schema.NestedBlock{name: nested}}
	}
	return nil
}

// add adds references of a module instance, in the block of a resource or elsewhere.
func (t *tracer) add(m addr.ModuleInstance, in addr.Resource, refs []eval.Reference) {
	for _, ref := range refs {
		u := usage{module: m, Reference: ref.Reference}
		switch ref.Subject.(type) {
		case addr.CountAttr, addr.ForEachAttr:
			u.repeated = in
		}
		path := stepsOf(ref.Remaining)
		key := usageKey{u.module, u.repeated, ref.Subject, values.PathKey(path)}
		if t.seen[key] {
			continue
		}
		t.seen[key] = true
		t.pending = append(t.pending, u)
		switch subject := ref.Subject.(type) {
		case addr.Resource:
			t.found = append(t.found, plan.Relevant{Resource: subject.Absolute(m).Instance(addr.NoKey),
				Attribute: path})
		case addr.ResourceRef:
			t.found = append(t.found, plan.Relevant{Resource: subject.Resource.Absolute(m).Instance(subject.Key),
				Attribute: path})
		}
	}
}

func stepsOf(t hcl.Traversal) cty.Path {
	out := make(cty.Path, 0, len(t))
	for _, step := range t {
		switch step := step.(type) {
		case hcl.TraverseAttr:
			out = append(out, cty.GetAttrStep{Name: step.Name})
		case hcl.TraverseIndex:
			out = append(out, cty.IndexStep{Key: step.Key})
		}
	}
	return out
}
