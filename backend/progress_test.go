package backend_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
)

// trouble is a backend whose writes can fail, hang, or succeed without a response.
type trouble struct {
	backend.Backend
	writes atomic.Int32
	carry  bool          // a write that fails is carried out nevertheless
	hang   chan struct{} // writes wait until it is closed; nil: they do not

	mu  sync.Mutex // guards err
	err error
}

// fail makes later writes fail, or succeed if err is nil.
func (b *trouble) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

func (b *trouble) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

func (b *trouble) Write(ctx context.Context, workspace string, data []byte) error {
	b.writes.Add(1)
	if b.hang != nil {
		select {
		case <-b.hang:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	failure := b.failure()
	if failure == nil || b.carry {
		if err := b.Backend.Write(ctx, workspace, data); err != nil {
			return err
		}
	}
	return failure
}

// running is a run whose snapshots Progress writes.
type running struct {
	*world
	*backend.Progress
	backend *trouble
	told    []string
}

func newRunning(t *testing.T) *running {
	w := newWorld(t)
	w.commit("a", 1)
	w.push()
	b := &trouble{Backend: w.b}
	w.sync.Backend = b
	r := &running{world: w, backend: b}
	r.Progress = &backend.Progress{
		Store: w.store, Sync: w.sync, Workspace: ws, Every: time.Minute,
		Tell: func(text string) { r.told = append(r.told, text) },
	}
	return r
}

// begins commits one object in a version that does not end.
func (r *running) begins(name string, n int) {
	r.t.Helper()
	ok(r.t, r.Commit(r.t.Context(), journal.Commit{Workspace: ws, Changes: put(name, n)}))
}

func holds(s *state.State) int { return len(s.Addrs()) }

func after(d time.Duration) {
	time.Sleep(d) // in the clock of the test
	synctest.Wait()
}

func TestWhoLooksIntoTheBackendDuringARunSeesHowFarItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunning(t)
		stop := r.Start(t.Context())
		defer stop()
		r.begins("b", 1)
		after(59 * time.Second)
		if n := holds(r.others()); n != 1 {
			t.Errorf("before the interval has ended the snapshot has %d objects", n)
		}
		after(2 * time.Second)
		seen := r.others()
		if holds(seen) != 2 || seen.Serial != 2 {
			t.Errorf("the snapshot has %d objects and the serial %d", holds(seen), seen.Serial)
		}
		after(10 * time.Minute)
		if r.backend.writes.Load() != 1 {
			t.Errorf("one change was written in %d snapshots", r.backend.writes.Load())
		}
		r.begins("c", 1)
		stop()
		ok(t, r.Commit(t.Context(), journal.Commit{Workspace: ws, EndVersion: true}))
		r.push()
		if seen := r.others(); holds(seen) != 3 || seen.Serial != 2 {
			t.Errorf("at the end the snapshot has %d objects and the serial %d", holds(seen), seen.Serial)
		}
	})
}

// A run ended its version, and took long to end itself, because NATS was away. The snapshot of its progress, the first
// one of its process, then got the serial after that version. The service refused the version's own snapshot, whose
// serial was lower, and the run failed although everything was done.
func TestNoProgressIsWrittenAfterTheEndOfTheVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunning(t)
		stop := r.Start(t.Context())
		defer stop()
		r.begins("b", 1)
		ok(t, r.Commit(t.Context(), journal.Commit{Workspace: ws, EndVersion: true}))
		after(10 * time.Minute)
		if n := r.backend.writes.Load(); n != 0 {
			t.Errorf("%d snapshots were written, the last one with the serial %d", n, r.others().Serial)
		}
		stop()
		r.push()
		if seen := r.others(); holds(seen) != 2 || seen.Serial != 2 {
			t.Errorf("at the end the snapshot has %d objects and the serial %d", holds(seen), seen.Serial)
		}
	})
}

