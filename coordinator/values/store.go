package values

import (
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/provider"
)

// Phase tells what unknown things look like.
type Phase byte

const (
	// Validating: nothing is known that the configuration does not say.
	Validating Phase = iota
	// Planning: what does not exist yet is unknown.
	Planning
	// Applying: everything becomes known.
	Applying
	// Evaluating: nothing is done; what exists is what the state says (see Resource.SetStored), all else is unknown.
	Evaluating
)

// Input is the value of a root variable as given.
type Input struct {
	// Value is cty.NilVal when none was given.
	Value cty.Value
	// Range is where the value stands in a file, nil when it came another way; Source names that way in words.
	Range  *hcl.Range
	Source string
}

// InputOf is a value that was given to the command for a root variable.
func InputOf(name string, given config.VariableValue) Input {
	in := Input{Value: given.Value}
	switch given.Source {
	case config.FromEnv:
		in.Source = "the TF_VAR_" + name + " environment variable"
	case config.FromArgument:
		in.Source = `-var="` + name + `=..."`
	case config.FromPrompt:
		in.Source = "interactive input"
	}
	if given.Range.Filename != "" {
		in.Range = given.Range.Ptr()
	}
	return in
}

// Options describe the run whose values a Store holds.
type Options struct {
	Code  *Code
	Phase Phase
	// Inputs are the root variables by name.
	Inputs map[string]Input
	// Functions is the table of functions of this phase.
	Functions map[string]function.Function
	// Cwd is path.cwd; WorkDir is where plugins run, absolute, or empty for where their workers do.
	Cwd, WorkDir string
	Workspace    string
	// Lenient makes failed conditions of resources and outputs warnings: where nothing is going to be made, they stop
	// nothing.
	Lenient bool
	// ProviderFunction returns a callable function of a provider. May be nil where none can be called.
	ProviderFunction func(p addr.Provider, name string, signature provider.Function) function.Function
}

// Store holds the values of one phase of one run. Safe for concurrent use.
type Store struct {
	Options
	root *Module

	mu      sync.RWMutex // guards modules and presets
	modules map[addr.ModuleInstance]*Module
	// presets are values of resource instances whose modules are not there yet.
	presets map[addr.AbsResource]map[addr.Key]cty.Value

	provMu    sync.Mutex // guards providers
	providers map[addr.ProviderInstance]*providerCell
}

// NewStore returns a store in which nothing is computed yet.
func NewStore(o Options) *Store {
	s := &Store{Options: o, modules: map[addr.ModuleInstance]*Module{},
		presets: map[addr.AbsResource]map[addr.Key]cty.Value{}, providers: map[addr.ProviderInstance]*providerCell{}}
	s.root = s.newModule(nil, o.Code.Tree.Root, addr.RootInstance, eval.Once)
	return s
}

// Preset makes the value of a resource instance known without expanding anything: what repeats its module may depend on
// values that are not final yet, and an expansion is never computed again. Instances without a block are passed over.
func (s *Store) Preset(a addr.Instance, v cty.Value) {
	s.mu.Lock()
	m := s.modules[a.Module]
	if m == nil {
		abs := a.Abs()
		if s.presets[abs] == nil {
			s.presets[abs] = map[addr.Key]cty.Value{}
		}
		s.presets[abs][a.Key] = v
	}
	s.mu.Unlock()
	if m == nil {
		return
	}
	if r := m.ResourceBlock(a.Resource); r != nil {
		r.Set(a.Key, v)
	}
}

// Root returns the root module's instance.
func (s *Store) Root() *Module { return s.root }

// Module returns a module instance, or nil when no expansion made it.
func (s *Store) Module(m addr.ModuleInstance) *Module {
	s.mu.RLock()
	found := s.modules[m]
	s.mu.RUnlock()
	if found != nil || m.IsRoot() {
		return found
	}
	// The calls on the way may not have been expanded yet in this phase.
	parentAddr, step := m.Parent()
	parent := s.Module(parentAddr)
	if parent == nil || parent.calls[step.Name] == nil {
		return nil
	}
	return parent.Call(step.Name).children[step.Key]
}

