// Package eval turns expressions into values: references, scopes, bodies, marks.
//
// Work that depends on the source text alone is done once, by PrepareBody and PrepareExpr. What depends on one module
// instance is done once, by Bind. What is left for each resource instance is what depends on count, each or self.
//
// The package asks a Data for the values of what expressions refer to. It does not know files, states, providers or
// the order in which things become known: whoever calls it makes sure that the value of what is referred to is there.
package eval

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/schema"
)

// Data answers with the values of one module instance.
//
// Values carry their marks. The range is where the reference stands, for diagnostics. When the diagnostics hold errors
// the value only serves for its type. Methods are called by several goroutines at once.
type Data interface {
	Variable(addr.Variable, hcl.Range) (cty.Value, diag.List)
	Local(addr.Local, hcl.Range) (cty.Value, diag.List)
	// Resource returns the whole resource: an object, a tuple (count), or an object by key (for_each); null where
	// enabled is false.
	Resource(addr.Resource, hcl.Range) (cty.Value, diag.List)
	// ResourceInstance returns one element of what Resource returns, without building the rest. ok is false when there
	// is no such element, when the key is of the wrong kind, or when only the whole can tell; Resource is asked then.
	ResourceInstance(addr.Resource, addr.Key, hcl.Range) (v cty.Value, ok bool, diags diag.List)
	// Module returns the outputs of a call: an object, a tuple of objects (count), or an object of objects (for_each).
	Module(addr.ModuleCall, hcl.Range) (cty.Value, diag.List)
	// ModuleInstance is to Module what ResourceInstance is to Resource.
	ModuleInstance(addr.ModuleCall, addr.Key, hcl.Range) (v cty.Value, ok bool, diags diag.List)
	// Function returns a function that a provider defines.
	Function(ProviderFunction, hcl.Range) (function.Function, diag.List)
}

// TestData is what a Data implements, too, when expressions are prepared with PrepareTestExpr.
type TestData interface {
	Data
	Output(addr.Output, hcl.Range) (cty.Value, diag.List)
}

// Repetition is what count and each mean for one instance. A field is cty.NilVal where the object has no such thing.
type Repetition struct {
	CountIndex cty.Value
	EachKey    cty.Value
	EachValue  cty.Value
}

// Once is the repetition of what does not repeat.
var Once = Repetition{}

// Options describe the scope of one module instance.
type Options struct {
	Data Data
	// Functions is the table of functions (see lang/funcs). It is shared, and not changed.
	Functions map[string]function.Function
	// Static, when set, is asked at every Bind whether what is referred to is declared; see CheckReferences. Without it
	// such mistakes are reported by Data, or as an unsupported attribute.
	Static Static
	// CheckBlock is the name of the check block whose expressions are evaluated, or empty. What is declared inside of
	// a check block can be referred to only there.
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

// Scope is where the expressions of one module instance are evaluated. It is immutable and safe for concurrent use.
type Scope struct {
	options Options
	// base holds the functions and is the parent of every other context.
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

// Expr evaluates an expression that is not worth preparing, because it is evaluated once. See Expr.Eval.
func (s *Scope) Expr(expr hcl.Expression, want cty.Type, rep Repetition, self cty.Value) (cty.Value, diag.List) {
	return PrepareExpr(expr).Eval(s, want, rep, self)
}

// Body evaluates a body that is not worth preparing, because it is evaluated once. The body that it returns has its
// dynamic blocks expanded; ConfigRange finds source ranges in it. See Template.Eval.
func (s *Scope) Body(body hcl.Body, block *schema.Block, rep Repetition, self cty.Value) (cty.Value,
	hcl.Body, diag.List) {
	bound := PrepareBody(body, block).Bind(s)
	v, diags := bound.Eval(rep, self)
	return v, bound.Expanded(rep, self), diags
}

// Spec returns the hcldec form of a block's schema. It is built once for each block and shared.
func Spec(block *schema.Block) hcldec.Spec { return shapeOf(block).spec }
