package command

import (
	"flag"
	"strings"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/view/document"
)

// ViewFlags are the options about output.
type ViewFlags struct {
	NoColor, JSON, CompactWarnings, Concise, ShowSensitive bool
	ConsolidateWarnings, ConsolidateErrors                 bool
	Deprecations                                           document.Deprecations
	// JSONInto is the file for the JSON form in addition to text; empty for none.
	JSONInto string
}

// RegisterText registers the options of all commands.
func (v *ViewFlags) RegisterText(f *flag.FlagSet) {
	f.BoolVar(&v.NoColor, "no-color", false, "")
	f.BoolVar(&v.CompactWarnings, "compact-warnings", false, "")
	f.BoolVar(&v.ConsolidateWarnings, "consolidate-warnings", true, "")
	f.BoolVar(&v.ConsolidateErrors, "consolidate-errors", false, "")
}

// RegisterJSON registers the options of all commands, and -json.
func (v *ViewFlags) RegisterJSON(f *flag.FlagSet) {
	v.RegisterText(f)
	f.BoolVar(&v.JSON, "json", false, "")
	f.StringVar(&v.JSONInto, "json-into", "", "")
}

// RegisterRun registers the options of commands that execute runs.
func (v *ViewFlags) RegisterRun(f *flag.FlagSet) {
	f.BoolVar(&v.NoColor, "no-color", false, "")
	f.BoolVar(&v.JSON, "json", false, "")
	f.StringVar(&v.JSONInto, "json-into", "", "")
	f.Var(&v.Deprecations, "deprecation", "")
	f.BoolVar(&v.CompactWarnings, "compact-warnings", false, "")
	f.BoolVar(&v.Concise, "concise", false, "")
	f.BoolVar(&v.ConsolidateWarnings, "consolidate-warnings", true, "")
	f.BoolVar(&v.ConsolidateErrors, "consolidate-errors", false, "")
}

// RegisterReveal registers -show-sensitive, for commands that show values.
func (v *ViewFlags) RegisterReveal(f *flag.FlagSet) {
	f.BoolVar(&v.ShowSensitive, "show-sensitive", false, "")
}

// Checked is a flag whose value can be invalid even though it could be parsed.
type Checked interface {
	flag.Value
	// Check returns the problems of the value.
	Check() diag.List
}

// checkFlags returns the problems of the values of all given flags.
func checkFlags(f *flag.FlagSet) diag.List {
	var diags diag.List
	f.Visit(func(given *flag.Flag) {
		if c, ok := given.Value.(Checked); ok {
			diags = diags.Append(c.Check())
		}
	})
	return diags
}

// absence explains why an option is not supported; empty if it is unknown.
func (a *App) absence(command string, err error) string {
	name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !ok {
		return ""
	}
	return a.program.Absent[command+" "+name]
}
