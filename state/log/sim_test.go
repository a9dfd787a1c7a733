package log_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/millipede-iac/millipede/state/log"
	"github.com/millipede-iac/millipede/state/log/mem"
	"github.com/millipede-iac/millipede/state/recorded"
)

// The simulation has several members that take turns at the same stores, over a log that refuses while it is
// undecided, stores late or never, loses answers, whose isolated servers read old data, and that may lose its end.
// Time passes only in pauses, in which everybody else goes on. A seed gives the same run each time.

// guard is what a run leaves out, to see that it is needed.
type guard string

const (
	none     guard = ""
	higher   guard = "a verdict by a higher sequence"
	chain    guard = "the hash chain"
	lastKept guard = "the last entry of a store is kept"
	closing  guard = "closing after an unknown outcome"
)

// outcome is what a member was told about a change.
type outcome int

const (
	inDoubt outcome = iota
	acknowledged
	failed
)

// world is a run of the simulation.
type world struct {
	t       *testing.T
	r       *rand.Rand
	clock   *clock
	log     *mem.Log
	without guard
	loses   bool // the log may lose its end, once
	lost    bool

	members []*actor
	stores  []string
	made    map[string]bool // has an entry
	changes map[string]outcome
	numbers map[string]string // who was told a number of a store
	next    int
	depth   int
	wrong   []string
	frozen  bool
}

// actor is a member of the simulated group.
type actor struct {
	w      *world
	place  *place
	conn   *mem.Member
	opened map[string]*cached
	busy   bool
	boots  int
	cut    bool
}

// cached is a store with what it keeps in memory: the next number that it gives away, as the stores keep names and
// locks.
type cached struct {
	*object
	next int
}

const simStores = 2

func newWorld(t *testing.T, seed uint64, without guard, loses bool) *world {
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 7)), clock: newClock(), log: mem.New(), without: without, loses: loses,
		made: map[string]bool{}, changes: map[string]outcome{}, numbers: map[string]string{}}
	w.clock.paused = w.meanwhile
	for i := range simStores {
		w.stores = append(w.stores, fmt.Sprint("store", i))
	}
	for i := range 3 {
		conn := w.log.Join()
		a := &actor{w: w, conn: conn, opened: map[string]*cached{}}
		a.place = newPlace(quiet{t}, fmt.Sprint("member", i), conn, w.clock)
		a.place.change = func(o *log.Options) {
			o.Entries, o.Patience = 1_000_000, 3*time.Second
			o.OmitSync()
			switch without {
			case higher:
				o.OmitHigher()
			case chain:
				o.OmitChain()
			}
		}
		w.members = append(w.members, a)
	}
	return w
}

// quiet drops the lines of the stores.
type quiet struct{ testing.TB }

