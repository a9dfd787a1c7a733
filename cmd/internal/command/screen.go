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

// Screen is the output of a command: text for people on standard output and standard error, and JSON for
// programs instead of the text (-json) or in addition to it (-json-into). The JSON form is either a stream of
// messages or one document. The caller ends it with End.
type Screen struct {
	App     *App
	Flags   ViewFlags
	Printer *view.Printer
	// StorageOnly says that the command uses the configuration only to find the state; see config.TreeOptions.
	StorageOnly bool
	// WholeConfig says that all modules must be installed and valid, although the command uses only the state.
	// This is so for the same commands as in OpenTofu.
	WholeConfig bool
	Stream      *document.Stream // nil if messages are not requested
	// Document receives the JSON document; nil if it is not requested.
	Document io.Writer
	file     *os.File // the file of -json-into
	failed   bool     // a write has failed
}

// NewScreen returns the screen of a command whose JSON form is one document; diagnostics are then always text.
// sources returns the loaded files for source lines; it may be nil.
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

// NewStreamScreen returns the screen of a command whose JSON form is a stream of messages, including
// diagnostics.
func (a *App) NewStreamScreen(f ViewFlags, sources func() map[string]*hcl.File) (*Screen, diag.List) {
	s, diags := a.NewScreen(f, sources)
	if s.Document != nil {
		s.Stream = document.NewStream(document.StreamOptions{Out: s.Document, Now: time.Now,
			EngineVersion: s.App.program.EngineVersion, Sources: sources, Deprecations: s.Flags.Deprecations})
	}
	return s, diags
}

// ForPeople reports whether standard output is text.
func (s *Screen) ForPeople() bool { return !s.Flags.JSON }

// Options returns the options for writing text.
func (s *Screen) Options() view.TextOptions {
	return s.App.Text(s.Flags)
}

// Say shows a message: with a line break for people, and as one message for programs.
func (s *Screen) Say(text string) {
	s.Print(text + "\n")
	if s.Stream != nil {
		s.Stream.Info(strings.Join(strings.Fields(text), " "))
	}
}

// Print writes text if the output is for people.
func (s *Screen) Print(text string) {
	if s.ForPeople() {
		s.Write(s.App.People(s.Flags), []byte(text))
	}
}

// Printed calls show with the output if that is for people.
func (s *Screen) Printed(show func(io.Writer) error) {
	if s.ForPeople() {
		if err := show(s.App.People(s.Flags)); err != nil {
			s.Check(err)
		}
	}
}

// Check reports a failure to write the output on standard error.
func (s *Screen) Check(err error) {
	if err != nil {
		s.failed = true
		fmt.Fprintf(s.App.Stderr, "Error: writing the output: %s\n", err)
	}
}

// Message writes a message if the output is for programs.
func (s *Screen) Message(kind, text string, fields map[string]any) {
	if s.Stream != nil {
		s.Stream.Message(kind, text, fields)
	}
}

// WantsDocument reports whether the JSON document is requested.
func (s *Screen) WantsDocument() bool { return s.Document != nil }

// WriteDocument writes the JSON document if it is requested. An error in making it is reported as a bug.
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

// Diagnostics shows diagnostics.
func (s *Screen) Diagnostics(l diag.List) {
	s.App.NoteBugs(l)
	if s.Stream != nil {
		s.Stream.Problems(l)
	}
	if s.ForPeople() || s.Stream == nil {
		s.Check(s.Printer.Diagnostics(l))
	}
}

// End shows the last diagnostics and returns the exit code.
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

// WrongUsage ends a command with invalid arguments.
func (s *Screen) WrongUsage(summary, detail string) int {
	return s.End(diag.Errors(summary, fmt.Sprintf("%s\n\nFor the options of the command, run:\n  "+diag.Program()+
		" %s -help", detail, s.App.Command), nil))
}

// checkWorkspace checks that TF_WORKSPACE is a valid name, for commands that use workspaces.
func (a *App) checkWorkspace() diag.List {
	if name := a.Getenv("TF_WORKSPACE"); name != "" && !a.apart && !estate.ValidWorkspace(name) {
		return diag.Errors("Invalid workspace name set using TF_WORKSPACE", fmt.Sprintf("The workspace name %q is "+
			"not allowed: it may contain only characters that are safe in a URL, and no slash.", name), nil)
	}
	return nil
}

// From sets the source of files for the source lines of diagnostics.
func (s *Screen) From(sources func() map[string]*hcl.File) {
	s.Printer.Sources = sources
	if s.Stream != nil {
		s.Stream.Sources = sources
	}
}

// Finding returns how the command finds the state.
func (s *Screen) Finding(vars estate.Variables) estate.Finding {
	return estate.Finding{Variables: vars, StorageOnly: s.StorageOnly, Whole: s.WholeConfig, Sources: s.From}
}

// WithState opens the state of the workspace, or that in the file of -state, calls fn, and closes the state.
// operation is the name of the operation in the lock; empty for commands that only read. It returns the exit
// code.
func (s *Screen) WithState(ctx context.Context, vars estate.Variables, f estate.StateOptions, operation string,
	fn func(estate.Changeable) diag.List) (code int) {
	at, diags := s.App.Estate.OpenChangeable(ctx, s.Finding(vars), f, operation)
	if diags.HasErrors() {
		return s.End(diags)
	}
	defer func() { // after a panic too, because the state is locked
		code = s.End(diags.Append(at.Close(ctx)))
	}()
	diags = diags.Append(fn(at))
	return code
}

// ReadState is WithState for commands that only read the state.
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

// openInto creates the file of -json-into, or truncates it.
func openInto(name string) (*os.File, diag.List) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, diag.Errors("Invalid argument", fmt.Sprintf("The file of -json-into cannot be written: %s.", err),
			nil)
	}
	return file, nil
}
