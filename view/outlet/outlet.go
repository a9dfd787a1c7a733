// Package outlet writes lines, and a live line below them, without blocking the caller on a slow terminal.
//
// It does not interpret the lines.
package outlet

import (
	"io"
	"sync"
	"time"
)

// redrawEvery is the minimum time between two redraws of the live line.
const redrawEvery = 200 * time.Millisecond

// Outlet writes lines, and below them a live line that is redrawn in place, from its own goroutine: callers never
// wait for a slow terminal. The goroutine starts with the first line and ends with Settle.
type Outlet struct {
	out io.Writer
	// Clean is applied to lines and to the live line; nil if the lines are for programs.
	Clean func(string) string
	// live returns the live line without control characters; nil if there is none.
	live func() string

	mu      sync.Mutex // guards the fields below
	pending []byte
	err     error
	running bool
	stale   bool // the live line has changed

	wake chan struct{} // capacity 1
	stop chan struct{}
	done chan struct{}
}

// New returns an outlet to out, with a live line if live is not nil.
func New(out io.Writer, live func() string) *Outlet { return &Outlet{out: out, live: live} }

// Add appends text, which ends with a line break.
func (o *Outlet) Add(text string) {
	if o.Clean != nil {
		text = o.Clean(text)
	}
	o.mu.Lock()
	o.pending = append(o.pending, text...)
	o.signal()
	o.mu.Unlock()
}

// Refresh requests a redraw of the live line.
func (o *Outlet) Refresh() {
	if o.live == nil {
		return
	}
	o.mu.Lock()
	o.stale = true
	o.signal()
	o.mu.Unlock()
}

// signal requires the lock.
func (o *Outlet) signal() {
	if !o.running {
		o.running = true
		o.wake, o.stop, o.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
		go o.run(o.wake, o.stop, o.done)
	}
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// Settle flushes the lines, removes the live line and waits until that is done. It returns the first error of
// writing since the last call. Lines that are added later start a new goroutine.
func (o *Outlet) Settle() error {
	o.mu.Lock()
	running, stop, done := o.running, o.stop, o.done
	o.running = false
	o.mu.Unlock()
	if running {
		close(stop)
		<-done
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	err := o.err
	o.err = nil
	return err
}

func (o *Outlet) run(wake, stop, done chan struct{}) {
	defer close(done)
	drawn := false
	for {
		select {
		case <-wake:
			drawn = o.flush(drawn, o.live != nil)
		case <-stop:
			o.flush(drawn, false)
			return
		}
		if o.live == nil {
			continue
		}
		// Lines that arrive meanwhile are written together with the next redraw.
		pause := time.NewTimer(redrawEvery)
		select {
		case <-pause.C:
		case <-stop:
			pause.Stop()
			o.flush(drawn, false)
			return
		}
	}
}

// flush writes the pending lines, and then the live line if draw is set, in one write, so that they do not
// interleave. It reports whether there is a live line now.
func (o *Outlet) flush(drawn, draw bool) bool {
	o.mu.Lock()
	text := o.pending
	o.pending = nil
	redraw := draw && (o.stale || len(text) > 0)
	o.stale = o.stale && !redraw
	o.mu.Unlock()
	var live string
	if redraw {
		if live = o.live(); o.Clean != nil {
			live = o.Clean(live)
		}
	}
	if !redraw && draw || len(text) == 0 && live == "" && !drawn {
		return drawn
	}
	var b []byte
	if drawn {
		b = append(b, "\r\x1b[K"...)
	}
	b = append(append(b, text...), live...)
	if _, err := o.out.Write(b); err != nil {
		o.mu.Lock()
		if o.err == nil {
			o.err = err
		}
		o.mu.Unlock()
	}
	return live != ""
}