func (w *world) violation(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// meanwhile lets the log and the other members go on while one waits.
func (w *world) meanwhile() {
	w.faults()
	if w.depth >= 3 {
		return
	}
	w.depth++
	defer func() { w.depth-- }()
	if w.r.IntN(3) == 0 {
		w.turn()
	}
}

// faults changes what is broken.
func (w *world) faults() {
	m := w.members[w.r.IntN(len(w.members))]
	switch w.r.IntN(14) {
	case 0:
		w.log.Freeze()
		w.frozen = true
	case 1, 2, 3:
		w.log.Thaw(func(string) bool { return w.r.IntN(3) > 0 })
		w.frozen = false
	case 4:
		if !m.cut {
			m.conn.Cut()
			m.cut = true
		}
	case 5, 6, 7:
		m.conn.Heal()
		m.cut = false
	case 8:
		m.conn.Silence(1 + w.r.IntN(3))
	case 9:
		if w.loses && !w.lost && w.r.IntN(6) == 0 && w.log.Last() > 8 {
			w.lost = w.log.Lose(1+w.r.IntN(4)) > 0
		}
	}
}

// turn lets a member do something.
func (w *world) turn() {
	a := w.members[w.r.IntN(len(w.members))]
	store := w.stores[w.r.IntN(len(w.stores))]
	if a.busy {
		return
	}
	a.busy = true
	defer func() { a.busy = false }()
	s := a.opened[store]
	switch n := w.r.IntN(20); {
	case s == nil && n < 4:
		a.follow(store)
	case s == nil && n < 12:
		a.lead(store)
	case s == nil:
	case n < 14:
		a.change(store, s)
	case n == 14:
		a.shut(store, true)
	case n == 15: // killed
		a.shut(store, false)
	case n == 16: // the machine goes down
		for _, store := range w.stores {
			a.shut(store, false)
			_ = os.WriteFile(a.place.path(store), []byte("not synced"), 0o600)
		}
		a.boots++
		a.place.boot = fmt.Sprint("boot ", a.boots)
	case n == 17:
		_ = s.w.Snapshot(context.Background(), s.db)
	case n == 18:
		a.purge()
	}
}

// follow applies what the log has to the copy.
func (a *actor) follow(store string) {
	if !a.w.made[store] {
		return
	}
	c, err := log.OpenCopy(a.place.path(store), a.place.options(store))
	if err != nil {
		a.w.violation("%s cannot open its copy of %s: %v", a.place.member, store, err)
		return
	}
	a.noted(store, c.Follow(context.Background()))
	if err := c.Close(); err != nil {
		a.w.violation("%v", err)
	}
}

// noted reports an error that nobody may get as long as the log keeps what it has acknowledged.
func (a *actor) noted(store string, err error) {
	if err != nil && !a.w.lost && (errors.Is(err, log.ErrChain) || errors.Is(err, log.ErrLost) ||
		errors.Is(err, log.ErrMissing) || errors.Is(err, log.ErrEntry)) {
		a.w.violation("%s, %s: %v", a.place.member, store, err)
	}
}

func (a *actor) lead(store string) {
	s, err := a.place.open(store, !a.w.made[store])
	a.noted(store, err)
	if err != nil {
		return
	}
	a.w.made[store] = true
	a.opened[store] = &cached{object: s, next: lastNumber(s.db) + 1}
}

func lastNumber(db *bbolt.DB) (last int) {
	_ = recorded.View(db, func(tx *recorded.Tx) error {
		if b := tx.Bucket([]byte("values")); b != nil {
			_, _ = fmt.Sscan(string(b.Get([]byte("last"))), &last)
		}
		return nil
	})
	return last
}

// change gives away a number, from memory, and records it.
func (a *actor) change(store string, s *cached) {
	w := a.w
	w.next++
	id, number := fmt.Sprint("change", w.next), s.next
	err := recorded.Through(s.db, s.w, func(tx *recorded.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte("values"))
		if err != nil {
			return err
		}
		return errors.Join(b.Put([]byte(id), fmt.Append(nil, number)), b.Put([]byte("last"), fmt.Append(nil, number)))
	})
	a.noted(store, err)
	switch {
	case err == nil || errors.Is(err, log.ErrCopy):
		w.changes[store+"/"+id] = acknowledged
		if other := w.numbers[fmt.Sprint(store, number)]; other != "" && !w.lost {
			w.violation("the number %d of %s was given to %s and to %s", number, store, other, id)
		}
		w.numbers[fmt.Sprint(store, number)] = id
		s.next++
	case errors.Is(err, log.ErrUnknown) || errors.Is(err, log.ErrLost):
		w.changes[store+"/"+id] = inDoubt
	default:
		w.changes[store+"/"+id] = failed
	}
	if s.w.Err() == nil {
		return
	}
	kept := s.next
	a.shut(store, true)
	if w.without == closing && errors.Is(err, log.ErrUnknown) {
		if a.lead(store); a.opened[store] != nil {
			a.opened[store].next = kept // the store goes on with what it has in memory
		}
	}
}

// shut closes a store in order, or leaves it as a killed process does.
func (a *actor) shut(store string, order bool) {
	s := a.opened[store]
	if s == nil {
		return
	}
	delete(a.opened, store)
	if err := s.db.Close(); err != nil {
		a.w.violation("%v", err)
	}
	if !order {
		return
	}
	if err := s.w.Close(); err != nil {
		a.w.violation("%v", err)
	}
}

func (a *actor) purge() {
	var all []log.Options
	for _, store := range a.w.stores {
		if !a.w.made[store] {
			return
		}
		all = append(all, a.place.options(store))
	}
	if a.w.without == lastKept {
		_ = a.conn.Purge(context.Background(), a.w.log.Last()+1)
		return
	}
	_, err := log.Purge(context.Background(), a.conn, all)
	a.noted("all", err)
}

