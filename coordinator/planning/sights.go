package planning

import (
	"crypto/sha256"

	ctyjson "github.com/zclconf/go-cty/cty/json"

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

// mayGoByStored tells whether an object need not be read as long as nothing about it changes: a managed one that the
// configuration wants.
func (p *Planner) mayGoByStored(o *object) bool {
	return p.OnlyChanged && p.Mode == plan.Normal && o.orphan == plan.NoReason && o.addr.Resource.Mode == addr.Managed &&
		o.imported == nil
}

// goesByStored tells whether a worker may take an object as it is stored: nothing that it depends on changes, and it
// is where it was.
func (p *Planner) goesByStored(node int, o *object) bool {
	if !p.mayGoByStored(o) {
		return false
	}
	if _, moved := p.Previous[o.addr]; moved {
		return false
	}
	return !p.dependsOnPending(p.closure.Resources(node), o.addr.Module)
}

// dependsOnPending is anyPending for a set that may be much larger than what is pending.
func (p *Planner) dependsOnPending(set *state.Dependencies, in addr.ModuleInstance) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
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

// verdict identifies all that goes into the plan of an object: the package of its provider and how that is configured,
// the type with its schema, what is stored with private data, and what the configuration says.
func (p *Planner) verdict(w *work, task *wire.PlanTask) *journal.Verdict {
	sum := sha256.Sum256(coding.Marshal(&struct {
		Package wire.Package
		Digest  string
		Mock    *wire.Mock
		Schema  int64
		Task    *wire.PlanTask
	}{w.Wire.Package, w.Wire.Digest, w.Wire.Mock, w.Schema.Version, task}))
	v := journal.Verdict(sum[:len(journal.Verdict{})])
	return &v
}

// decided is the answer that a verdict gives: nothing changes. It returns false where there is none, or where what is
// stored cannot be read as it is.
func (p *Planner) decided(o *object, v journal.Verdict) (answer, bool) {
	w := o.work
	if known, ok := p.Verdicts[o.addr.String()]; !ok || known != v {
		return answer{}, false
	}
	stored, err := values.DecodeStored(w.prior, w.Schema)
	if err != nil {
		return answer{}, false
	}
	bare, _ := stored.UnmarkDeep()
	a := answer{
		PlanResult: &wire.PlanResult{Action: plan.NoOp, PriorPrivate: w.prior.Private, SchemaVersion: w.Schema.Version,
			Unread: true},
		upgraded: stored, before: stored, after: w.Marked(bare), same: true, decided: true,
		plain: len(w.prior.Sensitive)+len(w.Sensitive) == 0,
	}
	if w.prior.Identity != nil {
		if w.Identity == nil || w.Identity.Version != w.prior.IdentityVersion {
			return answer{}, false
		}
		if a.beforeIdentity, err = ctyjson.Unmarshal(w.prior.Identity, w.Identity.Body.ImpliedType()); err != nil {
			return answer{}, false
		}
		a.afterIdentity, a.IdentityVersion = a.beforeIdentity, w.prior.IdentityVersion
	}
	return a, true
}
