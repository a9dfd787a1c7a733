package service_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/work"
)

// An operation on another machine outlives the service that has begun it, but its token was only in the memory of the
// service: after a restart, a program of the run could not read a state any more.
func TestTheTokenOfAPhaseSurvivesTheServiceAndEndsWithThePhase(t *testing.T) {
	h := servicetest.New(t)
	tokens := make(chan string, 10)
	h.Engine.PlanFunc = func(_ context.Context, j *work.Job) (*work.PlanResult, error) {
		for _, entry := range j.Environment {
			if token, is := strings.CutPrefix(entry, "ATLAS_TOKEN="); is {
				tokens <- token
			}
		}
		<-j.Stopping.Done()
		return nil, work.ErrStopped
	}
	w := h.NewWorkspace("a")
	r := h.NewRun(w, nil)
	first := <-tokens
	valid := func(token string) bool {
		t.Helper()
		a, err := h.Tokens.Authenticate(token, "")
		if err != nil && !errors.Is(err, tables.ErrUnauthorized) {
			t.Fatal(err)
		}
		return err == nil && a.Token.Kind == record.TokenRun && a.Token.Owner == r.ID
	}
	if !valid(first) {
		t.Error("the token is not valid while the phase is in progress")
	}
	h.Die()
	h.Start()
	second := <-tokens
	if !valid(first) || !valid(second) {
		t.Error("a token is not valid after a restart")
	}
	altered := first[:len(first)-2] + "AA"
	if first != altered && valid(altered) {
		t.Error("an altered token is valid")
	}
	if err := h.Runs.Cancel(h.Admin, r.ID, ""); err != nil {
		t.Fatal(err)
	}
	h.Await(r.ID, record.Canceled)
	if valid(first) || valid(second) {
		t.Error("a token is valid after the end of its phase")
	}
}