// run is a run of so many turns, and what must hold afterwards.
func (w *world) run(turns int) {
	for range turns {
		w.faults()
		w.turn()
		if len(w.wrong) > 0 {
			break
		}
	}
	w.clock.paused = func() {}
	w.log.Thaw(func(string) bool { return w.r.IntN(2) == 0 })
	for _, a := range w.members {
		a.conn.Heal()
		a.conn.Silence(0)
		for _, store := range w.stores {
			a.shut(store, true)
		}
	}
	for _, store := range w.stores {
		if w.made[store] {
			w.compare(store)
		}
	}
}

// compare checks the copies of a store at the end.
func (w *world) compare(store string) {
	fresh := newPlace(w.t, "fresh", w.log.Join(), w.clock)
	fresh.t = quiet{w.t}
	want, err := content(fresh, store)
	if err != nil && w.lost {
		return // a member whose sequences were used again has gone on, which everybody else notices
	}
	if err != nil {
		w.violation("a new member cannot make the store %s: %v", store, err)
		return
	}
	for _, a := range w.members {
		got, err := content(a.place, store)
		switch {
		case err != nil && w.lost:
			continue // it has noticed that the log is another one
		case err != nil:
			w.violation("%s has no copy of %s: %v", a.place.member, store, err)
		case got != want:
			w.violation("the copy of %s by %s has\n%s\nand a new one has\n%s", store, a.place.member, got, want)
		}
	}
	if w.lost {
		return
	}
	for change, told := range w.changes {
		of, id, _ := strings.Cut(change, "/")
		if of != store {
			continue
		}
		there := strings.Contains(want, id+"=")
		if told == acknowledged && !there || told == failed && there {
			w.violation("%s of %s is there: %t, and its member was told %d", id, store, there, told)
		}
	}
	if s, err := w.members[0].place.open(store, false); err != nil {
		w.violation("nobody can open %s at the end: %v", store, err)
	} else {
		s.close(w.t)
	}
}

// content returns the content of a copy that follows the log to its end.
func content(p *place, store string) (string, error) {
	c, err := log.OpenCopy(p.path(store), p.options(store))
	if err != nil {
		return "", err
	}
	err = c.Follow(context.Background())
	all := has(p.t, c.DB().(*bbolt.DB))
	return all, errors.Join(err, c.Close())
}

// runs simulates with seeds until something is wrong, and returns that.
func runs(t *testing.T, seeds, turns int, without guard, loses bool) (wrong []string, stored int) {
	for seed := range uint64(seeds) { //nolint:gosec // a small number
		w := newWorld(t, seed, without, loses)
		w.run(turns)
		for _, told := range w.changes {
			if told == acknowledged {
				stored++
			}
		}
		if len(w.wrong) > 0 {
			return append(w.wrong, fmt.Sprintf("(seed %d)", seed)), stored
		}
	}
	return nil, stored
}

// seeds returns how many runs a test makes: n, or what the variable SEEDS says.
func seeds(n int) int {
	if more, err := strconv.Atoi(os.Getenv("SEEDS")); err == nil {
		return more
	}
	if testing.Short() {
		return n / 4
	}
	return n
}

func TestMembersThatTakeTurnsLoseNothingAndAgree(t *testing.T) {
	wrong, stored := runs(t, seeds(10), 300, none, false)
	for _, v := range wrong {
		t.Error(v)
	}
	t.Logf("%d changes were acknowledged", stored)
	if stored < 100 {
		t.Error("hardly anything was stored")
	}
}

func TestWhenTheLogLosesItsEndCopiesThatDoNotNoticeAgree(t *testing.T) {
	wrong, _ := runs(t, seeds(10), 300, none, true)
	for _, v := range wrong {
		t.Error(v)
	}
}

func TestEachGuardOfTheLogIsNeeded(t *testing.T) {
	for _, g := range []guard{higher, chain, lastKept, closing} {
		t.Run(string(g), func(t *testing.T) {
			wrong, _ := runs(t, 200, 300, g, g == chain)
			if len(wrong) == 0 {
				t.Error("nothing is wrong without it")
			} else {
				t.Logf("found: %s", wrong)
			}
		})
	}
}
