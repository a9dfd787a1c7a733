package eval

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
)

func TestRules(t *testing.T) {
	for name, tc := range map[string]struct {
		kind               RuleKind
		condition, message string
		verdict            Verdict
		summary, detail    string
	}{
		"holds": {ResourcePrecondition, `var.n == 1`, `"no"`, Verdict{Status: StatusPass}, "", ""},
		"fails": {ResourcePrecondition, `var.n == 2`, `" no ${var.name} "`,
			Verdict{StatusFail, "no n"}, "Resource precondition failed", "no n"},
		"postcondition": {ResourcePostcondition, `self.id == "x"`, `"no"`, Verdict{StatusFail, "no"},
			"Resource postcondition failed", "no"},
		"output": {OutputPrecondition, `false`, `"no"`, Verdict{StatusFail, "no"},
			"Module output value precondition failed", "no"},
		"assertion": {CheckAssertion, `false`, `"no"`, Verdict{StatusFail, "no"},
			"Check block assertion failed", "no"},
		"unknown": {ResourcePrecondition, `var.unknown == ""`, `"no"`, Verdict{Status: StatusUnknown},
			"", ""},
		"unknown assertion": {CheckAssertion, `var.unknown == ""`, `"no"`, Verdict{Status: StatusUnknown},
			"Check block assertion known after apply", ""},
		"null": {ResourcePrecondition, `null`, `"no"`, Verdict{Status: StatusError},
			"Invalid condition result", "null"},
		"not boolean": {ResourcePrecondition, `"maybe"`, `"no"`, Verdict{Status: StatusError},
			"Invalid condition result", "bool"},
		"text that is boolean": {ResourcePrecondition, `"true"`, `"no"`, Verdict{Status: StatusPass}, "", ""},
		"sensitive condition": {ResourcePrecondition, `var.secret == "x"`, `"no"`, Verdict{StatusFail, "no"},
			"Resource precondition failed", "no"},
		"sensitive message": {ResourcePrecondition, `false`, `var.secret`, Verdict{StatusFail, ""},
			"Error message refers to sensitive values; Resource precondition failed", "nonsensitive()"},
		"sensitive, and holds": {ResourcePrecondition, `true`, `var.secret`, Verdict{Status: StatusPass},
			"Error message refers to sensitive values", ""},
		"ephemeral message": {ResourcePrecondition, `false`, `ephemeral.pw.x.v`, Verdict{StatusFail, ""},
			"Error message refers to ephemeral values; Resource precondition failed", "ephemeralasnull()"},
		"null message": {ResourcePrecondition, `false`, `null`, Verdict{Status: StatusError},
			"Invalid error message", "null"},
		"message of no text": {ResourcePrecondition, `true`, `[]`, Verdict{Status: StatusError},
			"Invalid error message", "string"},
		"unknown message": {ResourcePrecondition, `false`, `var.unknown`, Verdict{StatusFail, ""},
			"Resource precondition failed", "cannot be shown"},
		"broken condition": {ResourcePrecondition, `var.name.x`, `"no"`, Verdict{Status: StatusError},
			"Unsupported attribute", ""},
		"broken message": {ResourcePrecondition, `true`, `var.name.x`, Verdict{Status: StatusError},
			"Unsupported attribute", ""},
		"validation holds": {VariableValidation, `var.n == 1`, `"no"`, Verdict{Status: StatusPass}, "", ""},
		"validation fails": {VariableValidation, `var.n == 2`, `"no"`, Verdict{StatusFail, "no"},
			"Invalid value for variable", "no\n\nThis was checked by the validation rule at rules.tf:7,1-2."},
		"validation null": {VariableValidation, `null`, `"no"`, Verdict{Status: StatusError},
			"Invalid variable validation result", "null"},
		"validation unknown": {VariableValidation, `var.unknown == "x"`, `"no"`, Verdict{Status: StatusUnknown}, "",
			""},
		"validation, no message": {VariableValidation, `false`, `var.unknown`, Verdict{StatusFail, ""},
			"Invalid error message", "after apply"},
		"validation, secret": {VariableValidation, `false`, `var.secret`, Verdict{StatusFail, "The error message " +
			"included a sensitive value, so it will not be displayed."}, "Error message refers to sensitive values; " +
			"Invalid value for variable", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Rule{
				Kind: tc.kind, Condition: PrepareExpr(parseExpr(t, tc.condition)),
				Message: PrepareExpr(parseExpr(t, tc.message)),
				Range: hcl.Range{Filename: "rules.tf", Start: hcl.Pos{Line: 7, Column: 1},
					End: hcl.Pos{Line: 7, Column: 2, Byte: 1}},
			}
			verdict, diags := r.Check(testScope(sampleData()), Once, obj("id", "me"), diag.Error)
			if verdict != tc.verdict {
				t.Errorf("got %v, want %v", verdict, tc.verdict)
			}
			if summaries(diags) != tc.summary {
				t.Fatalf("got %q, want %q", summaries(diags), tc.summary)
			}
			if len(diags) > 0 && !strings.Contains(diags[0].Detail, tc.detail) {
				t.Errorf("%q is not in %q", tc.detail, diags[0].Detail)
			}
			if f := len(diags) - 1; verdict.Status == StatusFail && diags[f].Extra != r && tc.detail != "after apply" {
				t.Error("the failure does not name its rule")
			}
		})
	}
}

func TestTheCallerChoosesTheSeverityOfAFailureOnly(t *testing.T) {
	check := func(condition string) diag.Severity {
		r := &Rule{Kind: CheckAssertion, Condition: PrepareExpr(parseExpr(t, condition)),
			Message: PrepareExpr(parseExpr(t, `"no"`))}
		_, diags := r.Check(testScope(sampleData()), Once, cty.NilVal, diag.Warning)
		return diags[0].Severity
	}
	if check(`false`) != diag.Warning {
		t.Error("a failure is not a warning although that was asked for")
	}
	if check(`null`) != diag.Error {
		t.Error("a mistake in the rule is only a warning")
	}
}

func TestAFailedConditionShowsEveryReferenceInFull(t *testing.T) {
	r := &Rule{Kind: ResourcePrecondition, Condition: PrepareExpr(parseExpr(t, `aws_x.many[count.index].id == ""`)),
		Message: PrepareExpr(parseExpr(t, `"no"`))}
	_, diags := r.Check(testScope(sampleData()), countRep(1), cty.NilVal, diag.Error)
	if n := diags[0].EvalContext.Variables["aws_x"].GetAttr("many").LengthInt(); n != 3 {
		t.Errorf("%d instances are shown", n)
	}
}

func TestTextInJSONThatIsNoTemplateIsAMessage(t *testing.T) {
	attrs, diags := parseJSONBody(t, `{"error_message": "100${"}`).JustAttributes()
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	r := &Rule{Kind: VariableValidation, Condition: PrepareExpr(parseExpr(t, `false`)),
		Message: PrepareExpr(attrs["error_message"].Expr)}
	verdict, ds := r.Check(testScope(sampleData()), Once, cty.NilVal, diag.Error)
	if verdict != (Verdict{StatusFail, "100${"}) || ds[0].Severity != diag.Warning ||
		ds[0].Summary != "Validation error message expression is invalid" {
		t.Errorf("%v %s", verdict, summaries(ds))
	}
}
