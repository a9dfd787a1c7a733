package loop

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/test/stage/numbers"
	"github.com/millipede-iac/millipede/wire"
)

// The run waited without end for a store that alternately refused requests and did not answer: each time-out reset the
// time of the refusals, and each refusal that of the time-outs.
func TestARefusalIsNotForgottenBecauseOfATimeOut(t *testing.T) {
	var p FailureTimer
	began := time.Unix(0, 0)
	for at := began; ; at = at.Add(5 * time.Second) {
		err := wire.ErrStore
		if at.Unix()%10 == 0 {
			err = fmt.Errorf("publishing: %w", wire.ErrUnanswered)
		}
		if p.Failing(at, err) > 0 {
			if took := at.Sub(began); took < StoreTimeout || took > 3*StoreTimeout {
				t.Errorf("the run ended after %s", took)
			}
			return
		}
		if at.Sub(began) > time.Hour {
			t.Fatal("the run waits for ever")
		}
	}
}

func TestWhatIsNotAnsweredIsWaitedForLongerThanWhatIsRefused(t *testing.T) {
	for err, want := range map[error]time.Duration{wire.ErrDisconnected: OutageTimeout,
		wire.ErrUnanswered: OutageTimeout, wire.ErrDenied: StoreTimeout} {
		var p FailureTimer
		began := time.Unix(0, 0)
		at := began
		for p.Failing(at, err) == 0 && at.Sub(began) < time.Hour {
			at = at.Add(time.Second)
		}
		if took := at.Sub(began); took != want {
			t.Errorf("with the error %v the run waited for %s, not %s", err, took, want)
		}
	}
}

func TestAMachineThatSleptHasNotWaited(t *testing.T) {
	var p FailureTimer
	p.Failing(time.Unix(0, 0), wire.ErrUnanswered)
	if p.Failing(time.Unix(0, 0).Add(8*time.Hour), wire.ErrUnanswered) > 0 {
		t.Error("two failures, one before and one after a long pause, counted as failures during the whole time")
	}
}

// troubled is a run whose only worker is alive, answers calls, and takes no task until a given moment.
func troubled(t *testing.T, until time.Duration) *world {
	p := numbers.New(t, 6)
	p.Lane, p.Stored = program.Safe, true
	w := newWorld(t, 1, p)
	began := w.now
	w.trouble = func() string {
		if w.now.Sub(began) < until {
			return "the disk has no room for the journal"
		}
		return ""
	}
	w.boot()
	return w
}

// When a stream had reached its bound, the run reported that the disk of NATS was full, and that NATS must be
// restarted.
func TestARunSaysThatAStreamIsFullAndWhatToDo(t *testing.T) {
	p := numbers.New(t, 1)
	p.Lane, p.Stored = program.Safe, true
	w := newWorld(t, 1, p)
	w.boot()
	w.loop.store.probed(Probed{Err: fmt.Errorf("%w: stream RESULTS-eu is full. Remove those", wire.ErrFull)})
	text := ""
	for _, p := range w.loop.problems {
		for _, d := range p.list {
			text += d.Summary + ": " + d.Detail
		}
	}
	for part, want := range map[string]bool{"A stream of NATS is full": true, "stream RESULTS-eu is full": true,
		"and can be resumed": true, "started again": false, "disk": false} {
		if strings.Contains(text, part) != want {
			t.Errorf("%q: %t in %q", part, !want, text)
		}
	}
}

// told counts how often a message was shown to the user.
func (w *world) told(summary string) (n int) {
	for _, p := range w.loop.problems {
		for _, d := range p.list {
			if d.Summary == summary {
				n++
			}
		}
	}
	return n
}

// Every worker of a pool had a full disk: each took tasks and returned them, answered calls, and sent heartbeats, so
// the run noticed nothing and showed "Still creating..." for ever.
func TestARunWhoseWorkersHaveNoRoomSaysSoAndEnds(t *testing.T) {
	w := troubled(t, time.Hour)
	began := w.now
	w.run(1 << 20)
	if err := w.loop.err; !errors.Is(err, ErrWorkers) || !strings.Contains(err.Error(), "no room for the journal") {
		t.Errorf("the run ended with %v", err)
	}
	if took := w.now.Sub(began); took > StoreTimeout+10*time.Second {
		t.Errorf("the run took %s", took)
	}
	if n := w.told("No worker takes tasks"); n != 1 {
		t.Errorf("the message was shown %d times", n)
	}
}

func TestARunGoesOnWhenAWorkerHasRoomAgain(t *testing.T) {
	w := troubled(t, StoreTimeout/2)
	w.finish()
	w.stateAgrees()
	w.once()
	if n := w.told("No worker takes tasks"); n != 1 {
		t.Errorf("the message was shown %d times", n)
	}
}

