package applying

import (
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/locks"
)

// Locks returns the locks under which others may change the state while the plan is applied. The applier's state
// must be the stored one. The cost is proportional to the plan.
//
//   - The plan's changes: instances, outputs, and results of checks get write locks. So do instances whose recorded
//     dependencies alone change, because these later determine the order in which objects are destroyed.
//   - Instances whose values went into the changes get read locks.
//   - The dependents of an object that the plan ends are locked against additions (Keep): nothing may begin to depend
//     on it. A new dependency of an object that the plan makes (Depend) conflicts with such a lock.
//   - A resource gets a write lock if the plan may make its first instance, end its last one, or change its provider;
//     else a read lock if the plan changes instances of it.
//
// Plans that refresh or destroy everything lock the whole state: they do not know which other objects there will
// be.
func (a *Applier) Locks() locks.Set {
	a.mu.RLock()
	defer a.mu.RUnlock()
	l := locking{Applier: a, set: locks.Set{}, written: map[addr.Instance]bool{}}
	rests := a.Plan.Dependencies
	if rests == nil || a.Plan.Mode != plan.Normal {
		l.set.Add(locks.All, locks.Write)
		return l.set
	}
	for _, at := range rests.Writes {
		l.written[at] = true
	}
	for _, f := range rests.Found {
		l.written[f.Addr] = true
	}
	l.checks() // before updates of dependencies only: these change no value
	for _, c := range a.Plan.Changes {
		l.change(c)
	}
	for _, f := range rests.Found {
		l.found(f.Addr)
	}
	for at := range l.written {
		l.set.Add(locks.Instance(at.String()), locks.Write)
		l.resource(at)
	}
	for _, name := range rests.Outputs {
		l.set.Add(locks.Output(name), locks.Write)
	}
	for _, at := range rests.Reads {
		l.set.Add(locks.Instance(at.String()), locks.Read)
	}
	for _, k := range rests.Keeps {
		l.set.Add(locks.Dependents(k), locks.Keep)
	}
	return l.set
}

type locking struct {
	*Applier
	set     locks.Set
	written map[addr.Instance]bool
}

// change adds the locks that one change needs in addition to the plan's own dependencies.
func (l *locking) change(c *plan.Change) {
	stored := l.state.Object(c.Addr, state.CurrentObject)
	makes := false
	switch c.Action {
	case plan.NoOp:
		o := l.Plan.Prior.Object(c.Addr, state.CurrentObject)
		if l.notedAnew(c, stored) || l.notedAnew(c, o) {
			l.written[c.Addr] = true
			makes = true
		}
	case plan.Delete, plan.Forget, plan.DeleteThenCreate, plan.ForgetThenCreate:
		l.set.Add(locks.Resource(c.Addr.Abs().String()), locks.Write)
		makes = c.Action == plan.DeleteThenCreate || c.Action == plan.ForgetThenCreate
	case plan.Create, plan.Update, plan.CreateThenDelete:
		makes = true
	}
	if makes && c.Addr.Resource.Mode == addr.Managed {
		var recorded *state.Dependencies
		if stored != nil {
			recorded = stored.Dependencies
		}
		l.depends(l.dependencies(c.Addr), recorded)
	}
	if r := l.state.Resources[c.Addr.Abs()]; l.written[c.Addr] && r != nil && r.Provider != c.Provider.Config() {
		l.set.Add(locks.Resource(c.Addr.Abs().String()), locks.Write)
	}
}

// notedAnew reports whether the stored form of an unchanged object changes nevertheless; see recheck.
func (l *locking) notedAnew(c *plan.Change, o *state.Object) bool {
	if o == nil || c.Deposed != state.CurrentObject {
		return false
	}
	kept := *o
	kept.Dependencies, kept.CreateBeforeDestroy, kept.SkipDestroy = l.dependencies(c.Addr), c.CreateBeforeDestroy,
		c.SkipDestroy
	return !kept.Equal(o)
}

