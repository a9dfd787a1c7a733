package worker

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/worker/journal"
)

// brokenJournal fails at one step.
type brokenJournal struct {
	Journal
	at string
}

func (j brokenJournal) Intend(ref wire.TaskRef, nonce string, m []byte) error {
	if j.at == "intend" {
		return journal.ErrBroken
	}
	return j.Journal.Intend(ref, nonce, m)
}

func (j brokenJournal) Start(ref wire.TaskRef, m []byte) error {
	if j.at == "start" {
		return journal.ErrBroken
	}
	return j.Journal.Start(ref, m)
}

func (j brokenJournal) End(ref wire.TaskRef, m []byte) error {
	if j.at == "end" {
		return journal.ErrBroken
	}
	return j.Journal.End(ref, m)
}

// While the message store accepted nothing, a worker did not end when it was told to, and neither did the command in
// whose process it ran.
func TestAWorkerLeavesAMessageStoreThatTakesNothingAndItsJournalHasTheResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.bus.onPublish = func() error { return wire.ErrStore }
		b.start()
		b.bus.put(b.applies(1)...)
		elapse(time.Minute)
		b.drain()
		if err := <-b.done; err != nil {
			t.Error(err)
		}
		if held := b.opts.Journal.Pending(); len(held) != 1 || held[0].Status != journal.Ended {
			t.Errorf("the journal has the entries %v", held)
		}
	})
}

func TestAWorkerWhoseJournalFailsLeaves(t *testing.T) {
	for at, want := range map[string]struct{ applied, results int }{
		"intend": {0, 0},
		"start":  {0, 0},
		"end":    {1, 1}, // the known result is still sent
	} {
		t.Run(at, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				j, _, err := journal.Open(t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := j.Close(); err != nil {
						t.Error(err)
					}
				}()
				b.opts.Journal = brokenJournal{Journal: j, at: at}
				b.start()
				b.bus.put(b.applies(1)...)
				if err := <-b.done; !errors.Is(err, journal.ErrBroken) {
					t.Errorf("Run returned %v", err)
				}
				if b.cloud.applied != want.applied || len(b.results()) != want.results {
					t.Errorf("%d operations, %d results; want %+v", b.cloud.applied, len(b.results()), want)
				}
			})
		})
	}
}
