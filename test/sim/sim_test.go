package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/millipede-iac/millipede/state/mem"
)

// guard is a rule of the protocol that a simulation can leave out.
type guard string

const (
	guardClaim  guard = "claim"  // workers claim an attempt before they start it
	guardNonce  guard = "nonce"  // each delivery of a task is claimed with a new nonce
	guardIntent guard = "intent" // a dispatch is durable before its task is published
	guardStart  guard = "start"  // a start is in the worker's journal before the provider is called
	guardCommit guard = "commit" // a result is durable before its message is acknowledged
	guardPermit guard = "permit" // a permit is held until the outcome of its operation is known
	guardFence  guard = "fence"  // a commit under a lock that was broken is refused
	// guardRecorded: a plan uses the recorded dependencies of objects, not only the references of their blocks.
	guardRecorded guard = "recorded"
	// guardKept: an object whose response cannot be stored is in doubt.
	guardKept guard = "kept"
	// guardPlace: a vertex has a place in its pool before it takes a permit.
	guardPlace guard = "place"
	// guardSubject: a worker publishes under the subjects of its pool, and is believed only about that pool.
	guardSubject guard = "subject"
	// guardTold: a message store that stores nothing is distinguished from one that does not answer.
	guardTold guard = "told"
	// guardAway: a region whose message store does not answer is distinguished from one whose workers are dead.
	guardAway guard = "away"
	// guardTomb: an attempt that may have been published is withdrawn only with a tombstone in its register, which fails
	// if a worker has claimed it.
	guardTomb guard = "tomb"
	// guardWrites, guardReads, guardKeeps: a plan lists the objects that it changes, the objects on which its changes
	// depend, and the resources from which it removes objects.
	guardWrites guard = "writes"
	guardReads  guard = "reads"
	guardKeeps  guard = "keeps"
	// guardOrder: no request is granted before an earlier one with which it is in conflict.
	guardOrder guard = "order"
	// guardObjects: a commit changes only objects that its request has locked, and nothing after the request was
	// withdrawn.
	guardObjects guard = "objects"
)

var guards = []guard{guardClaim, guardNonce, guardIntent, guardStart, guardCommit, guardPermit, guardFence,
	guardRecorded, guardKept, guardPlace,
	guardSubject, guardTold, guardAway, guardTomb, guardWrites, guardReads, guardKeeps, guardOrder,
	guardObjects}

// options are the options of a simulation.
type options struct {
	slots, sites, hosts, objects, goals int
	pace                                time.Duration // the mean time between two faults
	chaos                               time.Duration // how long faults are injected
	loss                                bool          // whether NATS may lose data whose storage it has acknowledged
	without                             guard
	pools                               []string // the workers of the first one follow the protocol
	// fair is set if no faults are injected at all and there is much to do, so that idle slots can be noticed.
	fair      bool
	byzantine bool   // one of the pools has a worker that forges messages
	sparse    int    // an object refers to one in so many others
	region    string // the pool that has a message store of its own; empty for none
	narrow    int    // the slots of a limit for all pools but the first one; 0 means no limit
}

// draw draws the options of a seed.
func draw(chance *rand.Rand, without guard) options {
	return options{
		slots: 1 + chance.IntN(4), sites: 2, hosts: 2 + chance.IntN(2), objects: 3 + chance.IntN(6),
		goals: 2 + chance.IntN(2),
		pace:  time.Duration(1+chance.IntN(6)) * time.Second, chaos: time.Duration(20+chance.IntN(80)) * time.Second,
		loss: chance.IntN(4) == 0, without: without, sparse: 3,
	}
}

// outcome is the result of a simulation.
type outcome struct {
	sum    uint64
	ties   int // see world
	steps  int
	took   time.Duration // of virtual time
	wrong  []violation
	faults map[string]int
	made   int
}

var (
	pairsLock sync.Mutex
	pairs     = map[string]nkeys.KeyPair{}
)

// keyPair returns the X25519 keys of a process.
func keyPair(name string) nkeys.KeyPair {
	pairsLock.Lock()
	defer pairsLock.Unlock()
	if pairs[name] == nil {
		pair, err := nkeys.CreateCurveKeysWithRand(seeded(name))
		if err != nil {
			panic(err)
		}
		pairs[name] = pair
	}
	return pairs[name]
}

// seeded returns bytes that depend on the name alone.
func seeded(name string) io.Reader {
	var key [32]byte
	copy(key[:], name)
	return &locked{r: rand.NewChaCha8(key)}
}

type locked struct {
	mu sync.Mutex // guards r
	r  io.Reader
}

