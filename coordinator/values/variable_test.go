package values

import (
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/state"
)

// The expected results are those that OpenTofu documents for input variables (language/values/variables).
func TestARootVariableHasTheGivenValueInItsType(t *testing.T) {
	object := `type = object({ name = string, size = optional(number, 3) })`
	for sentence, c := range map[string]struct {
		declared string
		given    cty.Value
		want     cty.Value
		says     string
	}{
		"the default where nothing is given": {`default = "d"`, cty.NilVal, cty.StringVal("d"), ""},
		"a number for a string is converted": {`type = string`, cty.NumberIntVal(7), cty.StringVal("7"), ""},
		"text that is a number is one":       {`type = number`, cty.StringVal("7"), cty.NumberIntVal(7), ""},
		"text that is none is refused": {
			`type = number`, cty.StringVal("x"), cty.DynamicVal, "a number is required",
		},
		"the way it was given is named": {
			`type = number`, cty.StringVal("x"), cty.DynamicVal, `set using -var="x=..."`,
		},
		"null stays where the variable is nullable": {
			"type = string\n default = \"d\"", cty.NullVal(cty.String), cty.NullVal(cty.String), "",
		},
		"null is the default where it is not": {
			"type = string\n default = \"d\"\n nullable = false", cty.NullVal(cty.String), cty.StringVal("d"), "",
		},
		"null is refused where there is no default": {
			"type = string\n nullable = false", cty.NullVal(cty.String), cty.DynamicVal, "cannot be null",
		},
		"a value is required without a default": {
			`type = string`, cty.NilVal, cty.DynamicVal, "No value for required variable",
		},
		"a tuple is a list": {
			`type = list(string)`, cty.TupleVal([]cty.Value{cty.StringVal("a"), cty.True}),
			cty.ListVal([]cty.Value{cty.StringVal("a"), cty.StringVal("true")}), "",
		},
		"a set drops what is there twice": {
			`type = set(string)`, cty.TupleVal([]cty.Value{cty.StringVal("a"), cty.StringVal("a")}),
			cty.SetVal([]cty.Value{cty.StringVal("a")}), "",
		},
		"a missing optional attribute has a default": {
			object, cty.ObjectVal(map[string]cty.Value{"name": cty.StringVal("n")}),
			cty.ObjectVal(map[string]cty.Value{"name": cty.StringVal("n"), "size": cty.NumberIntVal(3)}), "",
		},
		"an attribute that does not fit is named": {
			object, cty.ObjectVal(map[string]cty.Value{"name": cty.StringVal("n"), "size": cty.StringVal("x")}),
			cty.NilVal,
			"attribute size: a number is required",
		},
		"a sensitive variable is marked": {
			"type = string\n sensitive = true", cty.StringVal("s"), cty.StringVal("s").Mark(marks.Sensitive), "",
		},
		"an ephemeral variable is marked": {
			"type = string\n ephemeral = true", cty.StringVal("s"), cty.StringVal("s").Mark(marks.Ephemeral), "",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := store(t, Planning, map[string]Input{"x": given(c.given)}, "variable \"x\" {\n"+c.declared+"\n}\n")
			got, diags := s.Root().VariableValue("x")
			says(t, diags, c.says)
			if c.want != cty.NilVal && !got.RawEquals(c.want) {
				t.Errorf("got %#v, want %#v", got, c.want)
			}
		})
	}
}

func TestARootVariableIsUnknownInValidationAndWhereTheConsoleHasNone(t *testing.T) {
	const text = `variable "x" { type = number }`
	for _, phase := range []Phase{Validating, Evaluating} {
		is(t, store(t, phase, nil, text).Root(), "var.x", cty.UnknownVal(cty.Number))
	}
	if v, diags := store(t, Planning, nil, text).Root().VariableValue("nosuch"); len(diags) > 0 || v.IsKnown() {
		t.Error("an undeclared variable has a value; references to it must report that it is not declared")
	}
}

