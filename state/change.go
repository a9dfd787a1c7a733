package state

import (
	"cmp"
	"maps"
	"slices"

	"github.com/millipede-iac/millipede/lang/addr"
)

// Change is one step from a state to the next. The implementations are the types of this file; applying one takes
// constant time.
type Change interface {
	apply(*State)
}

// SetObject sets an object, or removes it if Object is nil. Instances without objects, and resources without
// instances, are removed.
type SetObject struct {
	Addr     addr.Instance
	Deposed  DeposedKey
	Provider addr.ProviderInstance // ignored when Object is nil
	Object   *Object
}

// SetOutput sets a root module output, or removes it if Output is nil.
type SetOutput struct {
	Name   string
	Output *Output
}

// SetChecks replaces the check results.
type SetChecks struct{ Checks []CheckResult }

// MergeChecks merges the check results of a run with those of other runs that change the state at the same time.
type MergeChecks struct {
	// Checks are all results that the run's configuration contains. Stored results that are not among them are
	// removed.
	Checks []CheckResult
	// Owned are the configurations of the results that the run has locked. Others are only added if they do not
	// exist.
	Owned []string
}

// MoveInstance moves everything of one instance to another address, which must be free.
type MoveInstance struct{ From, To addr.Instance }

// Apply applies changes. It panics if a change is impossible (a move to an occupied address): callers must check.
func (s *State) Apply(changes ...Change) {
	for _, c := range changes {
		c.apply(s)
	}
}

func (c SetObject) apply(s *State) {
	abs := c.Addr.Abs()
	was := s.Instance(c.Addr)
	if was == nil && c.Object == nil {
		return
	}
	r := s.Own(abs)
	i := &Instance{}
	if was != nil {
		*i = *was
		i.Deposed = maps.Clone(was.Deposed)
	}
	r.Instances[c.Addr.Key] = i
	if c.Object != nil {
		r.Provider = c.Provider.Config()
		i.ProviderKey = c.Provider.Key
		i.ProviderModule = c.Provider.Module
	}
	switch {
	case c.Deposed == CurrentObject:
		i.Current = c.Object
	case c.Object == nil:
		delete(i.Deposed, c.Deposed)
	default:
		if i.Deposed == nil {
			i.Deposed = map[DeposedKey]*Object{}
		}
		i.Deposed[c.Deposed] = c.Object
	}
	if i.Current == nil && len(i.Deposed) == 0 {
		delete(r.Instances, c.Addr.Key)
		if len(r.Instances) == 0 {
			delete(s.Resources, abs)
		}
	}
}

func (c SetOutput) apply(s *State) {
	if c.Output == nil {
		delete(s.Outputs, c.Name)
		return
	}
	s.Outputs[c.Name] = c.Output
}

func (c SetChecks) apply(s *State) { s.Checks = c.Checks }

func (c MergeChecks) apply(s *State) { s.Checks = c.Onto(s.Checks) }

// Onto returns the merged check results, given the stored ones.
func (c MergeChecks) Onto(stored []CheckResult) []CheckResult {
	there := map[string]CheckResult{}
	for _, r := range stored {
		there[r.Config] = r
	}
	var out []CheckResult
	for _, r := range c.Checks {
		if other, ok := there[r.Config]; ok && !slices.Contains(c.Owned, r.Config) {
			r = other
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b CheckResult) int { return cmp.Compare(a.Config, b.Config) })
	return out
}

func (c MoveInstance) apply(s *State) {
	from := s.own(c.From.Abs())
	if from == nil || from.Instances[c.From.Key] == nil {
		panic("state: nothing to move at " + c.From.String())
	}
	to := s.own(c.To.Abs())
	if to == nil {
		to = &Resource{Provider: from.Provider, Instances: map[addr.Key]*Instance{}}
		s.Resources[c.To.Abs()] = to
	}
	if to.Instances[c.To.Key] != nil {
		panic("state: cannot move to " + c.To.String() + ", it is occupied")
	}
	to.Instances[c.To.Key] = from.Instances[c.From.Key]
	delete(from.Instances, c.From.Key)
	if len(from.Instances) == 0 {
		delete(s.Resources, c.From.Abs())
	}
}
