package loop

import "time"

// course is what the run was told to do. A run is never told to go on again:
//
//	              to stop                once more, or its server is gone
//	goingOn --------+-----> stopping -----------+-----> leaving
//	   |            |          |                |          |
//	   |            |          | to cancel      |          | to cancel
//	   |  to cancel |          v                |          v
//	   +------------+-----> cancelled ----------+-----> dropping
//
// A run that is abandoned leaves at once, whatever it was told before.
type course byte

const (
	goingOn   course = iota
	stopping         // it starts nothing more, and waits for what is under way
	cancelled        // the same, and it must not be resumed
	leaving          // what is under way is left alone
	dropping         // the same, and the run must not be resumed
	courses   = iota
)

var courseNames = [courses]string{"going on", "stopping", "cancelled", "leaving", "leaving and cancelled"}

func (c course) String() string { return courseNames[c] }

// coursesAfter is the picture as a table.
var coursesAfter = [courses]uint16{
	goingOn:   bits(stopping, cancelled, leaving),
	stopping:  bits(cancelled, leaving),
	cancelled: bits(dropping),
	leaving:   bits(dropping),
}

func (c course) next() uint16 { return coursesAfter[c] }

// evidence is whether the message store still shows which operations were started. What is lost does not come back:
//
//	complete --+--> lost
//	           +--> elsewhere
type evidence byte

const (
	complete  evidence = iota
	lost               // the store has lost data that it had acknowledged
	elsewhere          // an earlier version began the run; this one does not read the streams that it used
	evidences = iota
)

var evidenceNames = [evidences]string{"complete", "lost", "elsewhere"}

func (e evidence) String() string { return evidenceNames[e] }

var evidencesAfter = [evidences]uint16{complete: bits(lost, elsewhere)}

func (e evidence) next() uint16 { return evidencesAfter[e] }

// ending is how the run ends. Its three parts are independent of each other: a run that was told to stop may find that
// data is lost, and an error ends it on any course. The outcome of the run needs all three.
type ending struct {
	course    course
	evidence  evidence
	err       error     // that keeps the run from continuing; nil while it can
	awaySince time.Time // from when on a run that is to stop finds the transport gone; zero: it does not
}

// halted reports whether the run starts nothing more.
func (e *ending) halted() bool { return e.course != goingOn || e.evidence != complete || e.err != nil }

// stops reports whether the run was told to stop, by whatever course.
func (e *ending) stops() bool { return e.course != goingOn }

// leaves reports whether what is under way is left alone.
func (e *ending) leaves() bool { return e.course == leaving || e.course == dropping }

// cancels reports whether the run must not be resumed.
func (e *ending) cancels() bool { return e.course == cancelled || e.course == dropping }

// awaits reports whether the run starts nothing more, and is to know the outcome of all that is under way.
func (e *ending) awaits() bool {
	return e.stops() && !e.leaves() && e.evidence == complete && e.err == nil
}

// toStop makes the run stop, if it is going on.
func (e *ending) toStop() {
	if e.course == goingOn {
		become(-1, &e.course, stopping)
	}
}

// toCancel makes the run stop as one that must not be resumed, and reports whether that is new.
func (e *ending) toCancel() bool {
	switch {
	case e.cancels():
		return false
	case e.leaves():
		become(-1, &e.course, dropping)
	default:
		become(-1, &e.course, cancelled)
	}
	return true
}

// toLeave makes the run leave what is under way alone, and reports whether that is new.
func (e *ending) toLeave() bool {
	switch {
	case e.leaves():
		return false
	case e.cancels():
		become(-1, &e.course, dropping)
	default:
		become(-1, &e.course, leaving)
	}
	return true
}

// lose notes that the message store does not show any more which operations were started, and reports whether that is
// new.
func (e *ending) lose(older bool) bool {
	if e.evidence != complete {
		return false
	}
	if older {
		become(-1, &e.evidence, elsewhere)
	} else {
		become(-1, &e.evidence, lost)
	}
	return true
}

// fail ends the run with an error, unless it has one.
func (e *ending) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// Err returns the error that keeps the run from continuing; nil while it goes on, and after it has ended normally.
func (e *ending) Err() error { return e.err }

// Break ends the run after Step has panicked. After that only Err and Outcome may be called.
func (e *ending) Break(bug error) { e.err = bug }

// goneAfter is how long a run that is asked to stop waits for a transport that is away.
const goneAfter = 5 * time.Second

// waitedForTransport reports whether a run that is to stop has waited long enough for a transport that is away.
func (e *ending) waitedForTransport(now time.Time, away bool) bool {
	switch {
	case !e.stops() || e.leaves() || !away:
		e.awaySince = time.Time{}
	case e.awaySince.IsZero():
		e.awaySince = now
	default:
		return now.Sub(e.awaySince) >= goneAfter
	}
	return false
}
