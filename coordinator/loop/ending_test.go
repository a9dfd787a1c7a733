package loop

import (
	"errors"
	"testing"
	"time"
)

func TestARunEndsAsItWasTold(t *testing.T) {
	stop, cancel, leave := (*ending).toStop, func(e *ending) { e.toCancel() }, func(e *ending) { e.toLeave() }
	lose, fail := func(e *ending) { e.lose(false) }, func(e *ending) { e.fail(errStalled) }
	type facts struct{ halted, stops, awaits, leaves, cancels bool }
	for name, c := range map[string]struct {
		told []func(*ending)
		want course
		is   facts
	}{
		"a run that was told nothing goes on": {nil, goingOn, facts{}},
		"one that is to stop awaits what runs": {[]func(*ending){stop}, stopping,
			facts{halted: true, stops: true, awaits: true}},
		"to be told to stop again changes nothing": {[]func(*ending){stop, stop}, stopping,
			facts{halted: true, stops: true, awaits: true}},
		"one that is cancelled awaits what runs, too": {[]func(*ending){cancel}, cancelled,
			facts{halted: true, stops: true, awaits: true, cancels: true}},
		"one that stops can be cancelled": {[]func(*ending){stop, cancel}, cancelled,
			facts{halted: true, stops: true, awaits: true, cancels: true}},
		"a cancelled one is not to be resumed, even if it is told to stop": {[]func(*ending){cancel, stop}, cancelled,
			facts{halted: true, stops: true, awaits: true, cancels: true}},
		"an abandoned one stops and awaits nothing": {[]func(*ending){leave}, leaving,
			facts{halted: true, stops: true, leaves: true}},
		"one that stops can be abandoned": {[]func(*ending){stop, leave}, leaving,
			facts{halted: true, stops: true, leaves: true}},
		"what is cancelled stays so when it is abandoned": {[]func(*ending){cancel, leave}, dropping,
			facts{halted: true, stops: true, leaves: true, cancels: true}},
		"what is abandoned stays so when it is cancelled": {[]func(*ending){leave, cancel}, dropping,
			facts{halted: true, stops: true, leaves: true, cancels: true}},
		"nothing leads back": {[]func(*ending){leave, cancel, stop, leave, cancel}, dropping,
			facts{halted: true, stops: true, leaves: true, cancels: true}},
		"lost data halts a run that was told nothing": {[]func(*ending){lose}, goingOn, facts{halted: true}},
		"with lost data, a run that is to stop looks at nothing more": {[]func(*ending){stop, lose}, stopping,
			facts{halted: true, stops: true}},
		"an error halts a run that was told nothing": {[]func(*ending){fail}, goingOn, facts{halted: true}},
		"after an error, it is still known what the run was told": {[]func(*ending){cancel, fail}, cancelled,
			facts{halted: true, stops: true, cancels: true}},
	} {
		var e ending
		for _, tell := range c.told {
			tell(&e)
		}
		if got := (facts{e.halted(), e.stops(), e.awaits(), e.leaves(), e.cancels()}); e.course != c.want || got != c.is {
			t.Errorf("%s: it is %s, %+v", name, e.course, got)
		}
	}
}

func TestWhatIsNewAboutTheEndIsNewOnce(t *testing.T) {
	var e ending
	for name, tell := range map[string]func() bool{
		"cancelled": e.toCancel, "abandoned": e.toLeave, "without evidence": func() bool { return e.lose(true) },
	} {
		if !tell() || tell() {
			t.Errorf("a run is %s twice, or never", name)
		}
	}
	if e.lose(false) || e.evidence != elsewhere {
		t.Errorf("evidence that is %s is lost again", e.evidence)
	}
}

func TestTheFirstErrorEndsTheRunExceptForABug(t *testing.T) {
	var e ending
	first, second := errors.New("first"), errors.New("second")
	e.fail(first)
	e.fail(second)
	if !errors.Is(e.Err(), first) {
		t.Errorf("the run ends with %v", e.Err())
	}
	if e.Break(second); !errors.Is(e.Err(), second) {
		t.Errorf("a bug is hidden behind %v", e.Err())
	}
}

func TestARunThatIsToStopWaitsForItsTransportForAMoment(t *testing.T) {
	at := func(d time.Duration) time.Time { return time.Unix(1_700_000_000, 0).Add(d) }
	var e ending
	for _, step := range []struct {
		name string
		tell func()
		at   time.Duration
		away bool
		want bool
	}{
		{"a run that goes on waits as long as it takes", nil, 0, true, false},
		{"however long", nil, time.Hour, true, false},
		{"it is told to stop", e.toStop, time.Hour + 1, true, false},
		{"the transport is back", nil, time.Hour + goneAfter - 1, false, false},
		{"and away", nil, time.Hour + goneAfter, true, false},
		{"not for long enough", nil, time.Hour + 2*goneAfter - 1, true, false},
		{"for long enough", nil, time.Hour + 2*goneAfter, true, true},
		{"it leaves", func() { e.toLeave() }, time.Hour + 3*goneAfter, true, false},
		{"and waits for nothing", nil, 2 * time.Hour, true, false},
	} {
		if step.tell != nil {
			step.tell()
		}
		if got := e.waitedForTransport(at(step.at), step.away); got != step.want {
			t.Errorf("%s: it has waited: %t", step.name, got)
		}
	}
}
