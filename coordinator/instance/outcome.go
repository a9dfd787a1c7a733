package instance

import (
	"slices"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

// Outcome is the result of the rules of one object, as plans and states record it.
type Outcome struct {
	// Kind is the kind of the object: resource, output_value, input_variable or check. Config is its static
	// address.
	Kind, Config string
	Object       state.CheckObject
}

// Outcomes returns the outcomes to record; none if there are no rules.
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

// Both combines the outcomes of two sets of rules of one object, in the order in which they were evaluated:
// postconditions do not improve the outcome of preconditions.
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
