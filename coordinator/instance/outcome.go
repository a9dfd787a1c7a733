package instance

import (
	"slices"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

// Outcome is what the rules of one object came to, as plans and states record it.
type Outcome struct {
	// Kind is what has the rules: resource, output_value, input_variable or check. Config is its static address.
	Kind, Config string
	Object       state.CheckObject
}

// Outcomes returns what is to be recorded of rules: nothing when there are none.
func Outcomes(kind, config string, c values.Conditions) []Outcome {
	if c.Rules == 0 {
		return nil
	}
	return []Outcome{{kind, config, state.CheckObject{Address: c.Address, Status: c.Status, Failures: c.Failures}}}
}

// Unreadable is the outcome of a check whose data could not be read.
func Unreadable(data *values.Resource, problems diag.List) Outcome {
	config, at := values.CheckAround(data)
	return Outcome{"check", config, state.CheckObject{
		Address: at, Status: state.CheckFail, Failures: []string{values.ProblemText(problems)},
	}}
}

// Both is what two sets of rules of one object came to, the later one last: that of postconditions never improves on
// that of
// preconditions.
func Both(earlier, later state.CheckObject) state.CheckObject {
	later.Failures = slices.Concat(earlier.Failures, later.Failures)
	later.Status = Worst(earlier.Status, later.Status)
	return later
}

// Worst returns the worse one of two outcomes.
func Worst(a, b state.CheckStatus) state.CheckStatus {
	if values.WorseCheck(a, b) {
		return a
	}
	return b
}
