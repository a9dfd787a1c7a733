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
	encoded, ok := v.configBlock(step, r, rep, cty.NilVal)
	if !ok || diags.HasErrors() {
		return
	}
	v.ask(step, n, r.Code.Config.Source, "list", n.Resource.Addr.Type, encoded)
	step.Task.Validate.IncludeObject, step.Task.Validate.Limit = options.IncludeObject, options.Limit
}

// configBlock evaluates the config block of a list or an action, and encodes it.
func (v *Validator) configBlock(step *program.Step, r *values.Resource, rep eval.Repetition, self cty.Value) ([]byte,
	bool) {
	value, diags := r.Bound().Eval(rep, self)
	for _, d := range diags {
		if d.Subject == nil {
			d.Subject = r.Code.Config.ConfigRange.Ptr()
		}
	}
	if step.Diags = step.Diags.Append(diags); diags.HasErrors() {
		return nil, false
	}
	bare, _ := value.UnmarkDeep()
	encoded, err := coding.EncodeValue(bare, r.Code.Schema.Block.ImpliedType())
	if err != nil {
		step.Diags = step.Diags.Append(diag.New(diag.Error, "Invalid configuration", err.Error(),
			r.Code.Config.ConfigRange.Ptr()))
		return nil, false
	}
	return encoded, true
}
