package command

import (
	"context"
	"errors"
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

// Screen is where a command talks that runs no plan: text for people on standard output and error, JSON for programs
// instead of that (-json) or beside it (-json-into). The JSON is either a stream of messages or one document. Close it
// with End.
type Screen struct {
	App     *App
	Flags   ViewFlags
	Printer *view.Printer
	// StorageOnly tells that the command needs the configuration only to find the state; see config.TreeOptions.
	StorageOnly bool
	// WholeConfig tells that the command wants every module to be installed and valid, though it looks at the state
	// alone. Which ones do is as in OpenTofu.
	WholeConfig bool
	Stream      *document.Stream // nil when nobody wants messages
	// Document receives the JSON of commands that write one; nil when nobody wants it.
	Document io.Writer
	file     *os.File // of -json-into
	failed   bool     // something could not be written
}

// NewScreen returns the screen of a command whose JSON form is one document; problems are always text then. sources
// returns the files that were loaded; it may be nil.
func (a *App) NewScreen(f ViewFlags, sources func() map[string]*hcl.File) (*Screen, diag.List) {
	s := &Screen{App: a, Flags: f, Printer: a.Printer(f)}
	s.Printer.Sources = sources
	diags := a.checkWorkspace()
	switch {
	case f.JSON && f.JSONInto != "":
		s.Flags.JSON = false
		return s, diag.Errors("Invalid output format", "The -json and -json-into options exclude each other.", nil)
	case f.JSON:
		s.Document, s.Printer.Out = a.Stdout, a.Stderr
	case f.JSONInto != "":
		file, more := openInto(a.Path(f.JSONInto))
		if more.HasErrors() {
			return s, more
		}
		s.Document, s.file = file, file
	}
	return s, diags
}

// TextScreen returns the screen of a command that has no JSON form.
func (a *App) TextScreen(f ViewFlags) *Screen {
	return &Screen{App: a, Flags: f, Printer: a.Printer(f)}
}

// NewStreamScreen returns the screen of a command whose JSON form is a stream of messages, problems among them.
func (a *App) NewStreamScreen(f ViewFlags, sources func() map[string]*hcl.File) (*Screen, diag.List) {
	s, diags := a.NewScreen(f, sources)
	if s.Document != nil {
		s.Stream = document.NewStream(document.StreamOptions{Out: s.Document, Now: time.Now,
			EngineVersion: s.App.program.EngineVersion, Sources: sources, Deprecations: s.Flags.Deprecations})
	}
	return s, diags
}

// ForPeople tells whether standard output is text.
func (s *Screen) ForPeople() bool { return !s.Flags.JSON }

// Options are how the views write text.
func (s *Screen) Options() view.TextOptions {
	return s.App.Text(s.Flags)
}

// Say tells something: the text with a line break for people, the same on one line for programs.
func (s *Screen) Say(text string) {
	s.Print(text + "\n")
	if s.Stream != nil {
		s.Stream.Info(strings.Join(strings.Fields(text), " "))
	}
}

// Print writes text for people alone.
func (s *Screen) Print(text string) {
	if s.ForPeople() {
		s.Write(s.App.People(s.Flags), []byte(text))
	}
}

// Printed writes what a view writes, for people alone.
func (s *Screen) Printed(show func(io.Writer) error) {
	if s.ForPeople() {
		if err := show(s.App.People(s.Flags)); err != nil {
			s.Check(err)
		}
	}
}

// Check reports that a stream cannot be written; there is nothing else to be done about it.
func (s *Screen) Check(err error) {
	if err != nil {
		s.failed = true
		fmt.Fprintf(s.App.Stderr, "Error: writing the output: %s\n", err)
	}
}

// Message writes a message for programs alone.
func (s *Screen) Message(kind, text string, fields map[string]any) {
	if s.Stream != nil {
		s.Stream.Message(kind, text, fields)
	}
}

// WantsDocument tells whether somebody wants the JSON document.
func (s *Screen) WantsDocument() bool { return s.Document != nil }

// WriteDocument writes the JSON document, if somebody wants it. An error in making it is a bug of ours, shown as such.
func (s *Screen) WriteDocument(text []byte, err error) diag.List {
	if s.Document == nil {
		return nil
	}
	if err != nil {
		return diag.Errors("Failed to make the JSON output", err.Error()+".", nil)
	}
	s.Write(s.Document, text)
	return nil
}

// Diagnostics shows problems.
func (s *Screen) Diagnostics(l diag.List) {
	s.App.NoteBugs(l)
	if s.Stream != nil {
		s.Stream.Problems(l)
	}
	if s.ForPeople() || s.Stream == nil {
		s.Check(s.Printer.Diagnostics(l))
	}
}

// End shows the last problems and returns the exit code.
func (s *Screen) End(l diag.List) int {
	s.Diagnostics(l)
	code := 0
	if l.HasErrors() {
		code = 1
	}
	var err error
	if s.Stream != nil {
		err = s.Stream.Settle()
	}
	if s.file != nil {
		err = errors.Join(err, s.file.Close())
	}
	if s.Check(err); s.failed {
		return 1
	}
	return code
}

func (s *Screen) Write(w io.Writer, text []byte) {
	_, err := w.Write(text)
	s.Check(err)
}

// WrongUsage ends a command whose arguments are wrong.
func (s *Screen) WrongUsage(summary, detail string) int {
	return s.End(diag.Errors(summary, fmt.Sprintf("%s\n\nFor the options of the command, run:\n  "+diag.Program()+
		" %s -help", detail, s.App.Command), nil))
}

// checkWorkspace says whether the name that TF_WORKSPACE gives can be one of a workspace, for commands that have to do
// with workspaces.
func (a *App) checkWorkspace() diag.List {
	if name := a.Getenv("TF_WORKSPACE"); name != "" && !a.apart && !estate.ValidWorkspace(name) {
		return diag.Errors("Invalid workspace name set using TF_WORKSPACE", fmt.Sprintf("The workspace name %q is "+
			"not allowed: it may hold only what is safe in a URL, and no slash.", name), nil)
	}
	return nil
}

// From tells the screen where the text of files is, for snippets.
func (s *Screen) From(sources func() map[string]*hcl.File) {
	s.Printer.Sources = sources
	if s.Stream != nil {
		s.Stream.Sources = sources
	}
}

// Finding says how the command finds the state.
func (s *Screen) Finding(vars estate.Variables) estate.Finding {
	return estate.Finding{Variables: vars, StorageOnly: s.StorageOnly, Whole: s.WholeConfig, Sources: s.From}
}

// WithState opens the state of the workspace, or that in the file of -state, calls fn and closes it. operation names
// what the command does in the lock; empty for commands that only read. It returns the exit code.
func (s *Screen) WithState(ctx context.Context, vars estate.Variables, f estate.StateOptions, operation string,
	fn func(estate.Changeable) diag.List) (code int) {
	at, diags := s.App.Estate.OpenChangeable(ctx, s.Finding(vars), f, operation)
	if diags.HasErrors() {
		return s.End(diags)
	}
	defer func() { // after a panic, too: the state is locked
		code = s.End(diags.Append(at.Close(ctx)))
	}()
	diags = diags.Append(fn(at))
	return code
}

// ReadState is withState for commands that only look at the state.
func (s *Screen) ReadState(ctx context.Context, vars estate.Variables, file string,
	fn func(*state.State) diag.List) int {
	return s.WithState(ctx, vars, estate.StateOptions{File: file}, "",
		func(at estate.Changeable) diag.List {
			st, diags := at.Load(ctx)
			if diags.HasErrors() {
				return diags
			}
			return diags.Append(fn(st))
		})
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
