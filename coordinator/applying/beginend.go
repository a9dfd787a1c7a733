package applying

import (
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// Begin returns the changes that come before any operation: those found by refreshing and moves, and outputs that
// are already known or removed.
func (a *Applier) Begin() []state.Change {
	changes := a.ownChanges(difference(a.state, a.Plan.Prior))
	if a.Plan.Mode == plan.Destroy {
		for _, o := range a.Plan.Outputs {
			changes = append(changes, state.SetOutput{Name: o.Name})
		}
		a.state.Apply(changes...)
		return changes
	}
	for _, o := range a.Plan.Outputs {
		declared := a.Code.Tree.Root.Module.Outputs[o.Name]
		switch {
		case declared == nil && o.Action == plan.Delete:
			changes = append(changes, state.SetOutput{Name: o.Name})
		case declared != nil && (o.Action == plan.Create || o.Action == plan.Update) &&
			a.Plan.Mode == plan.RefreshOnly && !declared.Ephemeral:
			// Values that depend on removed objects will never become known.
			value := cty.UnknownAsNull(o.After)
			changes = append(changes, state.SetOutput{Name: o.Name, Output: &state.Output{Value: value,
				Sensitive: o.Sensitive, Deprecated: declared.Deprecated}})
		case declared != nil && (o.Action == plan.Create || o.Action == plan.Update) &&
			o.After.IsWhollyKnown() && len(declared.Preconditions) == 0 && !declared.Ephemeral:
			changes = append(changes, state.SetOutput{Name: o.Name, Output: &state.Output{Value: o.After,
				Sensitive: o.Sensitive, Deprecated: declared.Deprecated}})
		}
	}
	changes = a.ownChanges(changes)
	a.state.Apply(changes...)
	return changes
}

// difference returns the changes from one state's objects to another's. Resources that the states share cost
// nothing.
func difference(from, to *state.State) []state.Change {
	var out []state.Change
	each := func(s *state.State, fn func(addr.Instance, state.DeposedKey, *state.Object)) {
		for abs, r := range s.Resources {
			if from.Resources[abs] == to.Resources[abs] {
				continue
			}
			for k, i := range r.Instances {
				if i.Current != nil {
					fn(abs.Instance(k), state.CurrentObject, i.Current)
				}
				for dk, o := range i.Deposed {
					fn(abs.Instance(k), dk, o)
				}
			}
		}
	}
	each(from, func(a addr.Instance, k state.DeposedKey, _ *state.Object) {
		if to.Object(a, k) == nil {
			out = append(out, state.SetObject{Addr: a, Deposed: k})
		}
	})
	each(to, func(a addr.Instance, k state.DeposedKey, o *state.Object) {
		if old := from.Object(a, k); old == nil || (old != o && !old.Equal(o)) ||
			from.ProviderOf(a) != to.ProviderOf(a) {
			out = append(out, state.SetObject{Addr: a, Deposed: k, Provider: to.ProviderOf(a), Object: o})
		}
	})
	return out
}

// End returns the changes that come after all operations: the current check results.
func (a *Applier) End() []state.Change {
	a.mu.Lock()
	defer a.mu.Unlock()
	changes := []state.Change{a.endChecks()}
	if a.Plan.Mode == plan.Destroy {
		changes = append(changes, a.dataGone()...)
	}
	a.state.Apply(changes...)
	return changes
}

// dataGone removes the data that was read, because nothing uses it any more. If the plan destroys a part of a
// configuration, only the data of that part is removed: the targets, or all data that is neither excluded nor a
// dependency of an excluded object. The caller has the lock.
func (a *Applier) dataGone() []state.Change {
	var out []state.Change
	kept := a.keptData()
	for abs, r := range a.state.Resources {
		if abs.Resource.Mode != addr.Data {
			continue
		}
		for k := range r.Instances {
			if at := abs.Instance(k); !kept(at) {
				out = append(out, state.SetObject{Addr: at})
			}
		}
	}
	return out
}

// keptData returns a function that reports whether a destroy keeps the data of an instance. The caller has the
// lock.
func (a *Applier) keptData() func(addr.Instance) bool {
	p := a.Plan
	among := func(list []addr.Target, i addr.Instance) bool {
		return slices.ContainsFunc(list, func(t addr.Target) bool { return t.Contains(i) })
	}
	if len(p.Targets) > 0 {
		return func(i addr.Instance) bool { return !among(p.Targets, i) }
	}
	needed := map[addr.ConfigResource]bool{}
	for abs, r := range a.state.Resources {
		for k, i := range r.Instances {
			if len(p.Excludes) == 0 || i.Current == nil || i.Current.Dependencies == nil ||
				!among(p.Excludes, abs.Instance(k)) {
				continue
			}
			for d := range i.Current.Dependencies.All() {
				needed[d.Value()] = true
			}
		}
	}
	return func(i addr.Instance) bool { return among(p.Excludes, i) || needed[i.Config()] }
}
