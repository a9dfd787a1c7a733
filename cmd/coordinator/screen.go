package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
)

// showFlags are how a command shows things that runs no plan.
type showFlags struct {
	viewFlags
}

// registerText registers what every command has.
func (s *showFlags) registerText(f *flag.FlagSet) {
	f.BoolVar(&s.noColor, "no-color", false, "")
	f.BoolVar(&s.compactWarnings, "compact-warnings", false, "")
	f.BoolVar(&s.consolidateWarnings, "consolidate-warnings", true, "")
	f.BoolVar(&s.consolidateErrors, "consolidate-errors", false, "")
}

// register registers that, and the JSON form.
func (s *showFlags) register(f *flag.FlagSet) {
	s.registerText(f)
	f.BoolVar(&s.json, "json", false, "")
	f.StringVar(&s.jsonInto, "json-into", "", "")
}

// The parts that the help texts of several commands have in common.
const (
	textHelp = `  -no-color             Use no colours.
  -compact-warnings, -consolidate-warnings=false, -consolidate-errors
                        How problems are shown.
`
	jsonHelp = `  -json                 Show everything as JSON, a line for each message.
  -json-into=FILE       Write that to a file, beside the text.
` + textHelp
	documentHelp = `  -json                 Show the result as JSON.
  -json-into=FILE       Write that to a file, beside the text.
` + textHelp
	variablesHelp = `  -var 'NAME=VALUE', -var-file=FILE
                        Variables that the backend block depends on. May be given often.
`
	lockHelp = `  -lock=false           Do not lock the state meanwhile.
  -lock-timeout=0s      How long to wait for a lock that another command holds.
`
	remoteVersionHelp = `  -ignore-remote-version
                        Change the state of a workspace of a service although it is for another version.
`
	stateFileHelp = `  -state=FILE           Work on this state file, not on the state of the workspace.
  -state-out=FILE       Write the changed state to this file.
  -backup=FILE          Where the state before the change is written; "-" for nowhere.
`
)

// screen is where a command talks that runs no plan: text for people on standard output and error, JSON for programs
// instead of that (-json) or beside it (-json-into). The JSON is either a stream of messages or one document. Close it
// with end.
type screen struct {
	app     *app
	flags   showFlags
	printer *view.Printer
	// storageOnly tells that the command needs the configuration only to find the state; see config.TreeOptions.
	storageOnly bool
	// wholeConfig tells that the command wants every module to be installed and valid, though it looks at the state
	// alone. Which ones do is as in OpenTofu.
	wholeConfig bool
	stream      *document.Stream // nil when nobody wants messages
	// document receives the JSON of commands that write one; nil when nobody wants it.
	document io.Writer
	file     *os.File // of -json-into
	failed   bool     // something could not be written
}

// newScreen returns the screen of a command whose JSON form is one document; problems are always text then. sources
// returns the files that were loaded; it may be nil.
func (a *app) newScreen(f showFlags, sources func() map[string]*hcl.File) (*screen, diag.List) {
	s := &screen{app: a, flags: f, printer: a.printer(f.viewFlags)}
	s.printer.Sources = sources
	diags := a.checkWorkspace()
	switch {
	case f.json && f.jsonInto != "":
		s.flags.json = false
		return s, diag.Errors("Invalid output format", "The -json and -json-into options exclude each other.", nil)
	case f.json:
		s.document, s.printer.Out = a.stdout, a.stderr
	case f.jsonInto != "":
		file, more := openInto(f.jsonInto)
		if more.HasErrors() {
			return s, more
		}
		s.document, s.file = file, file
	}
	return s, diags
}

// textScreen returns the screen of a command that has no JSON form.
func (a *app) textScreen(f viewFlags) *screen {
	return &screen{app: a, flags: showFlags{f}, printer: a.printer(f)}
}

// newStreamScreen returns the screen of a command whose JSON form is a stream of messages, problems among them.
func (a *app) newStreamScreen(f showFlags, sources func() map[string]*hcl.File) (*screen, diag.List) {
	s, diags := a.newScreen(f, sources)
	if s.document != nil {
		s.stream = document.NewStream(document.StreamOptions{Out: s.document, Now: time.Now,
			EngineVersion: engineVersion, Sources: sources, Deprecations: s.flags.deprecations})
	}
	return s, diags
}

// forPeople tells whether standard output is text.
func (s *screen) forPeople() bool { return !s.flags.json }

// options are how the views write text.
func (s *screen) options() view.TextOptions {
	return s.app.text(s.flags.viewFlags)
}

// say tells something: the text with a line break for people, the same on one line for programs.
func (s *screen) say(text string) {
	s.print(text + "\n")
	if s.stream != nil {
		s.stream.Info(strings.Join(strings.Fields(text), " "))
	}
}

// print writes text for people alone.
func (s *screen) print(text string) {
	if s.forPeople() {
		s.write(s.app.people(s.flags.viewFlags), []byte(text))
	}
}

// printed writes what a view writes, for people alone.
func (s *screen) printed(show func(io.Writer) error) {
	if s.forPeople() {
		if err := show(s.app.people(s.flags.viewFlags)); err != nil {
			s.check(err)
		}
	}
}

