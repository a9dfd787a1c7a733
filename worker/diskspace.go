package worker

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/worker/journal"
)

// spaceEvery is the interval at which a full disk is checked for space.
const spaceEvery = 500 * time.Millisecond

// refusalReason is why the worker takes no tasks at the moment.
type refusalReason struct {
	mu  sync.Mutex // guards why
	why string
}

func (t *refusalReason) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.why
}

// set sets the reason, and reports whether it is a change.
func (t *refusalReason) set(why string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	changed := t.why != why
	t.why = why
	return changed
}

// diskFull records that the journal cannot be written for lack of space. The worker takes no tasks until it can, and
// says so in its heartbeats: otherwise it would fetch and release the same tasks over and over, and nobody would know
// why.
func (w *Worker) diskFull(err error) {
	why := strings.ToValidUTF8(err.Error(), "?")
	if w.trouble.set(why[:min(len(why), wire.MaxText)]) {
		w.requestHeartbeat()
	}
}

// awaitSpace waits until the journal can be written. It returns false if ctx ends first.
func (w *Worker) awaitSpace(ctx context.Context) bool {
	for w.trouble.text() != "" {
		err := w.Journal.CheckSpace()
		switch {
		case err == nil:
			if w.trouble.set("") {
				w.Log.Info("the disk of this worker has space again")
				w.requestHeartbeat()
			}
		case !errors.Is(err, journal.ErrFull):
			w.fail(err)
			return false
		case sleep.For(ctx, spaceEvery) != nil:
			return false
		}
	}
	return ctx.Err() == nil
}
