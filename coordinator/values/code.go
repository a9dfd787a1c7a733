// Package values holds the values to which expressions can refer during one run: variables, locals, outputs,
// module calls, providers and resource instances of every module instance.
//
// Values are computed once and are immutable, except those of resource instances, whose planned values an apply
// replaces. The package does not order evaluations: the caller ensures, by means of the graph, that the values
// to which an expression refers are available. It does not call providers.
package values

import (
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
)

// Schemas are the parts of the providers' schemas that a configuration and a state use, loaded before a run.
type Schemas struct {
	byProvider map[addr.Provider]*provider.Schemas
}

// NewSchemas returns schemas by provider. The map is not copied.
func NewSchemas(m map[addr.Provider]*provider.Schemas) *Schemas { return &Schemas{m} }

// Provider returns the schemas of a provider, or nil.
func (s *Schemas) Provider(p addr.Provider) *provider.Schemas { return s.byProvider[p] }

// All returns the schemas by provider. The map must not be modified.
func (s *Schemas) All() map[addr.Provider]*provider.Schemas { return s.byProvider }

// Resource returns the schema of a resource type, or nil if the provider does not have it.
func (s *Schemas) Resource(p addr.Provider, mode addr.Mode, typeName string) *schema.Schema {
	ps := s.byProvider[p]
	if ps == nil {
		return nil
	}
	var m map[string]schema.Schema
	switch mode {
	case addr.Managed:
		m = ps.Managed
	case addr.Data:
		m = ps.Data
	case addr.Ephemeral:
		m = ps.Ephemeral
	case addr.List:
		m = ps.Lists
	case addr.Action:
		m = ps.Actions
	}
	sc, ok := m[typeName]
	if !ok {
		return nil
	}
	return &sc
}

// Identity returns the identity schema of a managed resource type, or nil.
func (s *Schemas) Identity(p addr.Provider, typeName string) *schema.Identity {
	ps := s.byProvider[p]
	if ps == nil {
		return nil
	}
	id, ok := ps.Identities[typeName]
	if !ok {
		return nil
	}
	return &id
}

// Code is a configuration prepared for evaluation. The templates of each block are made at their first use, and
// shared by all module instances and by the phases of a run. Safe for concurrent use.
type Code struct {
	Tree    *config.Tree
	Schemas *Schemas
	imports map[addr.ConfigResource][]*config.Import // immutable

	mu        sync.Mutex // guards the maps below
	resources map[*config.Resource]*ResourceCode
	exprs     map[hcl.Expression]*eval.Expr
	bodies    map[hcl.Body]*eval.Template
	arguments map[*config.ModuleCall]hcl.Attributes
	metas     map[metaKey]metaValue
}

// NewCode returns the code of a configuration.
func NewCode(tree *config.Tree, schemas *Schemas) *Code {
	imports := map[addr.ConfigResource][]*config.Import{}
	for _, b := range tree.Root.Module.Imports {
		imports[b.StaticTo] = append(imports[b.StaticTo], b)
	}
	return &Code{
		Tree: tree, Schemas: schemas, imports: imports,
		resources: map[*config.Resource]*ResourceCode{},
		exprs:     map[hcl.Expression]*eval.Expr{},
		bodies:    map[hcl.Body]*eval.Template{},
		arguments: map[*config.ModuleCall]hcl.Attributes{},
		metas:     map[metaKey]metaValue{},
	}
}

// ResourceCode is a resource block prepared for evaluation.
type ResourceCode struct {
	Config *config.Resource
	// Schema and Body are nil if the provider does not have the type.
	Schema   *schema.Schema
	Identity *schema.Identity
	Body     *eval.Template
	// References are all references in the block.
	References []eval.Reference
	// deprecated says that the resource type, or a part of it, is deprecated.
	deprecated bool
	// Own are the references to the resource itself, except those of count, for_each and enabled: an addr.ResourceRef
	// for one instance, an addr.Resource for all.
	Own []addr.Named
	// expandsByItself says that count, for_each or enabled refers to the resource itself.
	expandsByItself bool
}