// depends locks new dependencies.
func (l *locking) depends(now, recorded *state.Dependencies) {
	if now == nil {
		return
	}
	for d := range now.All() {
		if recorded == nil || !recorded.Has(d) {
			l.set.Add(locks.Dependents(d.Value()), locks.Depend)
		}
	}
}

// found adds the locks for storing a refreshed object: of its resource, if it was removed or has another provider, and
// of its current dependencies.
func (l *locking) found(at addr.Instance) {
	was, is := l.state.Instance(at), l.Plan.Prior.Instance(at)
	if was == nil || is == nil || l.state.ProviderOf(at).Config() != l.Plan.Prior.ProviderOf(at).Config() {
		l.set.Add(locks.Resource(at.Abs().String()), locks.Write)
	}
	if is == nil || is.Current == nil {
		return
	}
	var recorded *state.Dependencies
	if was != nil && was.Current != nil {
		recorded = was.Current.Dependencies
	}
	l.depends(is.Current.Dependencies, recorded)
}

// resource locks the resource of an instance that is written.
func (l *locking) resource(at addr.Instance) {
	abs := at.Abs()
	mode := locks.Read
	if r := l.state.Resources[abs]; r == nil {
		mode = locks.Write // it creates the first one
	}
	l.set.Add(locks.Resource(abs.String()), mode)
}

// checks locks the results of the checks that depend on written values.
func (l *locking) checks() {
	g := &l.Plan.Graph
	reached := make([]bool, len(g.Vertices))
	var open []int32
	visit := func(v int32) {
		if !reached[v] {
			reached[v] = true
			open = append(open, v)
		}
	}
	for v, x := range g.Vertices {
		if x.Change >= 0 && l.written[l.Plan.Changes[x.Change].Addr] {
			visit(int32(v))
		}
	}
	after := make([][]int32, len(g.Vertices))
	for _, e := range g.Edges[:g.Values] {
		after[e[0]] = append(after[e[0]], e[1])
	}
	for len(open) > 0 {
		v := open[len(open)-1]
		open = open[:len(open)-1]
		for _, w := range after[v] {
			visit(w)
		}
	}
	names := map[string]bool{}
	for v, yes := range reached {
		if x := g.Vertices[v]; yes && x.Change >= 0 {
			names[l.Plan.Changes[x.Change].Addr.Config().String()] = true
		} else if yes {
			names[x.Address] = true
		}
	}
	for _, c := range l.Plan.Checks {
		if names[c.Config] {
			l.set.Add(locks.Check(c.Config), locks.Write)
		}
	}
}

// owns reports whether the run may change an object. Without locks of objects it may change everything.
func (a *Applier) owns(o locks.Object) bool { return a.Own == nil || a.Own.Writes(o) }

// ownsInstance is owns for an instance.
func (a *Applier) ownsInstance(at addr.Instance) bool {
	return a.Own == nil || a.Own.Writes(locks.Instance(at.String()))
}

// ownChanges removes changes of objects that the run has not locked: others may have changed them since the plan
// was made, so the plan's version must not be stored.
func (a *Applier) ownChanges(changes []state.Change) []state.Change {
	if a.Own == nil {
		return changes
	}
	var out []state.Change
	for _, c := range changes {
		switch s := c.(type) {
		case state.SetObject:
			if !a.ownsInstance(s.Addr) {
				continue
			}
		case state.SetOutput:
			if !a.owns(locks.Output(s.Name)) {
				continue
			}
		}
		out = append(out, c)
	}
	return out
}

// endChecks is the change that stores the results of checks.
func (a *Applier) endChecks() state.Change {
	results := a.checkResults()
	if a.Own == nil || a.Own.Whole() {
		return state.SetChecks{Checks: results}
	}
	merge := state.MergeChecks{Checks: results}
	for _, r := range results {
		if a.owns(locks.Check(r.Config)) {
			merge.Owned = append(merge.Owned, r.Config)
		}
	}
	return merge
}
