package eval

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/marks"
)

// RuleKind is the kind of block that contains a condition.
type RuleKind byte

// The kinds of rules.
const (
	ResourcePrecondition RuleKind = iota + 1
	ResourcePostcondition
	OutputPrecondition
	CheckAssertion
	VariableValidation
	// TestAssertion is an assertion of a test. An unknown value in it is an error.
	TestAssertion
)

// String returns the first words of the summaries of failures. Tools match on them.
func (k RuleKind) String() string {
	switch k {
	case ResourcePrecondition:
		return "Resource precondition"
	case ResourcePostcondition:
		return "Resource postcondition"
	case OutputPrecondition:
		return "Module output value precondition"
	case CheckAssertion:
		return "Check block assertion"
	case VariableValidation:
		return "Input variable validation"
	case TestAssertion:
		return "Test assertion"
	default:
		return "Condition"
	}
}

// Rule is a condition with a message: a precondition, postcondition, assertion or validation.
type Rule struct {
	Kind RuleKind
	// Object is the address of the instance to which the rule belongs.
	Object             string
	Condition, Message *Expr
	// Range is the range of the rule's block.
	Range hcl.Range
	// Value is, for a validation, the range of the variable's value or, if it has none, of its declaration.
	Value *hcl.Range
}

// Status is the result of checking a rule.
type Status byte

// The statuses. StatusError means that the rule could not be evaluated.
const (
	StatusUnknown Status = iota
	StatusPass
	StatusFail
	StatusError
)

// String returns the word that the JSON forms use.
func (s Status) String() string {
	switch s {
	case StatusPass:
		return "pass"
	case StatusFail:
		return "fail"
	case StatusError:
		return "error"
	default:
		return "unknown"
	}
}

// Verdict is the result of a rule. Message is the user's message after a failure; it is empty if it must not be
// shown.
type Verdict struct {
	Status  Status
	Message string
}

// Check evaluates a rule. A failure is reported with the given severity; mistakes in the rule are always errors.
// The Extra of a failure is the rule.
func (r *Rule) Check(s *Scope, rep Repetition, self cty.Value, severity diag.Severity) (Verdict, diag.List) {
	if r.Kind == VariableValidation {
		return r.validate(s, severity)
	}
	message, _, diags := r.message(s, rep, self)
	condition, ctx, more := r.Condition.Bind(s).eval(cty.DynamicPseudoType, rep, self)
	diags = append(diags, more...)
	if diags.HasErrors() {
		return Verdict{Status: StatusError}, diags
	}
	status, d := r.status(condition, ctx)
	diags = diags.Append(d)
	switch status {
	case StatusUnknown:
		switch r.Kind {
		case CheckAssertion:
			diags = append(diags, r.finding(diag.Warning, r.Kind.String()+" known after apply",
				"The condition depends on values that are known only after apply, and is checked then.", ctx))
		case TestAssertion:
			diags = append(diags, r.finding(diag.Error, "Unknown condition run",
				"The condition depends on unknown values, so the assertion cannot be checked. Make the run apply its plan, or "+
					"assert something that a plan contains.", r.shown(s, rep, self, ctx)))
		}
	case StatusFail:
		detail := message
		if detail == "" {
			detail = "The condition does not hold. Its error message cannot be shown, for the reason given beside this."
		}
		diags = append(diags, r.finding(severity, r.Kind.String()+" failed", detail, r.shown(s, rep, self, ctx)))
		return Verdict{status, message}, diags
	}
	return Verdict{Status: status}, diags
}

// finding returns a diagnostic that points to the condition.
func (r *Rule) finding(severity diag.Severity, summary, detail string, ctx *hcl.EvalContext) *diag.Diagnostic {
	d := diag.New(severity, summary, detail, r.Condition.source.Range().Ptr())
	d.Expression, d.EvalContext, d.Extra = r.Condition.source, ctx, r
	return d
}

// shown returns the context for showing the values of the condition, with every reference complete.
func (r *Rule) shown(s *Scope, rep Repetition, self cty.Value, ctx *hcl.EvalContext) *hcl.EvalContext {
	b := r.Condition.Bind(s).binding
	if b.exact() {
		return ctx
	}
	if full, diags := b.whole(rep, self); !diags.HasErrors() {
		return full
	}
	return ctx
}

// status converts the value of a condition to a status.
func (r *Rule) status(v cty.Value, ctx *hcl.EvalContext) (Status, *diag.Diagnostic) {
	summary := "Invalid condition result"
	switch r.Kind {
	case VariableValidation:
		summary = "Invalid variable validation result"
	case TestAssertion:
		summary = "Invalid condition run"
	}
	v, _ = v.Unmark()
	if !v.IsKnown() {
		return StatusUnknown, nil
	}
	if v.IsNull() {
		return StatusError, about(r.Condition.source, ctx, nil, summary, "The condition has to be true or false, and "+
			"it is null.")
	}
	v, err := convert.Convert(v, cty.Bool)
	switch {
	case err != nil:
		return StatusError, about(r.Condition.source, ctx, nil, summary, fmt.Sprintf("The condition has to be true "+
			"or false: %s.", describe(err)))
	case v.True():
		return StatusPass, nil
	default:
		return StatusFail, nil
	}
}