// The run waited without a message, and without end, for a server that was connected but answered nothing.
func TestARunToldOfASilentServerSaysSoAndEndsInTheEnd(t *testing.T) {
	w := troubled(t, time.Hour)
	w.trouble = func() string { return "" }
	w.silent = true
	began := w.now
	var probe func()
	probe = func() {
		w.send(Probed{Err: wire.ErrUnanswered})
		w.later(5*time.Second, probe)
	}
	probe()
	w.run(1 << 22)
	if err := w.loop.err; !errors.Is(err, wire.ErrUnanswered) || !strings.Contains(err.Error(), "10m0s") {
		t.Errorf("the run ended with %v", err)
	}
	if took := w.now.Sub(began); took > OutageTimeout+time.Minute {
		t.Errorf("the run took %s", took)
	}
	if n := w.told("NATS does not answer"); n != 1 {
		t.Errorf("the message was shown %d times", n)
	}
}

// After an interrupt, a run whose server was connected but answered nothing still waited for its answers.
func TestAnInterruptedRunLeavesASilentServer(t *testing.T) {
	w := troubled(t, time.Hour)
	w.run(200)
	w.send(Probed{Err: wire.ErrUnanswered})
	w.send(Interrupted{})
	began := w.now
	w.run(1 << 20)
	if took := w.now.Sub(began); took > goneAfter+5*time.Second {
		t.Errorf("the run took %s", took)
	}
}

func TestTheRunPausesWhileTheStoreTakesNothing(t *testing.T) {
	full := fmt.Errorf("%w: stream RESULTS-eu", wire.ErrFull)
	for name, c := range map[string]struct {
		probes []error // five seconds apart
		want   taking
		silent bool
		told   string // what the user is told, in its order
	}{
		"an answer":                {[]error{nil}, takes, false, ""},
		"an error of another kind": {[]error{wire.ErrDenied}, takes, false, ""},
		"a refusal":                {[]error{wire.ErrStore}, refuses, false, "NATS stores nothing"},
		"a full stream":            {[]error{full}, refuses, false, "A stream of NATS is full"},
		"a refusal is told once":   {[]error{wire.ErrStore, full}, refuses, false, "NATS stores nothing"},
		"a refusal that ends":      {[]error{wire.ErrStore, nil}, takes, false, "NATS stores nothing"},
		"a second refusal": {[]error{full, nil, full}, refuses, false,
			"A stream of NATS is full, A stream of NATS is full"},
		"a refusal ends with a silence":   {[]error{wire.ErrStore, wire.ErrUnanswered}, takes, true, "NATS stores nothing"},
		"a suspicion":                     {[]error{wire.ErrUnconfirmed}, unconfirmed, false, "NATS seems to have lost data"},
		"a suspicion ends with an answer": {[]error{wire.ErrUnconfirmed, nil}, takes, false, "NATS seems to have lost data"},
		"a suspicion does not end with a silence": {[]error{wire.ErrUnconfirmed, wire.ErrUnanswered}, unconfirmed, true,
			"NATS seems to have lost data"},
		"nor with a refusal, which is not told then": {[]error{wire.ErrUnconfirmed, wire.ErrStore}, unconfirmed, false,
			"NATS seems to have lost data"},
		"a suspicion after a refusal": {[]error{wire.ErrStore, wire.ErrUnconfirmed}, unconfirmed, false,
			"NATS stores nothing, NATS seems to have lost data"},
		"a short silence":     {[]error{wire.ErrUnanswered, wire.ErrUnanswered}, takes, true, ""},
		"a silence that ends": {[]error{wire.ErrUnanswered, nil}, takes, false, ""},
		"a silence of half a minute is told once": {slices.Repeat([]error{wire.ErrUnanswered}, 9), takes, true,
			"NATS does not answer"},
		"a silence with a refusal in it is one silence": {[]error{wire.ErrUnanswered, wire.ErrUnanswered, wire.ErrStore,
			wire.ErrUnanswered, wire.ErrUnanswered, wire.ErrUnanswered, wire.ErrUnanswered}, takes, true,
			"NATS stores nothing, NATS does not answer"},
	} {
		s := store{common: at(0)}
		for _, err := range c.probes {
			s.probed(Probed{Err: err})
			s.pass(5 * time.Second)
		}
		var told []string
		for _, p := range s.problems {
			told = append(told, p.list[0].Summary)
		}
		if got := strings.Join(told, ", "); s.taking != c.want || s.silentSince.IsZero() == c.silent || got != c.told ||
			s.err != nil {
			t.Errorf("%s: the store is %s, silent since %s; told: %q; the run ends with %v", name, s.taking,
				s.silentSince, got, s.err)
		}
	}
}

func TestAStoreThatRefusesForTooLongEndsTheRun(t *testing.T) {
	for err, most := range map[error]time.Duration{wire.ErrStore: StoreTimeout, wire.ErrUnanswered: OutageTimeout} {
		s := store{common: at(0)}
		for took := time.Duration(0); s.err == nil; took += time.Second {
			if took > most {
				t.Fatalf("with %v the run goes on", err)
			}
			s.probed(Probed{Err: err})
			s.pass(time.Second)
		}
		if !errors.Is(s.err, err) {
			t.Errorf("the run ends with %v", s.err)
		}
	}
}
