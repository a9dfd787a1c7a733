package values

import (
	"sync"
	"sync/atomic"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/state"
)

// Phase determines the form of values that are not known.
type Phase byte

const (
	// Validating: only the configuration is known.
	Validating Phase = iota
	// Planning: objects that do not exist yet are unknown.
	Planning
	// Applying: all values become known.
	Applying
	// Evaluating: nothing is changed; the objects in the state have values (see Resource.SetStored), everything
	// else is unknown.
	Evaluating
)

// Input is the given value of a root variable.
type Input struct {
	// Value is cty.NilVal if none was given.
	Value cty.Value
	// Range is the place of the value in a file, nil if it is not from a file; Source describes the other
	// origin.
	Range  *hcl.Range
	Source string
}

// InputOf returns the input for a value that was given to the command.
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
	// Cwd is path.cwd; WorkDir is the absolute working directory of plugins, empty for that of their workers.
	Cwd, WorkDir string
	Workspace    string
	// Lenient turns failed conditions of resources and outputs into warnings, for operations that do not create
	// anything.
	Lenient bool
	// Defers lets count, for_each and enabled be unknown in planning, and lets providers put off what they are asked.
	// Set before the first value is computed.
	Defers bool
	// ProviderFunction returns a callable function of a provider. It may be nil if functions cannot be called.
	ProviderFunction func(p addr.Provider, name string, signature provider.Function) function.Function
}

// Store holds the values of one phase of one run. Safe for concurrent use.
type Store struct {
	Options
	root *Module

	mu      sync.RWMutex // guards modules and presets
	modules map[addr.ModuleInstance]*Module
	// presets set the values of resource instances whose modules are not expanded yet.
	presets map[addr.AbsResource][]func(*Resource)

	instances atomic.Int64 // of all expansions so far

	provMu    sync.Mutex // guards providers
	providers map[addr.ProviderInstance]*providerCell
}

// NewStore returns a store without computed values.
func NewStore(o Options) *Store {
	s := &Store{Options: o, modules: map[addr.ModuleInstance]*Module{},
		presets: map[addr.AbsResource][]func(*Resource){}, providers: map[addr.ProviderInstance]*providerCell{}}
	s.root = s.newModule(nil, o.Code.Tree.Root, addr.RootInstance, eval.Once)
	return s
}

// Preset sets the value of a resource instance without expanding anything: the repetition of its module may
// depend on values that are not final yet, and an expansion is computed only once. It ignores instances without
// a block.
func (s *Store) Preset(a addr.Instance, v cty.Value) {
	s.preset(a, func(r *Resource) { r.Set(a.Key, v) })
}

// PresetStored is Preset for the value of a stored object, which is decoded at its first use; see Resource.Keep.
func (s *Store) PresetStored(a addr.Instance, o *state.Object) {
	s.preset(a, func(r *Resource) {
		if r.Code.Schema != nil {
			r.Keep(a.Key, o)
		}
	})
}

func (s *Store) preset(a addr.Instance, set func(*Resource)) {
	s.mu.Lock()
	m := s.modules[a.Module]
	if m == nil {
		s.presets[a.Abs()] = append(s.presets[a.Abs()], set)
	}
	s.mu.Unlock()
	if m == nil {
		return
	}
	if r := m.ResourceBlock(a.Resource); r != nil {
		set(r)
	}
}

// Root returns the instance of the root module.
func (s *Store) Root() *Module { return s.root }

// Module returns a module instance, or nil if no expansion has it.
func (s *Store) Module(m addr.ModuleInstance) *Module {
	s.mu.RLock()
	found := s.modules[m]
	s.mu.RUnlock()
	if found != nil || m.IsRoot() {
		return found
	}
	// The calls on the path may not have been expanded yet in this phase.
	parentAddr, step := m.Parent()
	parent := s.Module(parentAddr)
	if parent == nil || parent.calls[step.Name] == nil {
		return nil
	}
	return parent.Call(step.Name).children[step.Key]
}

// Gone returns an instance of a module that the configuration still calls, but no longer with this key; nil if it does
// not call the module. The instance only has the paths of its module: destroy-time provisioners need no more.
func (s *Store) Gone(m addr.ModuleInstance) *Module {
	node := s.Code.Tree.Modules[m.Module()]
	if node == nil {
		return nil
	}
	gone := &Module{Addr: m, Node: node, store: s}
	gone.Scope = eval.New(s.scopeOptions(gone, ""))
	return gone
}

// Instances returns the instances of a static module, sorted by their keys. It expands every call on the path.
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

// cell is a value that is computed once, at its first use.
type cell struct {
	once  sync.Once
	value cty.Value
	diags diag.List
}

// get returns the value, and computes it at the first call. The value is unknown if computing it failed.
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
	// Repetition has the values of count and each in the arguments of the call that made the instance.
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
		for _, set := range s.presets[r.Addr()] {
			set(r)
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

// CheckScope returns the scope for the expressions of a check block.
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

// Call returns a module call, expanded. The values to which count and for_each refer must be available.
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
