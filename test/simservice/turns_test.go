package simservice

import (
	"cmp"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/service/record"
)

// turns lets goroutines make one change at a time, in an order that does not depend on the scheduler, which differs on
// a busy machine. The order is that of arrival by the simulation's clock. Goroutines that arrive at the same moment are
// ordered by their call stacks; those with equal call stacks must arrive at different moments, see apart.
type turns struct {
	mu      sync.Mutex // guards the fields below
	busy    bool
	waiting []*waiting
}

// waiting is a goroutine that waits for its turn.
type waiting struct {
	since time.Time
	doing string
	turn  chan struct{} // closed when the goroutine's turn begins
}

// take waits for the caller's turn, which lasts until giveBack.
func (t *turns) take() {
	me := &waiting{time.Now(), callers(), make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, me)
	if !t.busy {
		t.busy = true
		t.nextLocked()
	}
	t.mu.Unlock()
	<-me.turn
}

func (t *turns) giveBack() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		t.busy = false
		return
	}
	t.nextLocked()
}

// nextLocked chooses the next turn, when all goroutines that arrive at this moment have arrived.
func (t *turns) nextLocked() {
	time.AfterFunc(time.Nanosecond, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		slices.SortStableFunc(t.waiting, func(a, b *waiting) int {
			return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.doing, b.doing))
		})
		close(t.waiting[0].turn)
		t.waiting = t.waiting[1:]
	})
}

// callers returns the call stack of a change: functions and lines.
func callers() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	var b strings.Builder
	for {
		f, more := frames.Next()
		fmt.Fprintln(&b, f.Function, f.Line)
		if !more {
			return b.String()
		}
	}
}

// apart returns a delay that is unique to a run, so that steps that several runs begin at one moment are apart.
func apart(r *record.Run) time.Duration {
	n, err := strconv.Atoi(strings.TrimPrefix(r.Message, "m"))
	if err != nil {
		panic(err) // orderRun writes it
	}
	return time.Duration(n)*64 + time.Duration(r.Number%64) //nolint:gosec // nanoseconds; one order may make two runs
}

// apartByLog is apart for the run that a log belongs to.
func (w *world) apartByLog(name string) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.known {
		if phase := path.Base(name); phase == r.Plan.ID || phase == r.Apply.ID {
			return apart(r)
		}
	}
	return 0
}
