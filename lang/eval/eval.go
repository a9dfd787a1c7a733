// Package eval turns expressions into values: references, scopes, bodies, marks.
//
// Work that depends only on the source text is done once, by PrepareBody and PrepareExpr. Work that depends on one
// module instance is done once, by Bind. Only work that depends on count, each or self is done for each resource
// instance.
//
// The package gets the values of referenced objects from a Data. It does not know files, states, providers or the order
// of evaluation: the caller makes sure that the referenced values are available.
package eval

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
)

// Data provides the values of one module instance.
//
// Values carry their marks. The range is the position of the reference, for diagnostics. If the diagnostics contain
// errors, only the type of the value is used. Methods are called concurrently.
type Data interface {
	Variable(addr.Variable, hcl.Range) (cty.Value, diag.List)
	Local(addr.Local, hcl.Range) (cty.Value, diag.List)
	// Resource returns the complete resource: an object, a tuple (count), or an object by key (for_each); null if
	// enabled is false.
	Resource(addr.Resource, hcl.Range) (cty.Value, diag.List)
	// ResourceInstance returns one element of the result of Resource, without building the rest. ok is false if
	// there is no such element, the key has the wrong type, or the complete value is needed to decide; then
	// Resource is called.
	ResourceInstance(addr.Resource, addr.Key, hcl.Range) (v cty.Value, ok bool, diags diag.List)
	// Module returns the outputs of a call: an object, a tuple of objects (count), or an object of objects (for_each).
	Module(addr.ModuleCall, hcl.Range) (cty.Value, diag.List)
	// ModuleInstance is to Module what ResourceInstance is to Resource.
	ModuleInstance(addr.ModuleCall, addr.Key, hcl.Range) (v cty.Value, ok bool, diags diag.List)
	// Function returns a function that a provider defines.
	Function(ProviderFunction, hcl.Range) (function.Function, diag.List)
}

// TestData is also implemented by a Data for expressions that are prepared with PrepareTestExpr.
type TestData interface {
	Data
	Output(addr.Output, hcl.Range) (cty.Value, diag.List)
}

// Repetition has the values of count and each for one instance. A field is cty.NilVal if the object has no such
// value.
type Repetition struct {
	CountIndex cty.Value
	EachKey    cty.Value
	EachValue  cty.Value
}

// Once is the repetition of an object that does not repeat.
var Once = Repetition{}

// Options describe the scope of one module instance.
type Options struct {
	Data Data
	// Functions is the table of functions (see lang/funcs). It is shared, and not changed.
	Functions map[string]function.Function
	// Static, if set, is used at every Bind to check whether referenced objects are declared; see CheckReferences.
	// Without it such mistakes are reported by Data, or as an unsupported attribute.
	Static Static
	// CheckBlock is the name of the check block whose expressions are evaluated, or empty. Objects declared in a
	// check block can be referenced only there.
	CheckBlock string
	// Paths are the values of path.cwd, path.module and path.root, with slashes.
	Paths Paths
	// Workspace is the value of terraform.workspace.
	Workspace string
	// Applying is the value of terraform.applying.
	Applying bool
}

// Paths are the attributes of path.
type Paths struct{ Cwd, Module, Root string }

// Scope is the scope of the expressions of one module instance. It is immutable and safe for concurrent use.
type Scope struct {
	options Options
	// base has the functions and is the parent of all other contexts.
	base *hcl.EvalContext
}

// New returns a scope. options.Data must be set.
func New(options Options) *Scope {
	if options.Data == nil {
		panic("eval: a scope needs a Data")
	}
	functions := options.Functions
	if functions == nil {
		functions = map[string]function.Function{}
	}
	return &Scope{options: options, base: &hcl.EvalContext{Functions: functions}}
}

// Expr evaluates an expression without preparing it, for expressions that are evaluated once. See Expr.Eval.
func (s *Scope) Expr(expr hcl.Expression, want cty.Type, rep Repetition, self cty.Value) (cty.Value, diag.List) {
	return PrepareExpr(expr).Eval(s, want, rep, self)
}

// Body evaluates a body without preparing it, for bodies that are evaluated once. The dynamic blocks of the
// returned body are expanded; ConfigRange finds source ranges in it. See Template.Eval.
func (s *Scope) Body(body hcl.Body, block *schema.Block, rep Repetition, self cty.Value) (cty.Value,
	hcl.Body, diag.List) {
	bound := PrepareBody(body, block).Bind(s)
	v, diags := bound.Eval(rep, self)
	return v, bound.Expanded(rep, self), diags
}

// Spec returns the hcldec form of a block's schema. It is built once for each block and shared.
func Spec(block *schema.Block) hcldec.Spec { return shapeOf(block).spec }
