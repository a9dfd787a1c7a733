package main

import (
	"context"
	"fmt"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
)

const outputUsage = `
Usage: coordinator [global options] output [options] [NAME]

  Shows the output values of the root module, or one of them, as of the last apply.

Options:
  -raw                  Show the value of NAME without quotes. It must be a string, a number or a bool.
  -show-sensitive       Show sensitive values too. The value of NAME is always shown.
  -state=FILE           Read this state file, not the state of the workspace.
` + variablesHelp + documentHelp

func runOutput(ctx context.Context, a *app, args []string) int {
	var sf viewFlags
	var vars variableFlags
	f := a.NewFlags()
	sf.RegisterJSON(f)
	vars.registerValues(f)
	raw := f.Bool("raw", false, "")
	reveal := f.Bool("show-sensitive", false, "")
	file := f.String("state", "", "")
	if code, done := a.Parse(f, outputUsage, args); done {
		return code
	}
	s, diags := a.newScreen(sf, nil)
	s.Printer.Out = a.Stderr // standard output is reserved for values
	s.StorageOnly = true
	if diags.HasErrors() {
		return s.End(diags)
	}
	name := f.Arg(0)
	switch {
	case f.NArg() > 1:
		return s.WrongUsage("Unexpected argument", "The output command takes the name of one output value, or no "+
			"argument to show all of them.")
	case *raw && sf.JSON:
		return s.WrongUsage("Invalid output format", "The -raw and -json options exclude each other.")
	case *raw && name == "":
		return s.WrongUsage("Output name required", "With -raw, the name of one output value is required.")
	}
	return s.ReadState(ctx, vars.Variables, *file, func(st *state.State) diag.List {
		switch {
		case name != "" && (len(st.Outputs) > 0 || !s.ForPeople()):
			return s.output(st, name, *raw)
		case len(st.Outputs) == 0 && s.ForPeople():
			return diag.List{diag.New(diag.Warning, "No outputs found",
				"The state has no output values: the configuration declares none, or all of them are null, or it has "+
					"not been applied since they were declared.", nil)}
		}
		if s.WantsDocument() {
			text, err := document.OutputsJSON(st)
			if diags := s.WriteDocument(text, err); diags.HasErrors() {
				return diags
			}
		}
		o := s.Options()
		o.Reveal = *reveal
		s.Print(view.OutputsText(st, o))
		return nil
	})
}

// output shows one value.
func (s *screen) output(st *state.State, name string, raw bool) diag.List {
	o := st.Outputs[name]
	if o == nil {
		return diag.Errors(fmt.Sprintf("Output %q not found", name),
			"The state has no output value of this name. A new output of the configuration is stored in the state when "+
				"the configuration is applied.", nil)
	}
	if s.WantsDocument() { // -json, or -json-into, which goes with -raw too
		s.WriteDocument(document.ValueJSON(o.Value), nil)
	}
	if !raw {
		s.Print(view.FormatValue(o.Value) + "\n")
		return nil
	}
	text, diags := view.RawText(name, o.Value)
	if !diags.HasErrors() {
		s.Write(s.App.Stdout, []byte(text)) // unchanged, including control characters
	}
	return diags
}
