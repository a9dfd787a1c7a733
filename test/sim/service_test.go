package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/coordinator/layout"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/install/cliconfig"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/builtin"
	"github.com/millipede-iac/millipede/state/locks"
	"github.com/millipede-iac/millipede/wire"
)

// service is a process that executes the runs of a team with coordinator/estate, like the real service.
type service struct {
	*team
	p      *process
	conn   *conn
	hub    *hub.Hub
	stores estate.SharedStores
}

// start starts the service.
func (t *team) start() {
	s := t.s
	s.life++
	t.reopen()
	t.diesInCommit, t.diesAfterEnd = false, false
	s.since = time.Now()
	s.current = s.w.spawn(fmt.Sprintf("%sc%d", s.name, s.life), func(ctx context.Context, p *process) {
		v := &service{team: t, p: p}
		s.w.mu.Lock()
		v.conn = s.w.nats.connect(p, s.name)
		s.w.mu.Unlock()
		v.hub = hub.New(v.conn, s.name)
		var group sync.WaitGroup
		for _, one := range t.people {
			group.Go(func() { v.live(ctx, one) })
		}
		group.Wait()
		s.w.mu.Lock()
		defer s.w.mu.Unlock()
		if s.current == p {
			s.current = nil
		}
	})
}

// live executes the actions of a person until the service dies or the person has reached all goals.
func (v *service) live(ctx context.Context, p *person) {
	w := v.s.w
	for {
		err := v.p.do(ctx, local, "thinks", p.name, func(o *op) {
			w.after(w.between(50*time.Millisecond, 2*time.Second), func() { o.reply(nil) })
		})
		if err != nil {
			return
		}
		w.mu.Lock()
		over, waits := p.s.reached, p.idles()
		w.mu.Unlock()
		if over {
			return
		}
		if waits {
			continue
		}
		said := v.step(ctx, p)
		w.mu.Lock()
		dead := v.p.dead
		if p.stops = nil; !dead { // the order in which goroutines of a dead process end is not reproducible
			w.note("%s: %s", p.name, said)
			v.s.said = append(v.s.said, p.name+": "+said)
		}
		w.mu.Unlock()
		if dead {
			return
		}
	}
}

// step executes the next action: it resumes an apply that the previous process has not finished, applies a plan, or
// begins another run.
func (v *service) step(ctx context.Context, p *person) string {
	w := v.s.w
	w.mu.Lock()
	r, was := p.run, p.phase
	switch was {
	case idle:
		r = p.order()
	case planned:
		p.phase = applies
		p.s.life++
	case applies:
		p.s.life++
	}
	p.since = time.Now()
	w.mu.Unlock()
	switch was {
	case idle:
		return v.plan(ctx, p, r)
	case planned:
		return v.apply(ctx, p, r, false)
	default:
		return v.apply(ctx, p, r, true)
	}
}

// open opens the estate for a phase.
func (v *service) open(ctx context.Context, p *person, r *teamRun) *estate.Estate {
	w := v.s.w
	stop, ask, leave := operation.NewStop(ctx)
	w.mu.Lock()
	p.stops = []context.CancelCauseFunc{ask, leave}
	v.opened++
	opened := v.opened
	w.mu.Unlock()
	dir := v.directory(r)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		panic(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(configuration(v.s.name, r.blocks)), 0o600); err != nil {
		panic(err)
	}
	home := layout.At("", filepath.Join(v.dir, "data"))
	v.withoutSocket(home)
	ids := 0
	var own sync.Mutex // guards ids
	return estate.New(estate.Options{
		Dir: dir, Home: &home, Backend: &teamBackend{v}, Temp: v.dir, Version: "0", EngineVersion: "1.12.6",
		Platform: "linux_amd64", Environ: environ.Variables{"HOME=" + dir, "TF_WORKSPACE=default", "TF_INPUT=0"},
		Who: func() string { return p.name }, PID: 1, Now: v.p.now, Stop: stop,
		NewID: func() string {
			own.Lock()
			defer own.Unlock()
			ids++
			return fmt.Sprintf("%s-%d-%d", r.id, opened, ids)
		},
		Stores: teamStores{v}, Connector: teamConnector{v},
		Own: func(builtin.StateReader, builtin.ConfigCheck) func(context.Context, *wire.Task) *wire.Result {
			return nil
		},
		Reattached: func() (map[addr.Provider]string, error) { return nil, nil },
		CLI: &cliconfig.Config{DevOverrides: map[addr.Provider]string{
			{Host: "example.com", Namespace: "sim", Type: "cloud"}: v.plugin(),
		}},
		Compute: func(vertex int, fn func()) {
			key := fmt.Sprintf("%s %05d", r.id, vertex)
			if v.p.do(context.Background(), local, "compute", key, func(o *op) { o.reply(nil) }) == nil {
				fn()
			}
		},
	})
}

