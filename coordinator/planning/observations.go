package planning

import (
	"runtime"

	"github.com/zclconf/go-cty/cty"
	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/internal/bug"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// Observations are a plan's observations about existing objects.
type Observations struct {
	// Same are the instances that were read and found unchanged, by address. It is set only for a plan that does
	// not read everything.
	Same []string
	// Unread are those that were assumed to be unchanged.
	Unread []string
	// Hits is the number of these that were decided by a verdict; New are the verdicts to store.
	Hits int
	New  map[string]journal.Verdict
}

// observation is the observation about one object.
type observation struct {
	how     readOutcome
	hit     bool
	verdict *journal.Verdict // to store; nil for none
}

type readOutcome byte

const (
	unseen readOutcome = iota
	readSame
	readOther
	takenAsStored
)

func (s *Observations) add(a addr.Instance, seen observation) {
	name := a.String()
	switch seen.how {
	case readSame:
		s.Same = append(s.Same, name)
	case takenAsStored:
		s.Unread = append(s.Unread, name)
	}
	if seen.hit {
		s.Hits++
	}
	if seen.verdict != nil {
		if s.New == nil {
			s.New = map[string]journal.Verdict{}
		}
		s.New[name] = *seen.verdict
	}
}

// Observations returns the observations after the run has ended.
func (p *Planner) Observations() Observations {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.observations
}

// UnreadIn returns the plan's summary of the objects that it did not read; nil for none.
func (s Observations) UnreadIn(reads journal.Reads) *plan.Unread {
	if len(s.Unread) == 0 {
		return nil
	}
	out := &plan.Unread{Objects: len(s.Unread), Verdicts: s.Hits}
	for i, a := range s.Unread {
		at := reads.At(a)
		if i == 0 || at.Before(out.Since) {
			out.Since = at
		}
	}
	return out
}

// mayUseStored reports whether an object need not be read if it does not change: a managed one with a place in the
// configuration.
func (p *Planner) mayUseStored(o *object) bool {
	return p.OnlyChanged && p.Mode == plan.Normal && o.orphan == plan.NoReason && o.addr.Resource.Mode == addr.Managed &&
		o.imported == nil
}

// usesStored reports whether a worker may use the stored object: none of its dependencies changes, and it was not
// moved.
func (p *Planner) usesStored(node int, o *object) bool {
	if !p.mayUseStored(o) {
		return false
	}
	if _, moved := p.Previous[o.addr]; moved {
		return false
	}
	return !p.dependsOnPending(node, o.addr.Module)
}

// dependsOnPending is anyPending for the dependencies of a static vertex, which may be many more than the pending
// resources.
func (p *Planner) dependsOnPending(node int, in addr.ModuleInstance) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if len(p.pending) == 0 {
		return false
	}
	set := p.closure.Resources(node)
	for r := range p.pending {
		if set.Has(state.DependOn(r)) && p.isPending(r, in) {
			return true
		}
	}
	return false
}

// seen returns the observation about an object from a plan with a worker's answer.
func (p *Planner) seen(o *object, a answer, change *plan.Change, quiet bool) observation {
	if !p.OnlyChanged || o.work.prior == nil {
		return observation{}
	}
	s := observation{how: readOther, hit: a.decided}
	switch {
	case a.Unread:
		s.how = takenAsStored
	case a.same:
		s.how = readSame
	}
	if v := o.work.verdict; v != nil && !a.decided && quiet && a.same && change.Action == plan.NoOp {
		s.verdict = v
	}
	return s
}

// kept returns the answer of a verdict, without values: nothing changes.
func (w *work) kept() answer {
	return answer{
		PlanResult: &wire.PlanResult{Action: plan.NoOp, PriorPrivate: w.prior.Private, SchemaVersion: w.Schema.Version,
			Unread: true},
		same: true, decided: true, plain: len(w.prior.Sensitive)+len(w.Sensitive) == 0,
	}
}

// decided returns the answer of a verdict, if there is one. It returns false if the stored object cannot be
// decoded.
func (p *Planner) decided(o *object) (answer, bool) {
	w := o.work
	a := w.kept()
	stored, err := values.DecodeStored(w.prior, w.Schema)
	if err != nil {
		return answer{}, false
	}
	bare, _ := stored.UnmarkDeep()
	a.upgraded, a.before, a.after = stored, stored, w.Marked(bare)
	if w.prior.Identity != nil {
		if w.Identity == nil || w.Identity.Version != w.prior.IdentityVersion {
			return answer{}, false
		}
		if a.beforeIdentity, err = coding.UnmarshalJSON(w.prior.Identity, w.Identity.Body.ImpliedType()); err != nil {
			return answer{}, false
		}
		a.afterIdentity, a.IdentityVersion = a.beforeIdentity, w.prior.IdentityVersion
	}
	return a, true
}

