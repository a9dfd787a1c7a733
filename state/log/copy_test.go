package log_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/state/log"
	"github.com/millipede-iac/millipede/state/log/mem"
	"github.com/millipede-iac/millipede/state/recorded"
)

func TestACopyIsTrustedOnlyIfItWasClosedOrWrittenSinceThisStart(t *testing.T) {
	for claim, c := range map[string]struct {
		crash func(p *place)
		keeps bool
	}{
		"one that was closed, after the machine was started anew": {func(p *place) { p.boot = "boot 2" }, true},
		"one of a killed process": {func(p *place) {
			open(p)
		}, true},
		"one that was open when the machine went down": {func(p *place) {
			open(p)
			p.boot = "boot 2"
		}, false},
		"one on a system that does not name its starts": {func(p *place) {
			p.boot = ""
			open(p)
		}, false},
		"one without a mark": {func(p *place) {
			if err := os.Remove(p.path("records") + ".copy"); err != nil {
				p.t.Error(err)
			}
		}, false},
	} {
		t.Run(claim, func(t *testing.T) {
			p := newPlace(t, "alice", mem.New().Join(), newClock())
			s := p.mustOpen("records", true)
			if err := s.put("a", "1"); err != nil {
				t.Fatal(err)
			}
			s.close(t)
			c.crash(p)
			// what only the copy has is gone if the copy is made anew
			db, err := openDB(p.path("records"))
			if err != nil {
				t.Fatal(err)
			}
			if err := recorded.Update(db, func(tx *recorded.Tx) error {
				return tx.Bucket([]byte("values")).Put([]byte("mine"), []byte("1"))
			}); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			want := "a=1"
			if c.keeps {
				want = "a=1 mine=1"
			}
			p.copyHas("records", want)
		})
	}
}

// open leaves a copy as a killed process does.
func open(p *place) {
	s := p.mustOpen("records", false)
	if err := s.db.Close(); err != nil {
		p.t.Error(err)
	}
}

func TestADamagedCopyIsMadeAnew(t *testing.T) {
	p := newPlace(t, "alice", mem.New().Join(), newClock())
	s := p.mustOpen("records", true)
	if err := s.put("a", "1"); err != nil {
		t.Fatal(err)
	}
	s.close(t)
	if err := os.WriteFile(p.path("records"), bytes.Repeat([]byte("damaged"), 10_000), 0o600); err != nil {
		t.Fatal(err)
	}
	p.copyHas("records", "a=1")
}

func TestAStoreThatIsNotNewNeedsItsEntries(t *testing.T) {
	p := newPlace(t, "alice", mem.New().Join(), newClock())
	if _, err := p.open("records", false); !errors.Is(err, log.ErrMissing) {
		t.Errorf("%v", err)
	}
}

