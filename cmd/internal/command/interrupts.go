package command

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/coordinator/operation"
)

// The time in which a command must end. After the first interrupt, a command that holds nothing is asked to
// leave after stopGrace. After that, the process is ended after leaveGrace in any case.
const (
	stopGrace  = 700 * time.Millisecond
	leaveGrace = 500 * time.Millisecond
	// lastGrace bounds the functions of AtEnd.
	lastGrace = 150 * time.Millisecond
)

// Interrupts converts signals to requests: the first signal requests the command to stop, the second to leave.
// Requests latch, so that every phase of the command sees them. They are enforced, because some code cannot
// check a context: an expression that is being evaluated, or the reading of an endless file.
//
// Work that must be completed after the first signal, such as a run that changes objects, is done under Hold.
// Everything else ends by itself, or is ended.
type Interrupts struct {
	operation.Stop
	stop, leave context.CancelCauseFunc
	// exit ends the process.
	exit func(code int)

	mu       sync.Mutex // guards the fields below
	tell     func(text string)
	exitText string // the consequence of leaving, for users
	held     int
	duties   map[int]func(context.Context)
	last     int // the key of the last function of AtEnd
}

func newInterrupts(ctx context.Context, tell func(text string), exit func(code int)) *Interrupts {
	i := &Interrupts{exit: exit, tell: tell, exitText: PartsFromWorker, duties: map[int]func(context.Context){}}
	i.Stop, i.stop, i.leave = operation.NewStop(ctx)
	return i
}

// Hold prevents the first signal from ending the process until release is called, for work that must be
// completed.
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

// Say sets the function for messages to the user, until the returned function is called.
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

// The consequences of a second interrupt: for commands that execute a run, for commands whose run a service
// executes, and for the service.
const (
	PartsFromWorker  = "Operations of the embedded worker are now in doubt."
	PartsFromRun     = "The service continues the run, or stops it if that was requested."
	PartsFromService = "The next start continues the runs in progress. Operations of the embedded worker may " +
		"be in doubt then."
)

// Parts sets the consequence of a second interrupt, until the returned function is called.
func (i *Interrupts) Parts(how string) (back func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	before := i.exitText
	i.exitText = how
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.exitText = before
	}
}

func (i *Interrupts) exitMessage() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.exitText
}

// AtEnd registers a function to be called when the process is ended at once. Its context ends soon. forget
// removes it.
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

// handle handles signals until done is closed.
func (i *Interrupts) handle(signals <-chan os.Signal, done <-chan struct{}) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var idle, left time.Time // the time since which nothing is held after the stop, and that of the request to leave
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
				i.note("\nTwo interrupts received. Exiting immediately. " + i.exitMessage() + "\n\n")
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
			case i.holding(), idle.IsZero(): // idle is zero if Demand has requested the stop
				idle = time.Now()
			case time.Since(idle) > stopGrace:
				i.leave(operation.ErrInterrupted)
				left = time.Now()
			}
		}
	}
}

// Demand requests the command to stop, as the first signal does, for a reason that is shown to the user.
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
	// The function may be slow, or its stream blocked; a signal must not wait for that.
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
	i.note("\nError: Operation interrupted\n\nThe command was terminated before it was complete.\n\n")
	i.exit(1)
}
