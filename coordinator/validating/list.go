package validating

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
)

// list evaluates a list block, and has its provider check it.
func (v *Validator) list(step *program.Step, n *graph.Node, r *values.Resource, rep eval.Repetition) {
	options, diags := r.ListOptions(rep)
	step.Diags = step.Diags.Append(diags)
	value, bodyDiags := r.Bound().Eval(rep, cty.NilVal)
	for _, d := range bodyDiags {
		if d.Subject == nil {
			d.Subject = r.Code.Config.ConfigRange.Ptr()
		}
	}
	if step.Diags = step.Diags.Append(bodyDiags); bodyDiags.HasErrors() || diags.HasErrors() {
		return
	}
	bare, _ := value.UnmarkDeep()
	encoded, err := coding.EncodeValue(bare, r.Code.Schema.Block.ImpliedType())
	if err != nil {
		step.Diags = step.Diags.Append(diag.New(diag.Error, "Invalid configuration", err.Error(),
			r.Code.Config.ConfigRange.Ptr()))
		return
	}
	v.ask(step, n, r.Code.Config.Source, "list", n.Resource.Addr.Type, encoded)
	step.Task.Validate.IncludeObject, step.Task.Validate.Limit = options.IncludeObject, options.Limit
}