// withoutSocket prevents that the store serves other processes: a socket does not work in virtual time.
func (v *service) withoutSocket(home layout.Directory) {
	if err := os.MkdirAll(filepath.Join(home.Workspace("default").Path(), "socket", "is a directory"), 0o700); err != nil {
		panic(err)
	}
}

// plugin returns the directory of the provider's package, which is never started.
func (v *service) plugin() string {
	dir := filepath.Join(v.dir, "plugin")
	name := filepath.Join(dir, "terraform-provider-cloud")
	if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(name, []byte("cloud"), 0o700),
			os.Chtimes(name, v.s.w.began, v.s.w.began)); err != nil {
			panic(err)
		}
	}
	return dir
}

// operation begins a phase.
func (v *service) operation(ctx context.Context, e *estate.Estate, p *person, r *teamRun, request string,
	saved *planfile.Saved, resumes bool) (*estate.Operation, diag.List) {
	o := estate.OperationOptions{
		Name: "plan", State: v.shared(p, request), Parallelism: placement.Parallelism(v.s.w.options.slots),
		LockAs: "OperationTypePlan", Saved: saved, Settles: resumes, Request: request,
		Watch: estate.Watch{Sources: func(func() map[string]*hcl.File) {}, Settle: func() {},
			Note: func(text string) {
				v.s.w.mu.Lock()
				defer v.s.w.mu.Unlock()
				v.s.w.note("%s is told: %s", p.name, short(errors.New(text)))
			}},
	}
	if saved != nil {
		o.Name, o.LockAs = "apply", "OperationTypeApply"
	}
	return e.Begin(ctx, o)
}

func (v *service) shared(p *person, request string) estate.StateOptions {
	return estate.StateOptions{LockTimeout: time.Second, Sharing: &estate.Sharing{
		Stores: &v.stores, Request: request, Who: p.name, Alive: v.isAlive, Waits: func(list []locks.Blocker) {},
	}}
}

// plan makes a plan. If there are doubts, it resolves them.
func (v *service) plan(ctx context.Context, p *person, r *teamRun) string {
	w := v.s.w
	e := v.open(ctx, p, r)
	op, diags := v.operation(ctx, e, p, r, r.id, nil, false)
	if diags.HasErrors() {
		return "not begun: " + short(diags.Err())
	}
	if doubted, created := inDoubt(op.Prior); len(doubted) > 0 {
		if created || w.calm || v.toss(2) || v.mayStillBegin(doubted) {
			if diags := op.Close(ctx); diags.HasErrors() {
				return "closing: " + short(diags.Err())
			}
			return v.resolve(ctx, p, r)
		}
	}
	options := plan.Options{Refresh: placement.RefreshAll}
	if r.round.changed {
		options.Refresh = placement.RefreshChanged
	}
	switch {
	case r.round.refresh:
		options.Mode = plan.RefreshOnly
	case r.round.targeted:
		for _, e := range r.round.edits {
			if at(r.blocks, e.index) < 0 {
				continue
			}
			target, diags := addr.ParseTarget(thingBlock{index: e.index}.address())
			if diags.HasErrors() {
				panic(diags.Err())
			}
			options.Targets = append(options.Targets, target)
		}
	}
	made, diags := op.Plan(ctx, options)
	said := "planned " + r.id + " " + short(diags.Err())
	if made != nil && !diags.HasErrors() {
		v.forgetSets(made.Plan)
		w.mu.Lock()
		if w.trace != nil {
			w.note("%s: %v %s", r.id, r.round, configuration(v.s.name, r.blocks))
		}
		w.mu.Unlock()
		text, err := planfile.Encode(op.Saved(made.Plan))
		if err != nil {
			panic(err)
		}
		writes := map[string]bool{}
		if rests := made.Plan.Dependencies; rests != nil {
			for _, at := range rests.Writes {
				writes[at.String()] = true
			}
		}
		var unwritten diag.List
		if !made.Plan.Pending() {
			unwritten = op.State.Push(ctx) // like the engine of the real service
		}
		v.mayGo(func() {
			r.saved, r.writes, r.changes = text, writes, made.Plan.Changes
			if rests := made.Plan.Dependencies; rests != nil {
				r.outputs = rests.Outputs
			}
			switch {
			case made.Plan.Pending():
				p.phase = planned
				said += fmt.Sprintf(": %d changes", len(made.Plan.Changes))
			case unwritten.HasErrors():
				said += "; " + short(unwritten.Err())
			default:
				p.achieve(r)
			}
		})
	}
	return said + closed(op.Close(ctx))
}

