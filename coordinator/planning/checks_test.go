package planning_test

import (
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/state"
)

// The validation of a variable whose value is wrong counted as passed.
func TestNothingIsKnownAboutTheValidationOfAWrongValue(t *testing.T) {
	e := newStage(t)
	e.configure("variable \"v\" {\n type = number\n validation {\n condition = var.v > 0\n error_message = " +
		"\"e\"\n }\n}\n")
	e.inputs = map[string]values.Input{"v": {Value: cty.StringVal("x")}}
	p, diags := e.tryPlan(plan.Options{})
	if !diags.HasErrors() {
		t.Fatal("the value is accepted")
	}
	if c := p.Checks; len(c) != 1 || c[0].Config != "var.v" || c[0].Status != state.CheckUnknown || len(c[0].Objects) > 0 {
		t.Errorf("the checks are %+v", c)
	}
}
