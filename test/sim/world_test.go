package sim

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"
)

// world is the environment of the product. Only its loop, the method work, changes it: the product's goroutines stop at
// gates, and the loop lets one of them continue at a time, while all others wait. So the events depend only on the
// seed.
type world struct {
	seed    uint64
	chance  *rand.Rand
	options options
	began   time.Time
	wake    chan struct{} // has an element while a call may have arrived at a gate

	mu       sync.Mutex // guards the fields below; the loop and the goroutines at gates hold it
	arrivals []*op
	givenUp  []givenUp
	agenda   agenda
	serial   int
	steps    int
	trace    io.Writer
	sum      uint64 // the checksum of the trace
	ties     int    // the pairs of calls whose order the Go scheduler chose; with one, a seed may not be replayed exactly
	wrong    []violation

	nats      *nats
	cloud     *cloud
	hosts     []*host
	layout    *rand.Rand // draws the pools and their objects, so that this does not change the other draws of a seed
	remote    *rand.Rand // draws the region that is cut off, and when
	idle      map[string]time.Time
	sites     []*site
	processes []*process
	calm      bool // whether no more faults are injected
	faults    map[string]int
}

// violation is a violated guarantee.
type violation struct{ promise, detail string }

func (v violation) String() string { return v.promise + ": " + v.detail }

// appointment is a function that the loop will call at a time.
type appointment struct {
	at     time.Time
	serial int
	do     func()
}

type agenda []appointment

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return cmp.Or(a[i].at.Compare(a[j].at), cmp.Compare(a[i].serial, a[j].serial)) < 0
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(appointment)) }
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// after makes the loop call a function after a delay.
func (w *world) after(d time.Duration, do func()) {
	w.serial++
	heap.Push(&w.agenda, appointment{at: time.Now().Add(d), serial: w.serial, do: do})
}

// work continues until done returns true; done is called whenever all goroutines wait.
func (w *world) work(done func() bool) {
	for {
		synctest.Wait()
		w.mu.Lock()
		w.admit()
		if done() {
			w.mu.Unlock()
			return
		}
		wait := time.Hour
		if len(w.agenda) > 0 {
			wait = time.Until(w.agenda[0].at)
		}
		if wait <= 0 {
			heap.Pop(&w.agenda).(appointment).do()
			w.steps++
			w.mu.Unlock()
			continue
		}
		w.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-w.wake:
		}
		timer.Stop()
	}
}

// admit accepts the operations that have arrived at a gate since all goroutines last waited. The order in which the
// product's goroutines arrived does not matter, unless two of them cannot be distinguished, which is recorded in ties.
func (w *world) admit() {
	slices.SortStableFunc(w.arrivals, func(a, b *op) int {
		return cmp.Or(cmp.Compare(a.p.name, b.p.name), cmp.Compare(a.name, b.name), cmp.Compare(a.key, b.key),
			slices.Compare(a.from[:], b.from[:]))
	})
	for i, o := range w.arrivals {
		if i > 0 && o.like(w.arrivals[i-1]) {
			w.ties++
		}
		if !o.over() {
			o.p.submit(o)
		}
	}
	w.arrivals = w.arrivals[:0]
	slices.SortFunc(w.givenUp, func(a, b givenUp) int {
		return cmp.Or(cmp.Compare(a.c.p.name, b.c.p.name), cmp.Compare(a.q.subject, b.q.subject))
	})
	for _, g := range w.givenUp {
		w.after(w.latency(), func() { g.c.freeing(g.q) })
	}
	w.givenUp = w.givenUp[:0]
}

// note adds a line to the trace.
func (w *world) note(format string, args ...any) {
	line := fmt.Sprintf("%12.6f "+format+"\n", append([]any{time.Since(w.began).Seconds()}, args...)...)
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%x%s", w.sum, line)
	w.sum = h.Sum64()
	if w.trace != nil {
		_, _ = io.WriteString(w.trace, line)
	}
}

// violate records that a guarantee was violated.
func (w *world) violate(promise, format string, args ...any) {
	v := violation{promise, fmt.Sprintf(format, args...)}
	w.note("VIOLATION %s", v)
	w.wrong = append(w.wrong, v)
}

// odds reports whether a fault with a probability of one in n happens. It returns false once no more faults are
// injected.
func (w *world) odds(n int) bool { return !w.calm && n > 0 && w.chance.IntN(n) == 0 }

// between draws a duration in nanoseconds, so that two events rarely happen at the same instant.
func (w *world) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.chance.Int64N(int64(most-least)+1))
}