// Resource returns the code of a resource block.
func (c *Code) Resource(r *config.Resource) *ResourceCode {
	c.mu.Lock()
	defer c.mu.Unlock()
	if rc := c.resources[r]; rc != nil {
		return rc
	}
	rc := &ResourceCode{Config: r, Schema: c.Schemas.Resource(r.Source, r.Addr.Mode, r.Addr.Type)}
	if r.Addr.Mode == addr.Managed || r.Addr.Mode == addr.List {
		rc.Identity = c.Schemas.Identity(r.Source, r.Addr.Type)
	}
	if rc.Schema != nil {
		rc.deprecated = r.Addr.Mode != addr.List && r.Addr.Mode != addr.Action &&
			(rc.Schema.Block.Deprecated || rc.Schema.Block.ContainsDeprecated())
		prepare := eval.PrepareBody
		if r.Addr.Mode == addr.Action {
			prepare = eval.PrepareActionBody
		}
		rc.Body = prepare(r.Config, rc.Schema.Block)
	}
	itself := func(ref eval.Reference) bool { return refersTo(ref, r.Addr) }
	for _, e := range []hcl.Expression{r.Count, r.ForEach, r.Enabled} {
		refs := c.expr(e).References()
		rc.References = append(rc.References, refs...)
		rc.expandsByItself = rc.expandsByItself || slices.ContainsFunc(refs, itself)
	}
	expansion := len(rc.References)
	if rc.Body != nil {
		rc.References = append(rc.References, rc.Body.References()...)
	}
	for _, e := range []hcl.Expression{r.ProviderKeyExpr, r.PreventDestroy, r.IncludeResource, r.Limit} {
		rc.References = append(rc.References, c.expr(e).References()...)
	}
	for _, e := range r.TriggersReplace {
		rc.References = append(rc.References, triggerReferences(e)...)
	}
	rc.References = append(rc.References, c.rules(r.Preconditions)...)
	rc.References = append(rc.References, c.rules(r.Postconditions)...)
	for _, p := range r.Provisioners {
		if p.Destroy {
			continue // can refer only to self, count and each
		}
		rc.References = append(rc.References, bodyReferences(p.Config)...)
		rc.References = append(rc.References, bodyReferences(p.Connection)...)
	}
	rc.References = append(rc.References, bodyReferences(r.Connection)...)
	for _, ref := range rc.References[expansion:] {
		if itself(ref) {
			rc.Own = append(rc.Own, ref.Subject)
		}
	}
	c.resources[r] = rc
	return rc
}

// Value returns the block that describes the values of the instances; nil if it is unknown. The schema of a list block
// describes only its arguments.
func (rc *ResourceCode) Value() *schema.Block {
	switch {
	case rc.Schema == nil:
		return nil
	case rc.Config.Addr.Mode == addr.List:
		return listValue
	default:
		return rc.Schema.Block
	}
}

// SelfReferences reports the arguments that refer to the resource itself, whose address is a.
func (rc *ResourceCode) SelfReferences(a addr.ConfigResource) diag.List {
	if rc.Body == nil || len(rc.Own) == 0 { // nearly all
		return nil
	}
	var diags diag.List
	for _, ref := range rc.Body.References() {
		if refersTo(ref, rc.Config.Addr) {
			diags = diags.Append(diag.New(diag.Error, "Self-referential block",
				fmt.Sprintf("The configuration of %s refers to the resource itself, so its value could never be known.",
					a), ref.Range.Ptr()))
		}
	}
	return diags
}

func refersTo(ref eval.Reference, r addr.Resource) bool {
	if one, ok := ref.Subject.(addr.ResourceRef); ok {
		return one.Resource == r
	}
	return ref.Subject == r
}

func (c *Code) rules(rules []*config.CheckRule) []eval.Reference {
	var out []eval.Reference
	for _, r := range rules {
		out = append(out, c.expr(r.Condition).References()...)
		out = append(out, c.expr(r.ErrorMessage).References()...)
	}
	return out
}

// Expr returns the prepared form of an expression. That of a nil expression has no references.
func (c *Code) Expr(e hcl.Expression) *eval.Expr {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.expr(e)
}

func (c *Code) expr(e hcl.Expression) *eval.Expr {
	p := c.exprs[e]
	if p == nil {
		p = eval.PrepareExpr(e)
		c.exprs[e] = p
	}
	return p
}

// Body returns the prepared form of a body. The schema must be the same in each call for that body.
func (c *Code) Body(b hcl.Body, block *schema.Block) *eval.Template {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.bodies[b]
	if t == nil {
		t = eval.PrepareBody(b, block)
		c.bodies[b] = t
	}
	return t
}

