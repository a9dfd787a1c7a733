package command

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/view"
)

// InputAllowed reports whether the user may be asked.
func (a *App) InputAllowed(flag bool) bool { return flag && a.Estate.InputAllowed() }

// Answered reports whether a line approves: it must be the word "yes" alone. Callers pass a complete line,
// because an incomplete one may be the beginning of another answer.
func Answered(line string) bool { return strings.TrimRight(line, "\r\n") == "yes" }

// Confirm asks for a "yes". It returns an error if input is disabled or standard input has ended. As in
// OpenTofu, state replace-provider and force-unlock ask regardless of TF_INPUT; other commands pass the result of
// InputAllowed.
func (s *Screen) Confirm(question, what string, input bool) (bool, diag.List) {
	if !input || !s.ForPeople() {
		return false, diag.Errors("Approval is needed", "Nobody can be asked because input is turned off: "+question,
			nil)
	}
	s.Print(fmt.Sprintf("\n%s\n  %s\n\n  Enter a value: ", s.App.Ink(s.Flags).Bold(question), what))
	line, err := s.App.ReadLine()
	s.Print("\n")
	if errors.Is(err, operation.ErrInterrupted) {
		return false, diag.Errors("Operation interrupted", "The question was not answered.", nil)
	}
	if err != nil {
		return false, diag.Errors("No approval", "Standard input ended before a complete line.", nil)
	}
	return Answered(line), nil
}

// Enter asks for a line of text, and trims it.
func (s *Screen) Enter(question, what string) (string, diag.List) {
	s.Print(fmt.Sprintf("\n%s\n  %s\n\n  Enter a value: ", s.App.Ink(s.Flags).Bold(question), what))
	line, err := s.App.ReadLine()
	s.Print("\n")
	if errors.Is(err, operation.ErrInterrupted) {
		return "", diag.Errors("Operation interrupted", "The question was not answered.", nil)
	}
	if line = strings.TrimSpace(line); line == "" {
		return "", diag.Errors("Nothing was entered", question, nil)
	}
	return line, nil
}

// ask prompts for the value of a required variable.
func (a *App) ask(v *config.Variable) (string, error) {
	fmt.Fprint(view.Clean(a.Stdout, false), v.Prompt()) // the description is the module's
	line, err := a.ReadLine()
	fmt.Fprintln(a.Stdout)
	if err != nil && line == "" {
		return "", errors.New("no value was entered")
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// maxLine is the maximum length of a line of standard input.
const maxLine = 16 << 20

// ReadLine reads a line of standard input. All prompts share the same buffer. A stop ends the wait for a line
// with operation.ErrInterrupted; nothing may be read after that, because further input is lost.
func (a *App) ReadLine() (string, error) { return a.ReadLineUntil(nil) }

// ErrAnsweredElsewhere means that a question was answered elsewhere.
var ErrAnsweredElsewhere = errors.New("the question was answered elsewhere")

// ReadLineUntil is ReadLine, but returns ErrAnsweredElsewhere when done is closed. done may be nil.
func (a *App) ReadLineUntil(done <-chan struct{}) (string, error) {
	if a.Interrupts.Asked() {
		return "", operation.ErrInterrupted
	}
	if a.reader == nil {
		a.reader = bufio.NewReader(a.Stdin)
	}
	type answer struct {
		line string
		err  error
	}
	got := make(chan answer, 1)
	go func() { // ends with the line; after a stop the end of the process ends it
		var line []byte
		for {
			part, err := a.reader.ReadSlice('\n')
			line = append(line, part...)
			switch {
			case len(line) > maxLine:
				got <- answer{err: fmt.Errorf("a line of standard input is longer than %d MiB", maxLine>>20)}
				return
			case !errors.Is(err, bufio.ErrBufferFull):
				got <- answer{string(line), err}
				return
			}
		}
	}()
	select {
	case read := <-got:
		return read.line, read.err
	case <-done:
		return "", ErrAnsweredElsewhere
	case <-a.Interrupts.Stopping.Done():
		return "", operation.ErrInterrupted
	}
}
