package command

import (
	"flag"
	"strings"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/view/document"
)

// ViewFlags are how a command shows things.
type ViewFlags struct {
	NoColor, JSON, CompactWarnings, Concise, ShowSensitive bool
	ConsolidateWarnings, ConsolidateErrors                 bool
	Deprecations                                           document.Deprecations
	// JSONInto is the file that gets the JSON form beside the text; empty for none.
	JSONInto string
}

// RegisterText registers what every command has.
func (v *ViewFlags) RegisterText(f *flag.FlagSet) {
	f.BoolVar(&v.NoColor, "no-color", false, "")
	f.BoolVar(&v.CompactWarnings, "compact-warnings", false, "")
	f.BoolVar(&v.ConsolidateWarnings, "consolidate-warnings", true, "")
	f.BoolVar(&v.ConsolidateErrors, "consolidate-errors", false, "")
}

// RegisterJSON registers that, and the JSON form.
func (v *ViewFlags) RegisterJSON(f *flag.FlagSet) {
	v.RegisterText(f)
	f.BoolVar(&v.JSON, "json", false, "")
	f.StringVar(&v.JSONInto, "json-into", "", "")
}

// RegisterRun registers those of commands that carry out runs.
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

// Checked is a flag whose value may be refused although it can be parsed.
type Checked interface {
	flag.Value
	// Check says what is wrong with the value.
	Check() diag.List
}

// checkFlags says what is wrong with the values of the flags that were given.
func checkFlags(f *flag.FlagSet) diag.List {
	var diags diag.List
	f.Visit(func(given *flag.Flag) {
		if c, ok := given.Value.(Checked); ok {
			diags = diags.Append(c.Check())
		}
	})
	return diags
}

// absence returns why the option that could not be parsed is not there; empty when nothing is known of it.
func (a *App) absence(command string, err error) string {
	name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !ok {
		return ""
	}
	return a.program.Absent[command+" "+name]
}
