package log_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/millipede-iac/millipede/state/log"
	"github.com/millipede-iac/millipede/state/log/mem"
	"github.com/millipede-iac/millipede/state/recorded"
)

// clock is a time that passes only in pauses.
type clock struct {
	now    time.Time
	paused func() // called after each pause
}

func newClock() *clock { return &clock{now: time.Unix(1e9, 0), paused: func() {}} }

func (c *clock) pause(ctx context.Context, d time.Duration) error {
	c.now = c.now.Add(d)
	c.paused()
	return ctx.Err()
}

// place is where a member has its copies.
type place struct {
	t      testing.TB
	dir    string
	member string
	boot   string
	log    log.Transport
	clock  *clock
	change func(*log.Options)
}

func newPlace(t testing.TB, member string, l log.Transport, c *clock) *place {
	return &place{t: t, dir: t.TempDir(), member: member, boot: "boot 1", log: l, clock: c, change: func(*log.Options) {}}
}

func (p *place) options(store string) log.Options {
	incarnation := log.ID{1, 2, 3}
	key, err := log.Key([]byte("secret"), incarnation, store)
	if err != nil {
		p.t.Fatal(err)
	}
	o := log.Options{Transport: p.log, Incarnation: incarnation, Store: store, Member: p.member, Key: key, Boot: p.boot,
		Now: func() time.Time { return p.clock.now }, Pause: p.clock.pause}
	if t, ok := p.t.(*testing.T); ok {
		o.Log = func(line string) { t.Log(p.member + ": " + line) }
	}
	p.change(&o)
	return o
}

func (p *place) path(store string) string { return filepath.Join(p.dir, store+".db") }

// object is a store that a member writes.
type object struct {
	w  *log.Writer
	db *bbolt.DB
}

func openDB(path string) (*bbolt.DB, error) {
	return bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, Timeout: time.Second})
}

// open opens a store for writing.
func (p *place) open(store string, first bool) (*object, error) {
	o := p.options(store)
	o.First = first
	w, err := log.Open(context.Background(), p.path(store), o)
	if err != nil {
		return nil, err
	}
	db, err := openDB(p.path(store))
	if err != nil {
		return nil, err
	}
	return &object{w, db}, nil
}

func (p *place) mustOpen(store string, first bool) *object {
	p.t.Helper()
	s, err := p.open(store, first)
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// put commits a value.
func (s *object) put(key, value string) error {
	return recorded.Through(s.db, s.w, func(tx *recorded.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte("values"))
		if err != nil {
			return err
		}
		return b.Put([]byte(key), []byte(value))
	})
}

