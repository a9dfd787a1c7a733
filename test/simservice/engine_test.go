package simservice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/work"
)

// script is the result that the engine returns for a run. It is the same in each process of the service.
type script struct {
	plan, apply time.Duration
	planFails   bool
	changes     bool
	applyFails  bool
	deaf        bool // it ignores requests to stop
	steps       int  // of the apply
}

// script draws the result of a run from the run's message.
func (w *world) script(message string) script {
	h := fnv.New64a()
	_, _ = h.Write([]byte(message))
	c := rand.New(rand.NewPCG(w.seed, h.Sum64())) //nolint:gosec // a seed is the point
	return script{
		plan: between(c, time.Millisecond, 4*time.Second), apply: between(c, time.Millisecond, 6*time.Second),
		planFails: c.IntN(10) == 0, changes: c.IntN(6) > 0, applyFails: c.IntN(8) == 0, deaf: c.IntN(6) == 0,
		steps: 1 + c.IntN(4),
	}
}

// order is a requested run: the facts that its requester knows, and its outcome. The world's lock guards it.
type order struct {
	message  string
	space    *space
	run      record.Run // as it was requested
	posted   time.Time
	repeated bool // another run has the same message
	ids      map[string]bool

	// The requests that were made and not refused.
	confirmed, discarded, canceled, forced bool
	confirming                             int // confirmations without a response so far
	// sure says that the cancellation was acknowledged during planning, and that nothing was lost.
	sure    bool
	faulty  bool // the disk refused a change while the engine executed the run
	stale   bool // another apply made its saved plan stale
	began   int  // how often its apply began
	deaths  int  // how often the service, or its engine, died while it carried out a phase of the run
	plan    string
	lines   map[string][]string // of its logs, by phase
	running bool                // the engine is executing it
	// attempts counts the phases that were begun; state is that of the newest one.
	attempts int
	state    work.State
}

// engine is what executes the runs of one process of the service. In a world whose engines are apart, they die and are
// replaced; what a dead one had on its way arrives late.
type engine struct {
	p *process

	// The world's lock guards these fields.
	chance *rand.Rand
	seat   chan struct{} // closed when the present engine dies
}

// newEngine returns the engine of a process.
func newEngine(p *process) *engine {
	return &engine{p: p, seat: make(chan struct{}),
		chance: rand.New(rand.NewPCG(p.w.seed, uint64(p.life)<<32|7))} //nolint:gosec // a seed is the point
}

// present returns the engine that sits there, and whether and when it dies during something that lasts d.
func (e *engine) present(d time.Duration) (died chan struct{}, at time.Duration, dies bool) {
	w := e.p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	dies = w.apart && !w.calm && e.chance.IntN(10) == 0
	return e.seat, between(e.chance, 0, d), dies
}

// die ends the engine, and puts another one on its seat.
func (e *engine) die(which chan struct{}) {
	w := e.p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.seat == which && !e.p.dead {
		w.counted["deaths of engines"]++
		w.noteLocked("the engine is dead")
		close(which)
		e.seat = make(chan struct{})
	}
}

// arriveLate writes the state of a dead engine once more, or for the first time, after the next engine may have begun.
func (e *engine) arriveLate(j *work.Job, o *order, attempt int, data []byte) {
	w := e.p.w
	w.mu.Lock()
	after := between(e.chance, 0, 5*time.Second)
	w.mu.Unlock()
	w.people.Go(func() {
		time.Sleep(after)
		w.mu.Lock()
		state, newer := j.State, o.attempts != attempt
		if w.without == guardFence {
			state = o.state
		}
		w.mu.Unlock()
		err := state.Write(context.Background(), data)
		w.mu.Lock()
		defer w.mu.Unlock()
		if err == nil && newer && !o.repeated {
			w.violateLocked("late", "the state of a dead engine of %s is stored after the next one has begun", o.message)
		}
	})
}

var errPlanned = errors.New("the configuration is wrong")

// enter records that the engine executes a run.
func (e *engine) enter(j *work.Job) (*order, error) {
	w := e.p.w
	time.Sleep(apart(&j.Run))
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.p.dead {
		return nil, errDead
	}
	o := w.orders[j.Run.Message]
	if o.running && !o.repeated {
		w.violateLocked("once", "the engine works on %s twice at a time", o.message)
	}
	o.running = true
	o.attempts++
	o.state = j.State
	return o, nil
}

func (e *engine) leave(o *order) {
	e.p.w.mu.Lock()
	defer e.p.w.mu.Unlock()
	o.running = false
}

// work lets time pass. It returns the reason if the work ends early: a crash of the process, or a request to leave or
// to stop.
func (e *engine) work(ctx context.Context, j *work.Job, d time.Duration, deaf bool) error {
	stopping := j.Stopping.Done()
	if deaf {
		stopping = nil
	}
	died, at, dies := e.present(d)
	timer := time.NewTimer(d)
	if dies {
		timer.Reset(at)
	}
	defer timer.Stop()
	lost := false
	select {
	case <-timer.C:
		if lost = dies; lost {
			e.die(died)
		}
	case <-died:
		lost = true
	case <-e.p.died:
	case <-ctx.Done():
	case <-stopping:
	}
	w := e.p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case e.p.dead:
		return errDead
	case lost:
		w.orders[j.Run.Message].deaths++
		return work.ErrLost
	case ctx.Err() != nil:
		return ctx.Err()
	case j.Stopping.Err() != nil && !deaf:
		return work.ErrStopped
	}
	return nil
}

