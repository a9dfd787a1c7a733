package operation

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/coordinator/program"
)

func TestALogKeepsTheLastEventsAndCountsTheMissedOnes(t *testing.T) {
	l := newLog(10)
	for range 25 {
		l.add(Event{Shown: loop.Shown{Kind: loop.ShownCounts}})
	}
	if len(l.kept) != 10 {
		t.Fatalf("%d events are in memory", len(l.kept))
	}
	for _, c := range []struct{ since, missed, first, n, next uint64 }{
		{0, 15, 16, 10, 25}, {14, 1, 16, 10, 25}, {15, 0, 16, 10, 25}, {20, 0, 21, 5, 25}, {24, 0, 25, 1, 25},
	} {
		events, next, missed, err := l.since(t.Context(), c.since)
		if err != nil || uint64(len(events)) != c.n || next != c.next || missed != c.missed ||
			events[0].Sequence != c.first {
			t.Errorf("since %d: %d events, next %d, %d missed, %v", c.since, len(events), next, missed, err)
		}
	}
}

func TestALongLogIsReadInParts(t *testing.T) {
	l := newLog(2 * mostAtOnce)
	for range mostAtOnce + 3 {
		l.add(Event{})
	}
	first, next, _, _ := l.since(t.Context(), 0)
	second, end, _, _ := l.since(t.Context(), next)
	if len(first) != mostAtOnce || len(second) != 3 || end != mostAtOnce+3 || second[0].Sequence != mostAtOnce+1 {
		t.Errorf("%d and %d events, then %d", len(first), len(second), end)
	}
}

func TestAReaderOfALogWaitsUntilSomethingIsTold(t *testing.T) {
	l := newLog(10)
	got := make(chan int)
	go func() { // received from below
		events, _, _, _ := l.since(t.Context(), 0)
		got <- len(events)
	}()
	(&recorder{log: l, now: time.Now}).Started(3, program.Description{Address: "a", Action: "create"},
		"eu", time.Time{})
	if n := <-got; n != 1 {
		t.Errorf("%d events were received", n)
	}
	e := l.kept[0]
	if e.Vertex != 3 || e.Address != "a" || e.Action != "create" || e.Pool != "eu" || e.Kind != loop.ShownStarted {
		t.Errorf("the event %+v was received", e)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	if _, _, _, err := l.since(ctx, 1); !errors.Is(err, gone) {
		t.Error(err)
	}
	l.close()
	if events, next, _, err := l.since(t.Context(), 1); len(events) > 0 || next != 1 || err != nil {
		t.Error("a reader still waits although the log is closed")
	}
}
