package service

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/timelines"
	"github.com/millipede-iac/millipede/wire"
)

// Capacity gives access to the workers and the limits with which the engine executes operations.
type Capacity interface {
	Workers(ctx context.Context) ([]Worker, error)
	Limits(ctx context.Context) ([]Limit, error)
	// Regions returns the pools with a message store of their own, sorted by name.
	Regions(ctx context.Context) ([]Region, error)
	// Resize changes the number of permits of a limit.
	Resize(ctx context.Context, limit string, slots int) error
	// Drain sets the pools to which no operations are dispatched, in place of those before. It takes effect even
	// if it returns an error, but then with a delay.
	Drain(ctx context.Context, pools []string) error
}

// Worker is a worker in one pool, as of its last heartbeat.
type Worker struct {
	Name, Pool, Host, Version, Platform string
	Slots, Running                      int
	Draining                            bool
	Speaks                              wire.Versions // the versions of the protocol that it has
	Older                               bool          // it lacks the highest version of the service
	Unsuited                            string        // why the service gives it nothing, and what to do; or empty
	Trouble                             string        // why it takes no tasks; empty while it does
	Quiet                               time.Duration // the time since its last heartbeat
	Silent                              bool          // it counts as dead: it was killed, or cannot be reached
}

// Region is a pool with a message store of its own.
type Region struct {
	Pool, Domain string
	Away         time.Time // since when its store has not answered, as far as the service knows; zero while it does
	Why          string    // why it does not; empty while it does
}

// silentFor is how long a silent worker is listed. Those that replaced it have other names.
const silentFor = time.Hour

// Limit is a limit, with the holders of its permits and the runs that wait for one.
type Limit struct {
	Name    string
	Slots   int
	Sized   bool   // its size is derived and cannot be changed
	Pool    string // the pool whose places it counts; empty for a limit of the rules
	Held    []Permit
	Waiting []Permit // in the order in which they get permits
	// Queued are the operations that wait, of each run in progress that the actor may see. Most do so without a request
	// of their own, because their run gives them the permits of its operations that have ended.
	Queued []Queue
}

// Queue is the operations of a run that wait for the same limit.
type Queue struct {
	Of         *RunView
	Operations int
	Since      time.Time // the longest wait
}

// Permit is a permit that is held or waited for.
type Permit struct {
	// Run is the run of the engine that holds the permit or waits for it. Its details are known only while it
	// is in progress.
	Run   string
	Since time.Time
	// Of is the run of the service that the permit belongs to, if the actor may see that run.
	Of *RunView
}

// errNoCapacity is the error of a service that was started without a Capacity.
var errNoCapacity = errors.New("the service has no information about workers and limits")

// Pools are the workers with their pools, and the limits for the operations that they execute.
type Pools struct {
	*shared
	runs      *Runs
	timelines *timelines.Timelines
	capacity  Capacity
	draining  sync.Mutex // held while the engine is told which pools are drained
}

// Workers returns the live workers, and those that have fallen silent in the last hour, sorted by pool and name. Every
// user may see them: they serve all organizations.
func (s *Pools) Workers(ctx context.Context, a *rights.Actor) ([]Worker, error) {
	if a.User == nil {
		return nil, tables.Forbidden("only users may list workers")
	}
	if s.capacity == nil {
		return nil, errNoCapacity
	}
	all, err := s.capacity.Workers(ctx)
	all = slices.DeleteFunc(all, func(w Worker) bool { return w.Silent && w.Quiet > silentFor })
	slices.SortFunc(all, func(x, y Worker) int {
		if d := strings.Compare(x.Pool, y.Pool); d != 0 {
			return d
		}
		return strings.Compare(x.Name, y.Name)
	})
	return all, err
}

// Regions returns the pools with a message store of their own, sorted by name. Every user may see them.
func (s *Pools) Regions(ctx context.Context, a *rights.Actor) ([]Region, error) {
	if a.User == nil {
		return nil, tables.Forbidden("only users may list regions")
	}
	if s.capacity == nil {
		return nil, errNoCapacity
	}
	return s.capacity.Regions(ctx)
}

