package view

import (
	"fmt"

	"github.com/millipede-iac/millipede/graph/plan"
)

// Summary counts what a plan does, or what an apply did.
type Summary struct {
	Add       int    `json:"add"`
	Change    int    `json:"change"`
	Import    int    `json:"import"`
	Remove    int    `json:"remove"`
	Forget    int    `json:"forget"`
	Operation string `json:"operation"` // PlanOperation, ApplyOperation or DestroyOperation
}

// What a summary is of.
const (
	PlanOperation    = "plan"
	ApplyOperation   = "apply"
	DestroyOperation = "destroy"
)

// PlanSummary counts what a plan does.
func PlanSummary(p *plan.Plan) Summary {
	s := Summary{Operation: PlanOperation}
	for _, c := range p.Changes {
		if !interesting(c) {
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

// String is the sentence that people and programs look for.
func (s Summary) String() string {
	switch s.Operation {
	case DestroyOperation:
		return fmt.Sprintf("Destroy complete! Resources: %d destroyed.", s.Remove)
	case ApplyOperation:
		return "Apply complete! Resources: " + s.counted("", "imported", "added", "changed", "destroyed", "forgotten")
	default:
		return "Plan: " + s.counted("to ", "import", "add", "change", "destroy", "forget")
	}
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

// SummaryText is the summary of an apply as people see it, with its line breaks.
func SummaryText(s Summary, k Ink) string {
	return k.off() + k.on(boldCode+greenCode) + "\n" + s.String() + "\n" + k.off()
}

// ValidText says that a configuration is valid.
func ValidText(warnings bool, o TextOptions) string {
	text := "Success! The configuration is valid."
	if warnings {
		text = "Success! The configuration is valid, but there were some validation warnings as shown above."
	}
	return Wrap(o.Ink.Success(text), o.Width)
}
