package operation

import (
	"context"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/instance"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/lang/funcs"
	"github.com/millipede-iac/millipede/lang/syntax"
	"github.com/millipede-iac/millipede/state"
)

// ConsoleSource is the file name in the source ranges of expressions that a Console evaluates.
const ConsoleSource = "<console-input>"

// Console evaluates expressions in the root module: with the variables, locals and outputs of the configuration,
// and with the objects in the state. Other values are unknown. It is not safe for concurrent use.
type Console struct {
	root *values.Module
}

// Console computes the values to which expressions may refer. prior is the stored state, which is not changed. If
// some values cannot be computed, they are unknown, and the console can still be used.
func (s *Session) Console(ctx context.Context, prior *state.State) (console *Console, diags diag.List) {
	defer caught(&diags)
	diags = s.Tree.Check().Append(s.interrupted("The console was not opened."))
	schemas, more := s.Schemas(ctx, prior)
	diags = diags.Append(more)
	if diags.HasErrors() {
		return nil, diags
	}
	code := values.NewCode(s.Tree, schemas)
	static := graph.Build(s.Tree, prior, code)
	order, acyclic := static.Graph.Order()
	if !acyclic {
		return nil, diags.Append(cycleDiags(static))
	}
	store := s.store(code, values.Evaluating, time.Time{})
	for _, v := range order {
		n := &static.Nodes[v]
		if n.Kind == graph.OrphanNode {
			continue
		}
		for _, m := range store.Instances(n.Module) {
			if more := s.interrupted("The console was not opened."); more.HasErrors() {
				return nil, diags.Append(more)
			}
			diags = diags.Append(evaluate(m, n, prior))
		}
	}
	return &Console{root: store.Root()}, diags
}

// evaluate computes the value of a vertex in one module instance.
func evaluate(m *values.Module, n *graph.Node, prior *state.State) diag.List {
	switch n.Kind {
	case graph.CheckNode:
		return nil
	case graph.ResourceNode:
		r := m.ResourceBlock(n.Resource.Addr)
		if stored := prior.Resources[r.Addr()]; stored != nil {
			return r.SetStored(stored)
		}
		return nil
	}
	diags := instance.Value(m, n)
	if n.Kind == graph.VariableNode && diags.HasErrors() {
		return diags
	}
	_, more := instance.Rules(m, n)
	return diags.Append(more)
}

// Answer is the value of an expression or, for a call of the console's function type(), a type.
type Answer struct {
	Value cty.Value
	// Type is cty.NilType unless the expression is a call of type(); then Value is empty.
	Type cty.Type
}

// Eval evaluates an expression. With errors among the problems there is no answer.
func (c *Console) Eval(text string) (Answer, diag.List) {
	expr, problems := syntax.ParseExpression([]byte(text), ConsoleSource, hcl.InitialPos)
	if problems.HasErrors() {
		return Answer{}, diag.List(nil).Append(problems)
	}
	value, diags := c.root.Scope.Expr(expr, cty.DynamicPseudoType, eval.Once, cty.NilVal)
	if diags.HasErrors() {
		return Answer{}, diags
	}
	ty, ok, err := funcs.TypeOf(value)
	switch {
	case err != nil:
		return Answer{}, diags.Append(diag.New(diag.Error, "Invalid use of type function", err.Error()+".", nil))
	case ok:
		return Answer{Type: ty}, diags
	default:
		return Answer{Value: value}, diags
	}
}
