package planning

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
)

// ImportTarget is an object to import, from an import block or the import command.
type ImportTarget struct {
	ID string
	// Identity is cty.NilVal if the object is imported by ID.
	Identity cty.Value
	// Range is the source of the import; nil for the command.
	Range *hcl.Range
}

// NewImporting returns the scope of the import command: everything is evaluated, but of the managed objects only those
// that are imported are asked for. Others keep their stored values, so that they need not be readable, or even exist.
func NewImporting(imports map[addr.Instance]string) Scope {
	sc := Scope{reads: map[addr.Instance]bool{}}
	for a := range imports {
		sc.reads[a] = true
	}
	return sc
}

// imports evaluates the import blocks for a resource when it is expanded: everything to which they refer is known
// by then.
func (p *Planner) imports(n *graph.Node) (map[addr.Instance]*ImportTarget, diag.List) {
	out := map[addr.Instance]*ImportTarget{}
	for a, id := range p.Imports {
		if a.Config() == n.ConfigResource() {
			out[a] = &ImportTarget{ID: id}
		}
	}
	var diags diag.List
	root := p.Store.Root()
	if p.Mode != plan.Normal || p.Store.Lenient {
		return out, diags // only plans that create objects evaluate import blocks, and not those before a destroy
	}
	for _, b := range p.Code.Imports(n.ConfigResource()) {
		reps := []eval.Repetition{eval.Once}
		if b.ForEach != nil {
			elements, known, more := root.Scope.EvalForEach(p.Code.Expr(b.ForEach), eval.Repeating{AllowTuple: true})
			diags = diags.Append(more)
			if !known {
				continue
			}
			reps = reps[:0]
			for _, e := range elements {
				reps = append(reps, e.Repetition())
			}
		}
		for _, rep := range reps {
			diags = diags.Append(p.importOne(n, b, rep, out))
		}
	}
	return out, diags
}

// importOne evaluates one import of a block.
func (p *Planner) importOne(n *graph.Node, b *config.Import, rep eval.Repetition,
	out map[addr.Instance]*ImportTarget) diag.List {
	scope := p.Store.Root().Scope
	to, diags := scope.EvalImportTarget(b.To, rep)
	if diags.HasErrors() {
		return diags
	}
	t := &ImportTarget{Range: b.Range.Ptr()}
	switch {
	case b.Identity != nil:
		identity := p.Code.Schemas.Identity(n.Resource.Source, n.Resource.Addr.Type)
		if identity == nil {
			return diags.Append(values.NoIdentity(n.Resource.Addr.Type, b.Identity.Range().Ptr()))
		}
		v, _, more := scope.EvalImportIdentity(p.Code.Expr(b.Identity), identity.ImportType(), rep, false)
		diags = diags.Append(more)
		t.Identity = v
	case b.ID != nil:
		id, _, more := scope.EvalImportID(p.Code.Expr(b.ID), rep, false)
		diags = diags.Append(more)
		t.ID = id
	}
	if diags.HasErrors() {
		return diags
	}
	if earlier := out[to]; earlier != nil {
		where := ""
		if earlier.Range != nil {
			where = fmt.Sprintf(" at %s", earlier.Range)
		}
		return diags.Append(diag.New(diag.Error, "Duplicate import configuration for "+fmt.Sprintf("%q", to),
			fmt.Sprintf("The instance is imported already by the block%s. An instance can be imported once.", where),
			b.Range.Ptr()))
	}
	out[to] = t
	return diags
}

// missImports records the imports of a resource whose target is not among its instances.
func (p *Planner) missImports(imports map[addr.Instance]*ImportTarget) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range slices.SortedFunc(maps.Keys(imports), addr.Instance.Compare) {
		if t := imports[a]; !p.configured(a) && !p.mayBe(a) {
			p.missed = p.missed.Append(diag.New(diag.Error, "Configuration for import target does not exist",
				fmt.Sprintf("The configuration for the import target %s does not exist: its resource has no such "+
					"instance.", a), t.Range))
		}
	}
}

// MissedImports returns an error for each import whose target is no instance of its resource, also if the object is
// in the state. It is complete after the run. As in OpenTofu, there is no plan then, not even an incomplete one.
func (p *Planner) MissedImports() diag.List {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.missed
}
