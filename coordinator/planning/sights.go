package planning

import (
	"runtime"

	"github.com/zclconf/go-cty/cty"
	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/bug"
	"github.com/millipede-iac/millipede/coding"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// Sights are what a plan has seen of the objects that there are.
type Sights struct {
	// Same are the instances that were read and found as they are stored, by address. It is there only for a plan that
	// does not read everything.
	Same []string
	// Unread are those that were taken as they are stored.
	Unread []string
	// Hits is how many of these were decided by a verdict; New are the verdicts to remember.
	Hits int
	New  map[string]journal.Verdict
}

// sight is what was seen of one object.
type sight struct {
	how     seeing
	hit     bool
	verdict *journal.Verdict // to remember; nil for none
}

type seeing byte

const (
	unseen seeing = iota
	readSame
	readOther
	takenAsStored
)

func (s *Sights) add(a addr.Instance, seen sight) {
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

// Sights returns what the plan has seen, after the run has ended.
func (p *Planner) Sights() Sights {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.sights
}

// UnreadIn is what the plan says of the objects that it did not read; nil for none.
func (s Sights) UnreadIn(reads journal.Reads) *plan.Unread {
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

// mayGoByStored reports whether an object need not be read as long as nothing about it changes: a managed one that the
// configuration wants.
func (p *Planner) mayGoByStored(o *object) bool {
	return p.OnlyChanged && p.Mode == plan.Normal && o.orphan == plan.NoReason && o.addr.Resource.Mode == addr.Managed &&
		o.imported == nil
}

// goesByStored reports whether a worker may take an object as it is stored: nothing that it depends on changes, and it
// is where it was.
func (p *Planner) goesByStored(node int, o *object) bool {
	if !p.mayGoByStored(o) {
		return false
	}
	if _, moved := p.Previous[o.addr]; moved {
		return false
	}
	return !p.dependsOnPending(node, o.addr.Module)
}

// dependsOnPending is anyPending for what a static vertex waits for, which may be much more than what is pending.
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

// seen is what a plan against a worker's answer has seen of an object.
func (p *Planner) seen(o *object, a answer, change *plan.Change, quiet bool) sight {
	if !p.OnlyChanged || o.work.prior == nil {
		return sight{}
	}
	s := sight{how: readOther, hit: a.decided}
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

// kept is the answer that a verdict gives, without values: nothing changes.
func (w *work) kept() answer {
	return answer{
		PlanResult: &wire.PlanResult{Action: plan.NoOp, PriorPrivate: w.prior.Private, SchemaVersion: w.Schema.Version,
			Unread: true},
		same: true, decided: true, plain: len(w.prior.Sensitive)+len(w.Sensitive) == 0,
	}
}

// decided is the answer of a verdict that there is. It returns false where what is stored cannot be read as it is.
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

// spared is what a plan that spares values finds of an object that a verdict keeps as it is: its value is what is
// stored, for those who refer to it. It returns nil where the value has to be looked at.
func (p *Planner) spared(o *object) *found {
	w := o.work
	if !p.Spare || len(o.resource.Code.Config.Postconditions) > 0 || len(w.Sensitive) > 0 ||
		w.prior.SchemaVersion != w.Schema.Version || w.prior.Flatmap != nil || !w.declares(w.prior.Sensitive) ||
		!coding.Fits(w.prior.Attrs, w.Schema.Block.ImpliedType()) {
		return nil
	}
	a := w.kept()
	c := p.newChange(o, a)
	c.Action, c.CreateBeforeDestroy, c.SkipDestroy = plan.NoOp, p.createsFirst(o), p.skipsDestroy(o)
	if len(p.allowed(o, c)) > 0 {
		return nil
	}
	o.resource.Keep(o.addr.Key, w.prior)
	return &found{checks: w.Checks, change: c, seen: p.seen(o, a, c, true),
		state: []state.Change{p.refreshedObject(o, a)}}
}

// declares reports whether the schema says itself that what is at some paths is sensitive.
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

// settleKept settles those of the objects to come of a resource of which a verdict says that they stay as they are. No
// worker is asked about them and nobody is told that something is done to them, so they need no vertices: what they
// depend on has been planned when their resource expands. Whatever there is to be said about one is said by a vertex.
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

// part is how many objects are worth a core.
const part = 256

// eachPart calls fn for all numbers below n, those of large parts on several cores.
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
		panic(err) // only a bug does
	}
}

// kept returns what there is to accept of an object that a verdict settles; nil of another one.
func (p *Planner) kept(node int, o *object) *found {
	if _, is := p.Verdicts[o.addr.String()]; !is || !p.goesByStored(node, o) {
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
