package log_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/millipede-iac/millipede/state/log"
	"github.com/millipede-iac/millipede/state/log/mem"
)

// follower returns a copy that has all entries of the log.
func (p *place) follower(store string) *log.Copy {
	p.t.Helper()
	c, err := log.OpenCopy(p.path(store), p.options(store))
	if err != nil {
		p.t.Fatal(err)
	}
	if err := c.Follow(context.Background()); err != nil {
		p.t.Fatal(err)
	}
	return c
}

// over opens the store of a Writer.
func (p *place) over(store string, w *log.Writer, err error) *object {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
	db, err := openDB(p.path(store))
	if err != nil {
		p.t.Fatal(err)
	}
	return &object{w, db}
}

func TestAClaimExpectsWhatTheCopyHasApplied(t *testing.T) {
	l, c := mem.New(), newClock()
	alice, bob := newPlace(t, "alice", l.Join(), c), newPlace(t, "bob", l.Join(), c)
	old := alice.mustOpen("records", true)
	defer old.close(t)
	following := bob.follower("records")
	before := following.Position()
	if err := old.put("a", "1"); err != nil {
		t.Fatal(err)
	}
	stored := l.Last()
	if _, err := following.Claim(t.Context()); !errors.Is(err, log.ErrDeposed) {
		t.Fatalf("a claim without the newest entry: %v", err)
	}
	if l.Last() != stored || following.Position() != before {
		t.Error("it had an effect")
	}
	if applied, err := following.Step(t.Context(), 0); !applied || err != nil {
		t.Fatalf("the copy cannot be followed on: %t, %v", applied, err)
	}
	w, err := following.Claim(t.Context())
	now := bob.over("records", w, err)
	defer now.close(t)
	if at := w.Position(); at.Epoch != before.Epoch+1 || at.Member != "bob" {
		t.Errorf("it leads at %+v", at)
	}
	if err := now.put("b", "2"); err != nil {
		t.Error(err)
	}
	if err := old.put("a", "3"); !errors.Is(err, log.ErrDeposed) {
		t.Errorf("the former writer: %v", err)
	}
	if got := has(t, now.db); got != "a=1 b=2" {
		t.Errorf("the store has %q", got)
	}
}

