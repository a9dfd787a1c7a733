package main

import (
	"context"
	"fmt"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
)

const outputUsage = `
Usage: coordinator [global options] output [options] [NAME]

  Shows the output values of the root module, or one of them, as the last apply left them in the state.

Options:
  -raw                  Show the one value as it is, without quotes. It must be a string, a number or a bool.
  -show-sensitive       Show sensitive values too. One that is named is always shown.
  -state=FILE           Read this state file, not the state of the workspace.
` + variablesHelp + documentHelp

func runOutput(ctx context.Context, a *app, args []string) int {
	var sf showFlags
	var vars variableFlags
	f := a.newFlags()
	sf.register(f)
	vars.registerValues(f)
	raw := f.Bool("raw", false, "")
	reveal := f.Bool("show-sensitive", false, "")
	file := f.String("state", "", "")
	if code, done := a.parse(f, outputUsage, args); done {
		return code
	}
	s, diags := a.newScreen(sf, nil)
	s.printer.Out = a.stderr // standard output is for values
	s.storageOnly = true
	if diags.HasErrors() {
		return s.end(diags)
	}
	name := f.Arg(0)
	switch {
	case f.NArg() > 1:
		return s.wrongUsage("Unexpected argument", "The output command takes the name of one output value, or no "+
			"argument to show all of them.")
	case *raw && sf.json:
		return s.wrongUsage("Invalid output format", "The -raw and -json options exclude each other.")
	case *raw && name == "":
		return s.wrongUsage("Output name required", "With -raw, the name of one output value has to be given.")
	}
	return s.readState(ctx, vars, *file, func(st *state.State) diag.List {
		switch {
		case name != "" && (len(st.Outputs) > 0 || *raw):
			return s.output(st, name, *raw)
		case len(st.Outputs) == 0 && s.forPeople():
			return diag.List{diag.New(diag.Warning, "No outputs found",
				"The state has no output values: the configuration declares none, or all of them are null, or it has "+
					"not been applied since they were declared.", nil)}
		}
		if s.wantsDocument() {
			text, err := document.OutputsJSON(st)
			if diags := s.writeDocument(text, err); diags.HasErrors() {
				return diags
			}
		}
		o := s.options()
		o.Reveal = *reveal
		s.print(view.OutputsText(st, o))
		return nil
	})
}

// output shows one value.
func (s *screen) output(st *state.State, name string, raw bool) diag.List {
	o := st.Outputs[name]
	if o == nil {
		return diag.Errors(fmt.Sprintf("Output %q not found", name),
			"The state has no output value of this name. One that was added to the configuration gets there when "+
				"that is applied.", nil)
	}
	if !raw {
		if s.wantsDocument() {
			s.writeDocument(document.ValueJSON(o.Value), nil)
		}
		s.print(view.FormatValue(o.Value) + "\n")
		return nil
	}
	text, err := convert.Convert(o.Value, cty.String)
	switch {
	case err != nil:
		return diag.Errors("Unsupported value for raw output", fmt.Sprintf(
			"With -raw, strings, numbers and bools can be shown, and the output value %q is %s. The option -json "+
				"shows values of every type.", name, o.Value.Type().FriendlyName()), nil)
	case text.IsNull():
		return diag.Errors("Unsupported value for raw output", fmt.Sprintf("The output value %q is null, which has "+
			"no text.", name), nil)
	case !text.IsKnown() || marks.Has(text, marks.Ephemeral):
		return diag.Errors("Unsupported value for raw output", fmt.Sprintf("The output value %q is not known.", name),
			nil)
	}
	s.write(s.app.stdout, []byte(text.AsString())) // exactly, whatever it does to a terminal
	return nil
}
