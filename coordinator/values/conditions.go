package values

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/state"
)

// Conditions is the outcome of the check rules of one object.
type Conditions struct {
	// Address is the object, an instance.
	Address string
	// Status is the worst of the rules; CheckPass for an object without rules.
	Status   state.CheckStatus
	Failures []string
	// Rules is the number of rules; an object without any has no outcome to record.
	Rules int
	Diags diag.List
}

// check evaluates rules. severity is that of a failure.
func (m *Module) check(scope *eval.Scope, kind eval.RuleKind, rules []*config.CheckRule, address string,
	severity diag.Severity, rep eval.Repetition, self cty.Value, given *hcl.Range) Conditions {
	c := Conditions{Address: address, Status: state.CheckPass, Rules: len(rules)}
	for _, r := range rules {
		rule := eval.Rule{
			Kind: kind, Object: address, Condition: m.store.Code.Expr(r.Condition),
			Message: m.store.Code.Expr(r.ErrorMessage),
			Range:   r.Range, Value: given,
		}
		verdict, diags := rule.Check(scope, rep, self, severity)
		if m.store.Phase == Validating && !diags.HasErrors() {
			diags = nil // what is unknown for now is no news
		}
		c.Diags = c.Diags.Append(diags)
		switch verdict.Status {
		case eval.StatusError:
			c.worsen(state.CheckError)
		case eval.StatusUnknown:
			c.worsen(state.CheckUnknown)
		case eval.StatusFail:
			c.worsen(state.CheckFail)
			if verdict.Message != "" { // else there is none that can be shown
				c.Failures = append(c.Failures, verdict.Message)
			}
		}
		if kind == eval.VariableValidation && diags.HasErrors() {
			break // as in OpenTofu, the rules of a variable after one that does not hold are not looked at
		}
	}
	return c
}

func (c *Conditions) worsen(s state.CheckStatus) {
	if WorseCheck(s, c.Status) {
		c.Status = s
	}
}

// WorseCheck tells whether a is worse news than b.
func WorseCheck(a, b state.CheckStatus) bool {
	return checkRank[a] > checkRank[b]
}

var checkRank = map[state.CheckStatus]int{state.CheckPass: 0, state.CheckUnknown: 1, state.CheckFail: 2,
	state.CheckError: 3}

// severity is that of a failed condition of a resource or an output.
func (s *Store) severity() diag.Severity {
	if s.Lenient {
		return diag.Warning
	}
	return diag.Error
}

// CheckPreconditions evaluates the preconditions of a resource instance.
func (r *Resource) CheckPreconditions(address string, rep eval.Repetition) Conditions {
	return r.module.check(r.module.Scope, eval.ResourcePrecondition, r.Code.Config.Preconditions, address,
		r.module.store.severity(), rep, cty.NilVal, nil)
}

// CheckPostconditions evaluates the postconditions of a resource instance whose value is self.
func (r *Resource) CheckPostconditions(address string, rep eval.Repetition, self cty.Value) Conditions {
	return r.module.check(r.module.Scope, eval.ResourcePostcondition, r.Code.Config.Postconditions, address,
		r.module.store.severity(), rep, self, nil)
}

// EvaluateConditions reports what keeps the conditions of a resource from being evaluated. As in OpenTofu, whether they
// hold is for planning to find out.
func (r *Resource) EvaluateConditions(rep eval.Repetition, self cty.Value) diag.List {
	var diags diag.List
	evaluate := func(rules []*config.CheckRule, self cty.Value) {
		for _, rule := range rules {
			for _, e := range []hcl.Expression{rule.Condition, rule.ErrorMessage} {
				_, more := r.module.store.Code.Expr(e).Eval(r.module.Scope, cty.DynamicPseudoType, rep, self)
				diags = diags.Append(more)
			}
		}
	}
	evaluate(r.Code.Config.Preconditions, cty.NilVal)
	evaluate(r.Code.Config.Postconditions, self)
	return diags
}

// CheckOutput evaluates the preconditions of an output.
func (m *Module) CheckOutput(o *config.Output) Conditions {
	return m.check(m.Scope, eval.OutputPrecondition, o.Preconditions, m.qualified("output."+o.Name), m.store.severity(),
		eval.Once, cty.NilVal, nil)
}

// ProblemText is what a check result says of problems with the data of the check, in the form that OpenTofu has.
func ProblemText(l diag.List) string {
	var lines []string
	for _, d := range l {
		line := d.Summary
		if d.Detail != "" {
			line += ": " + d.Detail
		}
		lines = append(lines, line)
	}
	if len(lines) == 1 {
		return lines[0]
	}
	return fmt.Sprintf("%d problems:\n\n- %s", len(lines), strings.Join(lines, "\n- "))
}

// CheckAround returns the check block that a data block stands in: its static address, and that of its instance.
func CheckAround(r *Resource) (static, instance string) {
	static = "check." + r.Code.Config.Check
	if path := r.module.Node.Path; !path.IsRoot() {
		static = path.String() + "." + static
	}
	return static, r.module.qualified("check." + r.Code.Config.Check)
}

// CheckAddress is the address of a check block in this module instance.
func (m *Module) CheckAddress(c *config.Check) string { return m.qualified("check." + c.Name) }

// CheckAsserts evaluates the assertions of a check block; a failed one is a warning.
func (m *Module) CheckAsserts(c *config.Check) Conditions {
	return m.check(m.CheckScope(c.Name), eval.CheckAssertion, c.Asserts, m.CheckAddress(c), diag.Warning, eval.Once,
		cty.NilVal, nil)
}

// CheckVariable evaluates the validations of an input variable. A failure points to where the value was given.
func (m *Module) CheckVariable(v *config.Variable) Conditions {
	given := v.Range.Ptr()
	if m.parent == nil {
		if in := m.store.Inputs[v.Name]; in.Range != nil {
			given = in.Range
		}
	} else if attr := m.store.Code.Arguments(m.Node.Call)[v.Name]; attr != nil {
		given = attr.Expr.Range().Ptr()
	}
	return m.check(m.Scope, eval.VariableValidation, v.Validations, m.qualified("var."+v.Name), diag.Error, eval.Once,
		cty.NilVal, given)
}
