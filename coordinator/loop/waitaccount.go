package loop

import (
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
)

// The loop records what ready vertices wait for by class. All vertices of a class wait for the same thing, because at
// the end of each step everything that could start has started. So a class adds up how long it lacked each thing, and a
// vertex compares the sums when it leaves the queue with those when it joined.

// The things that a class may lack: first these, then its needs in their order, the places of its pool before its
// limits.
const (
	lacksOther  = iota // nothing: the run is about to stop, or the message store takes nothing
	lacksWorker        // a worker of its pool that takes work
	lacksPlace
	lacksLimit // and behind it one for each of its limits
)

// waitWorthTelling is the shortest wait that is recorded.
const waitWorthTelling = 10 * time.Millisecond

// waitAccount is the account of what a class has been waiting for.
type waitAccount struct {
	at    int             // what it lacks now
	since time.Time       // since when
	told  int             // what views were told last
	spent []time.Duration // by what was lacking, until since
}

// lacking returns what keeps the ready vertices of a class from starting. paused says that nothing starts.
func (c *class) lacking(paused bool) int {
	switch {
	case paused:
		return lacksOther
	case !c.served():
		return lacksWorker
	case c.places != nil && c.pool.live > 0 && c.places.available() == 0:
		return lacksPlace
	}
	for i, lim := range c.limits {
		if lim.available() == 0 {
			return lacksLimit + i
		}
	}
	return lacksOther
}

// accountLacks records what classes lack at the end of a step, and shows the vertices that have begun to wait in it.
func (qs *queues) accountLacks(paused bool) {
	for i, c := range qs.classes {
		if qs.sched.ReadyIn(i+firstClass) == 0 {
			continue
		}
		if at := c.lacking(paused); at != c.lack.at {
			c.lack.spent[c.lack.at] += qs.now.Sub(c.lack.since)
			c.lack.at, c.lack.since = at, qs.now
		}
	}
	for _, v := range qs.fresh {
		x := &qs.vertices[v]
		if x.phase != queued {
			continue // it has started in the same step
		}
		c := qs.of(x)
		shown := about(ShownQueued, v, &x.work.desc)
		shown.At, shown.Pool, shown.Queue, shown.Waited = x.work.ready, c.pool.name, int(x.class), c.wait(c.lack.at)
		qs.do(shown)
	}
	qs.fresh = qs.fresh[:0]
}

// showWaits shows which classes lack a different thing than before.
func (qs *queues) showWaits() {
	for i, c := range qs.classes {
		if c.lack.at != c.lack.told && qs.sched.ReadyIn(i+firstClass) > 0 {
			c.lack.told = c.lack.at
			qs.do(Shown{Kind: ShownLacking, Vertex: -1, At: c.lack.since, Queue: i + firstClass,
				Waited: c.wait(c.lack.at)})
		}
	}
}

// newLack returns the account of a new class.
func newLack(c *class, now time.Time) waitAccount {
	return waitAccount{since: now, spent: make([]time.Duration, lacksLimit+len(c.limits))}
}

// wait names something that the class lacks. It is a list of one, without a length.
func (c *class) wait(at int) []journal.Wait {
	switch {
	case at == lacksOther:
		return []journal.Wait{{Kind: journal.WaitOther}}
	case at == lacksWorker:
		return []journal.Wait{{Kind: journal.WaitWorker, Name: c.pool.name}}
	case at == lacksPlace:
		return []journal.Wait{{Kind: journal.WaitPlace, Name: c.pool.name}}
	}
	return []journal.Wait{{Kind: journal.WaitPermit, Name: c.limits[at-lacksLimit].name}}
}

// mark saves the sums of the class for a vertex that joins its queue.
func (c *class) mark(w *work, now time.Time) {
	w.mark = append(w.mark[:0], c.lack.spent...)
	w.mark[c.lack.at] += now.Sub(c.lack.since)
}

// unmark adds what a vertex that leaves the queue has waited for in it. The waits that events already have stay
// unchanged.
func (c *class) unmark(w *work, now time.Time) {
	waits := slices.Clip(slices.Clone(w.waits))
	for i, before := range w.mark {
		d := c.lack.spent[i] - before
		if i == c.lack.at {
			d += now.Sub(c.lack.since)
		}
		if d < waitWorthTelling {
			continue
		}
		one := c.wait(i)[0]
		at := slices.IndexFunc(waits, func(o journal.Wait) bool { return o.Kind == one.Kind && o.Name == one.Name })
		if at < 0 {
			at = len(waits)
			waits = append(waits, one)
		}
		waits[at].For += d
	}
	w.waits = waits
	w.mark = w.mark[:0]
}

// maxFailure is the most bytes of an error text that the journal keeps.
const maxFailure = 2 << 10

// failureText is the text about a failure that the journal keeps. It has neither source lines nor values.
func failureText(list diag.List) string {
	var b strings.Builder
	for _, d := range list {
		if d.Severity != diag.Error {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		b.WriteString(d.Summary)
		if d.Detail != "" {
			b.WriteString(": " + d.Detail)
		}
		if b.Len() > maxFailure {
			return strings.ToValidUTF8(b.String()[:maxFailure], "") + "..."
		}
	}
	return b.String()
}