func TestAVariableOfACalledModuleHasTheValueOfItsArgument(t *testing.T) {
	for sentence, c := range map[string]struct {
		declared, argument string
		want               cty.Value
		says               string
	}{
		"converted":               {`type = string`, "x = 7", cty.StringVal("7"), ""},
		"its default without one": {`default = "d"`, "", cty.StringVal("d"), ""},
		"a deprecated one warns": {
			"default = 1\n deprecated = \"use y\"", "x = 2", cty.NumberIntVal(2), "Its author says:\nuse y",
		},
		"a deprecated one that is unused": {"default = 1\n deprecated = \"use y\"", "", cty.NumberIntVal(1), ""},
		"what cannot be evaluated": {
			`type = string`, "x = nosuch.thing.id", cty.DynamicVal, "Reference to undeclared resource",
		},
		"what does not fit": {
			`type = number`, `x = "x"`, cty.DynamicVal, "is not suitable for module.child.var.x",
		},
		"an ephemeral value must be let in": {`type = string`, "x = var.e", cty.DynamicVal,
			"Variable does not allow ephemeral value"},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := store(t, Planning, map[string]Input{"e": given(cty.StringVal("e"))},
				"variable \"e\" {\n type = string\n ephemeral = true\n}\n"+
					"module \"child\" {\n source = \"./child\"\n"+c.argument+"\n}\n",
				"variable \"x\" {\n"+c.declared+"\n}\n")
			got, diags := s.Instances(addr.ModuleOf("child"))[0].VariableValue("x")
			if c.says == "" && len(diags) > 0 {
				t.Error(diags)
			}
			says(t, diags, c.says)
			if !got.RawEquals(c.want) {
				t.Errorf("got %#v, want %#v", got, c.want)
			}
		})
	}
}

func TestValidationsOfAVariableEndWithTheFirstThatDoesNotHold(t *testing.T) {
	s := store(t, Planning, map[string]Input{"x": given(cty.NumberIntVal(5))}, `
variable "x" {
  validation {
    condition     = var.x > 1
    error_message = "too small"
  }
  validation {
    condition     = var.x > 10
    error_message = "still too small"
  }
  validation {
    condition     = var.x > 100
    error_message = "far too small"
  }
}`)
	c := s.Root().CheckVariable(s.Root().Node.Module.Variables["x"])
	if c.Address != "var.x" || len(c.Failures) != 1 || c.Failures[0] != "still too small" || !c.Diags.HasErrors() {
		t.Errorf("got %+v", c)
	}
}

// A validation whose condition cannot be evaluated had the status "error". In OpenTofu only a condition that has a
// value, but is neither true nor false, has it.
func TestAValidationThatCannotBeEvaluatedIsUnknown(t *testing.T) {
	for condition, want := range map[string]state.CheckStatus{
		`tonumber(var.x) > 1`:                state.CheckUnknown,
		`var.x`:                              state.CheckError,
		`var.x == "text" ? null : true`:      state.CheckError,
		`var.x == "text" && length(var.x)>1`: state.CheckPass,
	} {
		s := store(t, Planning, map[string]Input{"x": given(cty.StringVal("text"))},
			"variable \"x\" {\n validation {\n condition = "+condition+"\n error_message = \"wrong\"\n }\n}\n")
		if c := s.Root().CheckVariable(s.Root().Node.Module.Variables["x"]); c.Status != want {
			t.Errorf("%s is %v, want %v", condition, c.Status, want)
		}
	}
}

func TestALocalValueThatRefersToItselfIsAnError(t *testing.T) {
	s := store(t, Planning, nil, "locals {\n a = local.a\n b = 2\n c = local.b + 1\n}\n")
	_, diags := s.Root().LocalValue("a")
	says(t, diags, "local.a refers to itself")
	is(t, s.Root(), "local.c", cty.NumberIntVal(3))
	is(t, s.Root(), "[terraform.workspace, path.cwd, path.module, path.root]", cty.TupleVal([]cty.Value{
		cty.StringVal("w"), cty.StringVal("/cwd"), cty.StringVal("."), cty.StringVal("."),
	}))
}