// Arguments returns the arguments of a module block that set input variables.
func (c *Code) Arguments(call *config.ModuleCall) hcl.Attributes {
	c.mu.Lock()
	defer c.mu.Unlock()
	attrs, ok := c.arguments[call]
	if !ok {
		attrs, _ = call.Config.JustAttributes() // problems were reported when the configuration was loaded
		c.arguments[call] = attrs
	}
	return attrs
}

// References implements graph.ReferencesOf.
func (c *Code) References(n *graph.Node) []eval.Reference {
	switch n.Kind {
	case graph.VariableNode:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.rules(n.Variable.Validations)
	case graph.LocalNode:
		return c.Expr(n.Local.Expr).References()
	case graph.OutputNode:
		c.mu.Lock()
		defer c.mu.Unlock()
		return slices.Concat(c.expr(n.Output.Expr).References(), c.rules(n.Output.Preconditions))
	case graph.CallNode:
		var out []eval.Reference
		for _, e := range []hcl.Expression{n.Call.Count, n.Call.ForEach, n.Call.Enabled} {
			out = append(out, c.Expr(e).References()...)
		}
		return out
	case graph.ProviderNode:
		out := slices.Clone(c.Expr(n.Provider.ForEach).References())
		if ps := c.Schemas.Provider(n.ProviderAddr.Provider); ps != nil && ps.Provider.Block != nil &&
			n.Provider.Mock == nil {
			out = append(out, c.Body(n.Provider.Config, ps.Provider.Block).References()...)
		}
		return out
	case graph.ResourceNode:
		return c.Resource(n.Resource).References
	case graph.TriggerNode:
		return c.triggers(n.Resource)
	case graph.CheckNode:
		c.mu.Lock()
		defer c.mu.Unlock()
		out := c.rules(n.Check.Asserts)
		if n.Check.Data != nil {
			out = append(out, eval.Reference{Reference: &addr.Reference{Subject: n.Check.Data.Addr,
				Range: n.Check.Range}})
		}
		return out
	}
	return nil
}

// ArgumentReferences implements graph.ReferencesOf.
func (c *Code) ArgumentReferences(node *config.Node, variable string) []eval.Reference {
	attr := c.Arguments(node.Call)[variable]
	if attr == nil {
		return nil
	}
	return c.Expr(attr.Expr).References()
}

// DependsOn implements graph.ReferencesOf.
func (c *Code) DependsOn(n *graph.Node) []eval.Reference {
	switch n.Kind {
	case graph.ResourceNode:
		return traversalReferences(n.Resource.DependsOn)
	case graph.OutputNode:
		return traversalReferences(n.Output.DependsOn)
	}
	return nil
}

// Imports returns the import blocks for a resource.
func (c *Code) Imports(r addr.ConfigResource) []*config.Import { return c.imports[r] }

// ImportReferences implements graph.ReferencesOf.
func (c *Code) ImportReferences(n *graph.Node) []eval.Reference {
	var out []eval.Reference
	for _, b := range c.Imports(n.ConfigResource()) {
		for _, e := range []hcl.Expression{b.ID, b.Identity, b.ForEach} {
			out = append(out, c.Expr(e).References()...)
		}
		out = append(out, eval.ImportTargetReferences(b.To)...)
	}
	return out
}

// CallDependsOn implements graph.ReferencesOf.
func (c *Code) CallDependsOn(node *config.Node) []eval.Reference {
	return traversalReferences(node.Call.DependsOn)
}

func traversalReferences(list []hcl.Traversal) []eval.Reference {
	var out []eval.Reference
	for _, t := range list {
		if r, diags := addr.ParseReference(t); !diags.HasErrors() {
			out = append(out, eval.Reference{Reference: r})
		}
	}
	return out
}

// triggerReferences returns the references in a replace_triggered_by expression.
func triggerReferences(e hcl.Expression) []eval.Reference {
	refs, _ := eval.ExprReferences(e) // problems are reported when the expression is evaluated
	return refs
}

// bodyReferences returns the references in all attributes of a body without schema.
func bodyReferences(b hcl.Body) []eval.Reference {
	if b == nil {
		return nil
	}
	attrs, _ := b.JustAttributes() // ignores nested blocks; provisioners have none
	var out []eval.Reference
	for _, a := range attrs {
		refs, _ := eval.ExprReferences(a.Expr)
		out = append(out, refs...)
	}
	return out
}