func TestACopyIsMadeFromTheLastSnapshotOnceTheEntriesBeforeArePurged(t *testing.T) {
	l, c := mem.New(), newClock()
	alice, bob := newPlace(t, "alice", l.Join(), c), newPlace(t, "bob", l.Join(), c)
	behind := newPlace(t, "carol", l.Join(), c)
	a, b := alice.mustOpen("records", true), alice.mustOpen("other", true)
	purge := func() {
		t.Helper()
		if _, err := log.Purge(t.Context(), l.Join(), []log.Options{alice.options("records"),
			alice.options("other")}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		if err := errors.Join(a.put("a", fmt.Sprint(i)), b.put("b", fmt.Sprint(i)),
			a.put("big", strings.Repeat(fmt.Sprint(i), 2*log.MaxInline))); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			if err := errors.Join(a.put("big", "small")); err != nil {
				t.Fatal(err)
			}
			behind.copyHas("records", "a=1 big=small")
		}
		if i == 2 || i == 3 {
			if err := a.w.Snapshot(t.Context(), a.db); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := a.put("big", "small"); err != nil {
		t.Fatal(err)
	}
	purge()
	if sequences, _ := l.Entries("records"); sequences[0] != 1 {
		t.Errorf("the log begins at %d although a store has no snapshot", sequences[0])
	}
	if err := b.w.Snapshot(t.Context(), b.db); err != nil {
		t.Fatal(err)
	}
	purge()
	if sequences, _ := l.Entries("records"); sequences[0] == 1 {
		t.Error("nothing was purged")
	}
	bob.copyHas("records", "a=4 big=small")
	bob.copyHas("other", "b=4")
	behind.copyHas("records", "a=4 big=small")
	if err := a.put("c", "5"); err != nil {
		t.Fatal(err)
	}
	bob.copyHas("records", "a=4 big=small c=5")
	a.close(t)
	b.close(t)
}

func TestASnapshotIsMadeAfterEnoughEntriesAndOldOnesAreRemoved(t *testing.T) {
	l, c := mem.New(), newClock()
	p := newPlace(t, "alice", l.Join(), c)
	p.change = func(o *log.Options) { o.Entries = 5 }
	s := p.mustOpen("records", true)
	names := func() []string {
		list, err := l.Join().List(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	covered, i := uint64(0), 0
	for ; covered < 50 && i < 20_000; i++ { // snapshots are made beside the commits
		if err := s.put("a", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		var err error
		if covered, err = log.Covered(t.Context(), p.options("records")); err != nil {
			t.Fatal(err)
		}
	}
	s.close(t)
	if covered < 50 {
		t.Errorf("after %d entries the last snapshot has those up to %d", i, covered)
	}
	if n := len(names()); n == 0 || n > 6 { // one is being made, two are kept; each has one or two parts
		t.Errorf("%d parts are left: %q", n, names())
	}
	newPlace(t, "bob", l.Join(), c).copyHas("records", fmt.Sprint("a=", i-1))
}

func TestAStoreThatNobodyHasOpenGetsASnapshotSoThatOthersCanBePurged(t *testing.T) {
	l, c := mem.New(), newClock()
	p := newPlace(t, "alice", l.Join(), c)
	idle, busy := p.mustOpen("idle", true), p.mustOpen("busy", true)
	if err := idle.put("a", "1"); err != nil {
		t.Fatal(err)
	}
	idle.close(t)
	for i := range 10 {
		if err := busy.put("b", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	busy.w.SnapshotSoon()
	for covered := uint64(0); covered == 0; {
		if err := busy.put("c", "2"); err != nil {
			t.Fatal(err)
		}
		var err error
		if covered, err = log.Covered(t.Context(), p.options("busy")); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Renew(t.Context(), p.path("idle"), p.options("idle")); err != nil {
		t.Fatal(err)
	}
	if err := log.Renew(t.Context(), p.path("busy"), p.options("busy")); !errors.Is(err, log.ErrHeld) {
		t.Errorf("renewing a store that is open: %v", err)
	}
	covered, err := log.Purge(t.Context(), l.Join(), []log.Options{p.options("idle"), p.options("busy")})
	if err != nil || covered["idle"] == 0 || covered["busy"] == 0 {
		t.Errorf("%v, %v", covered, err)
	}
	if sequences, _ := l.Entries("idle"); sequences[0] == 1 {
		t.Error("nothing was purged")
	}
	busy.close(t)
	bob := newPlace(t, "bob", l.Join(), c)
	bob.copyHas("idle", "a=1")
	bob.copyHas("busy", "b=9 c=2")
}

// A part of an entry was gone, and no snapshot had it: the copy was made anew again and again.
func TestACopyWhosePartsAreGoneEndsWithAnError(t *testing.T) {
	l, c := mem.New(), newClock()
	alice, bob := newPlace(t, "alice", l.Join(), c), newPlace(t, "bob", l.Join(), c)
	s := alice.mustOpen("records", true)
	if err := errors.Join(s.put("a", "1"), s.put("big", strings.Repeat("x", 2*log.MaxInline))); err != nil {
		t.Fatal(err)
	}
	s.close(t)
	names, err := l.Join().List(t.Context(), "content/")
	if err != nil || len(names) == 0 {
		t.Fatalf("%q, %v", names, err)
	}
	if err := l.Join().Remove(t.Context(), names[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := bob.open("records", false); !errors.Is(err, log.ErrMissing) {
		t.Errorf("%v", err)
	}
	again := alice.mustOpen("records", false) // who has applied it
	again.close(t)
}

// The parts of a store were taken for those of another one, whose name its own begins with, and were removed.
func TestAStoreWhoseNameContinuesThatOfAnotherKeepsItsParts(t *testing.T) {
	l, c := mem.New(), newClock()
	p := newPlace(t, "alice", l.Join(), c)
	inner := p.mustOpen("one_", true)
	if err := inner.put("a", "1"); err != nil {
		t.Fatal(err)
	}
	if err := inner.w.Snapshot(t.Context(), inner.db); err != nil {
		t.Fatal(err)
	}
	inner.close(t)
	names, err := l.Join().List(t.Context(), "snapshot/one_/")
	if err != nil || len(names) == 0 {
		t.Fatalf("%q, %v", names, err)
	}
	within := strings.Replace(names[0], "one_", "one/1", 1) // as of a store one/1
	if err := l.Join().Put(t.Context(), within, nil); err != nil {
		t.Fatal(err)
	}
	outer := p.mustOpen("one", true)
	for i := range 3 {
		if err := errors.Join(outer.put("a", fmt.Sprint(i)), outer.w.Snapshot(t.Context(), outer.db)); err != nil {
			t.Fatal(err)
		}
	}
	outer.close(t)
	if _, err := l.Join().Get(t.Context(), within); err != nil {
		t.Errorf("the part of the other store: %v", err)
	}
	newPlace(t, "bob", l.Join(), c).copyHas("one", "a=2")
}
