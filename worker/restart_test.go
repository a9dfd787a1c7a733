package worker

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/worker/journal"
)

// The failure table of the protocol: wherever a worker has crashed, its journal tells the next process what to report.
func TestTheNextStartReportsWhatTheJournalHolds(t *testing.T) {
	ref := wire.TaskRef{Pool: "eu", Coordinator: "c", Run: "r", Attempt: "a0"}
	for claim, c := range map[string]struct {
		note     func(b *bench, j *journal.Journal) error
		register wire.Claim
		check    func(*wire.Result) bool // nil when nothing is to be published
	}{
		"claimed, but the start is not noted: not started": {
			note:     func(b *bench, j *journal.Journal) error { return j.Intend(ref, "n", b.notStarted()) },
			register: wire.Claim{Nonce: "n", Worker: "w1"},
			check:    func(r *wire.Result) bool { return r.NotStarted && r.Nonce == "n" },
		},
		"somebody else has claimed it: nothing": {
			note:     func(b *bench, j *journal.Journal) error { return j.Intend(ref, "n", b.notStarted()) },
			register: wire.Claim{Nonce: "m", Worker: "w2"},
		},
		"nobody has claimed it: nothing, the task is still in the queue": {
			note: func(b *bench, j *journal.Journal) error { return j.Intend(ref, "n", b.notStarted()) },
		},
		"started, but the end is not noted: in doubt": {
			note: func(b *bench, j *journal.Journal) error {
				return errors.Join(j.Intend(ref, "n", nil), j.Start(ref, b.doubt()))
			},
			check: func(r *wire.Result) bool { return r.Doubt != "" && r.Nonce == "n" && r.Apply == nil },
		},
		"ended, but not confirmed: the result": {
			note: func(b *bench, j *journal.Journal) error {
				return errors.Join(j.Intend(ref, "n", nil), j.Start(ref, nil), j.End(ref, b.whole()))
			},
			check: func(r *wire.Result) bool { return r.Apply != nil && string(r.Apply.Private) == "private" },
		},
	} {
		t.Run(claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, func(o *Options) { o.Keys = keys{} }) // a new process has no keys
				j, _, err := journal.Open(b.dir)
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(c.note(b, j), j.Close()); err != nil {
					t.Fatal(err)
				}
				if c.register.Nonce != "" {
					b.bus.register["a0"] = c.register
				}
				b.start()
				synctest.Wait()
				if c.check == nil {
					if got := b.results(); len(got) != 0 {
						t.Errorf("published %+v", got[0])
					}
				} else if r := b.one(); !c.check(r) {
					t.Errorf("published %+v", r)
				}
				if b.cloud.applied != 0 {
					t.Error("the operation began")
				}
				if err := b.stop(); err != nil {
					t.Fatal(err)
				}
				if left := b.pending(); len(left) != 0 {
					t.Errorf("the journal still has the entries %v", left)
				}
			})
		})
	}
}

// lateKeys are the keys of a restarted worker, with which the coordinator shares the key after a while.
type lateKeys struct {
	keys
	from time.Time
}

func (k lateKeys) Open(ctx context.Context, pool, run string) (*wire.Sealer, error) {
	if time.Now().Before(k.from) {
		return nil, wire.ErrNoKey
	}
	return k.keys.Open(ctx, pool, run)
}

// The journal stores a large result as a whole. After a restart the worker published it in one message, which NATS
// refused because of its size, and the resumed run waited for it for ever.
func TestTheNextStartPublishesALargeResultThroughABlob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ref := wire.TaskRef{Pool: "eu", Coordinator: "c", Run: "r", Attempt: "a0"}
		b := newBench(t, func(o *Options) {
			o.Keys = lateKeys{o.Keys.(keys), time.Now().Add(time.Minute)}
		})
		b.bus.most = 2 * wire.SpillOver
		large := make([]byte, 3*wire.SpillOver)
		if _, err := b.opts.Rand.Read(large); err != nil {
			t.Fatal(err)
		}
		j, _, err := journal.Open(b.dir)
		if err != nil {
			t.Fatal(err)
		}
		whole := b.sealed(&wire.Result{Apply: &wire.ApplyResult{Private: large}})
		if err := errors.Join(j.Intend(ref, "n", nil), j.Start(ref, nil), j.End(ref, whole), j.Close()); err != nil {
			t.Fatal(err)
		}
		b.start()
		elapse(10 * time.Minute)
		synctest.Wait()
		if r := b.one(); !bytes.Equal(r.Apply.Private, large) {
			t.Error("the private data is not that of the provider")
		}
		if left := b.opts.Journal.Pending(); len(left) != 0 {
			t.Errorf("the journal still has the entries %v", left)
		}
	})
}

// sealed encrypts a message, like an earlier process of the worker that has written it to its journal.
func (b *bench) sealed(r *wire.Result) []byte {
	b.Helper()
	ref := wire.TaskRef{Pool: "eu", Coordinator: "c", Run: "r", Attempt: "a0"}
	w := New(b.opts)
	a := claimed{Worker: w, ref: ref, nonce: "n"}
	out, err := messageCodec{ref: ref, sealer: b.sealer, w: w}.seal(context.Background(), a.stamp(r))
	if err != nil {
		b.Fatal(err)
	}
	return out
}

func (b *bench) notStarted() []byte { return b.sealed(&wire.Result{NotStarted: true}) }
func (b *bench) doubt() []byte      { return b.sealed(&wire.Result{Doubt: "the worker stopped"}) }
func (b *bench) whole() []byte {
	return b.sealed(&wire.Result{Apply: &wire.ApplyResult{Private: []byte("private")}})
}

func TestWhatIsStoppedInTheMiddleIsInDoubtAtTheNextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.cloud.onApply = slowApply(time.Hour)
		b.bus.onPublish = func() error { return wire.ErrDisconnected }
		b.start()
		b.bus.put(b.applies(1)...)
		synctest.Wait()
		b.kill()
		if err := b.stop(); err != nil {
			t.Fatal(err)
		}
		if len(b.results()) != 0 {
			t.Fatal("a killed worker has published a result")
		}
		b.bus.onPublish = nil
		b.start()
		synctest.Wait()
		if r := b.one(); r.Doubt == "" || r.Apply != nil {
			t.Errorf("published %+v", r)
		}
	})
}
