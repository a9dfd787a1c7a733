// Package validating is the program that checks a configuration without a state: each block is evaluated once,
// with unknown values for everything that only a run can determine, and checked by its provider.
package validating

import (
	"context"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/instance"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/wire"
)

// Validator is the validating program. The phase of Store must be values.Validating.
type Validator struct {
	Static  *graph.Static
	Code    *values.Code
	Store   *values.Store
	Package func(addr.Provider) wire.Package
	// Pools returns the pools whose workers may see the content of a block; nil leaves them to the placement rules.
	Pools func(*graph.Node) []string
	// SkipPlanned omits the provider's check of blocks that are certain to have an instance that planning plans,
	// reads or opens anyway. Provider blocks are always checked, because planning only configures providers.
	SkipPlanned bool
}

// Graph implements program.Program. The graph has no edges: a mistake in one block must not hide mistakes in
// blocks that refer to it.
func (v *Validator) Graph() *dag.Graph { return dag.New(len(v.Static.Nodes)) }

// Describe implements program.Program.
func (v *Validator) Describe(i int) program.Description {
	return program.Description{Address: v.Static.Nodes[i].Address(), Hidden: true}
}

// Accept implements program.Program: results of a validation are not kept.
func (v *Validator) Accept(int, *program.Step) {}

// Prepare implements program.Program.
func (v *Validator) Prepare(_ context.Context, i int) program.Step {
	n := &v.Static.Nodes[i]
	var step program.Step
	if n.Kind == graph.OrphanNode {
		return step // has no block; its module may be gone, too
	}
	for _, m := range v.Store.Instances(n.Module) {
		switch n.Kind {
		case graph.OutputNode:
			step.Diags = step.Diags.Append(dependsOn(m, n.Output.DependsOn), rules(m, n), instance.Value(m, n))
		case graph.CallNode:
			step.Diags = step.Diags.Append(instance.Value(m, n), dependsOn(m, n.Call.DependsOn))
		case graph.VariableNode, graph.LocalNode, graph.CheckNode:
			step.Diags = step.Diags.Append(instance.Value(m, n), rules(m, n))
		case graph.ProviderNode:
			if v.Static.Used(i) {
				v.provider(&step, m, n)
			}
		case graph.ResourceNode:
			v.resource(&step, m, n)
		case graph.TriggerNode:
			v.triggers(&step, m, n)
		}
	}
	return step
}

func rules(m *values.Module, n *graph.Node) diag.List {
	_, diags := instance.Rules(m, n)
	return diags
}

// provider evaluates a provider block and has its provider check it. A missing provider was reported when the
// schemas were loaded.
func (v *Validator) provider(step *program.Step, m *values.Module, n *graph.Node) {
	schemas := v.Code.Schemas.Provider(n.ProviderAddr.Provider)
	if schemas == nil || schemas.Provider.Block == nil || n.Provider.Mock != nil {
		return
	}
	block := schemas.Provider.Block
	rep := eval.Once
	if n.Provider.ForEach != nil {
		rep = eval.Repetition{EachKey: cty.UnknownVal(cty.String), EachValue: cty.DynamicVal}
	}
	config, diags := v.Code.Body(n.Provider.Config, block).Eval(m.Scope, rep, cty.NilVal)
	step.Diags = step.Diags.Append(diags)
	if diags.HasErrors() {
		return
	}
	bare, _ := config.UnmarkDeep()
	encoded, err := coding.EncodeValue(bare, block.ImpliedType())
	if err != nil {
		step.Diags = step.Diags.Append(diag.New(diag.Error, "Invalid provider configuration", err.Error(),
			n.Provider.Range.Ptr()))
		return
	}
	v.ask(step, n, n.ProviderAddr.Provider, "provider", "", encoded)
}

// resource evaluates a resource block, its conditions and its provisioners, and has its provider check it.
func (v *Validator) resource(step *program.Step, m *values.Module, n *graph.Node) {
	r := m.ResourceBlock(n.Resource.Addr)
	_, diags := r.Expansion()
	step.Diags = step.Diags.Append(diags)
	rep := first(r)
	config := r.Code.Config
	schemas := v.Code.Schemas.Provider(config.Source)
	if r.Code.Schema == nil {
		if schemas != nil {
			step.Diags = step.Diags.Append(instance.UnknownType(config.Source, n.Resource.Addr, config.TypeRange.Ptr()))
		}
		return
	}
	switch n.Resource.Addr.Mode {
	case addr.List:
		v.list(step, n, r, rep)
		return
	case addr.Action:
		v.action(step, n, r, rep)
		return
	}
	step.Diags = step.Diags.Append(dependsOn(m, config.DependsOn), protection(config))
	value, bodyDiags := r.Bound().Eval(rep, cty.NilVal)
	step.Diags = step.Diags.Append(bodyDiags)
	self := cty.UnknownVal(r.Code.Schema.Block.ImpliedType())
	step.Diags = step.Diags.Append(r.EvaluateConditions(rep, self), v.imports(n))
	if len(config.Provisioners) > 0 {
		step.Diags = step.Diags.Append(winRM(m, config.Connection, rep, self))
	}
	for _, p := range config.Provisioners {
		_, more := m.EvalProvisioner(p, config.Connection, rep, self)
		step.Diags = step.Diags.Append(more, winRM(m, p.Connection, rep, self))
	}
	for _, e := range config.TriggersReplace {
		_, more := m.CheckTrigger(e, rep)
		step.Diags = step.Diags.Append(more)
	}
	if !bodyDiags.HasErrors() {
		step.Diags = step.Diags.Append(ignored(config, r.Code.Schema.Block))
	}
	bare, _ := value.UnmarkDeep()
	if bodyDiags.HasErrors() || v.SkipPlanned && n.Module.IsRoot() && planned(config, bare) {
		return
	}
	encoded, err := coding.EncodeValue(bare, r.Code.Schema.Block.ImpliedType())
	if err != nil {
		step.Diags = step.Diags.Append(diag.New(diag.Error, "Invalid configuration", err.Error(), config.Range.Ptr()))
		return
	}
	v.ask(step, n, config.Source, n.Resource.Addr.Mode.String(), n.Resource.Addr.Type, encoded)
}

