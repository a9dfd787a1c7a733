package document

import (
	"fmt"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
)

// Summary counts the operations of a plan or an apply.
type Summary struct {
	Add    int `json:"add"`
	Change int `json:"change"`
	Import int `json:"import"`
	Remove int `json:"remove"`
	Forget int `json:"forget"`
	// Invoke counts invocations of actions. As other engines do not have it, it is left out if there are none.
	Invoke    int    `json:"action_invocation,omitempty"`
	Operation string `json:"operation"` // PlanOperation, ApplyOperation or DestroyOperation
}

// The operations of a Summary.
const (
	PlanOperation    = "plan"
	ApplyOperation   = "apply"
	DestroyOperation = "destroy"
)

// PlanSummary counts the operations of a plan.
func PlanSummary(p *plan.Plan) Summary {
	s := Summary{Operation: PlanOperation, Invoke: len(p.Invocations)}
	for _, c := range p.Changes {
		if !Shown(c) {
			continue
		}
		if c.Importing != nil {
			s.Import++
		}
		switch c.Action {
		case plan.Create:
			s.Add++
		case plan.Update:
			s.Change++
		case plan.Delete:
			s.Remove++
		case plan.CreateThenDelete, plan.DeleteThenCreate:
			s.Add++
			s.Remove++
		case plan.ForgetThenCreate:
			s.Add++
			s.Forget++
		case plan.Forget:
			s.Forget++
		}
	}
	return s
}

// String returns the summary sentence, which people and programs search for.
func (s Summary) String() string {
	switch s.Operation {
	case DestroyOperation:
		return fmt.Sprintf("Destroy complete! Resources: %d destroyed.", s.Remove) + s.invoked("invoked")
	case ApplyOperation:
		return "Apply complete! Resources: " + s.counted("", "imported", "added", "changed", "destroyed", "forgotten") +
			s.invoked("invoked")
	default:
		return "Plan: " + s.counted("to ", "import", "add", "change", "destroy", "forget") + s.invoked("to invoke")
	}
}

// invoked is the part of the sentence about actions; empty if there are none.
func (s Summary) invoked(word string) string {
	if s.Invoke == 0 {
		return ""
	}
	return fmt.Sprintf(" Actions: %d %s.", s.Invoke, word)
}

func (s Summary) counted(to, imported, added, changed, destroyed, forgotten string) string {
	text := ""
	if s.Import > 0 {
		text = fmt.Sprintf("%d %s%s, ", s.Import, to, imported)
	}
	text += fmt.Sprintf("%d %s%s, %d %s%s, %d %s%s", s.Add, to, added, s.Change, to, changed, s.Remove, to, destroyed)
	if s.Forget > 0 {
		text += fmt.Sprintf(", %d %s%s", s.Forget, to, forgotten)
	}
	return text + "."
}

// Shown reports whether a change is shown to people and programs.
func Shown(c *plan.Change) bool {
	mode := c.Addr.Resource.Mode
	switch {
	case mode == addr.Ephemeral || c.Action == plan.Delete && mode != addr.Managed:
		return false
	default:
		return c.Action != plan.NoOp || c.Moved() || c.Importing != nil
	}
}