// Instances returns the instances of a static module, in the order of their keys; every call on the way is
// expanded.
func (s *Store) Instances(m addr.Module) []*Module {
	out := []*Module{s.root}
	for _, name := range m.Path() {
		var next []*Module
		for _, parent := range out {
			c := parent.Call(name)
			for _, k := range c.Expansion.Keys {
				next = append(next, c.children[k])
			}
		}
		out = next
	}
	return out
}

// cell is a value that is computed once, by whoever asks first.
type cell struct {
	once  sync.Once
	value cty.Value
	diags diag.List
}

// get computes the cell if nobody has, and returns its value: unknown when computing it failed.
func (c *cell) get(compute func() (cty.Value, diag.List)) cty.Value {
	c.once.Do(func() {
		c.value, c.diags = compute()
		if c.diags.HasErrors() || c.value == cty.NilVal {
			c.value = cty.DynamicVal
		}
	})
	return c.value
}

// Module is one module instance.
type Module struct {
	Addr addr.ModuleInstance
	Node *config.Node
	// Repetition is what count and each mean in the arguments of the call that made the instance.
	Repetition eval.Repetition
	Scope      *eval.Scope

	store     *Store
	parent    *Module
	variables map[string]*cell
	locals    map[string]*cell
	outputs   map[string]*outputCell
	calls     map[string]*Call
	resources map[addr.Resource]*Resource
}

func (s *Store) newModule(parent *Module, node *config.Node, at addr.ModuleInstance, rep eval.Repetition) *Module {
	m := &Module{
		Addr: at, Node: node, Repetition: rep, store: s, parent: parent,
		variables: make(map[string]*cell, len(node.Module.Variables)),
		locals:    make(map[string]*cell, len(node.Module.Locals)),
		outputs:   make(map[string]*outputCell, len(node.Module.Outputs)),
		calls:     make(map[string]*Call, len(node.Module.Calls)),
		resources: make(map[addr.Resource]*Resource, len(node.Module.Resources)),
	}
	for name := range node.Module.Variables {
		m.variables[name] = &cell{}
	}
	for name := range node.Module.Locals {
		m.locals[name] = &cell{}
	}
	for name := range node.Module.Outputs {
		m.outputs[name] = &outputCell{}
	}
	for name := range node.Module.Calls {
		m.calls[name] = &Call{module: m, config: node.Module.Calls[name]}
	}
	for r, rc := range node.Module.Resources {
		m.resources[r] = &Resource{module: m, Code: s.Code.Resource(rc)}
	}
	m.Scope = eval.New(s.scopeOptions(m, ""))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range m.resources {
		for k, v := range s.presets[r.Addr()] {
			r.Set(k, v)
		}
	}
	s.modules[at] = m
	return m
}

func (s *Store) scopeOptions(m *Module, check string) eval.Options {
	return eval.Options{
		Data: m, Functions: s.Functions, Static: static{m.Node, s.Code}, CheckBlock: check,
		Paths:     eval.Paths{Cwd: s.Cwd, Module: slashed(m.Node.SourceDir), Root: slashed(s.Code.Tree.Root.SourceDir)},
		Workspace: s.Workspace, Applying: s.Phase == Applying,
	}
}

// CheckScope returns the scope in which the expressions of a check block are evaluated.
func (m *Module) CheckScope(name string) *eval.Scope {
	return eval.New(m.store.scopeOptions(m, name))
}

// Call is a module call in one instance of the calling module.
type Call struct {
	module *Module
	config *config.ModuleCall

	once      sync.Once
	Expansion Expansion
	Diags     diag.List
	children  map[addr.Key]*Module
}

// Call returns the expansion of a module call. What count and for_each refer to must be there.
func (m *Module) Call(name string) *Call {
	c := m.calls[name]
	c.once.Do(func() {
		c.Expansion, c.Diags = m.expand(c.config.Count, c.config.ForEach, c.config.Enabled,
			m.Addr.Child(name, addr.NoKey).String())
		c.children = make(map[addr.Key]*Module, len(c.Expansion.Keys))
		node := m.Node.Children[name]
		for _, k := range c.Expansion.Keys {
			at := m.Addr.Child(name, k)
			if k == addr.WildcardKey {
				at = m.Addr.Child(name, addr.NoKey)
			}
			c.children[k] = m.store.newModule(m, node, at, c.Expansion.Repetition(k))
		}
	})
	return c
}