func TestAMisspelledNameIsAnErrorThatNamesTheLikeOne(t *testing.T) {
	s := store(t, Planning, nil, `
variable "length" { default = 1 }
locals { width = 2 }
module "child" { source = "./child" }
`, "")
	for expression, want := range map[string]string{
		"var.lenght":   "length",
		"local.witdh":  "width",
		"module.chlid": "child",
	} {
		_, diags := evaluate(t, s.Root(), expression)
		if !diags.HasErrors() {
			t.Errorf("%s is accepted", expression)
			continue
		}
		says(t, diags, want)
	}
}

func TestOutputs(t *testing.T) {
	for sentence, c := range map[string]struct {
		output, says string
		want         cty.Value
	}{
		"a value": {`value = 1`, "", cty.NumberIntVal(1)},
		"a sensitive one that says so": {
			"value = sensitive(1)\n sensitive = true", "", cty.NumberIntVal(1).Mark(marks.Sensitive),
		},
		"a sensitive one that does not":  {`value = sensitive(1)`, "Output refers to sensitive values", cty.DynamicVal},
		"an ephemeral value":             {`value = var.e`, "Output does not allow ephemeral value", cty.DynamicVal},
		"an ephemeral root output":       {"value = 1\n ephemeral = true", "cannot be ephemeral", cty.DynamicVal},
		"a value that is not to be made": {`value = nosuch.thing`, "Reference to undeclared resource", cty.DynamicVal},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := store(t, Planning, map[string]Input{"e": given(cty.StringVal("e"))},
				"variable \"e\" {\n type = string\n ephemeral = true\n}\noutput \"o\" {\n"+c.output+"\n}\n")
			got, diags := s.Root().EvalOutput("o")
			says(t, diags, c.says)
			if !got.RawEquals(c.want) {
				t.Errorf("got %#v, want %#v", got, c.want)
			}
		})
	}
}

func TestOutputsOfAModuleCarryTheirMarksToTheCaller(t *testing.T) {
	s := store(t, Planning, nil, `module "child" { source = "./child" }`, `
output "e" {
  value     = "e"
  ephemeral = true
}
output "d" {
  value      = "d"
  deprecated = "use e"
}
output "s" {
  value     = "s"
  sensitive = true
}`)
	child := s.Instances(addr.ModuleOf("child"))[0]
	is(t, s.Root(), "module.child.s", cty.DynamicVal) // nobody has evaluated it yet
	for _, name := range []string{"e", "d", "s"} {
		_, diags := child.EvalOutput(name)
		says(t, diags, "")
	}
	is(t, s.Root(), "module.child.s", cty.StringVal("s").Mark(marks.Sensitive))
	is(t, s.Root(), "module.child.e", cty.StringVal("e").Mark(marks.Ephemeral))
	_, diags := evaluate(t, s.Root(), "module.child.d")
	says(t, diags, "use e")
	child.SetOutput("s", cty.StringVal("other"))
	is(t, s.Root(), "module.child.s", cty.StringVal("other"))
}

func TestProblemTextIsOneLineForOneProblemAndAListForMore(t *testing.T) {
	one := diag.Errors("not found", "there is none", nil)
	if got := ProblemText(one); got != "not found: there is none" {
		t.Errorf("got %q", got)
	}
	two := one.Append(diag.Errors("bad", "", nil))
	if got := ProblemText(two); got != "2 problems:\n\n- not found: there is none\n- bad" {
		t.Errorf("got %q", got)
	}
}