// Limits returns the limits, sorted by name. The holder of a permit is shown to actors who may see its run.
func (s *Pools) Limits(ctx context.Context, a *rights.Actor) ([]Limit, error) {
	if a.User == nil {
		return nil, tables.Forbidden("only users may list limits")
	}
	if s.capacity == nil {
		return nil, errNoCapacity
	}
	all, err := s.capacity.Limits(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(x, y Limit) int { return strings.Compare(x.Name, y.Name) })
	known := map[string]*RunView{}
	err = s.store.View(func(tx *store.Tx) error {
		for i := range all {
			for _, list := range [][]Permit{all[i].Held, all[i].Waiting} {
				for j := range list {
					list[j].Of = s.runOfEngine(tx, a, list[j].Run, known)
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, tables.Translated(err)
	}
	s.addQueues(a, all)
	return all, nil
}

// addQueues adds the operations that wait for the limits.
func (s *Pools) addQueues(a *rights.Actor, all []Limit) {
	for phase, b := range s.timelines.All() {
		if b.Counts().Queued == 0 {
			continue
		}
		v, err := s.runs.OfPhase(a, phase)
		if err != nil {
			continue // the actor may not see it, or it has ended
		}
		type wait struct {
			kind timeline.WaitKind
			name string
		}
		queues := map[wait]Queue{}
		begun := time.UnixMilli(b.Begun())
		b.Each(func(v *timeline.Vertex) {
			if v.Status != timeline.Queued || len(v.Waits) == 0 {
				return
			}
			last := v.Waits[len(v.Waits)-1]
			q := queues[wait{last.Kind, last.Name}]
			if since := begun.Add(time.Duration(last.From) * time.Millisecond); q.Operations == 0 || since.Before(q.Since) {
				q.Since = since
			}
			q.Operations++
			queues[wait{last.Kind, last.Name}] = q
		})
		for i := range all {
			of := wait{timeline.ForPermit, all[i].Name}
			if all[i].Pool != "" {
				of = wait{timeline.ForPlace, all[i].Pool}
			}
			if q := queues[of]; q.Operations > 0 {
				q.Of = v
				all[i].Queued = append(all[i].Queued, q)
			}
		}
	}
	for i := range all {
		slices.SortFunc(all[i].Queued, func(x, y Queue) int { return x.Since.Compare(y.Since) })
	}
}

// runOfEngine returns the run of the service to which a run of the engine belongs, if the actor may see it.
func (s *Pools) runOfEngine(tx *store.Tx, a *rights.Actor, engine string, known map[string]*RunView) *RunView {
	if v, ok := known[engine]; ok {
		return v
	}
	var v *RunView
	if id := s.timelines.RunOf(engine); id != "" {
		if found, err := runView(tx, a, id); err == nil {
			v = found
		}
	}
	known[engine] = v
	return v
}

// ResizeLimit changes the number of permits of a limit. Only administrators of the service may do this, because
// limits apply to all organizations.
func (s *Pools) ResizeLimit(ctx context.Context, a *rights.Actor, name string, slots int) error {
	check := func(*store.Tx) error {
		switch {
		case !a.Admin():
			return tables.Forbidden("only administrators of the service may change limits")
		case slots < 1 || slots > 1_000_000:
			return tables.Invalid("A limit has between 1 and 1,000,000 permits")
		}
		return nil
	}
	if err := check(nil); err != nil {
		return s.audit.Refuse(a, "limit.resize", name, err)
	}
	all, err := s.Limits(ctx, a)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(l Limit) bool { return l.Name == name })
	switch {
	case i < 0:
		return s.audit.Refuse(a, "limit.resize", name, tables.NotFound("there is no limit %q", name))
	case all[i].Sized:
		return s.audit.Refuse(a, "limit.resize", name,
			tables.Conflict("the size of the limit %q follows the slots of its workers", name))
	}
	if err := s.capacity.Resize(ctx, name, slots); err != nil {
		return err
	}
	return s.audit.Change(a, "limit.resize", name, func(*store.Tx) error { return nil })
}
