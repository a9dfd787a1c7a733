package operation

import (
	"context"
	"fmt"
	"slices"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/lang/generate"
	"github.com/millipede-iac/millipede/wire"
)

// Generated is a generated resource block for an import block.
type Generated struct {
	Addr addr.Resource
	// ID is the ID for the import; empty if it uses an identity.
	ID   string
	Text string
}

// Generate generates blocks for the import blocks whose resources have none: it reads the objects from their
// providers. Nothing is planned or stored. An object that is not found does not prevent the blocks of the others.
func (s *Session) Generate(ctx context.Context) (out []Generated, diags diag.List) {
	defer caught(&diags)
	var lacking []*config.Import
	for _, b := range s.Tree.Root.Module.Imports {
		if n := s.Tree.Modules[b.StaticTo.Module]; n != nil && n.Module.Resources[b.StaticTo.Resource] != nil {
			continue
		}
		lacking = append(lacking, b)
		diags = diags.Append(generatable(b))
	}
	if diags.HasErrors() {
		return nil, diags
	}
	for _, b := range lacking {
		g, more := s.generate(ctx, b)
		diags = diags.Append(more)
		if !more.HasErrors() {
			out = append(out, g)
		}
	}
	return out, diags
}

// LeaveOut removes the import blocks that a plan with these options leaves out, and whose resources have no block: none
// is generated for them, and none is needed.
func LeaveOut(tree *config.Tree, targets, excludes []addr.Target) {
	root := tree.Root.Module
	root.Imports = slices.DeleteFunc(slices.Clone(root.Imports), func(b *config.Import) bool {
		n := tree.Modules[b.StaticTo.Module]
		has := n != nil && n.Module.Resources[b.StaticTo.Resource] != nil
		hit := func(t addr.Target) bool {
			if b.ResolvedTo == nil {
				return t.MayContain(b.StaticTo)
			}
			return t.Contains(*b.ResolvedTo)
		}
		left := len(targets) > 0 && !slices.ContainsFunc(targets, hit) || slices.ContainsFunc(excludes, hit)
		return !has && left
	})
}

// generatable returns errors if no block can be generated for an import.
func generatable(b *config.Import) diag.List {
	switch {
	case !b.StaticTo.Module.IsRoot():
		return diag.Errors("Cannot generate configuration for resource inside sub-module",
			fmt.Sprintf("There is no block for %s. One can be generated only for a resource of the root module; "+
				"write this one.", b.StaticTo), b.Range.Ptr())
	case b.ResolvedTo == nil || b.ResolvedTo.Key != addr.NoKey || b.ForEach != nil:
		return diag.Errors("Configuration generation for count and for_each resources not supported",
			fmt.Sprintf("There is no block for %s. One can be generated only for a resource without count and "+
				"for_each; write this one.", b.StaticTo), b.Range.Ptr())
	default:
		return nil
	}
}

func (s *Session) generate(ctx context.Context, b *config.Import) (Generated, diag.List) {
	task, diags := s.importTask(ctx, b)
	if diags.HasErrors() {
		return Generated{}, diags
	}
	pi := s.Tree.Root.ProviderFor(b.Provider).Instance(addr.RootInstance, addr.NoKey)
	found, more := s.find(ctx, *b.ResolvedTo, pi, task, s.request)
	if diags = diags.Append(more); diags.HasErrors() {
		return Generated{}, diags
	}
	text := generate.Resource(b.StaticTo.Resource,
		generate.Provider(b.StaticTo.Resource, b.Provider, addr.NoKey), found.schema.Block, found.value)
	return Generated{Addr: b.StaticTo.Resource, ID: task.ID, Text: text}, diags
}

// importTask evaluates the arguments of an import block.
func (s *Session) importTask(ctx context.Context, b *config.Import) (*wire.ImportTask, diag.List) {
	schemas, diags := s.Schemas(ctx, nil)
	if diags.HasErrors() {
		return nil, diags
	}
	task := &wire.ImportTask{Type: b.StaticTo.Resource.Type}
	code := values.NewCode(s.Tree, schemas)
	scope := s.store(code, values.Planning, s.Now()).Root().Scope
	if b.Identity == nil {
		id, _, more := scope.EvalImportID(code.Expr(b.ID), eval.Once, false)
		task.ID = id
		return task, diags.Append(more)
	}
	identity := schemas.Identity(s.Tree.Root.ProviderFor(b.Provider).Provider, task.Type)
	if identity == nil {
		return nil, diags.Append(values.NoIdentity(task.Type, b.Identity.Range().Ptr()))
	}
	v, _, more := scope.EvalImportIdentity(code.Expr(b.Identity), identity.Body.ImpliedType(), eval.Once, false)
	if diags = diags.Append(more); diags.HasErrors() {
		return nil, diags
	}
	var err error
	if task.Identity, err = coding.EncodeValue(v, identity.Body.ImpliedType()); err != nil {
		return nil, diags.Append(diag.New(diag.Error, "Invalid import identity argument", err.Error()+".",
			b.Identity.Range().Ptr()))
	}
	return task, diags
}

// Note adds the text of generated blocks to the changes of their resources.
func Note(p *plan.Plan, generated []Generated) {
	for _, g := range generated {
		for _, c := range p.Changes {
			if c.Addr == g.Addr.Absolute(addr.RootInstance).Instance(addr.NoKey) {
				c.GeneratedConfig = g.Text
			}
		}
	}
}