// Validation gave the variables of called modules the values of their arguments: a module that is disabled by one
// variable was refused because of another, which is null, although nothing evaluates the expression in a plan. OpenTofu
// validates a module for all values that its variables can have.
func TestEveryVariableIsUnknownInValidation(t *testing.T) {
	const child = `
variable "create" { default = true }
variable "name" { type = string }
variable "secret" {
  type      = string
  sensitive = true
}
variable "token" {
  type      = string
  ephemeral = true
}
variable "plain" { default = "d" }
locals { title = format("%s", var.name) }
`
	s := store(t, Validating, nil, `module "child" {
  source = "./child"
  create = false
  name   = null
  secret = "s"
  token  = "t"
}`, child)
	m := s.Instances(addr.ModuleOf("child"))[0]
	is(t, m, "var.create", cty.DynamicVal)
	is(t, m, "var.name", cty.UnknownVal(cty.String))
	is(t, m, "var.plain", cty.DynamicVal)
	is(t, m, "var.secret", cty.UnknownVal(cty.String).Mark(marks.Sensitive))
	is(t, m, "var.token", cty.UnknownVal(cty.String).Mark(marks.Ephemeral))
	if _, diags := m.LocalValue("title"); len(diags) > 0 {
		t.Error(diags)
	}
	if got, diags := m.VariableValue("secret"); len(diags) > 0 ||
		!got.RawEquals(cty.StringVal("s").Mark(marks.Sensitive)) {
		t.Errorf("the argument is %#v, %v", got, diags)
	}
}

func TestAnArgumentThatItsVariableRefusesFailsInValidation(t *testing.T) {
	for sentence, c := range map[string]struct{ declared, argument, says string }{
		"of another type":        {"type = number", `x = "x"`, "is not suitable for module.child.var.x"},
		"null that must not be":  {"nullable = false", "x = null", "it is required, and cannot be null"},
		"one that is not valid":  {"validation {\ncondition = var.x < 3\nerror_message = \"big\"\n}", "x = 3", "big"},
		"one that may be valid":  {"validation {\ncondition = var.x < 3\nerror_message = \"big\"\n}", "x = var.n", ""},
		"beside another unknown": {"validation {\ncondition = var.x < var.y\nerror_message = \"big\"\n}", "x = 3", ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := store(t, Validating, nil,
				"variable \"n\" {}\nmodule \"child\" {\n source = \"./child\"\n"+c.argument+"\n}\n",
				"variable \"y\" {\n default = 1\n}\nvariable \"x\" {\n"+c.declared+"\n}\n")
			m := s.Instances(addr.ModuleOf("child"))[0]
			_, diags := m.VariableValue("x")
			says(t, append(diags, m.CheckVariable(m.Node.Module.Variables["x"]).Diags...), c.says)
		})
	}
}

// Only defaults were checked for attributes that the type of the variable does not have, so a mistyped name in the
// argument of a module call was dropped without a word.
func TestAnAttributeOfAnArgumentThatTheTypeIgnoresIsWarnedAboutOnce(t *testing.T) {
	for argument, want := range map[string]string{
		`x = { name = "n", siize = 3 }`:                             `of this variable has no attribute "siize"`,
		`x = { name = "n", more = [{ kez = 1 }] }`:                  `of .more[0] has no attribute "kez"`,
		`x = { name = "n", more = [for k in ["a"] : { kez = k }] }`: `of .more[...] has no attribute "kez"`,
		`x = { name = "n", size = 3 }`:                              "",
		`x = merge({ name = "n" }, { siize = 3 })`:                  "", // it may be intended
	} {
		for _, phase := range []Phase{Validating, Planning} {
			s := store(t, phase, nil, "module \"child\" {\n source = \"./child\"\n"+argument+"\n}\n", `
variable "x" {
  type = object({ name = string, size = optional(number), more = optional(list(object({ key = optional(string) }))) })
}`)
			_, diags := s.Instances(addr.ModuleOf("child"))[0].VariableValue("x")
			if want == "" || phase != Validating {
				if len(diags) > 0 {
					t.Errorf("%s in phase %d: %v", argument, phase, diags)
				}
				continue
			}
			says(t, diags, want)
		}
	}
}
