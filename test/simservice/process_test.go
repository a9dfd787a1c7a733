package simservice

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
)

var (
	errDead = errors.New("the process is dead")
	errDisk = errors.New("the disk says no")
)

// The tables of the service that the simulation reads. Its own writes keep the keys of all indexes.
var (
	runs       = store.Table[record.Run]{Name: "run", ID: func(r *record.Run) string { return r.ID }}
	workspaces = store.Table[record.Workspace]{Name: "workspace", ID: func(w *record.Workspace) string { return w.ID }}
)

// process is a process of the service, from its start to its crash or end. The world's lock guards its fields.
type process struct {
	w       *world
	life    int
	store   *store.Store
	service *service.Service
	admin   *rights.Actor
	chance  *rand.Rand
	died    chan struct{} // closed when it has crashed; its calls have no effect afterwards
	dead    bool
	changes int   // that were made so far
	under   int   // changes in progress, or whose caller has not returned yet
	crashAt int   // the change at which it crashes; 0: none
	exempt  bool  // the simulation is changing the store itself
	turns   turns // of changes, in seeds that make them one by one
	stop    context.CancelFunc
	ended   chan error
}

// start starts the service with the content of the store. The process may crash, or its disk refuse a change,
// meanwhile.
func (w *world) start() {
	w.life++
	p := &process{w: w, life: w.life, died: make(chan struct{}), ended: make(chan error, 1),
		chance: rand.New(rand.NewPCG(w.seed, uint64(w.life)<<32))} //nolint:gosec // a seed is the point
	if w.life > 1 && !w.calm && p.chance.IntN(4) > 0 {
		p.crashAt = 1 + p.chance.IntN(120)
	}
	w.mu.Lock()
	w.noteLocked("the service starts")
	w.places, w.passed = nil, map[string]map[string]int{} // only the memory of the last process had the turns
	for _, sp := range w.spaces {
		w.passed[sp.id] = map[string]int{}
	}
	w.mu.Unlock()
	var err error
	if p.store, err = store.Open(w.dir, w.key); err != nil {
		w.t.Fatal(err)
	}
	p.store.Around(p.around)
	p.tamper(w.hide)
	p.service, err = service.New(service.Options{
		Store: p.store, Engine: newEngine(p), Apart: w.apart, Version: "0.1.0", Plans: plansAtATime, Applies: w.applies,
		MaxConfiguration: 1 << 20, MaxState: 1 << 20, ForceCancelAfter: forceAfter,
	})
	p.tamper(w.show)
	if err != nil {
		w.note("it does not come up: %v", err)
		w.die(p)
		if err := p.store.Close(); err != nil {
			w.t.Fatal(err)
		}
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	go func() { p.ended <- p.service.Run(ctx) }()
	w.mu.Lock()
	w.p = p
	w.mu.Unlock()
}

// die crashes a process.
func (w *world) die(p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dieLocked(p)
}

func (w *world) dieLocked(p *process) {
	if p.dead {
		return
	}
	p.dead = true
	close(p.died)
	w.counted["crashes"]++
	for _, r := range w.known {
		if r.Status == record.Planning && !w.apart {
			w.orders[r.Message].deaths++
		}
	}
	w.noteLocked("the service is dead after %d changes", p.changes)
}

// clean waits for the end of a process that has crashed or was stopped, and closes its store.
func (w *world) clean(p *process) {
	p.stop()
	err := <-p.ended
	w.mu.Lock()
	w.p = nil
	dead := p.dead
	w.mu.Unlock()
	if err != nil && !dead {
		w.violate("end", "the service has ended with %v", err)
	}
	w.people.Wait() // requests without a response fail
	if err := p.store.Close(); err != nil {
		w.t.Fatal(err)
	}
}

// tamper modifies the store in a simulation that leaves a guard out.
func (p *process) tamper(change func(*store.Store)) {
	p.setExempt(true)
	change(p.store)
	p.setExempt(false)
}

func (p *process) setExempt(yes bool) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.exempt = yes
}

// fate is the outcome of a change that the process makes.
type fate struct {
	direct          bool // it is a change of the simulation, or of a log
	dead            bool // the process has crashed
	crash           bool // the process crashes after it
	refused, unsure bool // the disk returns an error; unsure says that it has made the change
	late            time.Duration
}

// around is called by the store for each change of the process.
func (p *process) around(kind, name string, change func() error) error {
	w := p.w
	done := func() {}
	switch {
	case kind == "log":
		time.Sleep(w.apartByLog(name))
	case w.exact && !p.isExempt():
		p.turns.take()
		done = p.turns.giveBack
	}
	f := p.draw(kind)
	if f.direct {
		defer done()
		return change()
	}
	err := error(nil)
	if !f.dead && !f.refused {
		if err = change(); err == nil && kind == "records" {
			p.tamper(w.keepLocks)
			w.observe(p)
		}
	}
	done()
	switch {
	case f.dead:
		return errDead
	case f.refused:
		return errDisk
	}
	time.Sleep(f.late)
	w.mu.Lock()
	defer w.mu.Unlock()
	p.under--
	switch {
	case p.dead:
		return errDead
	case f.crash:
		w.dieLocked(p)
		return errDead
	case f.unsure:
		return errors.Join(err, errDisk)
	}
	return err
}

// draw draws the outcome of a change.
func (p *process) draw(kind string) (f fate) {
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case p.exempt:
		return fate{direct: true}
	case p.dead:
		return fate{dead: true}
	case kind == "log": // several logs are written at one moment, in no order
		return fate{direct: true}
	}
	p.changes++
	// The callers that share one transaction return one after the other, and sometimes late.
	f.late = time.Duration(p.changes) * time.Nanosecond
	if p.chance.IntN(8) == 0 {
		f.late += between(p.chance, 0, 3*time.Millisecond)
	}
	f.crash = p.changes == p.crashAt && !w.calm
	if f.crash && p.chance.IntN(2) == 0 { // before the change
		f.crash, f.dead = false, true
		w.dieLocked(p)
		return f
	}
	if w.failing && !w.calm {
		switch p.chance.IntN(60) {
		case 0:
			f.refused = true
		case 1:
			f.unsure = true
		}
	}
	if f.refused || f.unsure {
		w.counted["changes refused"]++
		w.blame()
	}
	if !f.refused {
		p.under++
	}
	return f
}

func (p *process) isExempt() bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.exempt
}
