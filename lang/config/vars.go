package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/syntax"
)

// ValueSource is the origin of the value of a root variable.
type ValueSource byte

// The sources, in increasing precedence.
const (
	FromDefault   ValueSource = iota + 1 // the variable block
	FromEnv                              // a TF_VAR_ environment variable
	FromAutoFile                         // terraform.tfvars, *.auto.tfvars
	FromNamedFile                        // -var-file
	FromArgument                         // -var
	FromPrompt                           // the user was asked
)

// GivenValue is a value for a variable that may not be declared, so it is not evaluated yet.
type GivenValue struct {
	Name   string
	Source ValueSource
	// Expr is the value in a file; Text that of an argument, a prompt or the environment.
	Expr hcl.Expression
	Text string
}

// Parse evaluates the value for a variable; v is nil when the variable is not declared. The value is not yet
// converted to the variable's type.
func (g GivenValue) Parse(v *Variable) (cty.Value, diag.List) {
	if g.Expr != nil {
		value, more := g.Expr.Value(nil)
		return value, diag.List(nil).Append(more)
	}
	if v == nil {
		return cty.StringVal(g.Text), nil
	}
	return v.ParseValue(g.Text)
}

// Range is the source range of the value; empty if it is not from a file.
func (g GivenValue) Range() hcl.Range {
	if g.Expr == nil {
		return hcl.Range{}
	}
	return g.Expr.Range()
}

// ParseValue evaluates text given for the variable on the command line or in the environment: as a literal string
// if the variable has a primitive type, otherwise as an expression.
func (v *Variable) ParseValue(text string) (cty.Value, diag.List) {
	if v.ParseLiteral {
		return cty.StringVal(text), nil
	}
	e, more := syntax.ParseExpression([]byte(text), "<value for var."+v.Name+">", hcl.InitialPos)
	if more.HasErrors() {
		return cty.DynamicVal, diag.List(nil).Append(more)
	}
	value, evalDiags := e.Value(nil)
	return value, diag.List(nil).Append(more, evalDiags)
}

// Prompt returns the text that asks the user for a value, up to where the answer is typed.
func (v *Variable) Prompt() string {
	var b strings.Builder
	fmt.Fprintf(&b, "var.%s\n", v.Name)
	for line := range strings.Lines(v.Description) {
		fmt.Fprintf(&b, "  %s\n", strings.TrimRight(line, "\r\n"))
	}
	if v.Deprecated != "" {
		fmt.Fprintf(&b, "  This variable is deprecated: %s\n", v.Deprecated)
	}
	if v.Description != "" || v.Deprecated != "" {
		b.WriteString("\n")
	}
	b.WriteString("  Enter a value: ")
	return b.String()
}

// VariableFlag is a -var or a -var-file on the command line.
type VariableFlag struct {
	// File is true for -var-file.
	File bool
	// Text is NAME=VALUE, or the name of the file.
	Text string
}

// VariableOptions are the sources of values of root variables.
type VariableOptions struct {
	// Weak are files of values with lower precedence than all other sources.
	Weak []string
	// Environ are entries NAME=VALUE; only those beginning with TF_VAR_ are used.
	Environ []string
	// Dir is the directory of terraform.tfvars and *.auto.tfvars; empty is the working directory.
	Dir string
	// TestDir is another directory with such files, for the test command; empty for other commands.
	TestDir string
	// Flags are in the order of the command line; later ones take precedence.
	Flags []VariableFlag
	// Ask asks the user for the value of a required variable. Nil if there is no user to ask.
	Ask func(*Variable) (string, error)
}

// GivenValues are the values that were given for root variables.
type GivenValues struct {
	values map[string]GivenValue
	ask    func(*Variable) (string, error)
}

const (
	envPrefix   = "TF_VAR_"
	varsFile    = "terraform.tfvars"
	varsExt     = ".tfvars"
	autoVarsExt = ".auto.tfvars"
)

// CollectVariables collects the values given for root variables: for each, the one with the highest precedence.
// They are not evaluated, because the declarations are not known yet.
func (l *Loader) CollectVariables(o VariableOptions) (*GivenValues, diag.List) {
	g := &GivenValues{values: map[string]GivenValue{}, ask: o.Ask}
	var diags diag.List
	for _, name := range o.Weak {
		diags = append(diags, g.addFile(l, name, FromAutoFile)...)
	}
	for _, entry := range o.Environ {
		if name, value, ok := strings.Cut(entry, "="); ok && strings.HasPrefix(name, envPrefix) {
			name = name[len(envPrefix):]
			g.values[name] = GivenValue{Name: name, Source: FromEnv, Text: value}
		}
	}
	auto := l.autoVarFiles(o.Dir)
	if o.TestDir != "" {
		auto = append(auto, l.autoVarFiles(filepath.Join(o.Dir, o.TestDir))...)
	}
	for _, name := range auto {
		diags = append(diags, g.addFile(l, name, FromAutoFile)...)
	}
	for _, f := range o.Flags {
		if f.File {
			diags = append(diags, g.addFile(l, f.Text, FromNamedFile)...)
		} else {
			diags = append(diags, g.addArgument(f.Text)...)
		}
	}
	return g, diags
}

