package mem_test

import (
	"errors"
	"testing"

	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/mem"
	"github.com/millipede-iac/millipede/state/storetest"
)

func TestTheStoreInMemoryKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Fixture {
		var last *mem.Store
		reopen := func() journal.Store {
			if last == nil {
				last = mem.New(mem.Options{})
			} else {
				last = last.Reopen()
			}
			return last
		}
		return storetest.Fixture{Open: reopen, Crash: func(journal.Store) journal.Store { return reopen() }}
	})
}

func TestAHookThatFailsBeforeLeavesNothingAndOneAfterLeavesAll(t *testing.T) {
	broken := errors.New("broken")
	var before, after error
	s := mem.New(mem.Options{Hooks: mem.Hooks{
		Before: func(method, of string) error { return before },
		After:  func(method, of string) error { return after },
	}})
	change := journal.Commit{Workspace: "default",
		Changes: []state.Change{state.SetChecks{Checks: []state.CheckResult{{Kind: "check"}}}}}
	checks := func() int {
		st, err := s.Load(t.Context(), "default")
		if err != nil {
			t.Fatal(err)
		}
		return len(st.Checks)
	}
	before = broken
	if err := s.Commit(t.Context(), change); !errors.Is(err, broken) || checks() != 0 {
		t.Errorf("before: %v, %d checks", err, checks())
	}
	before, after = nil, broken
	if err := s.Commit(t.Context(), change); !errors.Is(err, broken) || checks() != 1 {
		t.Errorf("after: %v, %d checks", err, checks())
	}
}

func TestAHookMayOverlookThatAChangeIsNotLocked(t *testing.T) {
	var refusals []error
	s := mem.New(mem.Options{Hooks: mem.Hooks{Fence: func(refusal error) error {
		refusals = append(refusals, refusal)
		return nil
	}}})
	change := journal.Commit{Workspace: "default", Fence: "lost",
		Changes: []state.Change{state.SetChecks{Checks: []state.CheckResult{{Kind: "check"}}}}}
	if err := s.Commit(t.Context(), change); err != nil {
		t.Error(err)
	}
	if len(refusals) != 1 || !errors.Is(refusals[0], journal.ErrFenced) {
		t.Errorf("the refusals were %v", refusals)
	}
}
