package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
)

func TestLaterValuesWin(t *testing.T) {
	files := map[string]string{
		"terraform.tfvars":      "a = 1\nb = 1\nc = 1\nd = 1\ne = 1\n",
		"terraform.tfvars.json": `{"b": 2, "c": 2, "d": 2, "e": 2}`,
		"x.auto.tfvars":         "c = 3\nd = 3\ne = 3\n",
		"y.auto.tfvars.json":    `{"d": 4, "e": 4}`,
		"named.tfvars":          "e = 5\nf = 5\n",
		"ignored.tfvars":        "a = 9\n",
	}
	g, diags := NewLoader(newMemory(files)).CollectVariables(VariableOptions{
		Environ: []string{"TF_VAR_a=0", "TF_VAR_g=[0]", "HOME=/", "TF_VAR_undeclared=1"},
		Flags:   []VariableFlag{{true, "named.tfvars"}, {false, "f=6"}, {false, "h= x=y "}, {false, "f=7"}},
	})
	if diags != nil {
		t.Fatal(diags.Err())
	}
	declared := map[string]*Variable{}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		declared[name] = &Variable{Name: name, Type: cty.DynamicPseudoType, ConstraintType: cty.DynamicPseudoType}
	}
	declared["h"] = &Variable{Name: "h", Type: cty.String, ConstraintType: cty.String, ParseLiteral: true}
	values, diags := g.Final(declared)
	if diags != nil {
		t.Fatal(diags.Err())
	}
	var got []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		v := values[name]
		got = append(got, fmt.Sprintf("%s=%#v from %d", name, v.Value, v.Source))
	}
	const want = `a=cty.NumberIntVal(1) from 3
b=cty.NumberIntVal(2) from 3
c=cty.NumberIntVal(3) from 3
d=cty.NumberIntVal(4) from 3
e=cty.NumberIntVal(5) from 4
f=cty.NumberIntVal(7) from 5
g=cty.TupleVal([]cty.Value{cty.NumberIntVal(0)}) from 2
h=cty.StringVal(" x=y ") from 5`
	if s := strings.Join(got, "\n"); s != want {
		t.Error(s)
	}
}

func TestValuesThatNothingDeclaresAreMentioned(t *testing.T) {
	g, diags := NewLoader(newMemory(
		map[string]string{"terraform.tfvars": "a = 1\nb = 1\nc = 1\nd = 1\n"})).CollectVariables(VariableOptions{
		Environ: []string{"TF_VAR_e=1"}, Flags: []VariableFlag{{false, "f=1"}, {false, "nonsense"}, {false, "g =1"},
			{true, "gone.tfvars"}},
	})
	if got := describe(diags); got != "error - Failed to read variables file\nerror - Invalid -var option\nerror - "+
		"Invalid -var option\n" {
		t.Error(got)
	}
	_, diags = g.Final(nil)
	if got := describe(diags); got != "error - Value for undeclared variable\nwarning - Value for undeclared "+
		"variable\n"+
		"warning - Value for undeclared variable\nwarning - Values for undeclared variables\n" {
		t.Error(got)
	}
}

func TestMissingValuesAreAskedForOnce(t *testing.T) {
	asked := 0
	v := &Variable{Name: "a", Type: cty.String, ConstraintType: cty.String, ParseLiteral: true, Description: "what?"}
	g, _ := NewLoader(newMemory(nil)).CollectVariables(VariableOptions{Ask: func(v *Variable) (string, error) {
		asked++
		return v.Prompt(), nil
	}})
	early, diags := g.Static(v)
	values, more := g.Final(map[string]*Variable{"a": v})
	if diags != nil || more != nil || asked != 1 ||
		early != cty.StringVal("var.a\n  what?\n\n  Enter a value: ") || values["a"].Value != early ||
		values["a"].Source != FromPrompt {
		t.Errorf("%v %v, asked %d times, %v", diags.Err(), more.Err(), asked, values)
	}

	g, _ = NewLoader(newMemory(nil)).CollectVariables(VariableOptions{Ask: func(*Variable) (string, error) {
		return "",
			errors.New("no terminal")
	}})
	values, diags = g.Final(map[string]*Variable{"a": v})
	if got := describe(diags); !strings.HasSuffix(got, "No value for required variable\n") ||
		values["a"].Value != cty.DynamicVal {
		t.Error(got)
	}
}

func TestValuesAreConvertedAsTheVariableSays(t *testing.T) {
	tree := mustLoad(t, map[string]string{"main.tf": `
variable "n" { type = number }
variable "d" {
  type    = string
  default = "d"
}
variable "o" {
  type = object({ a = string, b = optional(number, 7), c = optional(string) })
}
variable "req" {
  type     = string
  nullable = false
}
variable "nn" {
  type     = string
  nullable = false
  default  = "nn"
}
`})
	o := cty.ObjectVal(map[string]cty.Value{"a": cty.True})
	for name, c := range map[string]struct {
		variable string
		given    VariableValue
		want     cty.Value
		problem  string
	}{
		"text becomes a number": {"n", VariableValue{Value: cty.StringVal("5"), Source: FromEnv},
			cty.NumberIntVal(5), ""},
		"text that is no number": {"n", VariableValue{Value: cty.StringVal("x"), Source: FromArgument},
			cty.UnknownVal(cty.Number), "Invalid value for input variable"},
		"nothing for a required one": {"n", VariableValue{}, cty.UnknownVal(cty.Number),
			"Required variable not set"},
		"nothing where there is a default": {"d", VariableValue{}, cty.StringVal("d"), ""},
		"null stays null": {"d", VariableValue{Value: cty.NullVal(cty.DynamicPseudoType)},
			cty.NullVal(cty.String), ""},
		"null gives the default": {"nn", VariableValue{Value: cty.NullVal(cty.String)},
			cty.StringVal("nn"), ""},
		"null for one that cannot be": {"req", VariableValue{Value: cty.NullVal(cty.String)},
			cty.UnknownVal(cty.String), "Required variable not set"},
		"optional attributes are filled in": {"o", VariableValue{Value: o},
			cty.ObjectVal(map[string]cty.Value{"a": cty.StringVal("true"), "b": cty.NumberIntVal(7),
				"c": cty.NullVal(cty.String)}), ""},
		"marks stay where they are": {"d", VariableValue{Value: cty.StringVal("x").Mark("m")},
			cty.StringVal("x").Mark("m"), ""},
		"what is missing in an object shows": {"o", VariableValue{Value: cty.EmptyObjectVal},
			cty.UnknownVal(cty.Object(map[string]cty.Type{"a": cty.String, "b": cty.Number, "c": cty.String})),
			"Invalid value for input variable"},
	} {
		got, diags := tree.Root.Module.Variables[c.variable].Convert("var."+c.variable, c.given)
		problem := ""
		if len(diags) > 0 {
			problem = diags[0].Summary
		}
		if !got.RawEquals(c.want) || problem != c.problem {
			t.Errorf("%s: %#v %s", name, got, problem)
		}
	}
}