// forgetSets removes from a plan the set that a disabled guard protects.
func (v *service) forgetSets(p *plan.Plan) {
	if p.Dependencies == nil {
		return
	}
	switch v.s.w.options.without {
	case guardWrites:
		p.Dependencies.Writes = nil
	case guardReads:
		p.Dependencies.Reads = nil
	case guardKeeps:
		p.Dependencies.Keeps = nil
	}
}

// mayGo calls a function with the world's lock, unless the process is dead.
func (v *service) mayGo(do func()) {
	v.s.w.mu.Lock()
	defer v.s.w.mu.Unlock()
	if !v.p.dead {
		do()
	}
}

func closed(diags diag.List) string {
	if diags.HasErrors() {
		return "; closing: " + short(diags.Err())
	}
	return ""
}

func (v *service) toss(n int) bool {
	v.s.w.mu.Lock()
	defer v.s.w.mu.Unlock()
	return v.s.w.chance.IntN(n) == 0
}

// mayStillBegin reports whether an operation in doubt may still take effect.
func (v *service) mayStillBegin(list []doubted) (yes bool) {
	_ = v.p.do(context.Background(), local, "look", "", func(o *op) {
		for _, d := range list {
			yes = yes || v.s.w.holds(d.Attempt)
		}
		yes = yes || v.s.w.cloud.goesOnAlone(v.s.name)
		o.reply(nil)
	})
	return yes
}

// goesOnAlone reports whether a request about a site's objects may still take effect although its provider is dead.
func (c *cloud) goesOnAlone(site string) bool {
	for e := range c.busy {
		if e.by.dead && c.w.siteOf(e.name) != nil && c.w.siteOf(e.name).name == site {
			return true
		}
	}
	return false
}

