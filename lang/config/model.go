// Package config loads files into a static module tree; bodies and expressions stay unevaluated.
//
// It makes all checks that need the syntax alone. It does not use providers or states, and evaluates only the
// expressions that OpenTofu evaluates early (module sources, encryption, backends).
package config

import (
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

// Tree is a whole configuration: the root module and all modules that it calls.
type Tree struct {
	Root *Node
	// Modules contains the nodes by their static paths.
	Modules map[addr.Module]*Node
	// Tests are the test files of the root module, sorted by name, if they were requested.
	Tests []*TestFile

	overrides map[addr.ConfigResource]*ResourceOverride
}

// Override returns the values that a test sets for the objects of a resource, even if its block has been removed:
// the provider is not called for them. It is nil for a resource that is not overridden.
func (t *Tree) Override(r addr.ConfigResource) *ResourceOverride { return t.overrides[r] }

// Node is one module of the tree at one path. If the same source is called twice, the two nodes share one parsed
// Module.
type Node struct {
	Path     addr.Module
	Parent   *Node // nil for the root
	Call     *ModuleCall
	Module   *Module
	Children map[string]*Node
	// SourceDir is the directory of the module's files as shown to users (relative to the root module); it is also
	// the value of path.module.
	SourceDir string
	// Version is the version of a registry module, else empty.
	Version string
	// ProviderInstances are the for_each elements, by key, of the provider blocks that have for_each. As in
	// OpenTofu they are evaluated before planning, so they depend only on variables and locals.
	ProviderInstances map[addr.LocalProvider]map[string]cty.Value

	static    *Static
	indexing  sync.Once // makes providers
	providers map[providerKey]providerHome
}

// Remote reports whether the module, or one of its callers, comes from a registry or a package: it is not part of
// the user's own configuration.
func (n *Node) Remote() bool {
	for ; n.Parent != nil; n = n.Parent {
		if n.Call.parsed.Kind != LocalSource {
			return true
		}
	}
	return false
}

// Module is the parsed content of one directory. It is immutable after loading.
type Module struct {
	SourceDir string

	Engine     []EngineVersion // required_version constraints and where
	Backend    *Backend
	Cloud      *Backend // a cloud block
	Encryption hcl.Body // nil without an encryption block
	// EncryptionRange is the header of the encryption block.
	EncryptionRange hcl.Range

	// Required maps local names to providers: the entries of required_providers, with defaults for local names that
	// are only used.
	Required map[string]*RequiredProvider
	// Providers are the provider blocks by local name and alias.
	Providers map[addr.LocalProvider]*ProviderConfig
	Meta      map[addr.Provider]*ProviderMeta

	Variables map[string]*Variable
	Locals    map[string]*Local
	Outputs   map[string]*Output
	Calls     map[string]*ModuleCall

	// Resources holds managed, data and ephemeral resource blocks.
	Resources map[addr.Resource]*Resource
	Checks    map[string]*Check

	Moved   []*Moved
	Removed []*Removed
	Imports []*Import

	// Files are the source files of the module, in the order in which they were merged.
	Files []string

	// problems are those found when the module was loaded, without its callers.
	problems diag.List
	// storageProblems are the problems that are visible in one file, or that concern where the state is stored.
	storageProblems diag.List
}

// EngineVersion is one required_version or compatible_with argument.
type EngineVersion struct {
	Constraint string
	Range      hcl.Range
	// Enforced is true for .tofu files and language blocks; OpenTofu ignores the argument in .tf files.
	Enforced bool
}

// Backend is a backend (or cloud) block.
type Backend struct {
	Type  string
	Body  hcl.Body
	Range hcl.Range
	// TypeRange is the range of the type's label.
	TypeRange hcl.Range
	// OwnBlock is set for a cloud block, which has no label.
	OwnBlock bool
}

// RequiredProvider is one entry of required_providers, or one that is implied.
type RequiredProvider struct {
	Name   string
	Source addr.Provider
	// Constraints are version constraints as written; empty when there are none.
	Constraints      string
	ConstraintsRange hcl.Range
	Aliases          []addr.LocalProvider // configuration_aliases
	Range            hcl.Range
	// Implied is true if only the use of the name declares it.
	Implied bool
}

// ProviderConfig is a provider block.
type ProviderConfig struct {
	Name         string
	Alias        string
	AliasExpr    hcl.Expression
	Version      string // the deprecated version argument
	VersionRange hcl.Range
	ForEach      hcl.Expression
	Config       hcl.Body
	Range        hcl.Range
	NameRange    hcl.Range
	// Mock is set for a mock_provider block of a test: the provider is neither configured nor called.
	Mock *Mock
}

// Local returns the name and alias.
func (p *ProviderConfig) Local() addr.LocalProvider {
	return addr.LocalProvider{Name: p.Name, Alias: p.Alias}
}

// ProviderMeta is a provider_meta block.
type ProviderMeta struct {
	Provider addr.Provider
	Config   hcl.Body // constants only
	Range    hcl.Range
	// NameRange is the range of the provider's name.
	NameRange hcl.Range
}

// Variable is a variable block.
type Variable struct {
	Name           string
	Description    string
	DescriptionSet bool
	// ConstraintType is the declared type, with its optional() attributes, to which given values are converted.
	// Type is the same type without optional(): the type of the converted values. Both are cty.DynamicPseudoType if
	// no type is declared.
	ConstraintType cty.Type
	Type           cty.Type
	TypeDefaults   *TypeDefaults
	TypeSet        bool
	// ParseLiteral is true when values given as text are literal strings, false when they are expressions.
	ParseLiteral bool
	// Default is cty.NilVal for a required variable. It is converted to the type.
	Default      cty.Value
	Nullable     bool
	NullableSet  bool
	Sensitive    bool
	SensitiveSet bool
	Ephemeral    bool
	EphemeralSet bool
	Const        bool
	ConstSet     bool
	Deprecated   string // message; empty when not deprecated
	Validations  []*CheckRule
	Range        hcl.Range // the block's header
}

// Required reports whether a value must be given.
func (v *Variable) Required() bool { return v.Default == cty.NilVal }

// Local is one local value.
type Local struct {
	Name  string
	Expr  hcl.Expression
	Range hcl.Range
}

// Output is an output block.
type Output struct {
	Name          string
	Description   string
	Expr          hcl.Expression
	Sensitive     bool
	SensitiveSet  bool
	Ephemeral     bool
	EphemeralSet  bool
	Deprecated    string
	DependsOn     []hcl.Traversal
	Preconditions []*CheckRule
	Range         hcl.Range
}

// ModuleCall is a module block.
type ModuleCall struct {
	Name       string
	SourceExpr hcl.Expression
	// Source is the source address after early evaluation, as written by the user.
	Source                  string
	SourceRange             hcl.Range
	VersionExpr             hcl.Expression
	Version                 string // constraints
	VersionRange            hcl.Range
	Config                  hcl.Body // the remaining arguments: input variables
	Count, ForEach, Enabled hcl.Expression
	Providers               []PassedProvider
	DependsOn               []hcl.Traversal
	Range                   hcl.Range

	parsed ModuleSource
}

// PassedProvider is one entry of a module call's providers argument.
type PassedProvider struct {
	InChild  addr.LocalProvider
	InParent addr.LocalProvider
	// KeyExpr is the instance key expression of a parent configuration with for_each, else nil. It is evaluated in
	// the calling module, for the instance of the call.
	KeyExpr hcl.Expression
	Range   hcl.Range
	// InChildRange and InParentRange are the ranges of the names of the providers.
	InChildRange, InParentRange hcl.Range

	inChildKey hcl.Expression
}

// Resource is a resource, data, ephemeral or action block, or a list block of a query file.
type Resource struct {
	Addr                    addr.Resource
	Config                  hcl.Body // without the meta-arguments
	Count, ForEach, Enabled hcl.Expression

	// Provider is the local reference that selects the provider configuration; set even when implied.
	Provider        addr.LocalProvider
	ProviderSet     bool
	ProviderKeyExpr hcl.Expression // provider = aws.by_region[each.key]
	ProviderRange   hcl.Range      // the provider's name in the provider argument
	// Source is the provider to which Provider resolves in this module.
	Source addr.Provider

	DependsOn       []hcl.Traversal
	Preconditions   []*CheckRule
	Postconditions  []*CheckRule
	TriggersReplace []hcl.Expression

	CreateBeforeDestroy    bool
	CreateBeforeDestroySet bool
	// PreventDestroy is an expression (variables are allowed), Destroy a constant, which Destroys evaluates; nil if
	// not set.
	PreventDestroy hcl.Expression
	Destroy        hcl.Expression
	IgnoreChanges  []hcl.Traversal
	IgnoreAll      bool

	Provisioners []*Provisioner
	Connection   hcl.Body // the resource-level connection block

	// Check is the check block that contains this data block, else empty.
	Check string

	// Triggers are the action_trigger blocks of a managed resource.
	Triggers []*ActionTrigger

	// IncludeResource and Limit are arguments of a list block; nil if not set. ConfigRange is the config block of a list
	// or action block, or else the whole block.
	IncludeResource, Limit hcl.Expression
	ConfigRange            hcl.Range

	Range     hcl.Range
	TypeRange hcl.Range
}

// Provisioner is a provisioner block.
type Provisioner struct {
	Type       string
	Config     hcl.Body
	Connection hcl.Body
	// Destroy is true for when = destroy; Continue for on_failure = continue.
	Destroy  bool
	Continue bool
	Range    hcl.Range
}

// Check is a check block.
type Check struct {
	Name    string
	Data    *Resource // the nested data source, if any; it is in Module.Resources too
	Asserts []*CheckRule
	Range   hcl.Range
}

// CheckRule is a condition with a message: validation, precondition, postcondition or assert.
type CheckRule struct {
	Condition    hcl.Expression
	ErrorMessage hcl.Expression
	Range        hcl.Range
}

// Moved is a moved block; addresses are relative to the module that declares it.
type Moved struct {
	From, To *addr.MoveEndpoint
	Range    hcl.Range
}

// Removed is a removed block.
type Removed struct {
	From *addr.RemoveTarget
	// Destroy is false to forget the object (the default, with DestroySet false), true to destroy it.
	Destroy      bool
	DestroySet   bool
	Provisioners []*Provisioner
	Connection   hcl.Body
	Range        hcl.Range
}

// Import is an import block.
type Import struct {
	// To is the target expression: an address whose keys may be expressions when ForEach is set.
	To hcl.Expression
	// StaticTo is the resource of To, without keys.
	StaticTo addr.ConfigResource
	// ResolvedTo is the instance of To if its keys contain no expressions, else nil.
	ResolvedTo  *addr.Instance
	ID          hcl.Expression
	Identity    hcl.Expression
	ForEach     hcl.Expression
	Provider    addr.LocalProvider
	ProviderSet bool
	// ProviderKeyExpr is the instance key of a provider configuration with for_each.
	ProviderKeyExpr hcl.Expression
	ProviderRange   hcl.Range // the provider argument
	// Source is the provider that imports, as resolved in the module that contains the block.
	Source addr.Provider
	Range  hcl.Range
}

// TypeDefaults are the defaults of the optional() attributes of a type constraint.
type TypeDefaults = typeexpr.Defaults