// latency draws how long a message is on its way: mostly a short time, sometimes so long that others overtake it.
func (w *world) latency() time.Duration {
	if w.odds(40) {
		w.faults["delayed"]++
		return w.between(10*time.Millisecond, 3*time.Second)
	}
	return w.between(50*time.Microsecond, 2*time.Millisecond)
}

var (
	errDead    = errors.New("the process is dead")
	errTimeout = fmt.Errorf("no answer: %w", context.DeadlineExceeded)
)

// process is one process of the simulated world: a command of a user, or a worker.
type process struct {
	w    *world
	name string
	skew time.Duration // the error of its clock
	ids  int
	end  context.CancelCauseFunc
	done chan struct{}

	// Guarded by w.mu.
	dead   bool
	frozen time.Time // the process does nothing until then
	cut    bool      // whether the process is cut off from the network
	conn   *conn
	ops    map[*op]bool // the calls that wait at a gate
	thaw   []func()
}

// spawn starts a process. The loop calls it.
func (w *world) spawn(name string, main func(ctx context.Context, p *process)) *process {
	ctx, end := context.WithCancelCause(context.Background())
	p := &process{w: w, name: name, end: end, done: make(chan struct{}), ops: map[*op]bool{}}
	if w.odds(3) {
		p.skew = w.between(-time.Hour, time.Hour)
	}
	w.processes = append(w.processes, p)
	w.note("%s starts", name)
	go func() {
		defer close(p.done)
		main(ctx, p)
		w.mu.Lock()
		defer w.mu.Unlock()
		if !p.dead {
			p.over()
		}
	}()
	return p
}

// over removes a process that has ended or was killed.
func (p *process) over() {
	p.dead = true
	if p.conn != nil {
		p.conn.gone()
	}
	for o := range p.ops {
		o.finish(errDead)
	}
	p.thaw = nil
	p.end(errDead)
}

// kill ends a process suddenly. Requests that it sent to a disk may have been executed, or not; messages that are being
// sent arrive, or not.
func (p *process) kill() {
	if p.dead {
		return
	}
	w := p.w
	w.note("%s is killed", p.name)
	ops := make([]*op, 0, len(p.ops))
	for o := range p.ops {
		ops = append(ops, o)
	}
	slices.SortFunc(ops, func(a, b *op) int { return cmp.Compare(a.serial, b.serial) })
	for _, o := range ops {
		if o.carried || o.serial == 0 || o.kind == local {
			o.lost = true
			continue
		}
		happens := w.chance.IntN(2) == 0
		if o.kind == disk && happens {
			o.effect(o)
		}
		o.lost = o.kind == disk || !happens
	}
	p.over()
}

// freeze stops a process for a while, like a signal, a debugger or a sleeping machine.
func (p *process) freeze(d time.Duration) {
	if p.dead || p.frozen.After(time.Now()) {
		return
	}
	p.w.note("%s is frozen for %s", p.name, d.Round(time.Millisecond))
	p.frozen = time.Now().Add(d)
	if p.conn != nil {
		p.conn.down()
	}
	p.w.after(d, func() {
		if p.dead {
			return
		}
		p.w.note("%s goes on", p.name)
		p.frozen = time.Time{}
		if p.conn != nil && !p.cut {
			p.conn.up()
		}
		held := p.thaw
		p.thaw = nil
		for _, do := range held {
			p.w.after(p.w.between(0, time.Millisecond), do)
		}
	})
}

// partition cuts a process off from the network for a while.
func (p *process) partition(d time.Duration) {
	if p.dead || p.cut || p.conn == nil {
		return
	}
	p.w.note("%s is cut off for %s", p.name, d.Round(time.Millisecond))
	p.cut = true
	p.conn.down()
	p.w.after(d, func() {
		if p.dead {
			return
		}
		p.w.note("%s is connected again", p.name)
		p.cut = false
		if p.frozen.IsZero() {
			p.conn.up()
		}
	})
}

// awake calls a function as soon as the process is not frozen.
func (p *process) awake(do func()) {
	switch {
	case p.dead:
	case p.frozen.After(time.Now()):
		p.thaw = append(p.thaw, do)
	default:
		do()
	}
}

// now is the process's clock.
func (p *process) now() time.Time { return time.Now().Add(p.skew) }

// id returns a name that is never used again.
func (p *process) id() string {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.ids++
	return fmt.Sprintf("%sx%d", p.name, p.ids)
}
