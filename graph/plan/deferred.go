package plan

import (
	"slices"

	"github.com/millipede-iac/millipede/lang/addr"
)

// DeferReason is why a plan leaves something out for a later round, in the words of the plan's JSON form.
type DeferReason string

// The reasons. The last four come from providers, too.
const (
	// DeferCountUnknown: it is not known which instances there are.
	DeferCountUnknown DeferReason = "instance_count_unknown"
	// DeferPrerequisite: something that it depends on is deferred.
	DeferPrerequisite   DeferReason = "deferred_prereq"
	DeferResourceConfig DeferReason = "resource_config_unknown"
	DeferProviderConfig DeferReason = "provider_config_unknown"
	DeferAbsent         DeferReason = "absent_prereq"
	DeferUnknown        DeferReason = "unknown"
)

// Deferred is an instance that the plan leaves out for a later round, or all instances of a block whose instances are
// not known yet.
type Deferred struct {
	// Addr has addr.WildcardKey in place of each key that is not known.
	Addr   addr.Instance
	Reason DeferReason
	// Detail is the provider's own explanation; it may be empty.
	Detail string
	// On are the blocks that it waits for, as text, sorted.
	On []string
	// Change is the change as far as it is known; nil for an ephemeral object.
	Change *Change
}

// Stays reports whether nothing about the object would change, as far as it is known.
func (d *Deferred) Stays() bool { return d.Change != nil && d.Change.Action == NoOp }

// Round is a round of an apply with deferral that has ended.
type Round struct {
	// Waiting are the addresses of Plan.Deferred.
	Waiting []addr.Instance
	// Changed are the changes of this round and those before.
	Changed []*Change
}

// Left returns the round of a plan that was applied after another round; earlier is nil for the first one.
func (p *Plan) Left(earlier *Round) *Round {
	r := &Round{}
	for _, d := range p.Deferred {
		r.Waiting = append(r.Waiting, d.Addr)
	}
	if earlier != nil {
		r.Changed = slices.Clone(earlier.Changed)
	}
	for _, c := range p.Changes {
		if c.Action != NoOp && c.Action != Read {
			r.Changed = append(r.Changed, c)
		}
	}
	return r
}

// Covers reports whether an instance is among those that the round has left out.
func (r *Round) Covers(a addr.Instance) bool {
	return slices.ContainsFunc(r.Waiting, func(w addr.Instance) bool { return matches(w, a) })
}

// Progress reports whether a plan makes a change after this round that may let more become known; r is nil for the
// first round. Changes of what was not left out do not count: they may recur in each round.
func (r *Round) Progress(p *Plan) bool {
	return slices.ContainsFunc(p.Changes, func(c *Change) bool {
		return (c.Action != NoOp || c.Importing != nil) && (r == nil || r.Covers(c.Addr))
	})
}

// matches reports whether an address with wildcards stands for another address, which may have wildcards, too.
func matches(pattern, a addr.Instance) bool {
	if pattern.Resource != a.Resource || pattern.Key != addr.WildcardKey && pattern.Key != a.Key {
		return false
	}
	if pattern.Module == a.Module {
		return true
	}
	p, s := pattern.Module.Steps(), a.Module.Steps()
	return slices.EqualFunc(p, s, func(p, s addr.Step) bool {
		return p.Name == s.Name && (p.Key == addr.WildcardKey || p.Key == s.Key)
	})
}
