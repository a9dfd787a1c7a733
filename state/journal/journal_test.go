package journal

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
)

var (
	allStatuses = []Status{Waiting, Wanted, Dispatched, Done, Failed, Skipped, Doubt}
	allKinds    = []Kind{Want, Dispatch, Finish, Fail, Skip, Suspect, Retract, Step}
)

// table has the permitted transitions of the picture. All others are illegal.
var table = map[Status]map[Kind]Status{
	Waiting:    {Want: Wanted, Finish: Done, Fail: Failed, Skip: Skipped},
	Wanted:     {Want: Wanted, Dispatch: Dispatched, Finish: Done, Fail: Failed, Skip: Skipped, Step: Wanted},
	Dispatched: {Dispatch: Dispatched, Finish: Done, Fail: Failed, Suspect: Doubt, Retract: Wanted, Step: Wanted},
	Doubt:      {Finish: Done, Fail: Failed, Suspect: Doubt, Retract: Wanted, Step: Wanted},
}

func TestEachEventLeadsWhereThePictureShows(t *testing.T) {
	for _, s := range allStatuses {
		for _, k := range allKinds {
			got, err := Next(s, k)
			want, legal := table[s][k]
			switch {
			case legal && (err != nil || got != want):
				t.Errorf("%s on %s leads to %s (%v), want %s", k, s, got, err, want)
			case !legal && !errors.Is(err, ErrTransition):
				t.Errorf("%s on %s leads to %s, want an error", k, s, got)
			case !legal && (got != s || !strings.Contains(err.Error(), k.String()) ||
				!strings.Contains(err.Error(), s.String())):
				t.Errorf("%s on %s: %s, %v does not name both", k, s, got, err)
			}
		}
	}
}

func TestWhatHasEndedStaysSo(t *testing.T) {
	for _, s := range []Status{Done, Failed, Skipped} {
		for _, k := range allKinds {
			if got, err := Next(s, k); err == nil {
				t.Errorf("%s on %s leads to %s", k, s, got)
			}
		}
	}
}

func TestFoldFindsWhereARunStands(t *testing.T) {
	events := []Event{
		{Kind: Want, Vertex: 0}, {Kind: Want, Vertex: 1}, {Kind: Want, Vertex: 2}, {Kind: Want, Vertex: 3},
		{Kind: Dispatch, Vertex: 0, Attempt: "a0"}, {Kind: Finish, Vertex: 0, Attempt: "a0"},
		{Kind: Dispatch, Vertex: 1, Attempt: "a1"}, {Kind: Dispatch, Vertex: 1, Attempt: "a1'"}, // published again
		{Kind: Dispatch, Vertex: 2, Attempt: "a2"}, {Kind: Suspect, Vertex: 2},
		{Kind: Dispatch, Vertex: 3, Attempt: "a3"}, {Kind: Retract, Vertex: 3},
		{Kind: Want, Vertex: 5}, {Kind: Dispatch, Vertex: 5, Attempt: "a5"}, {Kind: Step, Vertex: 5, Phase: 1},
		{Kind: Fail, Vertex: 6}, {Kind: Skip, Vertex: 7},
		{Kind: RunEnd, Detail: "cancelled"},
	}
	statuses, open, err := Fold(9, events)
	if err != nil {
		t.Fatal(err)
	}
	if want := []Status{Done, Dispatched, Doubt, Wanted, Waiting, Wanted, Failed, Skipped, Waiting}; !slices.Equal(
		statuses, want) {
		t.Errorf("the statuses are %v, want %v", statuses, want)
	}
	attempts := map[int]string{}
	for v, e := range open {
		attempts[v] = e.Attempt
	}
	if want := map[int]string{1: "a1'", 2: "a2"}; !maps.Equal(attempts, want) {
		t.Errorf("under way are %v, want %v", attempts, want)
	}
}

// A run can be folded at any moment, and continues from there as if nothing had happened.
func TestFoldingInTwoPartsIsFoldingWhole(t *testing.T) {
	events := []Event{
		{Kind: Want}, {Kind: Dispatch, Attempt: "1"}, {Kind: Suspect}, {Kind: Retract}, {Kind: Want},
		{Kind: Dispatch, Attempt: "2"},
		{Kind: Step}, {Kind: Dispatch, Attempt: "3"}, {Kind: Finish},
	}
	at := Waiting
	for n, e := range events {
		var err error
		if at, err = Next(at, e.Kind); err != nil {
			t.Fatal(err)
		}
		statuses, open, err := Fold(1, events[:n+1])
		if err != nil {
			t.Fatal(err)
		}
		if _, under := open[0]; statuses[0] != at || under != (at == Dispatched || at == Doubt) {
			t.Errorf("after %d events it is %s (under way: %t), want %s", n+1, statuses[0], under, at)
		}
	}
}

func TestFoldRefusesWhatCannotHaveHappened(t *testing.T) {
	for claim, events := range map[string][]Event{
		"a vertex that is not in the graph":   {{Kind: Want, Vertex: 2}},
		"a negative vertex":                   {{Kind: Want, Vertex: -1}},
		"a dispatch of what was never wanted": {{Kind: Dispatch}},
		"a second end":                        {{Kind: Finish}, {Kind: Finish}},
		"an event of no kind":                 {{}},
	} {
		if _, _, err := Fold(2, events); !errors.Is(err, ErrTransition) {
			t.Errorf("%s: the error is %v", claim, err)
		}
	}
}