// keptAsStored returns the findings about an object that a verdict keeps unchanged, without decoding its value:
// references to it use the stored one. It returns nil if the value is needed, or cannot be decoded.
func (p *Planner) keptAsStored(o *object) *found {
	w := o.work
	if len(o.resource.Code.Config.Postconditions) > 0 || len(w.Sensitive) > 0 || !w.fits(w.prior) {
		return nil
	}
	a := w.kept()
	c := p.newChange(o, a)
	c.Action, c.CreateBeforeDestroy, c.SkipDestroy = plan.NoOp, p.createsFirst(o), p.skipsDestroy(o)
	c.Kept, c.PriorPrivate = true, nil
	if len(p.allowed(o, c)) > 0 {
		return nil
	}
	o.resource.Keep(o.addr.Key, w.prior)
	f := &found{checks: w.Checks, change: c, seen: p.seen(o, a, c, true)}
	set := p.refreshedObject(o, a)
	if set.Object != w.prior || set.Provider != p.Prior.ProviderOf(o.addr) { // mostly there is nothing to set
		f.state = []state.Change{set}
	}
	return f
}

// fits reports whether a stored object can be decoded with the present schema, with no other sensitive parts than those
// that the schema declares.
func (w *work) fits(o *state.Object) bool {
	if o.SchemaVersion != w.Schema.Version || o.Flatmap != nil || !w.declares(o.Sensitive) ||
		!coding.Fits(o.Attrs, w.Schema.Block.ImpliedType()) {
		return false
	}
	return o.Identity == nil || w.Identity != nil && w.Identity.Version == o.IdentityVersion &&
		coding.Fits(o.Identity, w.Identity.Body.ImpliedType())
}

// declares reports whether the schema itself makes the values at some paths sensitive.
func (w *work) declares(paths []cty.Path) bool {
	for _, path := range paths {
		if len(path) != 1 {
			return false
		}
		step, _ := path[0].(cty.GetAttrStep)
		if a := w.Schema.Block.Attributes[step.Name]; a == nil || !a.Sensitive {
			return false
		}
	}
	return true
}

// settleKept settles those new objects of a resource that a verdict keeps unchanged. No worker is called and no
// progress is shown for them, so they need no vertices: their dependencies have been planned when their resource
// expands. An object with diagnostics gets a vertex.
func (p *Planner) settleKept(node int, f *found) {
	if !p.OnlyChanged || len(p.Verdicts) == 0 {
		return
	}
	settled := make([]*found, len(f.objects))
	eachPart(len(settled), func(i int) {
		o := f.objects[i]
		settled[i] = p.kept(node, &o)
	})
	left := f.objects[:0]
	for i, k := range settled {
		if k != nil {
			f.kept = append(f.kept, k)
		} else {
			left = append(left, f.objects[i])
		}
	}
	clear(f.objects[len(left):])
	f.objects = left
}

// part is the number of objects for which another core is worthwhile.
const part = 256

// eachPart calls fn for all numbers below n, on several cores if n is large.
func eachPart(n int, fn func(int)) {
	cores := runtime.GOMAXPROCS(0)
	size := max(part, (n+cores-1)/cores)
	var all errgroup.Group
	for first := 0; first < n; first += size {
		all.Go(func() error {
			return bug.Catch(func() error {
				for i := first; i < min(first+size, n); i++ {
					fn(i)
				}
				return nil
			})
		})
	}
	if err := all.Wait(); err != nil {
		panic(err) // only a bug causes this
	}
}

// kept returns the findings about an object that a verdict settles; nil for other objects.
func (p *Planner) kept(node int, o *object) *found {
	if _, is := p.Verdicts[o.addr.String()]; !is || !p.usesStored(node, o) {
		return nil
	}
	o.work = &work{}
	step := p.prepareManaged(node, o)
	o.work = nil
	f, ok := step.Value.(*found)
	if !ok || !step.Finished() || len(step.Diags) > 0 || !f.seen.hit {
		return nil
	}
	return f
}
