package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/syntax"
)

// VariableValue is the value of a declared root variable, not yet converted to its type.
type VariableValue struct {
	// Value is cty.NilVal if none is given, so that the default is used.
	Value  cty.Value
	Source ValueSource
	// Range is the source range of the value; empty if it is not from a file.
	Range hcl.Range
}

// Final evaluates the values of the variables that the root module declares. It asks the user for missing values of
// required variables, and reports values for undeclared variables.
func (g *GivenValues) Final(declared map[string]*Variable) (map[string]VariableValue, diag.List) {
	out := make(map[string]VariableValue, len(declared))
	var diags diag.List
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		v := declared[name]
		if _, ok := g.values[name]; !ok && v.Required() {
			g.prompt(v)
		}
		given, ok := g.values[name]
		if ok {
			value, more := given.Parse(v)
			diags = append(diags, more...)
			if !more.HasErrors() {
				out[name] = VariableValue{value, given.Source, given.Range()}
			}
			continue
		}
		none := VariableValue{cty.NilVal, FromDefault, v.Range}
		if v.Required() {
			diags = append(diags, diag.New(diag.Error, "No value for required variable",
				fmt.Sprintf("The root module input variable %q is not set, and has no default value. Set it with the -var or "+
					"-var-file option, or in the environment as TF_VAR_%s.", name, name),
				&v.Range))
			none.Value = cty.DynamicVal
		}
		out[name] = none
	}
	return out, append(diags, g.undeclared(declared)...)
}

// undeclared reports values for undeclared variables: from a file, which may serve several configurations, as a
// warning; from the command line as an error; from the environment not at all.
func (g *GivenValues) undeclared(declared map[string]*Variable) diag.List {
	var diags diag.List
	inFiles := 0
	for _, name := range slices.Sorted(maps.Keys(g.values)) {
		given := g.values[name]
		if declared[name] != nil || given.Source == FromEnv {
			continue
		}
		if _, more := given.Parse(nil); more.HasErrors() {
			continue
		}
		const summary = "Value for undeclared variable"
		if given.Source == FromArgument {
			diags = append(diags, diag.New(diag.Error, summary,
				fmt.Sprintf("-var gives a value to %q, and the root module declares no such variable.", name), nil))
			continue
		}
		inFiles++
		if inFiles <= 2 {
			diags = append(diags, diag.New(diag.Warning, summary, fmt.Sprintf(
				"The file %s gives a value to %q, and the root module declares no such variable. Values that only some "+
					"configurations use can be given by TF_VAR_ environment variables, which cause no warning.",
				given.Range().Filename, name), nil))
		}
	}
	if inFiles > 2 {
		diags = append(diags, diag.New(diag.Warning, "Values for undeclared variables",
			fmt.Sprintf("Files give values to %d more variables that are not declared.", inFiles-2), nil))
	}
	return diags
}

// Convert converts a value given for the variable to its type, sets defaults, including those of optional()
// attributes, and checks null. Validations are not run. Name identifies the variable in diagnostics, for example
// module.a.var.x.
func (v *Variable) Convert(name string, given VariableValue) (cty.Value, diag.List) {
	value := given.Value
	if value == cty.NilVal {
		if v.Required() {
			return cty.UnknownVal(v.Type), diag.Errors("Required variable not set", name+" needs a value, and none "+
				"is given.", &v.Range)
		}
		return v.Default, nil
	}
	unmarked, valueMarks := value.Unmark()
	if v.TypeDefaults != nil && !unmarked.IsNull() {
		unmarked = v.TypeDefaults.Apply(unmarked)
	}
	converted, err := syntax.Convert(unmarked, v.ConstraintType)
	if err != nil {
		return cty.UnknownVal(v.Type), diag.Errors("Invalid value for input variable",
			fmt.Sprintf("The value%s is not of the type of %s: %s.", given.origin(v), name, conversionText(err)),
			&v.Range)
	}
	if converted.IsNull() && !v.Nullable {
		if v.Required() {
			at := v.Range
			if given.Range.Filename != "" {
				at = given.Range
			}
			return cty.UnknownVal(v.Type), diag.Errors("Required variable not set",
				fmt.Sprintf("%s cannot be null, and the value%s is.", name, given.origin(v)), &at)
		}
		return v.Default, nil
	}
	return converted.WithMarks(valueMarks), nil
}

// origin describes the origin of the value.
func (g VariableValue) origin(v *Variable) string {
	switch g.Source {
	case FromArgument:
		return fmt.Sprintf(` set by -var="%s=..."`, v.Name)
	case FromEnv:
		return " set by the environment variable " + envPrefix + v.Name
	case FromPrompt:
		return " typed in"
	default:
		if g.Range.Filename == "" {
			return ""
		}
		return " at " + g.Range.String()
	}
}

// All evaluates all given values, including those for undeclared variables. The user is not asked for missing ones.
func (g *GivenValues) All(declared map[string]*Variable) (map[string]VariableValue, diag.List) {
	out := make(map[string]VariableValue, len(g.values))
	var diags diag.List
	for _, name := range slices.Sorted(maps.Keys(g.values)) {
		given := g.values[name]
		value, more := given.Parse(declared[name])
		diags = append(diags, more...)
		if !more.HasErrors() {
			out[name] = VariableValue{value, given.Source, given.Range()}
		}
	}
	return out, diags
}

// Given evaluates the values given for declared variables, and reports those for undeclared variables. The user is
// not asked for missing ones.
func (g *GivenValues) Given(declared map[string]*Variable) (map[string]VariableValue, diag.List) {
	out := map[string]VariableValue{}
	var diags diag.List
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		given, ok := g.values[name]
		if !ok {
			continue
		}
		value, more := given.Parse(declared[name])
		diags = append(diags, more...)
		if !more.HasErrors() {
			out[name] = VariableValue{value, given.Source, given.Range()}
		}
	}
	return out, append(diags, g.undeclared(declared)...)
}