// A claim that the log has not answered is in flight: it may begin its epoch when nobody expects it any more.
func TestAClaimThatIsStoredLateMakesItsMemberTheWriterAndNobodyElse(t *testing.T) {
	l, c := mem.New(), newClock()
	alice, bob := newPlace(t, "alice", l.Join(), c), newPlace(t, "bob", l.Join(), c)
	carol := newPlace(t, "carol", l.Join(), c)
	old := alice.mustOpen("records", true)
	defer old.close(t)
	if err := old.put("a", "1"); err != nil {
		t.Fatal(err)
	}
	b, other := bob.follower("records"), carol.follower("records")
	l.Freeze()
	if _, err := b.Claim(t.Context()); !errors.Is(err, log.ErrUnknown) {
		t.Fatalf("%v", err)
	}
	if _, err := b.Take(t.Context()); !errors.Is(err, log.ErrDeposed) {
		t.Errorf("it takes what is not stored: %v", err)
	}
	l.Thaw(func(string) bool { return true })
	if _, err := other.Claim(t.Context()); !errors.Is(err, log.ErrDeposed) {
		t.Errorf("another claim: %v", err)
	}
	for _, one := range []*log.Copy{b, other} {
		if applied, err := one.Step(t.Context(), 0); !applied || err != nil || one.Position().Member != "bob" {
			t.Fatalf("%t, %v, %+v", applied, err, one.Position())
		}
	}
	if _, err := other.Take(t.Context()); !errors.Is(err, log.ErrDeposed) {
		t.Errorf("carol takes bob's epoch: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	if err := old.put("a", "2"); !errors.Is(err, log.ErrDeposed) {
		t.Errorf("the former writer: %v", err)
	}
	w, err := b.Take(t.Context())
	now := bob.over("records", w, err)
	defer now.close(t)
	if err := now.put("b", "2"); err != nil {
		t.Error(err)
	}
	carol.copyHas("records", "a=1 b=2")
}

func TestAHandoverGivesTheStoreToOneMember(t *testing.T) {
	l, c := mem.New(), newClock()
	alice, bob := newPlace(t, "alice", l.Join(), c), newPlace(t, "bob", l.Join(), c)
	carol := newPlace(t, "carol", l.Join(), c)
	old := alice.mustOpen("records", true)
	if err := old.put("a", "1"); err != nil {
		t.Fatal(err)
	}
	epoch := old.w.Position().Epoch
	if err := old.w.HandOver(old.db, "bob"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-old.w.Stopped():
	default:
		t.Error("the writer has not stopped")
	}
	if err := old.w.Err(); !errors.Is(err, log.ErrHandedOver) || !errors.Is(err, log.ErrDeposed) {
		t.Errorf("it stopped with %v", err)
	}
	for what, err := range map[string]error{"change": old.put("a", "2"), "beat": old.w.Beat(old.db),
		"handover": old.w.HandOver(old.db, "carol")} {
		if !errors.Is(err, log.ErrHandedOver) {
			t.Errorf("a %s afterwards: %v", what, err)
		}
	}
	old.close(t)
	// The copy of the former writer has the entry, too.
	for _, p := range []*place{alice, carol} {
		one := p.follower("records")
		if at := one.Position(); at.Member != "bob" || at.Epoch != epoch+1 || at.Sequence != l.Last() {
			t.Errorf("%s: %+v", p.member, at)
		}
		if _, err := one.Take(t.Context()); !errors.Is(err, log.ErrDeposed) {
			t.Errorf("%s takes what bob was given: %v", p.member, err)
		}
		if err := one.Close(); err != nil {
			t.Error(err)
		}
	}
	w, err := bob.follower("records").Take(t.Context())
	now := bob.over("records", w, err)
	defer now.close(t)
	// What it has taken can be an old entry, which another member has followed on.
	if got := w.Unchanged(); got < time.Hour {
		t.Errorf("it answers for the records before anything was acknowledged: %s", got)
	}
	if at := w.Position(); at.Epoch != epoch+1 || l.Last() != at.Sequence {
		t.Errorf("it begins another epoch: %+v", at)
	}
	if err := now.put("b", "2"); err != nil {
		t.Error(err)
	}
	if got := w.Unchanged(); got > time.Minute {
		t.Errorf("after a change: %s", got)
	}
	alice.copyHas("records", "a=1 b=2")
}

func TestAHandoverThatNobodyHasAnsweredStopsTheWriter(t *testing.T) {
	for claim, stores := range map[string]bool{"it was stored": true, "it was not": false} {
		t.Run(claim, func(t *testing.T) {
			l, c := mem.New(), newClock()
			alice := newPlace(t, "alice", l.Join(), c)
			old := alice.mustOpen("records", true)
			l.Freeze()
			if err := old.w.HandOver(old.db, "bob"); !errors.Is(err, log.ErrUnknown) {
				t.Fatalf("%v", err)
			}
			if err := old.put("a", "1"); !errors.Is(err, log.ErrUnknown) {
				t.Errorf("a change afterwards: %v", err)
			}
			old.close(t)
			l.Thaw(func(string) bool { return stores })
			want := "alice"
			if stores {
				want = "bob"
			}
			one := alice.follower("records")
			defer func() { _ = one.Close() }()
			if got := one.Position().Member; got != want {
				t.Errorf("%s writes, and should be %s", got, want)
			}
		})
	}
}

func TestABeatIsAnEntryWithoutChangesThatRenewsTheLease(t *testing.T) {
	l, c := mem.New(), newClock()
	m := l.Join()
	alice, bob := newPlace(t, "alice", m, c), newPlace(t, "bob", l.Join(), c)
	began := c.now
	alice.change = func(o *log.Options) { o.Elapsed = func() time.Duration { return c.now.Sub(began) } }
	s := alice.mustOpen("records", true)
	if err := s.put("a", "1"); err != nil {
		t.Fatal(err)
	}
	before := l.Last()
	c.now = c.now.Add(time.Second)
	if got := s.w.Unchanged(); got != time.Second {
		t.Errorf("nothing was acknowledged for %s", got)
	}
	if err := s.w.Beat(s.db); err != nil {
		t.Fatal(err)
	}
	if got := s.w.Unchanged(); got != 0 || l.Last() != before+1 {
		t.Errorf("after a beat: %s, and %d entries", got, l.Last()-before)
	}
	// What counts is when the entry was sent, not when it was answered.
	l.Freeze()
	pauses := 0
	c.paused = func() {
		if pauses++; pauses == 10 {
			l.Thaw(func(string) bool { return true })
		}
	}
	sent := c.now
	if err := s.w.Beat(s.db); err != nil {
		t.Fatal(err)
	}
	if got := s.w.Unchanged(); got != c.now.Sub(sent) || got == 0 {
		t.Errorf("the lease counts from %s ago, and the beat was sent %s ago", got, c.now.Sub(sent))
	}
	c.paused = func() {}
	if got := has(t, s.db); got != "a=1" {
		t.Errorf("the store has %q", got)
	}
	bob.copyHas("records", "a=1")
	now := bob.mustOpen("records", false)
	defer now.close(t)
	if err := s.w.Beat(s.db); !errors.Is(err, log.ErrDeposed) {
		t.Errorf("a beat of a deposed member: %v", err)
	}
	s.close(t)
}

func TestTheFileIsFreeForTheStoreOfWhoeverClaims(t *testing.T) {
	l, c := mem.New(), newClock()
	alice := newPlace(t, "alice", l.Join(), c)
	alice.mustOpen("records", true).close(t)
	copied := alice.follower("records")
	w, err := copied.Claim(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(alice.path("records"), 0o600, &bbolt.Options{NoSync: true, Timeout: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	(&object{w, db}).close(t)
}

// away does not answer the next reads.
type away struct {
	log.Transport
	reads int
}

func (a *away) Next(ctx context.Context, store string, from uint64, wait time.Duration) (uint64, []byte, error) {
	if a.reads--; a.reads >= 0 {
		return 0, nil, log.ErrUnanswered
	}
	return a.Transport.Next(ctx, store, from, wait)
}

// A run whose store was opened while a server of NATS had just ended failed.
func TestAStoreIsOpenedWhenTheLogAnswersAgain(t *testing.T) {
	l, c := mem.New(), newClock()
	silent := &away{Transport: l.Join()}
	p := newPlace(t, "alice", silent, c)
	s := p.mustOpen("records", true)
	if err := s.put("a", "1"); err != nil {
		t.Fatal(err)
	}
	s.close(t)
	silent.reads = 100
	began := c.now
	p.mustOpen("records", false).close(t)
	if c.now.Sub(began) < 10*time.Second {
		t.Errorf("it took %v", c.now.Sub(began))
	}
	silent.reads = 1 << 40
	if _, err := p.open("records", false); !errors.Is(err, log.ErrUnanswered) {
		t.Errorf("a log that never answers: %v", err)
	}
}

// A member with another key found that out when it had removed its copy, in words about a damaged entry.
func TestTheKeyOfALogIsCheckedBeforeACopyIsMade(t *testing.T) {
	l, c := mem.New(), newClock()
	p := newPlace(t, "alice", l.Join(), c)
	if err := log.CheckKey(t.Context(), p.options("records")); err != nil {
		t.Errorf("a log without entries: %v", err)
	}
	p.mustOpen("records", true).close(t)
	if err := log.CheckKey(t.Context(), p.options("records")); err != nil {
		t.Error(err)
	}
	o := p.options("records")
	key, err := log.Key([]byte("another"), o.Incarnation, o.Store)
	if err != nil {
		t.Fatal(err)
	}
	o.Key = key
	if err := log.CheckKey(t.Context(), o); !errors.Is(err, log.ErrEntry) {
		t.Errorf("with another key: %v", err)
	}
}