// has returns the values of a file, as "key=value" in order.
func has(t testing.TB, db *bbolt.DB) string {
	t.Helper()
	var all []string
	err := recorded.View(db, func(tx *recorded.Tx) error {
		b := tx.Bucket([]byte("values"))
		if b == nil {
			return nil
		}
		return b.ForEach(func(k, v []byte) error {
			all = append(all, string(k)+"="+string(v))
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, " ")
}

func (s *object) close(t testing.TB) {
	t.Helper()
	if err := errors.Join(s.db.Close(), s.w.Close()); err != nil {
		t.Error(err)
	}
}

// copyHas checks what a member's copy has that follows the log to its end.
func (p *place) copyHas(store, want string) {
	p.t.Helper()
	c, err := log.OpenCopy(p.path(store), p.options(store))
	if err != nil {
		p.t.Fatal(err)
	}
	if err := c.Follow(context.Background()); err != nil {
		p.t.Error(err)
	}
	if got := has(p.t, c.DB().(*bbolt.DB)); got != want {
		p.t.Errorf("the copy of %s has %q, and should have %q", p.member, got, want)
	}
	if err := c.Close(); err != nil {
		p.t.Error(err)
	}
}

func TestWhatOneMemberCommitsAnotherHasOnceItFollows(t *testing.T) {
	l, c := mem.New(), newClock()
	alice, bob := newPlace(t, "alice", l.Join(), c), newPlace(t, "bob", l.Join(), c)
	s := alice.mustOpen("records", true)
	if err := errors.Join(s.put("a", "1"), s.put("b", "2"), s.put("a", "3")); err != nil {
		t.Fatal(err)
	}
	bob.copyHas("records", "a=3 b=2")
	if err := s.put("big", strings.Repeat("x", 3*log.MaxInline)); err != nil {
		t.Fatal(err)
	}
	if err := s.put("big", "small"); err != nil {
		t.Fatal(err)
	}
	bob.copyHas("records", "a=3 b=2 big=small")
	s.close(t)
	alice.copyHas("records", "a=3 b=2 big=small")
	next := bob.mustOpen("records", false)
	if err := next.put("c", "4"); err != nil {
		t.Fatal(err)
	}
	next.close(t)
	alice.copyHas("records", "a=3 b=2 big=small c=4")
}

func TestATransactionWithoutChangesIsNoEntry(t *testing.T) {
	l := mem.New()
	s := newPlace(t, "alice", l.Join(), newClock()).mustOpen("records", true)
	defer s.close(t)
	before := l.Last()
	if err := recorded.Through(s.db, s.w, func(*recorded.Tx) error { return nil }); err != nil {
		t.Error(err)
	}
	wrong := errors.New("wrong")
	if err := recorded.Through(s.db, s.w, func(tx *recorded.Tx) error {
		_, err := tx.CreateBucket([]byte("x"))
		return errors.Join(err, wrong)
	}); !errors.Is(err, wrong) {
		t.Error(err)
	}
	if l.Last() != before {
		t.Errorf("the log has %d entries more", l.Last()-before)
	}
}

func TestACommitWhoseAnswerWasLostCounts(t *testing.T) {
	l := mem.New()
	m := l.Join()
	s := newPlace(t, "alice", m, newClock()).mustOpen("records", true)
	defer s.close(t)
	m.Silence(2)
	if err := errors.Join(s.put("a", "1"), s.put("b", "2")); err != nil {
		t.Error(err)
	}
	if got := has(t, s.db); got != "a=1 b=2" {
		t.Errorf("the store has %q", got)
	}
}

// An append that was refused was stored six seconds later, by real servers of which two of three had been stopped.
func TestARefusalWithoutASequenceDecidesNothing(t *testing.T) {
	for claim, stores := range map[string]bool{"it is stored after the thaw": true, "it is given up in the thaw": false} {
		t.Run(claim, func(t *testing.T) {
			l, c := mem.New(), newClock()
			s := newPlace(t, "alice", l.Join(), c).mustOpen("records", true)
			defer s.close(t)
			l.Freeze()
			pauses := 0
			c.paused = func() {
				if pauses++; pauses == 20 {
					l.Thaw(func(string) bool { return stores })
				}
			}
			if err := s.put("a", "1"); err != nil || pauses < 20 {
				t.Errorf("%v after %d pauses", err, pauses)
			}
			if _, all := l.Entries("records"); len(all) != 2 {
				t.Errorf("the log has %d entries: one begins the epoch, one is the change", len(all))
			}
			if err := s.put("b", "2"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAnEntryThatStaysUndecidedEndsTheWriterAndTheNextOneDecides(t *testing.T) {
	for claim, stores := range map[string]bool{"it was stored": true, "it was not": false} {
		t.Run(claim, func(t *testing.T) {
			l, c := mem.New(), newClock()
			alice := newPlace(t, "alice", l.Join(), c)
			s := alice.mustOpen("records", true)
			l.Freeze()
			if err := s.put("a", "1"); !errors.Is(err, log.ErrUnknown) {
				t.Errorf("%v", err)
			}
			if got := has(t, s.db); got != "" {
				t.Errorf("the store has %q", got)
			}
			select {
			case <-s.w.Stopped():
			default:
				t.Error("the writer has not stopped")
			}
			if err := s.put("b", "2"); !errors.Is(err, log.ErrUnknown) {
				t.Errorf("a further transaction: %v", err)
			}
			s.close(t)
			if _, err := alice.open("records", false); !errors.Is(err, log.ErrUnknown) {
				t.Errorf("it can be opened while nothing is decided: %v", err)
			}
			l.Thaw(func(string) bool { return stores })
			s = alice.mustOpen("records", false)
			defer s.close(t)
			want := ""
			if stores {
				want = "a=1"
			}
			if got := has(t, s.db); got != want {
				t.Errorf("the store has %q, and should have %q", got, want)
			}
			if err := s.put("b", "2"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWhoeverIsDeposedWritesNothingMore(t *testing.T) {
	l, c := mem.New(), newClock()
	alice, bob := newPlace(t, "alice", l.Join(), c), newPlace(t, "bob", l.Join(), c)
	old := alice.mustOpen("records", true)
	if err := old.put("a", "1"); err != nil {
		t.Fatal(err)
	}
	now := bob.mustOpen("records", false)
	defer now.close(t)
	if err := old.put("a", "2"); !errors.Is(err, log.ErrDeposed) {
		t.Errorf("%v", err)
	}
	if got := has(t, old.db); got != "a=1" {
		t.Errorf("the store of the deposed member has %q", got)
	}
	if err := now.put("b", "3"); err != nil {
		t.Error(err)
	}
	old.close(t)
	alice.copyHas("records", "a=1 b=3")
}

func TestALossIsNoticedOnceAllAnswersShowItForLongEnough(t *testing.T) {
	l, c := mem.New(), newClock()
	m := l.Join()
	s := newPlace(t, "alice", m, c).mustOpen("records", true)
	defer s.close(t)
	if err := errors.Join(s.put("a", "1"), s.put("b", "2")); err != nil {
		t.Fatal(err)
	}
	l.Lose(1)
	began := c.now
	if err := s.put("c", "3"); !errors.Is(err, log.ErrLost) {
		t.Errorf("%v", err)
	}
	if after := c.now.Sub(began); after < 25*time.Second || after > 30*time.Second {
		t.Errorf("it was noticed after %s", after)
	}
	if got := has(t, s.db); got != "a=1 b=2" {
		t.Errorf("the store has %q", got)
	}
}

// A server that was cut off names itself leader for up to 17 s, and refuses entries with the last sequence that it
// has.
func TestAServerThatIsBehindIsNotTakenForALoss(t *testing.T) {
	l, c := mem.New(), newClock()
	m := l.Join()
	p := newPlace(t, "alice", m, c)
	s := p.mustOpen("records", true)
	defer s.close(t)
	m.Cut()
	pauses := 0
	newPlace(t, "bob", l.Join(), c).mustOpen("records", false).close(t)
	c.paused = func() {
		if pauses++; pauses == 50 {
			m.Heal()
		}
	}
	if err := s.put("a", "1"); !errors.Is(err, log.ErrDeposed) {
		t.Errorf("%v after %d pauses", err, pauses)
	}
}

func TestACutOffServerThatRefusesWithALowerSequenceIsAskedAgain(t *testing.T) {
	l, c := mem.New(), newClock()
	whole, behind := l.Join(), l.Join()
	way := &switched{Transport: whole}
	s := newPlace(t, "alice", way, c).mustOpen("records", true)
	defer s.close(t)
	behind.Cut()
	if err := s.put("a", "1"); err != nil {
		t.Fatal(err)
	}
	way.Transport = behind
	began := c.now
	c.paused = func() {
		if c.now.Sub(began) > 17*time.Second {
			way.Transport = whole
		}
	}
	if err := s.put("b", "2"); err != nil {
		t.Errorf("%v", err)
	}
}

// switched is a connection that changes its server.
type switched struct{ log.Transport }

func TestALogThatWasRestoredToAnEarlierEndIsNotContinuedByACopyThatIsBeyond(t *testing.T) {
	l, c := mem.New(), newClock()
	alice, bob := newPlace(t, "alice", l.Join(), c), newPlace(t, "bob", l.Join(), c)
	s := alice.mustOpen("records", true)
	if err := s.put("a", "1"); err != nil {
		t.Fatal(err)
	}
	bob.copyHas("records", "a=1")
	if err := errors.Join(s.put("b", "2"), s.put("c", "3")); err != nil {
		t.Fatal(err)
	}
	s.close(t)
	l.Lose(2)
	if _, err := alice.open("records", false); !errors.Is(err, log.ErrLost) {
		t.Errorf("alice, who is beyond the end: %v", err)
	}
	other := bob.mustOpen("records", false) // the sequences are used again
	if err := errors.Join(other.put("d", "4"), other.put("e", "5")); err != nil {
		t.Fatal(err)
	}
	other.close(t)
	if _, err := alice.open("records", false); !errors.Is(err, log.ErrChain) {
		t.Errorf("alice, whose entries were replaced by others: %v", err)
	}
}

func TestACommitThatTheFileRefusesCountsAndItsCopyIsMadeAnew(t *testing.T) {
	l, c := mem.New(), newClock()
	alice := newPlace(t, "alice", l.Join(), c)
	o := alice.options("records")
	o.First = true
	w, err := log.Open(t.Context(), alice.path("records"), o)
	if err != nil {
		t.Fatal(err)
	}
	var file *os.File
	db, err := bbolt.Open(alice.path("records"), 0o600, &bbolt.Options{NoSync: true, OpenFile: func(name string, flag int,
		perm os.FileMode) (*os.File, error) {
		file, err = os.OpenFile(name, flag, perm)
		return file, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := &object{w, db}
	if err := s.put("a", "1"); err != nil {
		t.Fatal(err)
	}
	readOnly, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	*file, *readOnly = *readOnly, *file
	err = s.put("b", "2")
	*file, *readOnly = *readOnly, *file
	if !errors.Is(err, log.ErrCopy) {
		t.Errorf("%v", err)
	}
	s.close(t)
	if err := readOnly.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(alice.path("records") + ".copy"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the copy is still marked: %v", err)
	}
	alice.copyHas("records", "a=1 b=2")
}

// A change was stored late; another member applied it, made a snapshot, and purged the entry, before the first one
// could read who had written after it. It reported that its change had no effect.
func TestWhoeverCannotReadTheEntryThatFollowedDoesNotKnow(t *testing.T) {
	l, c := mem.New(), newClock()
	alice, bob := newPlace(t, "alice", l.Join(), c), newPlace(t, "bob", l.Join(), c)
	old := alice.mustOpen("records", true)
	l.Freeze()
	paused := false
	c.paused = func() {
		if paused {
			return
		}
		paused = true
		l.Thaw(func(string) bool { return true })
		now := bob.mustOpen("records", false)
		if err := now.w.Snapshot(t.Context(), now.db); err != nil {
			t.Error(err)
		}
		if _, err := log.Purge(t.Context(), l.Join(), []log.Options{bob.options("records")}); err != nil {
			t.Error(err)
		}
		now.close(t)
	}
	if err := old.put("a", "1"); !errors.Is(err, log.ErrUnknown) {
		t.Errorf("%v", err)
	}
	old.close(t)
	alice.copyHas("records", "a=1")
}
