package main

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

// inputAllowed tells whether somebody may be asked.
func (a *app) inputAllowed(flag bool) bool { return flag && a.estate.InputAllowed() }

// answered tells whether a line is the one answer that approves: the word alone. A line that has no end may be a part
// of another answer, so that callers ask for the whole line.
func answered(line string) bool { return strings.TrimRight(line, "\r\n") == "yes" }

// confirm asks for a "yes". Where nobody may be asked, or nobody is there to answer, that is an error.
func (s *screen) confirm(question, what string, input bool) (bool, diag.List) {
	if !s.app.inputAllowed(input) || !s.forPeople() {
		return false, diag.Errors("Approval is needed", "Nobody can be asked because input is turned off: "+question,
			nil)
	}
	s.print(fmt.Sprintf("\n%s\n  %s\n\n  Enter a value: ", s.app.ink(s.flags.viewFlags).Bold(question), what))
	line, err := s.app.readLine()
	s.print("\n")
	if errors.Is(err, operation.ErrInterrupted) {
		return false, diag.Errors("Operation interrupted", "The question was not answered.", nil)
	}
	if err != nil {
		return false, diag.Errors("No approval", "Standard input has ended before a whole line came.", nil)
	}
	return answered(line), nil
}

// enter asks for a line of text, without the blanks around it.
func (s *screen) enter(question, what string) (string, diag.List) {
	s.print(fmt.Sprintf("\n%s\n  %s\n\n  Enter a value: ", s.app.ink(s.flags.viewFlags).Bold(question), what))
	line, err := s.app.readLine()
	s.print("\n")
	if errors.Is(err, operation.ErrInterrupted) {
		return "", diag.Errors("Operation interrupted", "The question was not answered.", nil)
	}
	if line = strings.TrimSpace(line); line == "" {
		return "", diag.Errors("Nothing was entered", question, nil)
	}
	return line, nil
}

// ask prompts for the value of a required variable.
func (a *app) ask(v *config.Variable) (string, error) {
	fmt.Fprint(view.Clean(a.stdout, false), v.Prompt()) // a module's words
	line, err := a.readLine()
	if err != nil && line == "" {
		return "", errors.New("no value was entered")
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// maxLine is how long a line of standard input may be.
const maxLine = 16 << 20

// readLine reads a line of standard input; all prompts share what was read ahead. A stop ends the waiting for a line,
// with operation.ErrInterrupted. Nothing may be read after that, because what comes in then is lost.
func (a *app) readLine() (string, error) { return a.readLineUntil(nil) }

// errAnswered means that a question was answered elsewhere.
var errAnswered = errors.New("the question was answered elsewhere")

// readLineUntil is readLine, but gives the waiting up with errAnswered when done is closed. It may be nil.
func (a *app) readLineUntil(done <-chan struct{}) (string, error) {
	if a.interrupts.Asked() {
		return "", operation.ErrInterrupted
	}
	if a.reader == nil {
		a.reader = bufio.NewReader(a.stdin)
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
		return "", errAnswered
	case <-a.interrupts.Stopping.Done():
		return "", operation.ErrInterrupted
	}
}
