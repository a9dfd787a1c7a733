package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	goversion "github.com/hashicorp/go-version"
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/internal/reach"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/funcs"
)

// TreeOptions are the options of LoadTree.
type TreeOptions struct {
	// Dir is the directory of the root module; empty is the working directory.
	Dir string
	// Variable returns the value given to a variable of the root module; cty.NilVal if none is given. It is called
	// only for variables that are needed before planning. If nil, variables have their defaults.
	Variable func(*Variable) (cty.Value, diag.List)
	// Workspace is terraform.workspace; empty is "default".
	Workspace string
	// Locator finds the called modules: the manifest of installed modules, or an installer.
	Locator Locator
	// StorageOnly leaves out problems that are caused by several blocks together, such as two resources of one
	// name, unless they concern where the state is stored: for commands that use only that part of the
	// configuration.
	StorageOnly bool
	// TestDir is the directory of test files, besides those in Dir; empty loads none.
	TestDir string
	// Queries loads the query files of the root module, too.
	Queries bool
	// RunsOnly is set if the root module is used only by the runs of the test files. Without runs, it is not
	// checked whether import blocks and their targets select the same providers.
	RunsOnly bool
	// Base is the absolute directory to which relative paths in the configuration refer, and the value of path.cwd
	// before planning. Env is the environment of the operation.
	Base string
	Env  environ.Variables
	// Files are the files that expressions may read; nil is all of them.
	Files *reach.Files
}

// Locator finds the modules that a module calls.
type Locator interface {
	// Locate returns the location of the module. An empty Dir leaves the module out of the tree.
	Locate(ModuleRequest) (Installed, diag.List)
}

// ModuleRequest is the request for the module of one call.
type ModuleRequest struct {
	// Path is the path of the module in the tree.
	Path   addr.Module
	Parent *Node
	Call   *ModuleCall
	// Source is the parsed source of the call; its Kind is 0 if the source is invalid or missing.
	Source ModuleSource
}

// Accepts reports whether the call accepts this version of the module ("" for none).
func (r ModuleRequest) Accepts(version string) bool {
	constraints, err := goversion.NewConstraint(r.Call.Version)
	if r.Call.Version == "" || err != nil { // an invalid constraint is reported where it is decoded
		return true
	}
	v, err := goversion.NewVersion(version)
	return err == nil && constraints.Check(v)
}

// maxDepth bounds the depth of the tree, for modules that call themselves.
const maxDepth = 250

// LoadTree loads the root module and all modules that it calls, and makes the checks that need no providers, state or
// values. The tree is as complete as the problems allow; its Root is nil only if the directory cannot be read.
func (l *Loader) LoadTree(o TreeOptions) (*Tree, diag.List) {
	if o.Dir == "" {
		o.Dir = "."
	}
	if o.Workspace == "" {
		o.Workspace = "default"
	}
	if o.Variable == nil {
		o.Variable = defaultsOnly
	}
	b := &treeBuilder{loader: l, options: o, modules: map[string]*Module{},
		tree: &Tree{Modules: map[addr.Module]*Node{}}}
	b.functions = sync.OnceValue(func() map[string]function.Function {
		return funcs.Table(funcs.Options{BaseDir: o.Base, Env: o.Env, Files: o.Files})
	})
	diags := b.load(Installed{Dir: o.Dir})
	whole := !diags.HasErrors() && !o.StorageOnly
	if o.TestDir == "" || b.tree.Root == nil {
		if whole {
			diags = append(diags, checkImports(b.tree)...)
		}
		return b.tree, diags
	}
	more := b.loadTests()
	if whole && (!o.RunsOnly || b.tree.hasRuns()) {
		diags = append(diags, checkImports(b.tree)...)
	}
	diags = append(diags, more...)
	if !more.HasErrors() {
		diags = append(diags, checkTestProviders(b.tree)...)
	}
	return b.tree, diags
}

// load loads the root module and all modules that it calls.
func (b *treeBuilder) load(at Installed) diag.List {
	root, diags := b.node(ModuleRequest{}, at)
	b.tree.Root = root
	if diags.HasErrors() || b.options.StorageOnly {
		return diags
	}
	more := b.children(root)
	diags = append(diags, more...)
	if !more.HasErrors() {
		diags = append(diags, checkProviders(b.tree)...)
	}
	return diags
}