// message evaluates the message of a rule other than a validation. It is empty if it is unknown or cannot be shown.
func (r *Rule) message(s *Scope, rep Repetition, self cty.Value) (string, *hcl.EvalContext, diag.List) {
	const invalid = "Invalid error message"
	expr := r.Message.source
	v, ctx, diags := r.Message.Bind(s).eval(cty.DynamicPseudoType, rep, self)
	if diags.HasErrors() {
		return "", ctx, diags
	}
	v, err := convert.Convert(v, cty.String)
	if err != nil {
		return "", ctx, append(diags, about(expr, ctx, nil, invalid, fmt.Sprintf("This cannot be an error message: %s.",
			describe(err))))
	}
	if !v.IsKnown() {
		return "", ctx, diags
	}
	if v.IsNull() {
		return "", ctx, append(diags, about(expr, ctx, nil, invalid, "This cannot be an error message: it is null."))
	}
	v, found := v.Unmark()
	if d := confidentialMessage(expr, ctx, found, diag.Warning); d != nil {
		return "", ctx, append(diags, d)
	}
	return strings.TrimSpace(v.AsString()), ctx, diags
}

// hiddenMessage returns the replacement for the message of a validation that must not be shown, as it is recorded
// with the result. It is OpenTofu's wording, which programs know.
func hiddenMessage(found cty.ValueMarks) string {
	what := "an ephemeral"
	if _, sensitive := found[marks.Sensitive]; sensitive {
		what = "a sensitive"
	}
	return fmt.Sprintf("The error message included %s value, so it will not be displayed.", what)
}

// confidentialMessage returns the diagnostic about a message that must not be shown.
func confidentialMessage(expr hcl.Expression, ctx *hcl.EvalContext, found cty.ValueMarks,
	severity diag.Severity) *diag.Diagnostic {
	var what, help string
	if _, sensitive := found[marks.Sensitive]; sensitive {
		what, help = "sensitive", "nonsensitive() can help where the text reveals nothing"
	} else if _, ephemeral := found[marks.Ephemeral]; ephemeral {
		what, help = "ephemeral", "ephemeralasnull() can help"
	} else {
		return nil
	}
	d := about(expr, ctx, BecauseConfidential, "Error message refers to "+what+" values", fmt.Sprintf(
		"The message of this condition is made from %s values, so it is not shown. Leave those values out of it; %s.",
		what, help))
	d.Severity = severity
	return d
}

// validate evaluates the validation of a variable, which has different summaries.
func (r *Rule) validate(s *Scope, severity diag.Severity) (Verdict, diag.List) {
	condition, ctx, diags := r.Condition.Bind(s).eval(cty.DynamicPseudoType, Once, cty.NilVal)
	conditionFailed := diags.HasErrors()
	text, textCtx, more := r.validationMessage(s)
	diags = append(diags, more...)
	if conditionFailed {
		return Verdict{Status: StatusUnknown}, diags // as in OpenTofu: only other conditions have an error then
	}
	status, d := r.status(condition, ctx)
	diags = diags.Append(d)
	if status != StatusFail {
		return Verdict{Status: status}, diags
	}
	expr := r.Message.source
	if !more.HasErrors() && !text.IsKnown() {
		return Verdict{Status: StatusFail}, append(diags, about(expr, textCtx, BecauseUnknown, "Invalid error message",
			"The error message is made from values that are known only after apply."))
	}
	message := ""
	if !more.HasErrors() && !text.IsNull() {
		text, err := convert.Convert(text, cty.String)
		if err != nil {
			diags = append(diags, about(expr, textCtx, nil, "Invalid error message", fmt.Sprintf("This cannot be an "+
				"error message: %s.", describe(err))))
		} else {
			text, found := text.Unmark()
			if d := confidentialMessage(expr, textCtx, found, diag.Error); d != nil {
				diags = append(diags, d)
				message = hiddenMessage(found)
			} else {
				message = strings.TrimSpace(text.AsString())
			}
		}
	}
	detail := message
	if detail == "" {
		message = "Failed to evaluate condition error message." // recorded with the check, as OpenTofu records it
		detail = message
	}
	failure := r.finding(severity, "Invalid value for variable", fmt.Sprintf("%s\n\nThis was checked by the "+
		"validation rule at %s.", detail, r.Range), ctx)
	if r.Value != nil {
		failure.Subject = r.Value
	}
	return Verdict{StatusFail, message}, append(diags, failure)
}

// validationMessage evaluates the message of a validation. In JSON, text that is not a valid template is used
// literally, with a warning, for compatibility.
func (r *Rule) validationMessage(s *Scope) (cty.Value, *hcl.EvalContext, diag.List) {
	v, ctx, diags := r.Message.Bind(s).eval(cty.DynamicPseudoType, Once, cty.NilVal)
	if !diags.HasErrors() || !json.IsJSONExpression(r.Message.source) {
		return v, ctx, diags
	}
	literal, literalDiags := r.Message.source.Value(nil)
	if literalDiags.HasErrors() || literal.Type() != cty.String {
		return v, ctx, diags
	}
	d := about(r.Message.source, ctx, nil, "Validation error message expression is invalid",
		"The error message is not a valid expression, so it is used literally. Later versions may reject it.\n\n"+
			diags.Err().Error())
	d.Severity = diag.Warning
	return literal, ctx, diag.List{d}
}
