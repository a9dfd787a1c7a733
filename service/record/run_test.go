package record_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service/record"
)

var (
	statuses = []record.RunStatus{
		record.Pending, record.PlanQueued, record.Planning, record.Planned, record.PlannedAndSaved,
		record.PlannedAndFinished,
		record.Confirmed, record.ApplyQueued, record.Applying, record.Applied, record.Discarded, record.Canceled,
		record.ForceCanceled, record.Errored,
	}
	kinds = []record.RunEventKind{
		record.EventPlanQueued, record.EventPlanStarted, record.EventPlanEnded, record.EventConfirmed,
		record.EventApplyQueued,
		record.EventApplyStarted, record.EventApplied, record.EventFailed, record.EventDiscarded, record.EventCanceled,
		record.EventForceCanceled, record.EventPlanAgain,
	}
)

func TestAFinalStatusIsNeverLeft(t *testing.T) {
	for _, s := range statuses {
		for _, k := range kinds {
			for o := record.Finished; o <= record.Waiting; o++ {
				to, err := record.Next(s, k, o)
				if s.Final() && err == nil {
					t.Errorf("%s on %s gives %s", k, s, to)
				}
				if err != nil && (!errors.Is(err, record.ErrTransition) || to != s) {
					t.Errorf("%s on %s: %v, %s", k, s, err, to)
				}
			}
		}
	}
}

func TestEveryStatusCanEndAndIsReached(t *testing.T) {
	reached := map[record.RunStatus]bool{record.Pending: true}
	for range statuses {
		for s := range reached {
			for _, k := range kinds {
				for o := record.Finished; o <= record.Waiting; o++ {
					if to, err := record.Next(s, k, o); err == nil {
						reached[to] = true
					}
				}
			}
		}
	}
	for _, s := range statuses {
		if !reached[s] {
			t.Errorf("no event leads to the status %s", s)
		}
		ends := s.Final() || s.Cancelable() || s.Discardable()
		if !ends {
			t.Errorf("a run that is %s can neither be canceled nor discarded", s)
		}
	}
}

// The actions that clients are told to be possible must be those that the state machine permits.
func TestWhatIsOfferedIsPossible(t *testing.T) {
	for _, s := range statuses {
		for k, offered := range map[record.RunEventKind]bool{
			record.EventConfirmed: s.Confirmable(), record.EventDiscarded: s.Discardable(),
			record.EventCanceled: s.Cancelable(),
		} {
			if _, err := record.Next(s, k, 0); (err == nil) != offered {
				t.Errorf("%s on %s: offered %v, %v", k, s, offered, err)
			}
		}
	}
}

func TestPhasesFollowTheRun(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	type step struct {
		kind        record.RunEventKind
		outcome     record.Outcome
		plan, apply record.PhaseStatus
	}
	for name, steps := range map[string][]step{
		"a run that is applied": {
			{record.EventPlanQueued, 0, "queued", "pending"}, {record.EventPlanStarted, 0, "running", "pending"},
			{record.EventPlanEnded, record.Waiting, "finished", "pending"},
			{record.EventConfirmed, 0, "finished", "queued"},
			{record.EventApplyQueued, 0, "finished", "queued"}, {record.EventApplyStarted, 0, "finished", "running"},
			{record.EventApplied, 0, "finished", "finished"},
		},
		"an apply that fails": {
			{record.EventPlanQueued, 0, "queued", "pending"}, {record.EventPlanStarted, 0, "running", "pending"},
			{record.EventPlanEnded, record.Saved, "finished", "pending"},
			{record.EventConfirmed, 0, "finished", "queued"},
			{record.EventApplyQueued, 0, "finished", "queued"}, {record.EventApplyStarted, 0, "finished", "running"},
			{record.EventFailed, 0, "finished", "errored"},
		},
		"a plan that is canceled": {
			{record.EventPlanQueued, 0, "queued", "pending"}, {record.EventPlanStarted, 0, "running", "pending"},
			{record.EventCanceled, 0, "canceled", "unreachable"},
		},
		// The status of the apply stayed pending, and programs that read its log waited for ever.
		"a plan that fails": {
			{record.EventPlanQueued, 0, "queued", "pending"}, {record.EventPlanStarted, 0, "running", "pending"},
			{record.EventFailed, 0, "errored", "unreachable"},
		},
		"a plan that starts again": {
			{record.EventPlanQueued, 0, "queued", "pending"}, {record.EventPlanStarted, 0, "running", "pending"},
			{record.EventPlanAgain, 0, "queued", "pending"}, {record.EventPlanStarted, 0, "running", "pending"},
			{record.EventPlanEnded, record.Finished, "finished", "unreachable"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := record.Run{Status: record.Pending, Plan: record.Phase{Status: "pending"},
				Apply: record.Phase{Status: "pending"}}
			for _, s := range steps {
				if err := r.Enter(s.kind, s.outcome, at); err != nil {
					t.Fatal(err)
				}
				if r.Plan.Status != s.plan || r.Apply.Status != s.apply {
					t.Errorf("after %s the plan is %s, the apply %s", s.kind, r.Plan.Status, r.Apply.Status)
				}
			}
			before := r.Status
			if err := r.Enter(record.EventPlanStarted, 0, at); !errors.Is(err, record.ErrTransition) ||
				r.Status != before {
				t.Errorf("an illegal event: %v, %s", err, r.Status)
			}
		})
	}
}

func TestRolesGrow(t *testing.T) {
	order := []string{"read", "plan", "write", "admin"}
	for i, role := range order[1:] {
		lower := (&record.Access{Role: order[i]}).Permissions()
		higher := (&record.Access{Role: role}).Permissions()
		if lower.Plus(higher) != higher || lower == higher {
			t.Errorf("%s does not include %s", role, order[i])
		}
	}
	if (&record.Access{Role: "nosuch"}).Permissions().Any() {
		t.Error("an unknown role permits something")
	}
	if !record.ValidRole("maintain", true) || record.ValidRole("maintain", false) {
		t.Error("the role maintain must be valid for projects, and only for them")
	}
}

func TestNamesAreWhatTheAPIAllows(t *testing.T) {
	long := strings.Repeat("a", 300)
	for name, want := range map[string][3]bool{ // as a name, a tag, a key
		"one": {true, true, true}, "One_2-x": {true, false, true}, "": {},
		"-x": {false, false, true}, "_x": {false, false, true},
		"a:b": {false, true, false},
		"1a":  {true, true, true}, "a b": {}, "a/b": {}, "\u00e4": {}, long: {}, "a\x00": {},
	} {
		got := [3]bool{record.ValidName(name), record.ValidTag(name), record.ValidKey(name, record.CategoryTerraform)}
		if got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