// defaultsOnly returns no value for any variable.
func defaultsOnly(v *Variable) (cty.Value, diag.List) {
	if v.Required() {
		return cty.DynamicVal, diag.Errors("No value for required variable",
			fmt.Sprintf("The root module input variable %q is not set, and has no default value.", v.Name), &v.Range)
	}
	return cty.NilVal, nil
}

type treeBuilder struct {
	loader  *Loader
	options TreeOptions
	modules map[string]*Module // by directory
	// functions returns the function table of static expressions. It does not depend on a plan.
	functions func() map[string]function.Function
	tree      *Tree
}

// node loads one module of the tree, without its children.
func (b *treeBuilder) node(r ModuleRequest, at Installed) (*Node, diag.List) {
	m := b.modules[at.Dir]
	if m == nil {
		var diags diag.List
		if m, diags = b.loader.loadModule(at.Dir, b.options.Queries && r.Parent == nil); m == nil {
			return nil, diags
		}
		b.modules[at.Dir] = m
	}
	diags := slices.Clone(m.problems)
	n := &Node{
		Path: r.Path, Parent: r.Parent, Call: r.Call, Module: m,
		Children: map[string]*Node{}, SourceDir: at.Dir, Version: at.Version,
	}
	n.static = &Static{module: m, path: r.Path, rootDir: b.options.Dir, workspace: b.options.Workspace,
		variable: b.options.Variable,
		cwd:      b.options.Base, functions: b.functions}
	if n.Parent != nil {
		n.static.variable = n.Parent.argumentsOf(r.Call)
	}
	b.tree.Modules[n.Path] = n
	if b.options.StorageOnly {
		return n, slices.Clone(m.storageProblems)
	}
	diags = append(diags, n.evaluateCalls()...)
	diags = append(diags, n.evaluateProviders()...)
	diags = append(diags, n.evaluateConstants()...)
	return n, onlyIncompatible(diags)
}

// Static returns the evaluator for values that are needed before planning.
func (n *Node) Static() *Static { return n.static }

// argumentsOf returns the function that provides the values of a called module's variables.
func (n *Node) argumentsOf(call *ModuleCall) func(*Variable) (cty.Value, diag.List) {
	attrs, _ := call.Config.JustAttributes() // blocks are reported when the module block is evaluated
	return func(v *Variable) (cty.Value, diag.List) {
		attr, ok := attrs[v.Name]
		switch {
		case ok:
			return n.static.Value(attr.Expr, StaticUse{"module." + call.Name + "." + v.Name, attr.Range})
		case v.Required():
			return cty.DynamicVal, diag.Errors("Missing required variable in module call",
				fmt.Sprintf("The module block does not set %q.", v.Name), call.Config.MissingItemRange().Ptr())
		default:
			return cty.NilVal, nil
		}
	}
}

// evaluateCalls evaluates the sources and versions of the modules that this one calls. If they depend on variables,
// the node gets its own copy of the module, which is otherwise shared by all nodes with the same files.
func (n *Node) evaluateCalls() diag.List {
	var diags diag.List
	shared := true
	for _, name := range slices.Sorted(maps.Keys(n.Module.Calls)) {
		call := n.Module.Calls[name]
		if !isConstant(call.SourceExpr) || !isConstant(call.VersionExpr) {
			if shared {
				own := *n.Module
				own.Calls = maps.Clone(own.Calls)
				n.Module, n.static.module, shared = &own, &own, false
			}
			own := *call
			call = &own
			n.Module.Calls[name] = call
		}
		diags = append(diags, n.evaluateCall(call)...)
	}
	return diags
}

func isConstant(e hcl.Expression) bool { return e == nil || len(e.Variables()) == 0 }

func (n *Node) evaluateCall(call *ModuleCall) diag.List {
	d := &decoder{}
	hasVersion := false
	if call.VersionExpr != nil {
		hasVersion = true
		v, more := n.static.Value(call.VersionExpr, StaticUse{"module." + call.Name + ".version", call.VersionRange})
		d.diags = append(d.diags, more...)
		if !more.HasErrors() {
			unmarked, _ := v.Unmark()
			hasVersion = !unmarked.IsNull()
			if c, ok := d.versionValue(&hcl.Attribute{Name: "version", Expr: call.VersionExpr,
				Range: call.VersionRange}, v); ok {
				call.Version = c.String()
			}
		}
	}
	if call.SourceExpr == nil {
		return d.diags
	}
	text, more := n.static.Text(call.SourceExpr, StaticUse{"module." + call.Name + ".source", call.SourceRange})
	d.diags = append(d.diags, more...)
	if more.HasErrors() {
		return d.diags
	}
	call.Source = text
	source, err := ParseModuleSource(text, hasVersion)
	switch {
	case err == nil:
		call.parsed = source
	case hasVersion:
		d.err(call.SourceRange, "Invalid registry module source address",
			"%s.\n\nThis has to be the address of a module in a registry, because a version is given, and only "+
				"modules of registries have versions.", err)
	case errors.Is(err, errMaybeLocal):
		d.err(call.SourceRange, "Invalid module source address",
			"It is not clear how to install %q.\n\nIf it is a directory, write \"./%s\": a path relative to the "+
				"module starts with ./ or ../.", text, text)
	default:
		d.err(call.SourceRange, "Invalid module source address", "This is not a module address: %s.", err)
	}
	return d.diags
}

