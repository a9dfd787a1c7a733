package group_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"github.com/millipede-iac/millipede/service/group"
	"github.com/millipede-iac/millipede/state/log"
)

// sim is a run of a group under faults. A seed gives the same faults each time.
type sim struct {
	*cluster
	r      *rand.Rand
	stands bool             // paused machines have clocks that stand still, so what they read may be old
	loses  bool             // the log may lose its end, once
	over   map[string]fault // what is broken
}

// fault is something broken.
type fault struct {
	until time.Time
	mend  func()
}

func newSim(t *testing.T, seed uint64, without guard, loses bool) *sim {
	s := &sim{cluster: newCluster(t, "alice", "bob", "carol"), r: rand.New(rand.NewPCG(seed, 11)), loses: loses,
		stands: seed%3 == 0 && without == none, over: map[string]fault{}}
	s.without = without
	return s
}

// breaks has something broken for a time, unless it is.
func (s *sim) breaks(what string, most time.Duration, begin, mend func()) {
	if _, ok := s.over[what]; ok {
		return
	}
	begin()
	s.over[what] = fault{time.Now().Add(time.Duration(s.r.Int64N(int64(most)))), mend}
}

// mend ends what has been broken for long enough, or everything.
func (s *sim) mend(all bool) {
	for _, what := range []string{"log", "alice", "bob", "carol"} {
		if f, ok := s.over[what]; ok && (all || !time.Now().Before(f.until)) {
			delete(s.over, what)
			f.mend()
		}
	}
}

// faults breaks something. A server that shows old data is suspected of a loss after 25 s, as it should be.
func (s *sim) faults() {
	n := s.nodes[s.r.IntN(len(s.nodes))]
	switch s.r.IntN(16) {
	case 0:
		most := 4 * time.Second
		if s.r.IntN(4) == 0 {
			most = time.Minute
		}
		s.breaks("log", most, s.log.Freeze, func() { s.log.Thaw(func(string) bool { return s.r.IntN(2) == 0 }) })
	case 1, 2:
		s.breaks(n.name, 8*time.Second, n.kill, func() { n.start() })
	case 3:
		s.breaks(n.name, 20*time.Second, func() { // the machine is lost
			n.kill()
			_ = os.RemoveAll(filepath.Dir(n.path))
			n.wiped = time.Now()
		}, func() { n.start() })
	case 4:
		s.breaks(n.name, 15*time.Second, func() { n.conn.Cut(); n.part(true, false) },
			func() { n.conn.Heal(); n.part(false, false) })
	case 5:
		s.breaks(n.name, 15*time.Second, n.conn.Cut, n.conn.Heal)
	case 6:
		s.breaks(n.name, 15*time.Second, func() { n.part(false, true) }, func() { n.part(false, false) })
	case 7:
		s.breaks(n.name, 15*time.Second, func() { n.part(true, false) }, func() { n.part(false, false) })
	case 8, 9:
		s.breaks(n.name, 10*time.Second, func() { n.pause(s.stands) }, n.resume)
	case 10:
		n.conn.Silence(1 + s.r.IntN(3))
	case 11:
		n.p.handOver(s.nodes[s.r.IntN(len(s.nodes))].name)
	case 12:
		if s.loses && !s.lost && s.log.Last() > 12 {
			s.lost = s.log.Lose(1+s.r.IntN(4)) > 0
		}
	}
}

// run is a run of so many steps, and what must hold afterwards.
func (s *sim) run(steps int) {
	defer s.end()
	s.nodes[0].start()
	time.Sleep(time.Second)
	for _, n := range s.nodes[1:] {
		n.start()
	}
	for range steps {
		time.Sleep(time.Duration(1 + s.r.Int64N(int64(term/2))))
		s.mend(false)
		s.faults()
		for _, n := range s.nodes {
			n.p.change()
			time.Sleep(time.Millisecond)
			if !s.stands && !s.lost {
				n.p.read()
			}
		}
		s.ended()
		if len(s.wrong) > 0 {
			return
		}
	}
	s.mend(true)
	for _, n := range s.nodes {
		n.conn.Silence(0)
	}
	if !s.lost {
		s.finish()
	}
}

