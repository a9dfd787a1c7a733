package simservice

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/state/seal"
)

const (
	plansAtATime = 2
	forceAfter   = 3 * time.Second
)

// world is a simulation: the choices of its seed, the requests to the service, and the observed runs.
type world struct {
	t       *testing.T
	seed    uint64
	without guard
	trace   io.Writer
	began   time.Time
	dir     string
	key     *seal.Key
	token   string
	people  sync.WaitGroup // goroutines that wait for a response

	// Used only by the world's own goroutine.
	chance   *rand.Rand
	applies  int
	exact    bool // changes are made one by one, so that the seed is replayed exactly
	apart    bool // engines are processes of their own, and die
	life     int
	ordered  int
	later    []pendingPost
	graceful bool // the next end of the service is orderly
	spaces   []*space

	mu      sync.Mutex // guards the fields below, and everything whose comment says so
	p       *process   // the current process; nil if there is none
	sum     uint64
	orders  map[string]*order // by their messages
	known   map[string]*record.Run
	failing bool // the disk refuses some changes
	calm    bool // no more faults are injected
	hidden  []record.Run
	locks   map[string]record.Lock    // of workspaces, for a guard that is left out
	places  map[string]int            // of plans, as the service has reported them; nil once one of them has begun
	passed  map[string]map[string]int // by workspace: how many runs of others were planned while its runs waited
	wrong   []violation
	counted map[string]int
}

// outcome is the result of a simulation.
type outcome struct {
	sum     uint64
	wrong   []violation
	counted map[string]int
}

// simulate plays a seed.
func simulate(t *testing.T, seed uint64, without guard, trace io.Writer) (out outcome) {
	dir, err := os.MkdirTemp(memory(), "simservice-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			t: t, seed: seed, without: without, trace: trace, began: time.Now(), dir: dir,
			chance: rand.New(rand.NewPCG(seed, 21)), //nolint:gosec // a seed is the point
			orders: map[string]*order{}, known: map[string]*record.Run{},
			passed: map[string]map[string]int{}, counted: map[string]int{}, locks: map[string]record.Lock{},
		}
		if w.key, err = seal.NewKey(seal.NewSecret()); err != nil {
			t.Fatal(err)
		}
		w.applies, w.exact, w.apart = 1+w.chance.IntN(3), seed%2 == 1, seed%4 > 1
		w.play()
		out = outcome{w.sum, w.wrong, w.counted}
	})
	return out
}

// memory returns a directory in memory, if the system has one: a seed makes hundreds of syncs.
func memory() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

// play executes the simulation from beginning to end.
func (w *world) play() {
	w.found()
	w.mu.Lock()
	w.failing = w.chance.IntN(2) == 0
	w.mu.Unlock()
	for range 20 + w.chance.IntN(60) {
		w.step()
		if len(w.wrong) > 0 {
			break
		}
	}
	w.mu.Lock()
	w.calm = true
	w.noteLocked("nothing goes wrong any more")
	w.mu.Unlock()
	for range 40 {
		if len(w.wrong) > 0 {
			break
		}
		p := w.living()
		w.settle(p)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		w.idle(p)
		if len(w.active()) == 0 {
			break
		}
	}
	if len(w.wrong) > 0 {
		w.mu.Lock()
		p := w.p
		w.mu.Unlock()
		if p != nil {
			w.die(p)
			w.clean(p)
		}
		return
	}
	p := w.living()
	time.Sleep(time.Second)
	for _, r := range w.active() {
		wait, err := p.service.Runs.Waits(context.Background(), p.admin, r.ID)
		w.violate("end", "%s is %s to the end, and waits for %+v, %v", r.Message, r.Status, wait, err)
	}
	w.judge(p)
	w.clean(p)
}

// found creates the organization and its workspaces, without faults.
func (w *world) found() {
	w.start()
	p := w.p
	var err error
	if w.token, err = p.service.Users.Bootstrap("root", "acme"); err != nil {
		w.t.Fatal(err)
	}
	w.identify(p)
	for i := range 1 + w.chance.IntN(3) {
		name, auto, expiry := string(rune('a'+i)), w.chance.IntN(6) == 0, 20*time.Second
		sp := &space{name: name, expires: w.chance.IntN(4) == 0}
		settings := service.WorkspaceSettings{Name: &name, AutoApply: &auto}
		if sp.expires {
			settings.ApprovalExpiry = &expiry
		}
		v, err := p.service.Workspaces.Create(p.admin, "acme", settings)
		if err != nil {
			w.t.Fatal(err)
		}
		sp.id = v.ID
		c, err := p.service.Configurations.Create(p.admin, sp.id, record.Configuration{})
		if err != nil {
			w.t.Fatal(err)
		}
		if err := p.service.Configurations.Upload(c.Secret, archive(), -1); err != nil {
			w.t.Fatal(err)
		}
		sp.configuration = c.ID
		w.mu.Lock()
		w.spaces, w.passed[sp.id] = append(w.spaces, sp), map[string]int{}
		w.mu.Unlock()
	}
}

// archive is a configuration.
func archive() io.Reader {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	t := tar.NewWriter(z)
	if err := errors.Join(t.WriteHeader(&tar.Header{Name: "main.tf", Mode: 0o644}), t.Close(), z.Close()); err != nil {
		panic(err)
	}
	return &b
}

func (w *world) identify(p *process) {
	a, err := p.service.Tokens.Authenticate(w.token, "simulation")
	if err != nil && !w.isDead(p) {
		w.t.Fatal(err)
	}
	p.admin = a
}

// living returns the current process, and starts one if there is none.
func (w *world) living() *process {
	for {
		w.mu.Lock()
		p := w.p
		w.mu.Unlock()
		switch {
		case p == nil:
			if w.start(); w.p != nil {
				synctest.Wait() // its first steps come before requests
				time.Sleep(between(w.chance, time.Microsecond, time.Millisecond))
				w.identify(w.p)
			} else {
				time.Sleep(between(w.chance, time.Millisecond, 3*time.Second))
			}
		case w.isDead(p):
			w.clean(p)
			time.Sleep(between(w.chance, time.Millisecond, 5*time.Second))
		case p.admin == nil:
			w.die(p)
		default:
			return p
		}
	}
}

// step makes one random event happen, and lets some time pass.
func (w *world) step() {
	p := w.living()
	w.later = slices.DeleteFunc(w.later, func(l pendingPost) bool {
		if time.Now().Before(l.at) {
			return false
		}
		w.post(p, l.o)
		return true
	})
	w.act(p)
	if w.graceful {
		w.graceful = false
		w.note("the service is ended")
		w.clean(p)
		return
	}
	longest := 20 * time.Millisecond
	if w.chance.IntN(3) == 0 {
		longest = 4 * time.Second
	}
	time.Sleep(between(w.chance, time.Microsecond, longest))
	synctest.Wait()
	if w.chance.IntN(4) == 0 && !w.isDead(p) {
		w.quiesce(p)
	}
	if w.chance.IntN(40) == 0 {
		w.die(p)
	}
}

// quiesce calls askPlaces when nothing is in progress and no transaction waits for its turn.
func (w *world) quiesce(p *process) {
	w.people.Wait()
	time.Sleep(10 * time.Millisecond)
	synctest.Wait()
	w.mu.Lock()
	quiet := !p.dead && !w.failing && p.under == 0
	w.mu.Unlock()
	if quiet {
		w.askPlaces(p)
	}
}

func between(c *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(c.Int64N(int64(to-from)))
}