// evaluateProviders evaluates for_each of the provider blocks.
func (n *Node) evaluateProviders() diag.List {
	var diags diag.List
	for _, p := range n.Module.sortedProviders() {
		if p.ForEach == nil {
			continue
		}
		instances, more := n.static.ForEach(p.ForEach, StaticUse{"provider." + p.Local().String() + ".for_each",
			p.ForEach.Range()})
		diags = append(diags, more...)
		if more.HasErrors() {
			continue
		}
		if n.ProviderInstances == nil {
			n.ProviderInstances = map[addr.LocalProvider]map[string]cty.Value{}
		}
		n.ProviderInstances[p.Local()] = instances
	}
	return diags
}

// evaluateConstants checks that variables with const = true get a value that is known before planning.
func (n *Node) evaluateConstants() diag.List {
	use := StaticUse{Subject: "the configuration"}
	if n.Call != nil {
		use = StaticUse{"module." + n.Call.Name, n.Call.Range}
	}
	var diags diag.List
	for _, name := range slices.Sorted(maps.Keys(n.Module.Variables)) {
		if v := n.Module.Variables[name]; v.Const {
			ref := &addr.Reference{Subject: addr.Variable{Name: name}, Range: v.Range}
			_, more := n.static.named(ref, []StaticUse{use})
			diags = append(diags, more...)
		}
	}
	return diags
}

// children loads the modules that the node calls, recursively.
func (b *treeBuilder) children(n *Node) diag.List {
	var diags diag.List
	for _, name := range slices.Sorted(maps.Keys(n.Module.Calls)) {
		diags = append(diags, b.child(n, n.Module.Calls[name])...)
	}
	return diags
}

func (b *treeBuilder) child(parent *Node, call *ModuleCall) diag.List {
	path := parent.Path.Child(call.Name)
	if !addr.ValidIdentifier(call.Name) || call.parsed.Kind == 0 {
		return nil // reported where the call was decoded
	}
	if len(path.Path()) > maxDepth {
		return diag.Errors("Modules are nested too deeply", fmt.Sprintf(
			"There are more than %d calls within each other here, so it seems that a module calls itself.", maxDepth),
			&call.Range)
	}
	r := ModuleRequest{Path: path, Parent: parent, Call: call, Source: call.parsed}
	at, diags := b.options.Locator.Locate(r)
	if at.Dir == "" {
		return diags
	}
	n, more := b.node(r, at)
	if n == nil {
		return append(diags, notInstalled("Module not installed",
			fmt.Sprintf("The directory %s of this module cannot be read.", at.Dir), &call.Range))
	}
	parent.Children[call.Name] = n
	diags = append(diags, more...)
	diags = append(diags, b.children(n)...)
	if backend := n.Module.Backend; backend != nil {
		diags = append(diags, ignoredBackend(backend))
	}
	if len(n.Module.Imports) > 0 {
		diags = append(diags, misplacedImport(n.Module.Imports[0], n.Path.String()))
	}
	return diags
}

func ignoredBackend(b *Backend) *diag.Diagnostic {
	return diag.New(diag.Warning, "Backend configuration ignored",
		"Only the root module configures the storage of the state. This block has no effect while the module is called "+
			"by another.", &b.Range)
}

func misplacedImport(i *Import, module string) *diag.Diagnostic {
	return diag.New(diag.Error, "Invalid import configuration",
		fmt.Sprintf("Import blocks stand in the root module, and this one is in %s.", module), &i.Range)
}

// sortedProviders returns the provider blocks, sorted by name.
func (m *Module) sortedProviders() []*ProviderConfig {
	out := slices.Collect(maps.Values(m.Providers))
	slices.SortFunc(out, func(a, b *ProviderConfig) int { return compareLocal(a.Local(), b.Local()) })
	return out
}