// check reports that a stream cannot be written; there is nothing else to be done about it.
func (s *screen) check(err error) {
	if err != nil {
		s.failed = true
		fmt.Fprintf(s.app.stderr, "Error: writing the output: %s\n", err)
	}
}

// message writes a message for programs alone.
func (s *screen) message(kind, text string, fields map[string]any) {
	if s.stream != nil {
		s.stream.Message(kind, text, fields)
	}
}

// wantsDocument tells whether somebody wants the JSON document.
func (s *screen) wantsDocument() bool { return s.document != nil }

// writeDocument writes the JSON document, if somebody wants it. An error in making it is a bug of ours, shown as such.
func (s *screen) writeDocument(text []byte, err error) diag.List {
	if s.document == nil {
		return nil
	}
	if err != nil {
		return diag.Errors("Failed to make the JSON output", err.Error()+".", nil)
	}
	s.write(s.document, text)
	return nil
}

// diagnostics shows problems.
func (s *screen) diagnostics(l diag.List) {
	s.app.noteBugs(l)
	if s.stream != nil {
		s.stream.Problems(l)
	}
	if s.forPeople() || s.stream == nil {
		s.check(s.printer.Diagnostics(l))
	}
}

// end shows the last problems and returns the exit code.
func (s *screen) end(l diag.List) int {
	s.diagnostics(l)
	code := 0
	if l.HasErrors() {
		code = 1
	}
	var err error
	if s.stream != nil {
		err = s.stream.Settle()
	}
	if s.file != nil {
		err = errors.Join(err, s.file.Close())
	}
	if s.check(err); s.failed {
		return 1
	}
	return code
}

func (s *screen) write(w io.Writer, text []byte) {
	_, err := w.Write(text)
	s.check(err)
}

// wrongUsage ends a command whose arguments are wrong.
func (s *screen) wrongUsage(summary, detail string) int {
	return s.end(diag.Errors(summary, fmt.Sprintf("%s\n\nFor the options of the command, run:\n  "+diag.Program()+
		" %s -help", detail, s.app.command), nil))
}

// noArguments complains about arguments of a command that takes none.
func noArguments(f *flag.FlagSet) diag.List {
	if f.NArg() == 0 {
		return nil
	}
	return unexpected(f.Arg(0))
}

// unexpected complains about the first argument of a command that takes none.
func unexpected(arg string) diag.List {
	return diag.Errors("Unexpected argument", fmt.Sprintf("Too many command line arguments: %q is not expected. To "+
		"work in another directory, give the global option -chdir=DIR.", arg), nil)
}

// checkWorkspace says whether the name that TF_WORKSPACE gives can be one of a workspace, for commands that have to do
// with workspaces.
func (a *app) checkWorkspace() diag.List {
	if name := a.getenv("TF_WORKSPACE"); name != "" && !a.apart && !estate.ValidWorkspace(name) {
		return diag.Errors("Invalid workspace name set using TF_WORKSPACE", fmt.Sprintf("The workspace name %q is "+
			"not allowed: it may hold only what is safe in a URL, and no slash.", name), nil)
	}
	return nil
}

// from tells the screen where the text of files is, for snippets.
func (s *screen) from(sources func() map[string]*hcl.File) {
	s.printer.Sources = sources
	if s.stream != nil {
		s.stream.Sources = sources
	}
}

// finding says how the command finds the state.
func (s *screen) finding(vars variableFlags) estate.Finding {
	return estate.Finding{Variables: vars.Variables, StorageOnly: s.storageOnly, Whole: s.wholeConfig, Sources: s.from}
}

// withState opens the state of the workspace, or that in the file of -state, calls fn and closes it. operation names
// what the command does in the lock; empty for commands that only read. It returns the exit code.
func (s *screen) withState(ctx context.Context, vars variableFlags, f stateFlags, operation string,
	fn func(estate.Changeable) diag.List) int {
	at, diags := s.app.estate.OpenChangeable(ctx, s.finding(vars), f.StateOptions, operation)
	if diags.HasErrors() {
		return s.end(diags)
	}
	diags = diags.Append(fn(at))
	return s.end(diags.Append(at.Close(ctx)))
}

// readState is withState for commands that only look at the state.
func (s *screen) readState(ctx context.Context, vars variableFlags, file string, fn func(*state.State) diag.List) int {
	return s.withState(ctx, vars, stateFlags{estate.StateOptions{File: file}}, "",
		func(at estate.Changeable) diag.List {
			st, diags := at.Load(ctx)
			if diags.HasErrors() {
				return diags
			}
			return diags.Append(fn(st))
		})
}

// noStateFile is what commands on the state say where nothing was ever stored.
func noStateFile() diag.List {
	return diag.Errors("No state file was found", "There is no state here that the command could work on. Run it in "+
		"a directory where something was applied, or name a state file with -state.", nil)
}

// openInto opens the file of -json-into. What it held is lost.
func openInto(name string) (*os.File, diag.List) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, diag.Errors("Invalid argument", fmt.Sprintf("The file of -json-into cannot be written: %s.", err),
			nil)
	}
	return file, nil
}
