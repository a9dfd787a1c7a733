// Package outlet writes lines, and a live line below them, without making the speaker wait for a slow terminal.
//
// It does not know what the lines say.
package outlet

import (
	"io"
	"sync"
	"time"
)

// redrawEvery is how often a live line is drawn at most.
const redrawEvery = 200 * time.Millisecond

// Outlet writes lines, and below them a live line that is drawn over, from a goroutine of its own: who has something to
// say never waits for a slow terminal. The goroutine begins with the first line and ends with Settle.
type Outlet struct {
	out io.Writer
	// Clean is applied to lines and to the live line; nil where the lines are for programs.
	Clean func(string) string
	// live returns the live line without control characters; nil where there is none.
	live func() string

	mu      sync.Mutex // guards the fields below
	pending []byte
	err     error
	running bool
	stale   bool // the live line has changed

	wake chan struct{} // holds one
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
	o.rouse()
	o.mu.Unlock()
}

// Refresh has the live line drawn again.
func (o *Outlet) Refresh() {
	if o.live == nil {
		return
	}
	o.mu.Lock()
	o.stale = true
	o.rouse()
	o.mu.Unlock()
}

// rouse needs the lock.
func (o *Outlet) rouse() {
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

// Settle writes what is left, removes the live line and waits until that is done. It returns the first error of
// writing since the last time. What is added afterwards begins anew.
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
		// What comes meanwhile is written together with the next drawing.
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

// flush writes the lines that wait, and then the live line if draw is set, in one go, so that neither tears the other
// apart. It returns whether there is a live line now.
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