// autoVarFiles returns the variable files that are loaded automatically, in increasing precedence. A directory with
// such a name is one of them, and an error.
func (l *Loader) autoVarFiles(dir string) []string {
	if dir == "" {
		dir = "."
	}
	entries, err := l.fs.ReadDir(dir)
	if err != nil {
		return nil // reported when the module is loaded
	}
	var first, auto []string
	for _, e := range entries {
		name := e.Name()
		switch {
		case name == varsFile || name == varsFile+".json":
			first = append(first, filepath.Join(dir, name)) // ".json" sorts last
		case strings.HasSuffix(name, autoVarsExt) || strings.HasSuffix(name, autoVarsExt+".json"):
			auto = append(auto, filepath.Join(dir, name))
		}
	}
	return append(first, auto...)
}

func (g *GivenValues) addArgument(text string) diag.List {
	const summary = "Invalid -var option"
	name, value, ok := strings.Cut(text, "=")
	switch {
	case !ok:
		return diag.Errors(summary,
			fmt.Sprintf(`-var takes a name and a value, like -var="name=value", and this is %q.`, text), nil)
	case strings.HasSuffix(name, " "):
		return diag.Errors(summary, fmt.Sprintf(`There is a space before the "=" in %q. Did you mean -var="%s=%s"?`,
			text, strings.TrimRight(name, " "), strings.TrimPrefix(value, " ")), nil)
	}
	g.values[name] = GivenValue{Name: name, Source: FromArgument, Text: value}
	return nil
}

func (g *GivenValues) addFile(l *Loader, name string, source ValueSource) diag.List {
	values, diags := l.ParseVarsFile(name)
	for n, v := range values {
		v.Source = source
		g.values[n] = v
	}
	return diags
}

// ParseVarsFile parses a variables file, .tfvars or its JSON form, which it determines from the name and the
// beginning of the file.
func (l *Loader) ParseVarsFile(name string) (map[string]GivenValue, diag.List) {
	const summary = "Failed to read variables file"
	src, err := l.fs.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, diag.Errors(summary, "There is no file "+name+".", nil)
	case err != nil:
		return nil, diag.Errors(summary, fmt.Sprintf("%s cannot be read: %s.", name, err), nil)
	}
	isJSON := strings.HasSuffix(name, ".json") ||
		!strings.HasSuffix(name, varsExt) && bytes.HasPrefix(bytes.TrimSpace(src), []byte("{"))
	f, more := parseSyntax(name, src, isJSON)
	d := &decoder{}
	d.add(more)
	if f == nil || f.Body == nil {
		l.AddSource(name, src)
		return nil, d.diags
	}
	l.keep(name, f)
	content, _, _ := f.Body.PartialContent(
		&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "variable", LabelNames: []string{"name"}}}})
	for _, b := range content.Blocks {
		d.err(b.TypeRange, "Variable declaration in .tfvars file",
			"Variables are declared in .tf files. This file gives values to them: %s = VALUE.", b.Labels[0])
	}
	if d.diags.HasErrors() {
		return nil, d.diags
	}
	attrs, more := f.Body.JustAttributes()
	d.add(more)
	out := make(map[string]GivenValue, len(attrs))
	for n, attr := range attrs {
		out[n] = GivenValue{Name: n, Source: FromNamedFile, Expr: attr.Expr}
	}
	return out, d.diags
}

// Static implements TreeOptions.Variable: it returns the value given for a variable that is needed before planning.
// It asks the user for missing values, once.
func (g *GivenValues) Static(v *Variable) (cty.Value, diag.List) {
	given, ok := g.values[v.Name]
	if !ok && v.Required() {
		if !g.prompt(v) {
			return cty.DynamicVal, diag.Errors("Failed to request input from user for variable var."+v.Name,
				"The configuration cannot be loaded without a value for this variable, and input is disabled. Set it with "+
					"-var or -var-file.", &v.Range)
		}
		given = g.values[v.Name]
	} else if !ok {
		return cty.NilVal, nil
	}
	return given.Parse(v)
}

// prompt asks the user for a value.
func (g *GivenValues) prompt(v *Variable) bool {
	if g.ask == nil {
		return false
	}
	text, err := g.ask(v)
	if err != nil {
		return false // reported as a missing value
	}
	g.values[v.Name] = GivenValue{Name: v.Name, Source: FromPrompt, Text: text}
	return true
}