// say writes a line to the log, and records it once the log has stored it.
func (e *engine) say(j *work.Job, o *order, phase, line string) error {
	if _, err := fmt.Fprintln(j.Log, line); err != nil {
		return err
	}
	e.p.w.mu.Lock()
	defer e.p.w.mu.Unlock()
	o.lines[phase] = append(o.lines[phase], line)
	return nil
}

// Plan implements work.Engine.
func (e *engine) Plan(ctx context.Context, j *work.Job) (*work.PlanResult, error) {
	o, err := e.enter(j)
	if err != nil {
		return nil, err
	}
	defer e.leave(o)
	w := e.p.w
	s := w.script(o.message)
	w.note("the engine plans %s", o.message)
	if err := e.say(j, o, j.Run.Plan.ID, fmt.Sprintf("planning, life %d", e.p.life)); err != nil {
		return nil, err
	}
	state, err := j.State.Read(ctx)
	if err != nil {
		return nil, err
	}
	// A plan that receives the request to stop too late is completed.
	if err := e.work(ctx, j, s.plan, s.deaf); err != nil {
		return nil, err
	}
	if s.planFails {
		return nil, errPlanned
	}
	w.mu.Lock()
	o.plan = fmt.Sprintf("plan of %s, life %d, on %s", o.message, e.p.life, state)
	plan := o.plan
	w.mu.Unlock()
	return &work.PlanResult{HasChanges: s.changes, Add: 1, Plan: []byte(plan),
		Redacted: []byte("{}")}, nil
}

// Resolve implements work.Engine. It is not called: no operation is in doubt here.
func (e *engine) Resolve(context.Context, *work.Job, work.Resolution, string) error {
	return errors.New("nothing is in doubt")
}

// ChangeObjects implements work.Engine. It is not called.
func (e *engine) ChangeObjects(context.Context, *work.Job, work.ObjectChange) error {
	return errors.New("nobody asks for it")
}

// PlanJSON implements work.Engine. It is not called.
func (e *engine) PlanJSON(context.Context, string, string, []byte, []byte) ([]byte, error) {
	return nil, errors.New("nobody asks for it")
}

// Watch implements work.Engine. It is not called: no workspace is watched for drift here.
func (e *engine) Watch(context.Context, *work.Job, []string, int) ([]work.Found, error) {
	return nil, errors.New("nothing is watched")
}

// Apply implements work.Engine.
func (e *engine) Apply(ctx context.Context, j *work.Job) (*work.ApplyResult, error) {
	o, err := e.enter(j)
	if err != nil {
		return nil, err
	}
	defer e.leave(o)
	w := e.p.w
	s := w.script(o.message)
	resumed := j.Resumed && w.without != guardResumed
	state, err := j.State.Read(ctx)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.noteLocked("the engine applies %s, resumed: %t", o.message, resumed)
	auto := j.Run.AutoApply
	switch by := o.space.applying; {
	case e.p.dead:
		w.mu.Unlock()
		return nil, errDead
	case o.repeated:
	case o.began > 0 && !resumed:
		w.violateLocked("once", "the apply of %s is begun again, as if it had not been begun", o.message)
	case by != nil && by.life == e.p.life:
		w.violateLocked("alone", "%s is applied while %s is", o.message, by.o.message)
	case string(j.Plan) != o.plan:
		w.violateLocked("plan", "%s is applied with %q, and its plan is %q", o.message, j.Plan, o.plan)
	case !o.confirmed && o.confirming == 0 && !auto:
		w.violateLocked("approved", "%s is applied, and nobody has approved it", o.message)
	case o.sure && o.began == 0:
		w.violateLocked("canceled", "%s is applied, which was canceled while it was planned", o.message)
	}
	if o.began == 0 && !strings.HasSuffix(o.plan, ", on "+string(state)) {
		if !j.Run.SavePlan {
			w.violateLocked("stale", "%s is applied to another state than it was planned on", o.message)
		}
		o.stale = true
		w.mu.Unlock()
		return nil, errors.New("the plan is stale")
	}
	o.began++
	me := &applying{o, e.p.life}
	o.space.applying = me
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if o.space.applying == me {
			o.space.applying = nil
		}
	}()
	var before struct{ Serial uint64 }
	if len(state) > 0 {
		if err := json.Unmarshal(state, &before); err != nil {
			return nil, err
		}
	}
	data := fmt.Sprintf(`{"version":4,"serial":%d,"lineage":"l","outputs":{},"resources":[],"run":%d}`, before.Serial+1,
		j.Run.Number)
	attempt := o.attempts
	for i := range s.steps {
		if err := e.say(j, o, j.Run.Apply.ID, fmt.Sprintf("step %d, life %d", i, e.p.life)); err != nil {
			return nil, err
		}
		if err := e.work(ctx, j, s.apply/time.Duration(s.steps), s.deaf); err != nil {
			if errors.Is(err, work.ErrLost) {
				e.arriveLate(j, o, attempt, []byte(data))
			}
			return nil, err
		}
	}
	if err := j.State.Write(ctx, []byte(data)); err != nil {
		return nil, err
	}
	if s.applyFails {
		return nil, errors.New("the cloud says no")
	}
	return &work.ApplyResult{Add: 1}, nil
}

// applying is an apply that the engine of one process of the service executes.
type applying struct {
	o    *order
	life int
}
