package edit

import (
	"errors"
	"fmt"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/locks"
)

// Objects is a change of single instances, which can be made on another version of the state than the one that it was
// made for.
type Objects struct {
	// Changed has the instances that are added or replaced, with all objects that they have afterwards.
	Changed *state.State
	// Removed are the instances that are removed.
	Removed []addr.Instance
}

// ObjectsOf returns the change that makes one state the next one. Changed has the lineage and the serial of prior. A
// change of outputs or checks is an error.
func ObjectsOf(prior, next *state.State) (Objects, error) {
	c := Objects{Changed: state.Empty()}
	c.Changed.Lineage, c.Changed.Serial = prior.Lineage, prior.Serial
	for _, d := range state.Differences(prior, next) {
		switch {
		case d.Output != "" || d.Checks:
			return c, errors.New("runs change the state, so only its resources can be changed, but no outputs or checks")
		case d.Now == nil:
			c.Removed = append(c.Removed, d.Instance)
		default:
			c.Changed.Apply(setInstance(next, d.Instance)...)
		}
	}
	return c, nil
}

// setInstance returns the changes that add an instance of a state to a state without it.
func setInstance(from *state.State, at addr.Instance) []state.Change {
	var out []state.Change
	set := func(key state.DeposedKey, o *state.Object) {
		out = append(out, state.SetObject{Addr: at, Deposed: key, Provider: from.ProviderOf(at), Object: o})
	}
	i := from.Instance(at)
	if i.Current != nil {
		set(state.CurrentObject, i.Current)
	}
	for _, key := range i.DeposedKeys() {
		set(key, i.Deposed[key])
	}
	return out
}

// Onto returns the changes that make the change on a state. An instance that remains is never without objects in
// between: its resource would be removed. An object in doubt is an error.
func (c Objects) Onto(prior *state.State) (out []state.Change, err error) {
	for _, at := range append(c.Changed.Addrs(), c.Removed...) {
		is := c.Changed.Instance(at)
		if is != nil {
			out = append(out, setInstance(c.Changed, at)...)
		}
		was := prior.Instance(at)
		if was == nil {
			continue
		}
		for _, key := range append(was.DeposedKeys(), state.CurrentObject) {
			switch o := prior.Object(at, key); {
			case o == nil:
			case o.Status == state.InDoubt:
				return nil, fmt.Errorf("an operation on %s is in doubt; resolve it first", at)
			case is == nil || c.Changed.Object(at, key) == nil:
				out = append(out, state.SetObject{Addr: at, Deposed: key})
			}
		}
	}
	return out, nil
}

// Locks returns what must be locked to change a state by these differences, by the same rules as for an apply.
func Locks(differences []state.Difference) locks.Set {
	set := locks.Set{}
	for _, d := range differences {
		set.Add(locks.Instance(d.Instance.String()), locks.Write)
		mode := locks.Read
		if d.Then == nil || d.Now == nil || d.ThenBy.Config() != d.NowBy.Config() {
			mode = locks.Write
		}
		set.Add(locks.Resource(d.Instance.Abs().String()), mode)
		if d.Now == nil || d.Now.Current == nil || d.Now.Current.Dependencies == nil {
			continue
		}
		for on := range d.Now.Current.Dependencies.All() {
			had := d.Then != nil && d.Then.Current != nil && d.Then.Current.Dependencies != nil &&
				d.Then.Current.Dependencies.Has(on)
			if !had {
				set.Add(locks.Dependents(on.Value()), locks.Depend)
			}
		}
	}
	return set
}