func TestABackendThatHangsDelaysTheEndOfARunAWhileAndTheRunItselfNotAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunning(t)
		r.backend.hang = make(chan struct{})
		stop := r.Start(t.Context())
		for i := range 100 {
			begun := time.Now()
			r.begins("b", i)
			if time.Since(begun) != 0 {
				t.Fatal("a commit has waited for the backend")
			}
			after(time.Minute)
		}
		if r.backend.writes.Load() != 1 {
			t.Errorf("%d writes are in progress at the same time", r.backend.writes.Load())
		}
		begun := time.Now()
		stop()
		if waited := time.Since(begun); waited != 30*time.Second {
			t.Errorf("the end of the run has waited %s", waited)
		}
		r.backend.hang = nil
		ok(t, r.Commit(t.Context(), journal.Commit{Workspace: ws, EndVersion: true}))
		r.push()
	})
}

func TestABackendThatFailsIsTriedAgainAndToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunning(t)
		stop := r.Start(t.Context())
		defer stop()
		r.backend.fail(errors.New("status 500"))
		r.begins("b", 1)
		after(5*time.Minute + time.Second)
		if len(r.told) != 1 || !strings.Contains(r.told[0], "status 500") || r.backend.writes.Load() != 5 {
			t.Errorf("after %d writes the messages are %q", r.backend.writes.Load(), r.told)
		}
		r.backend.fail(nil)
		after(time.Minute)
		if n := holds(r.others()); n != 2 {
			t.Errorf("after the backend came back the snapshot has %d objects", n)
		}
	})
}

func TestNothingIsWrittenAfterTheLockWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunning(t)
		lost := make(chan struct{})
		r.Lost = lost
		stop := r.Start(t.Context())
		defer stop()
		close(lost)
		synctest.Wait()
		r.begins("b", 1)
		after(time.Hour)
		if r.backend.writes.Load() != 0 {
			t.Errorf("%d snapshots were written", r.backend.writes.Load())
		}
	})
}

// A process that died between the write of a snapshot and its mark left a snapshot that was neither a version nor the
// one of the mark. It was taken for another program's, and the next command refused to work.
func TestARunThatDiesAtAnyMomentOfASnapshotIsGoneOnWith(t *testing.T) {
	for claim, carry := range map[string]bool{"before the write": false, "after the write": true} {
		t.Run(claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRunning(t)
				r.backend.carry = carry
				r.backend.fail(errors.New("killed"))
				stop := r.Start(t.Context())
				r.begins("b", 1)
				after(time.Minute + time.Second)
				stop()
				r.backend.fail(nil)
				if message := r.pull(); message != "" { // the next command
					t.Errorf("the message of the next command is %q", message)
				}
				r.push()
				if seen := r.others(); holds(seen) != 2 || seen.Serial != 2 {
					t.Errorf("the snapshot has %d objects and the serial %d", holds(seen), seen.Serial)
				}
			})
		})
	}
}

func TestAnotherProgramsChangeOfWhatADeadRunHasLeftIsAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunning(t)
		stop := r.Start(t.Context())
		r.begins("b", 1)
		after(time.Minute + time.Second)
		stop()
		r.write(r.others(), 3)
		if _, err := r.sync.Pull(t.Context(), ws, ""); err == nil || !strings.Contains(err.Error(), "two places") {
			t.Errorf("the error of the next command is %v", err)
		}
	})
}

func TestTheIntervalIsThatOfOpenTofu(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 20 * time.Second, "20": 20 * time.Second,
		"300": 5 * time.Minute} {
		if got, err := backend.PersistInterval(text); err != nil || got != want {
			t.Errorf("%q is %s: %v", text, got, err)
		}
	}
	for _, text := range []string{"19", "-1", "x", "99999999999999999999", "100000"} {
		if _, err := backend.PersistInterval(text); err == nil || !strings.Contains(err.Error(),
			"TF_STATE_PERSIST_INTERVAL") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
