package command

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/millipede-iac/millipede/view"
)

// Ink returns the colours for standard output.
func (a *App) Ink(f ViewFlags) view.Ink {
	return view.Ink(!f.NoColor && a.Getenv("NO_COLOR") == "" && Terminal(a.Stdout))
}

// People returns standard output for text. It removes control characters from text of others; see view.Clean.
func (a *App) People(f ViewFlags) io.Writer { return view.Clean(a.Stdout, a.Ink(f)) }

// Text returns the options for text on standard output.
func (a *App) Text(f ViewFlags) view.TextOptions {
	return view.TextOptions{
		Ink: a.Ink(f), Width: Width(a.Stdout),
		Reveal: f.ShowSensitive, Automated: a.Automated(),
	}
}

// Width returns the number of columns of a stream; 0 if it is not a terminal.
func Width(stream any) int {
	f, ok := stream.(*os.File)
	if !ok || !Terminal(stream) {
		return 0
	}
	w, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return w
}

// Printer returns the printer of diagnostics for people.
func (a *App) Printer(f ViewFlags) *view.Printer {
	return &view.Printer{
		Out: a.Stdout, Err: a.Stderr, Ink: view.Ink(!f.NoColor && a.Getenv("NO_COLOR") == "" && Terminal(a.Stderr)),
		Width:        Width(a.Stderr),
		Deprecations: f.Deprecations, CompactWarnings: f.CompactWarnings, ConsolidateWarnings: f.ConsolidateWarnings,
		ConsolidateErrors: f.ConsolidateErrors,
	}
}