// planned reports whether planning is certain to ask the provider about a block of the root module. Reading
// or opening an object may be deferred to the apply if it has dependencies or unknown arguments.
func planned(config *config.Resource, value cty.Value) bool {
	if config.Count != nil || config.ForEach != nil || config.Enabled != nil {
		return false
	}
	waits := len(config.DependsOn)+len(config.Preconditions)+len(config.Postconditions) > 0 || !value.IsWhollyKnown()
	return config.Addr.Mode == addr.Managed || !waits
}

// first returns the repetition of the first instance of a resource, or of a single one if there are none.
func first(r *values.Resource) eval.Repetition {
	if expansion, _ := r.Expansion(); len(expansion.Keys) > 0 {
		return expansion.Repetition(expansion.Keys[0])
	}
	return eval.Once
}

// imports checks the repetitions, the IDs and the identities of the import blocks for a resource.
func (v *Validator) imports(n *graph.Node) diag.List {
	var diags diag.List
	root := v.Store.Root().Scope
	for _, b := range v.Code.Imports(n.ConfigResource()) {
		reps := []eval.Repetition{eval.Once}
		if b.ForEach != nil {
			repeating := eval.Repeating{AllowUnknown: true, AllowTuple: true}
			elements, _, more := root.EvalForEach(v.Code.Expr(b.ForEach), repeating)
			diags = diags.Append(more)
			reps = reps[:0]
			for _, e := range elements {
				reps = append(reps, e.Repetition())
			}
		}
		for _, rep := range reps {
			diags = diags.Append(v.importOne(n, b, rep))
		}
	}
	return diags
}

// importOne checks the ID or the identity of one import of a block.
func (v *Validator) importOne(n *graph.Node, b *config.Import, rep eval.Repetition) diag.List {
	root := v.Store.Root().Scope
	switch {
	case b.ID != nil:
		_, _, diags := root.EvalImportID(v.Code.Expr(b.ID), rep, true)
		return diags
	case b.Identity != nil:
		identity := v.Code.Schemas.Identity(n.Resource.Source, n.Resource.Addr.Type)
		if identity == nil {
			return diag.List{values.NoIdentity(n.Resource.Addr.Type, b.Identity.Range().Ptr())}
		}
		_, _, diags := root.EvalImportIdentity(v.Code.Expr(b.Identity), identity.ImportType(), rep, true)
		return diags
	}
	return nil
}

// ask sets the provider's check as the vertex's task. There is at most one per vertex: in validation, a module
// has one instance.
func (v *Validator) ask(step *program.Step, n *graph.Node, p addr.Provider, kind, typeName string, config []byte) {
	step.Lane = program.Fast
	step.Place = &program.Placement{Provider: addr.ProviderInstance{Provider: p}, Address: p.Display(),
		ResourceType: typeName}
	if v.Pools != nil {
		step.Place.Among = v.Pools(n)
	}
	step.Task = &wire.Task{
		Address: p.Display(), Provider: wire.Provider{Package: v.Package(p), Address: p.String(), Dir: v.Store.WorkDir},
		Validate: &wire.ValidateTask{Kind: kind, Type: typeName, Config: config},
	}
}

// Complete implements program.Program.
func (v *Validator) Complete(_ context.Context, i int, r *wire.Result) program.Step {
	n := &v.Static.Nodes[i]
	var ranges func(cty.Path) *hcl.Range
	for _, m := range v.Store.Instances(n.Module) {
		ranges = func(path cty.Path) *hcl.Range {
			if n.Kind == graph.ProviderNode {
				if rng := eval.ConfigRange(n.Provider.Config, path); rng != nil && len(path) > 0 {
					return rng
				}
				return n.Provider.Range.Ptr()
			}
			r := m.ResourceBlock(n.Resource.Addr)
			return instance.Range(r, first(r), path)
		}
	}
	return program.Step{Diags: values.WireDiags(r.Diagnostics, ranges).WithAddress(n.Address())}
}

// dependsOn checks the elements of depends_on.
func dependsOn(m *values.Module, list []hcl.Traversal) diag.List {
	var diags diag.List
	for _, t := range list {
		ref, more := addr.ParseReference(t)
		diags = diags.Append(more)
		if ref == nil {
			continue
		}
		if len(ref.Remaining) > 0 {
			rng := ref.Remaining.SourceRange()
			diags = diags.Append(diag.New(diag.Error, "Invalid depends_on reference",
				"An element of depends_on must name a whole object, such as a resource or a module, and not an "+
					"attribute of one.", &rng))
			continue
		}
		diags = diags.Append(m.CheckReference(ref))
	}
	return diags
}
