package command

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/coordinator/operation"
)

// How long a command may take to end once it was asked to. A command that was interrupted, and is at nothing that must
// be finished, is told to leave after stopGrace; one that was told to leave is ended after leaveGrace, whatever it
// does.
const (
	stopGrace  = 700 * time.Millisecond
	leaveGrace = 500 * time.Millisecond
	// lastGrace is how long the last duties take at most.
	lastGrace = 150 * time.Millisecond
)

// Interrupts is what signals ask of a command: the first to stop, the second to leave. It latches, so that every phase
// of the command hears of it, and it is enforced, because not all code can: an expression that is being evaluated, or a
// file that has no end, does not look at a context.
//
// What must be finished after the first signal, such as a run that changes the world, is within hold. All else ends by
// itself or is ended.
type Interrupts struct {
	operation.Stop
	stop, leave context.CancelCauseFunc
	// exit ends the process.
	exit func(code int)

	mu     sync.Mutex // guards all below
	tell   func(text string)
	parts  string // what leaving means
	held   int
	duties map[int]func(context.Context)
	last   int // the key of the last duty
}

func newInterrupts(ctx context.Context, tell func(text string), exit func(code int)) *Interrupts {
	i := &Interrupts{exit: exit, tell: tell, parts: PartsFromWorker, duties: map[int]func(context.Context){}}
	i.Stop, i.stop, i.leave = operation.NewStop(ctx)
	return i
}

// Hold keeps the first signal from ending the process until release is called: something goes on that must be finished.
func (i *Interrupts) Hold() (release func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.held++
	return sync.OnceFunc(func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.held--
	})
}

// Say has tell speak to the user, until the returned function is called.
func (i *Interrupts) Say(tell func(text string)) (back func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	before := i.tell
	i.tell = tell
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.tell = before
	}
}

// What the second interrupt means: for commands that carry out a run, for those whose run a service carries out, and
// for the service.
const (
	PartsFromWorker  = "What runs with the embedded worker is in doubt now."
	PartsFromRun     = "The service continues the run, or stops it as it was asked to."
	PartsFromService = "The next start continues the runs that are under way. Operations of the embedded worker may " +
		"be in doubt then."
)

// Parts says what the second interrupt means, until the returned function is called.
func (i *Interrupts) Parts(how string) (back func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	before := i.parts
	i.parts = how
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.parts = before
	}
}

func (i *Interrupts) parting() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.parts
}

// AtEnd has fn called when the process is ended at once, beside whatever else it does. The context of fn ends soon.
// forget takes that back.
func (i *Interrupts) AtEnd(fn func(context.Context)) (forget func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.last++
	key := i.last
	i.duties[key] = fn
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.duties, key)
	}
}

// watch takes signals until done is closed.
func (i *Interrupts) watch(signals <-chan os.Signal, done <-chan struct{}) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var idle, left time.Time // since when nothing was held after the stop, and since when the command is to leave
	for {
		select {
		case <-done:
			return
		case <-signals:
			switch {
			case !i.Asked():
				i.note("\nInterrupt received.\nPlease wait for Millipede to exit or data loss may occur.\nGracefully " +
					"shutting down...\n\n")
				i.stop(operation.ErrInterrupted)
				idle = time.Now()
			case i.Leaving.Err() == nil:
				i.note("\nTwo interrupts received. Exiting immediately. " + i.parting() + "\n\n")
				i.leave(operation.ErrInterrupted)
				left = time.Now()
			}
		case <-tick.C:
			switch {
			case !i.Asked():
			case i.Leaving.Err() != nil:
				if time.Since(left) > leaveGrace {
					i.end()
					return
				}
			case i.holding(), idle.IsZero(): // the latter: it was demanded
				idle = time.Now()
			case time.Since(idle) > stopGrace:
				i.leave(operation.ErrInterrupted)
				left = time.Now()
			}
		}
	}
}

// Demand asks the command to stop as the first signal does, for a reason that the user is told.
func (i *Interrupts) Demand(reason string) {
	if !i.Asked() {
		i.note(reason)
		i.stop(operation.ErrInterrupted)
	}
}

func (i *Interrupts) note(text string) {
	i.mu.Lock()
	tell := i.tell
	i.mu.Unlock()
	// Whoever is told may be busy, or its stream blocked; a signal does not wait for that.
	told := make(chan struct{})
	go func() {
		defer close(told)
		tell(text)
	}()
	select {
	case <-told:
	case <-time.After(lastGrace):
	}
}

func (i *Interrupts) holding() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.held > 0
}

// end ends the process.
func (i *Interrupts) end() {
	i.mu.Lock()
	duties := i.duties
	i.duties = nil
	i.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), lastGrace)
	defer cancel()
	over := make(chan struct{})
	go func() {
		defer close(over)
		var all sync.WaitGroup
		for _, fn := range duties {
			all.Go(func() { fn(ctx) })
		}
		all.Wait()
	}()
	select {
	case <-over:
	case <-ctx.Done():
	}
	i.note("\nError: Operation interrupted\n\nThe command was ended before it had ended by itself.\n\n")
	i.exit(1)
}