func (l *locked) Read(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Read(b)
}

// simulate simulates a seed.
func simulate(t *testing.T, seed uint64, without guard, trace io.Writer) (out outcome) {
	dir := scratch(t)
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}()
	synctest.Test(t, func(*testing.T) {
		w := &world{seed: seed, chance: rand.New(rand.NewPCG(seed, 1)), began: time.Now(), wake: make(chan struct{}, 1),
			trace: trace, faults: map[string]int{}}
		w.layout = rand.New(rand.NewPCG(seed, 2))
		w.options = draw(w.chance, without)
		w.options.layOut(w.layout)
		if teamed(seed) {
			w.options.team()
		}
		w.remote = rand.New(rand.NewPCG(seed, 3))
		if !teamed(seed) {
			w.options.region = w.options.regional(w.remote)
		}
		w.play(dir)
		out = outcome{sum: w.sum, ties: w.ties, steps: w.steps, took: time.Since(w.began), wrong: w.wrong, faults: w.faults,
			made: w.cloud.made}
		w.close()
	})
	return out
}

// scratch creates a directory, in memory if the system has a file system for that.
func scratch(t *testing.T) string {
	for _, at := range []string{"/dev/shm", os.TempDir()} {
		if dir, err := os.MkdirTemp(at, "millipede-sim-"); err == nil {
			return dir
		}
	}
	t.Fatal("no directory for the workers' journals could be created")
	return ""
}

// patience is how many commands a user may need to reach all goals after the last fault.
const patience = 60

// patience returns the number of commands for all users of a site. Each person of a team may need as many, because each
// change makes the plans of others for the same object stale (seed 9781: three people, and an object for which the
// provider's responses can never be stored).
func (s *site) patience() int {
	if s.team != nil {
		return patience * len(s.team.people)
	}
	return patience
}

// play executes all events.
func (w *world) play(dir string) {
	w.mu.Lock()
	w.nats, w.cloud = newNats(w), newCloud(w)
	for i := range w.options.hosts {
		w.addHost(&host{w: w, id: fmt.Sprintf("w%d", i+1), dir: filepath.Join(dir, fmt.Sprint(i)),
			pool: honest, slots: 3}, 0)
	}
	w.addPools(dir)
	if w.options.byzantine {
		w.addByzantine()
	}
	for i := range w.options.sites {
		name := fmt.Sprintf("s%d", i+1)
		s := &site{w: w, name: name, goals: w.makeGoals(name)}
		s.store = mem.New(mem.Options{Now: time.Now})
		if teamed(w.seed) && i == 0 {
			s.store = w.newTeam(s, filepath.Join(dir, name)).openStore()
		}
		w.sites = append(w.sites, s)
		w.after(w.between(0, 3*time.Second), s.work)
	}
	w.after(w.between(0, 5*time.Second), w.injectFaults)
	w.after(time.Second, w.supervise)
	if w.options.region != "" {
		w.after(time.Duration(1+w.remote.IntN(30))*time.Second, w.isolate)
	}
	w.drawFailures()
	if w.calm = w.options.fair; w.calm {
		w.after(sample, w.mustNotIdle)
	}
	w.after(w.options.chaos, func() {
		w.note("no more faults")
		w.calm = true
	})
	w.mu.Unlock()
	w.work(func() bool {
		over := true
		for _, s := range w.sites {
			calm := w.calm && w.nats.failing.IsZero()
			if calm && !s.reached && s.life-s.idle > s.patience() {
				w.violate("end", "%s does not reach its goal: %s", s.name,
					strings.Join(s.said[max(0, len(s.said)-6):], "; "))
				return true
			}
			if !calm {
				s.idle = s.life
			}
			over = over && s.reached && s.current == nil
		}
		return over || len(w.wrong) > 0 || time.Since(w.began) > 2*time.Hour
	})
	if time.Since(w.began) > 2*time.Hour {
		w.violate("end", "the simulation has not ended after two hours")
	}
	if len(w.wrong) == 0 {
		for _, s := range w.sites {
			s.compare("in the end")
			if s.team != nil {
				s.team.ledger.checkEnd()
			}
		}
	}
}

// close ends all processes and waits for their goroutines.
func (w *world) close() {
	w.mu.Lock()
	for _, p := range w.processes {
		p.kill()
	}
	w.mu.Unlock()
	for _, p := range w.processes {
		<-p.done
	}
	for _, h := range w.hosts {
		_ = h.disk.j.Close() // it may be closed already
	}
	for _, s := range w.sites {
		_ = s.store.Close()
	}
}
