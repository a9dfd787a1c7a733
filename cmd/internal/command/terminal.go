package command

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/millipede-iac/millipede/coordinator/operation"
)

// EditLine reads a line from a terminal, which is in raw mode only meanwhile. A stop ends it with
// operation.ErrInterrupted; nothing may be read after that.
func (a *App) EditLine(editor *term.Terminal, in *os.File) (line string, err error) {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, term.Restore(int(in.Fd()), before)) }()
	if columns := Width(a.Stdout); columns > 0 { // it is 0 if the width is unknown
		const anyHeight = 24 // the editor uses only the width
		if err := editor.SetSize(columns, anyHeight); err != nil {
			return "", err
		}
	}
	type answer struct {
		line string
		err  error
	}
	got := make(chan answer, 1)
	go func() { // ends with the line; after a stop the end of the process ends it
		line, err := editor.ReadLine()
		got <- answer{line, err}
	}()
	select {
	case read := <-got:
		return read.line, read.err
	case <-a.Interrupts.Stopping.Done():
		return "", operation.ErrInterrupted
	}
}

// ReadSecret reads a line, which a terminal does not show. With an error, the line has the characters that were read
// before it: standard input may end without a line break.
func (a *App) ReadSecret() (string, error) {
	if file, ok := a.Stdin.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		secret, err := term.ReadPassword(int(file.Fd()))
		return string(secret), err
	}
	line, err := a.ReadLine()
	return strings.TrimRight(line, "\r\n"), err
}

// EnterSecret prompts for a text, which a terminal does not show. It returns an empty text if none was entered; the
// error says why, if that is known.
func (s *Screen) EnterSecret(prompt string) (string, error) {
	s.Print(prompt + ": ")
	text, err := s.App.ReadSecret()
	s.Print("\n")
	return strings.TrimSpace(text), err
}