// apply applies a plan, or resumes an apply that was begun.
func (v *service) apply(ctx context.Context, p *person, r *teamRun, resumed bool) string {
	saved, err := planfile.Decode(r.saved)
	if err != nil {
		panic(err)
	}
	e := v.open(ctx, p, r)
	said := "applied " + r.id
	if resumed {
		run, begun, diags := e.Requested(ctx, v.shared(p, r.id))
		if diags.HasErrors() {
			return "not resumed: " + short(diags.Err()) // the next try may succeed
		}
		if begun != nil {
			v.mayGo(func() { v.s.w.faults["team: runs resumed"]++ })
			op, diags := v.operation(ctx, e, p, r, r.id, begun, true)
			if diags.HasErrors() {
				v.ended(p, r, nil, diags)
				return "not resumed: " + short(diags.Err())
			}
			var applied *operation.Applied
			if run.Over() {
				v.mayGo(func() { v.s.w.faults["team: runs that had ended before they were resumed"]++ })
				applied, _, diags = op.Ended(ctx, *run, begun.Plan)
			} else {
				applied, _, diags = op.Continue(ctx, *run, begun.Plan, false)
			}
			diags = diags.Append(op.Close(ctx))
			v.ended(p, r, applied, diags)
			return "resumed " + r.id + ": " + short(diags.Err())
		}
	}
	op, diags := v.operation(ctx, e, p, r, r.id, &saved, false)
	if diags.HasErrors() {
		v.ended(p, r, nil, diags)
		return "not applied: " + short(diags.Err())
	}
	fit, diags := op.Fit(ctx, saved.Plan)
	if diags.HasErrors() && diags[0].Summary == "Saved plan is stale" {
		v.mayGo(func() {
			v.s.w.faults["team: plans that were not good any more"]++
			v.ledger.mustNotBeDone(r)
		})
	}
	var applied *operation.Applied
	if !diags.HasErrors() {
		var more diag.List
		applied, _, more = op.Apply(ctx, fit, "apply", func() {})
		diags = diags.Append(more)
	}
	diags = diags.Append(op.Close(ctx))
	v.ended(p, r, applied, diags)
	return said + ": " + short(diags.Err())
}

// ended records how an apply has ended.
func (v *service) ended(p *person, r *teamRun, applied *operation.Applied, diags diag.List) {
	v.mayGo(func() {
		p.phase = idle
		if applied == nil || applied.Outcome.Status != "done" || diags.HasErrors() {
			return
		}
		v.s.w.faults["team: runs done"]++
		v.ledger.mustBeAsPlanned(r)
		if !r.closing { // the last run is finished only once a plan finds no changes
			p.achieve(r)
		}
	})
}

// resolve finds out the outcome of operations in doubt and resolves them. Nobody else changes the state meanwhile.
func (v *service) resolve(ctx context.Context, p *person, r *teamRun) string {
	w := v.s.w
	e := v.open(ctx, p, r)
	op, diags := v.operation(ctx, e, p, r, "resolve-"+r.id, nil, false)
	if diags.HasErrors() {
		return "not begun: " + short(diags.Err())
	}
	said := "resolving " + r.id
	if diags := op.LockAll(ctx); diags.HasErrors() {
		return said + ": " + short(diags.Err()) + closed(op.Close(ctx))
	}
	list, _ := inDoubt(op.Prior)
	if len(list) > 0 {
		d := list[0]
		id, early, err := v.look(ctx, d)
		if err != nil || early {
			return fmt.Sprintf("too early to tell about %s: %v", d.at, err) + closed(op.Close(ctx))
		}
		tx, more := op.Engine.Resolve(ctx, op.Prior, d.at, id, p.name)
		diags = diags.Append(more)
		if len(tx.Changes) > 0 {
			diags = diags.Append(op.State.Record(ctx, tx))
		}
		said += fmt.Sprintf(" %s of %s: %q %s", d.Operation, d.at, id, short(diags.Err()))
	}
	w.mu.Lock()
	w.faults["doubts of a team resolved"]++
	w.mu.Unlock()
	return said + closed(op.Close(ctx))
}

// look finds the object of an operation in doubt. early is true as long as the operation may still take effect.
func (v *service) look(ctx context.Context, d doubted) (id string, early bool, err error) {
	var sent struct{ Name string }
	_ = json.Unmarshal(d.Sent, &sent)
	err = v.p.do(ctx, local, "look", d.at.String(), func(o *op) {
		w := v.s.w
		early = w.holds(d.Attempt) || w.cloud.isBusy(v.s.name)
		known := map[string]*record{}
		for _, r := range v.s.records() {
			known[r.attrs.ID] = &r
		}
		for _, other := range w.cloud.ids() {
			t, r := w.cloud.objects[other], known[other]
			switch {
			case t.name() != sent.Name:
			case d.Operation == "create" && r == nil:
				id = other
			case d.Operation == "update" && r != nil && r.address == d.at.String():
				id = other // the object is read, so that the state gets the result of the update
			}
		}
		o.reply(nil)
	})
	return id, early, err
}