// ended looks for processes that have ended by themselves, which none may as long as the log keeps what it has.
func (s *sim) ended() {
	for _, n := range s.nodes {
		if n.p.dead.Load() || n.p.running() {
			continue
		}
		if !s.lost || n.p.err == nil || errors.Is(n.p.err, group.ErrTwice) {
			s.violation("%s has ended: %v", n.name, n.p.err)
		}
	}
}

// finish checks that somebody leads in the end, and that all copies are equal and have what was acknowledged.
func (s *sim) finish() {
	time.Sleep(time.Minute)
	who, _ := s.leaders()
	before := len(s.acked)
	for _, n := range s.nodes {
		n.p.change()
	}
	time.Sleep(time.Second)
	s.ended()
	if len(s.acked) != before+1 {
		s.violation("in the end %q leads, and %d changes were stored", who, len(s.acked)-before)
	}
	for _, n := range s.nodes {
		_ = n.stop()
	}
	first := ""
	for i, n := range s.nodes {
		db, hash, err := n.final()
		if err != nil {
			s.violation("the copy of %s: %v", n.name, err)
			continue
		}
		got := content(db) + hash
		if i == 0 {
			first = got
		}
		if ids := s.missing(db); len(ids) > 0 || got != first {
			s.violation("the copy of %s is another one, or has not %s", n.name, ids)
		}
		_ = db.Close()
	}
}

// final returns the file of the member, which has followed the log to its end.
func (n *node) final() (*bbolt.DB, string, error) {
	o, err := n.p.copy()
	if err != nil {
		return nil, "", err
	}
	o.Transport = n.conn
	c, err := log.OpenCopy(n.path, o)
	if err != nil {
		return nil, "", err
	}
	err = errors.Join(c.Follow(context.Background()), c.Close())
	if err != nil {
		return nil, "", err
	}
	db, err := bbolt.Open(n.path, 0o600, &bbolt.Options{NoSync: true})
	return db, fmt.Sprintf("%x", c.Position().Hash), err
}

// runs simulates with seeds until something is wrong, and returns that.
func runs(t *testing.T, seeds, steps int, without guard, loses bool) (wrong []string, stored, epochs int) {
	for seed := range uint64(seeds) { //nolint:gosec // a small number
		synctest.Test(t, func(t *testing.T) {
			s := newSim(t, seed, without, loses)
			s.run(steps)
			stored, epochs = stored+len(s.acked), epochs+len(s.owners)
			if len(s.wrong) > 0 {
				wrong = append(s.wrong, fmt.Sprintf("(seed %d)", seed))
			}
		})
		if len(wrong) > 0 {
			break
		}
	}
	return wrong, stored, epochs
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

func TestMembersUnderFaultsLoseNothingAndOneLeadsInTheEnd(t *testing.T) {
	n := seeds(100)
	wrong, stored, epochs := runs(t, n, 60, none, false)
	for _, v := range wrong {
		t.Error(v)
	}
	t.Logf("%d changes were acknowledged in %d epochs", stored, epochs)
	if stored < 10*n && len(wrong) == 0 {
		t.Error("hardly anything was stored")
	}
}

func TestNobodyGoesOnWithoutWhatAnotherMemberHas(t *testing.T) {
	wrong, _, _ := runs(t, seeds(60), 60, none, true)
	for _, v := range wrong {
		t.Error(v)
	}
}

func TestEachGuardOfAGroupIsNeeded(t *testing.T) {
	for _, g := range []guard{question, exactly, lease} {
		t.Run(string(g), func(t *testing.T) {
			wrong, _, _ := runs(t, 100, 60, g, g == question)
			if len(wrong) == 0 {
				t.Error("nothing is wrong without it")
			} else {
				t.Logf("found: %s", wrong)
			}
		})
	}
}
