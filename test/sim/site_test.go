package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// site is a directory with a configuration and a state, and the user who works there.
type site struct {
	w     *world
	name  string
	store journal.Store
	team  *team  // the people who change the state at the same time; nil if only one command runs at a time
	goals []goal // the configurations that the user applies, one after the other
	at    int

	// Guarded by the world's lock.
	current *process // the process that has the store open; nil if none has
	old     []*process
	life    int
	lockID  string
	// presses are the remaining interrupts of the current command: Ctrl-C calls the first one.
	presses []context.CancelCauseFunc
	since   time.Time // when the command began
	full    bool
	reached bool
	idle    int // the number of commands after the last fault that have changed nothing
	late    []func() error
	// applying is set while a plan of the goal is being applied and nothing has disturbed it.
	applying bool
	said     []string // the results of the commands
}

// goal is one version of the configuration.
type goal struct {
	text    string
	names   []string            // the names of the objects that exist when the goal is reached
	refs    map[string][]string // for each object, by name, the names of the objects to which it refers
	pools   map[string]string   // the pool of each object, by name
	sizes   map[string]int
	destroy bool
	// gently is the same goal without replacements of objects, or nil. See takeTwoSteps.
	gently *goal
}

// work is the user: one command after the other, until all goals are reached.
func (s *site) work() {
	if s.team != nil {
		s.team.work()
		return
	}
	if s.reached {
		return
	}
	if s.current != nil {
		if time.Since(s.since) > 5*time.Minute { // the user interrupts a command that takes that long
			s.w.note("%s is interrupted by its user", s.current.name)
			s.since = time.Now()
			s.press()
		}
		s.w.after(s.w.between(100*time.Millisecond, time.Second), s.work)
		return
	}
	s.command("")
	s.w.after(s.w.between(500*time.Millisecond, 2*time.Second), s.work)
}

// command starts a command. steal is the name of the lock that is broken first.
func (s *site) command(steal string) {
	s.life++
	stop, ask, leave := operation.NewStop(context.Background())
	s.presses, s.since = []context.CancelCauseFunc{ask, leave}, time.Now()
	s.current = s.w.spawn(fmt.Sprintf("%sc%d", s.name, s.life), func(ctx context.Context, p *process) {
		defer context.AfterFunc(ctx, func() { leave(context.Cause(ctx)) })()
		c := &command{site: s, p: p, lockID: p.name, stop: stop, goal: s.at}
		said := c.run(ctx, steal)
		s.w.mu.Lock()
		defer s.w.mu.Unlock()
		s.mustNotFailForForgeries(said)
		if strings.HasSuffix(said, errDead.Error()) {
			// Which goroutine of the command noticed the death first decides its message, and the simulation does not
			// control their order.
			said = errDead.Error()
		}
		s.w.note("%s: %s", p.name, said)
		s.said = append(s.said, p.name+": "+said)
		if s.current == p {
			s.current = nil
		}
	})
}

// command is one command of the user.
type command struct {
	*site
	p       *process
	lockID  string
	goal    int
	stop    operation.Stop
	session operation.Session
}

// run executes the next action of a careful user, and returns its result.
func (c *command) run(ctx context.Context, steal string) string {
	w := c.w
	w.mu.Lock()
	conn := w.nats.connect(c.p, c.name)
	w.mu.Unlock()
	store := &handle{site: c.site, p: c.p}
	if err := c.lock(ctx, store, steal); err != nil {
		return "not locked: " + err.Error()
	}
	ring, err := wire.NewKeyring(conn, keyPair(c.name), seeded(c.p.name))
	if err != nil {
		panic(err)
	}
	abandoned := &coordinator.Orphans{Store: store, Claims: conn, Now: c.p.now, NewID: c.p.id}
	h := hub.New(conn, c.name)
	h.Decide(abandoned.Decide)
	c.session = operation.Session{
		Workspace: "default", EngineVersion: "1.12.6", Hub: h, Keyring: ring, Store: store, Package: packageOf,
		WorkerWait: 10 * time.Second, Parallelism: placement.Parallelism(w.options.slots), Rules: w.options.rules(),
		Stop: c.stop, Cwd: "/", Now: c.p.now, NewID: c.p.id,
		Compute: func(v int, fn func()) {
			if c.p.do(context.Background(), local, "compute", fmt.Sprintf("%05d", v),
				func(o *op) { o.reply(nil) }) == nil {
				fn()
			}
		},
	}
	said := c.next(ctx, store)
	if err := store.Unlock(context.WithoutCancel(ctx), "default", c.lockID); err != nil {
		said += "; unlocking: " + err.Error()
	}
	return said
}

