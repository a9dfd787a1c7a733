package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/lang/diag"
)

// inputAllowed tells whether somebody may be asked.
func (a *app) inputAllowed(flag bool) bool {
	return flag && a.getenv("TF_INPUT") != "0" && a.getenv("TF_INPUT") != "false"
}

// answered tells whether a line is the one answer that approves: the word alone. A line that has no end may be a part of
// another answer, so that callers ask for the whole line.
func answered(line string) bool { return strings.TrimRight(line, "\r\n") == "yes" }

// confirm asks for a "yes". Where nobody may be asked, or nobody is there to answer, that is an error.
func (s *screen) confirm(question, what string, input bool) (bool, diag.List) {
	if !s.app.inputAllowed(input) || !s.forPeople() {
		return false, diag.Errors("Approval is needed", "Nobody can be asked because input is turned off: "+question, nil)
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
