package values

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/state"
)

// Conditions is the outcome of the check rules of one object.
type Conditions struct {
	// Address is the address of the object, an instance.
	Address string
	// Status is the worst status of the rules; CheckPass if there are none.
	Status   state.CheckStatus
	Failures []string
	// Rules is the number of rules; the outcome of an object without rules is not recorded.
	Rules int
	Diags diag.List
}

// check evaluates rules. severity is the severity of a failure.
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
			diags = nil // the result is not known yet
		}
		c.Diags = c.Diags.Append(diags)
		switch verdict.Status {
		case eval.StatusError:
			c.worsen(state.CheckError)
		case eval.StatusUnknown:
			c.worsen(state.CheckUnknown)
		case eval.StatusFail:
			c.worsen(state.CheckFail)
			if verdict.Message != "" { // otherwise it cannot be shown
				c.Failures = append(c.Failures, verdict.Message)
			}
		}
		if kind == eval.VariableValidation && diags.HasErrors() {
			break // as in OpenTofu, the rules of a variable after a failed one are not evaluated
		}
	}
	return c
}

func (c *Conditions) worsen(s state.CheckStatus) {
	if WorseCheck(s, c.Status) {
		c.Status = s
	}
}

// WorseCheck reports whether a is worse than b.
func WorseCheck(a, b state.CheckStatus) bool {
	return checkRank[a] > checkRank[b]
}

var checkRank = map[state.CheckStatus]int{state.CheckPass: 0, state.CheckUnknown: 1, state.CheckFail: 2,
	state.CheckError: 3}

// severity returns the severity of a failed condition of a resource or an output.
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

// EvaluateConditions returns the errors in the conditions of a resource. As in OpenTofu, only planning checks
// whether they hold.
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

// ProblemText returns the text for problems with the data of a check in a check result, in OpenTofu's form.
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

// CheckAround returns the check block that contains a data block: its static address, and that of its instance.
func CheckAround(r *Resource) (static, instance string) {
	static = "check." + r.Code.Config.Check
	if path := r.module.Node.Path; !path.IsRoot() {
		static = path.String() + "." + static
	}
	return static, r.module.qualified("check." + r.Code.Config.Check)
}

// CheckAddress returns the address of a check block in this module instance.
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
	scope := m.Scope
	if m.store.Phase == Validating {
		o := m.store.scopeOptions(m, "")
		o.Data = checkedVariable{m, v}
		scope = eval.New(o)
	}
	return m.check(scope, eval.VariableValidation, v.Validations, m.qualified("var."+v.Name), diag.Error, eval.Once,
		cty.NilVal, given)
}

// checkedVariable is the data for the validations of a variable before planning: this variable has its value, which is
// known if the argument of the module call is, and the others are unknown.
type checkedVariable struct {
	*module
	checked *config.Variable
}

// Variable implements eval.Data.
func (c checkedVariable) Variable(v addr.Variable, rng hcl.Range) (cty.Value, diag.List) {
	if v.Name != c.checked.Name {
		return c.module.Variable(v, rng)
	}
	value, _ := c.VariableValue(v.Name)
	return value, nil
}