// lock acquires the lock of the state. If its holder is a process that is gone, lock breaks it.
func (c *command) lock(ctx context.Context, store *handle, steal string) error {
	info := journal.LockInfo{ID: c.lockID, Who: c.p.name, Operation: "apply"}
	if steal != "" {
		if err := store.Unlock(ctx, "default", steal); err != nil && !errors.Is(err, journal.ErrLockID) {
			return err
		}
	}
	err := store.Lock(ctx, "default", info)
	var held *journal.Held
	if errors.As(err, &held) && store.gone(held.Holder.ID) {
		if err = store.Unlock(ctx, "default", held.Holder.ID); err == nil {
			err = store.Lock(ctx, "default", info)
		}
	}
	if err == nil {
		c.w.mu.Lock()
		c.site.lockID = c.lockID
		c.w.mu.Unlock()
	}
	return err
}

// next decides the next action: resume an interrupted run, resolve doubts, or plan and apply.
func (c *command) next(ctx context.Context, store *handle) string {
	cut, err := operation.CutOff(ctx, store, "default")
	if err != nil {
		return "the journal: " + err.Error()
	}
	if cut != nil {
		return c.resume(ctx, store, cut.ID)
	}
	prior, err := store.Load(ctx, "default")
	if err != nil {
		return "the state: " + err.Error()
	}
	c.mustAllBeKnown()
	// A plan reads the objects of updates and deletions in doubt; that needs a permit that no doubt holds.
	if doubted, created := inDoubt(prior); len(doubted) > 0 && (created || c.w.calm || c.toss(2)) {
		return c.resolve(ctx, store, prior, doubted[0])
	}
	runs, err := store.Runs(ctx, "default")
	if err != nil {
		return "the runs: " + err.Error()
	}
	if len(runs) > 0 && !runs[0].Over() && c.toss(2) {
		return c.resume(ctx, store, runs[0].ID)
	}
	return c.apply(ctx, store, prior)
}

// toss draws a decision of the user.
func (c *command) toss(n int) bool {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return c.w.chance.IntN(n) == 0
}

// inDoubt lists the operations with an unknown outcome, and reports whether there are creations among them, which no
// plan can read.
func inDoubt(s *state.State) (list []doubted, created bool) {
	for _, a := range s.Addrs() {
		i := s.Instance(a)
		objects := []*state.Object{i.Current}
		for _, k := range slices.Sorted(maps.Keys(i.Deposed)) {
			objects = append(objects, i.Deposed[k])
		}
		for _, o := range objects {
			if o != nil && o.Status == state.InDoubt {
				list = append(list, doubted{a, o.Doubt})
				created = created || o.Doubt.Operation == "create"
			}
		}
	}
	return list, created
}

type doubted struct {
	at addr.Instance
	*state.Doubt
}

// resolve finds out the outcome of an operation in doubt, and resolves it. It waits until the operation can no longer
// take effect.
func (c *command) resolve(ctx context.Context, store *handle, prior *state.State, d doubted) string {
	at := d.at
	var sent struct {
		Name string
		Size int64
		Refs []string
	}
	_ = json.Unmarshal(d.Sent, &sent)
	id, early := "", false
	if err := c.p.do(ctx, local, "look", at.String(), func(o *op) {
		early = c.w.holds(d.Attempt) || c.w.cloud.isBusy(c.name)
		t := c.w.cloud.named(sent.Name)
		switch {
		case t == nil || d.Operation == "delete":
		case d.Operation == "create", t.is(sent.Size, c.wanted(sent.Name, sent.Refs)):
			id = t.id
		}
		o.reply(nil)
	}); err != nil {
		return "looking: " + err.Error()
	}
	if early {
		return "too early to tell about " + at.String()
	}
	tree, err := load(goalFiles(c.goals[min(c.goal, len(c.goals)-1)].text))
	if err != nil {
		return err.Error()
	}
	c.session.Tree = tree
	tx, diags := c.session.Resolve(ctx, prior, at, id, c.p.name)
	if len(tx.Changes) > 0 {
		tx.Workspace, tx.Fence = "default", c.lockID
		if err := store.Commit(ctx, tx); err != nil {
			return "resolving: " + err.Error()
		}
	}
	if diags.HasErrors() {
		return "resolving: " + short(diags.Err())
	}
	return fmt.Sprintf("resolved %s of %s: %q", d.Operation, at, id)
}

// wanted returns the references that an update was to give an object: those in the request, or, if the plan did not
// know them, those of the configuration to objects that exist now.
func (c *command) wanted(name string, sent []string) (refs []string) {
	if sent != nil && !slices.Contains(sent, "") {
		return sent
	}
	for _, other := range c.goals[c.goal].refs[name] {
		id := "" // the object did not exist when the update was to begin
		if t := c.w.cloud.named(other); t != nil {
			id = t.id
		}
		refs = append(refs, id)
	}
	return refs
}

