package loop

import "fmt"

// status is a small state machine: an enumeration with a name for each value, and a table of what may follow it.
type status interface {
	~byte
	fmt.Stringer
	// next has the bit of each value that may come next.
	next() uint16
}

// become is the only place where a status changes, except for the phase of a vertex, which changes in move. A change
// that the table does not have is a bug, and panics with both names. v is the vertex that has the status; -1: the run.
func become[S status](v int, s *S, to S) {
	if from := *s; from.next()&(1<<to) == 0 {
		panic(cannot(v, from, to))
	}
	*s = to
}

// cannot says that a status of a vertex, or of the run, cannot become another one.
func cannot[S status](v int, from, to S) string {
	return fmt.Sprintf("loop: %s is %s, so it cannot become %s", whose(v), from, to)
}

// set changes a status that may have the value already.
func set[S status](v int, s *S, to S) {
	if *s != to {
		become(v, s, to)
	}
}

func whose(v int) string {
	if v < 0 {
		return "the run"
	}
	return fmt.Sprintf("vertex %d", v)
}

// bits returns a set of the values of a status.
func bits[S ~byte](list ...S) (set uint16) {
	for _, s := range list {
		set |= 1 << s
	}
	return set
}
