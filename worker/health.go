package worker

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/millipede-iac/millipede/worker/journal"
)

// mostSilence is how long the loop of the heartbeats may not go round. One round takes a second, or two while nobody
// answers.
const mostSilence = 30 * time.Second

// signs are what the loop of the heartbeats leaves for those who ask how the worker is.
type signs struct {
	round     atomic.Pointer[time.Time] // when its latest round began; nil before Run
	announced atomic.Bool               // whether a heartbeat was handed over since Run began
}

// Alive returns an error if the worker does nothing any more, and only another start can help: its loop does not go
// round, or its journal failed. A connection that is lost, and a disk that is full, are no reasons: a restart repairs
// neither, but leaves operations in doubt. It writes to the disk, and waits for it.
func (w *Worker) Alive() error {
	round := w.signs.round.Load()
	if round == nil {
		return nil // it has not begun
	}
	if since := w.Now().Sub(*round); since > mostSilence {
		return fmt.Errorf("the worker has not sent a heartbeat, nor tried to, for %s", since.Round(time.Second))
	}
	if err := w.Journal.CheckSpace(); err != nil && !errors.Is(err, journal.ErrFull) {
		return fmt.Errorf("the journal cannot be written: %w", err)
	}
	return nil
}

// Ready returns an error while the worker takes no tasks: it has not announced itself to its pools, it drains, or its
// disk is full. A heartbeat that was handed over may still wait for the connection; the caller asks that. Ready writes
// to the disk, and waits for it.
func (w *Worker) Ready() error {
	if w.draining.Load() {
		return errors.New("the worker drains: it takes no new tasks")
	}
	if !w.signs.announced.Load() {
		return errors.New("the worker has not announced itself to its pools yet")
	}
	return w.Journal.CheckSpace()
}