func (c *command) resume(ctx context.Context, store *handle, id string) string {
	r, text, err := store.RunPlan(ctx, id)
	if err != nil {
		return "resuming: " + err.Error()
	}
	saved, err := planfile.Decode(text)
	if err != nil {
		return "resuming: " + err.Error()
	}
	tree, err := load(saved.Config.Files)
	if err != nil {
		return "resuming: " + err.Error()
	}
	c.session.Tree = tree
	applied, diags := c.session.Resume(ctx, r, saved.Plan, c.lockID)
	if applied == nil {
		return "resuming: " + diags.Err().Error()
	}
	return fmt.Sprintf("resumed %s: %s %v", id, applied.Outcome.Status, short(diags.Err()))
}

func (c *command) apply(ctx context.Context, store *handle, prior *state.State) string {
	g := c.goals[c.goal]
	tree, err := load(goalFiles(g.text))
	if err != nil {
		return err.Error()
	}
	if c.inFlight(prior) {
		return "too early to plan"
	}
	c.session.Tree = tree
	options := plan.Options{}
	if g.destroy {
		options.Mode = plan.Destroy
	}
	planned, diags := c.session.Plan(ctx, prior, options)
	if diags.HasErrors() && strings.HasPrefix(diags.Err().Error(), "Cycle: ") {
		c.takeTwoSteps(ctx)
	}
	if diags.HasErrors() || planned == nil {
		return "planning: " + short(diags.Err())
	}
	data, err := planfile.Encode(planfile.Saved{Plan: planned.Plan,
		Config: planfile.Config{Files: goalFiles(g.text), Dir: "."}})
	if err != nil {
		return err.Error()
	}
	c.carryOut(true)
	applied, diags := c.session.Apply(ctx, operation.ApplyOptions{Plan: planned.Plan, Saved: data, Command: "apply",
		LockID: c.lockID, Who: c.p.name})
	c.carryOut(false)
	if applied == nil {
		return "applying: " + short(diags.Err())
	}
	if !planned.Plan.Applyable() && applied.Outcome.Status == "done" && !diags.HasErrors() {
		c.w.mu.Lock()
		defer c.w.mu.Unlock()
		if !c.p.dead && c.site.current == c.p {
			c.reach(c.goal)
		}
	}
	return fmt.Sprintf("applied %s: %s %v", applied.Run, applied.Outcome.Status, short(diags.Err()))
}

// takeTwoSteps makes the user change the references first, and replace objects with the next plan. A plan with a cycle
// advises that: the recorded dependencies contradict the present references.
func (c *command) takeTwoSteps(ctx context.Context) {
	_ = c.p.do(ctx, local, "reads that there is no order", "", func(o *op) {
		o.reply(nil)
		first := c.goals[c.goal].gently
		if c.site.current != c.p || c.goal != c.at || first == nil {
			return
		}
		c.w.note("%s goes to goal %d in two steps", c.site.name, c.at)
		c.w.faults["plans without an order"]++
		c.site.goals[c.at].gently = nil
		c.site.goals = slices.Insert(c.site.goals, c.at, *first)
	})
}

// inFlight reports whether an update or a deletion in doubt may still take effect. A careful user waits until it
// cannot.
func (c *command) inFlight(prior *state.State) (yes bool) {
	var attempts []string
	for d := range prior.Doubts() {
		attempts = append(attempts, d.Attempt)
	}
	if len(attempts) == 0 {
		return false
	}
	_ = c.p.do(context.Background(), local, "look", "", func(o *op) {
		yes = c.w.cloud.isBusy(c.name) || slices.ContainsFunc(attempts, c.w.holds)
		o.reply(nil)
	})
	return yes
}

func short(err error) string {
	if err == nil {
		return "ok"
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	return text[:min(len(text), 1500)]
}

// files is the file system of a configuration.
type files map[string][]byte

func (f files) ReadFile(name string) ([]byte, error) {
	if text, ok := f[name]; ok {
		return text, nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

func (f files) ReadDir(string) (out []fs.DirEntry, err error) {
	for name := range f {
		out = append(out, entry(name))
	}
	return out, nil
}

type entry string

func (e entry) Name() string               { return string(e) }
func (entry) IsDir() bool                  { return false }
func (entry) Type() fs.FileMode            { return 0 }
func (e entry) Info() (fs.FileInfo, error) { return nil, fs.ErrInvalid }

func goalFiles(text string) files { return files{"main.tf": []byte(text)} }

func load(f files) (*config.Tree, error) {
	tree, diags := config.NewLoader(f).LoadTree(config.TreeOptions{Locator: config.Manifest{}})
	if diags.HasErrors() {
		return nil, diags.Err()
	}
	return tree, nil
}
