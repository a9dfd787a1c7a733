package worker

import (
	"cmp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/worker/journal"
)

// fullJournal has no disk space for a while.
type fullJournal struct {
	Journal
	full atomic.Bool
}

func (j *fullJournal) unwritable() error {
	if j.full.Load() {
		return journal.ErrFull
	}
	return nil
}

func (j *fullJournal) Intend(ref wire.TaskRef, nonce string, m []byte) error {
	return cmp.Or(j.unwritable(), j.Journal.Intend(ref, nonce, m))
}

func (j *fullJournal) Start(ref wire.TaskRef, m []byte) error {
	return cmp.Or(j.unwritable(), j.Journal.Start(ref, m))
}

func (j *fullJournal) End(ref wire.TaskRef, m []byte) error {
	return cmp.Or(j.unwritable(), j.Journal.End(ref, m))
}

func (j *fullJournal) Done(ref wire.TaskRef) error {
	return cmp.Or(j.unwritable(), j.Journal.Done(ref))
}

func (j *fullJournal) CheckSpace() error { return j.unwritable() }

// A worker with a full disk took task after task and returned each, four times a second, without a message: a run that
// had no other worker showed "Still creating..." for ever.
func TestAWorkerWithoutRoomTakesNothingAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		file, _, err := journal.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := file.Close(); err != nil {
				t.Error(err)
			}
		}()
		j := &fullJournal{Journal: file}
		j.full.Store(true)
		b.opts.Journal = j
		b.start()
		b.bus.put(b.task(0, applyTask("thing")))
		elapse(2 * time.Second)
		b.bus.put(b.task(1, applyTask("thing"))) // the fetch that was under way gets it
		elapse(2 * time.Second)
		for i := range 3 {
			b.bus.put(b.task(2+i, applyTask("thing")))
		}
		elapse(time.Minute)
		synctest.Wait()
		if n := b.bus.waiting(); n != 3 {
			t.Errorf("only %d of 3 tasks are still in the queue: the worker took the others", n)
		}
		if beat := b.bus.lastBeat(); !strings.Contains(beat.Trouble, journal.ErrFull.Error()) {
			t.Errorf("the heartbeat reports the trouble %q", beat.Trouble)
		}
		j.full.Store(false)
		elapse(time.Minute)
		synctest.Wait()
		if b.cloud.applied != 3 || b.bus.lastBeat().Trouble != "" {
			t.Errorf("when there was space again, %d operations were executed, and the heartbeat reports %q", b.cloud.applied,
				b.bus.lastBeat().Trouble)
		}
	})
}

// When its disk was full for a moment, a worker ended, and a run that had no other worker waited for ever.
func TestAFullDiskEndsNoWorkerAndLosesNoResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		file, _, err := journal.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := file.Close(); err != nil {
				t.Error(err)
			}
		}()
		j := &fullJournal{Journal: file}
		b.opts.Journal = j
		b.cloud.onApply = slowApply(10 * time.Second)
		b.start()
		b.bus.put(b.applies(1)...)
		elapse(5 * time.Second) // it has begun
		j.full.Store(true)
		elapse(time.Minute)
		synctest.Wait()
		if len(b.results()) != 1 || b.cloud.applied != 1 { // the transport accepts it
			t.Errorf("%d results of %d operations", len(b.results()), b.cloud.applied)
		}
		j.full.Store(false)
		elapse(time.Minute)
		synctest.Wait()
		if held := j.Pending(); len(held) != 0 {
			t.Errorf("the journal still has the entries %v", held)
		}
	})
}
