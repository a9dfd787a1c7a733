package addr

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
)

// Move moves From to To in every instance of Module: a moved block. Which moves apply, and in which order, is
// decided by the planner.
type Move struct {
	Module   Module
	From, To *MoveEndpoint
	// scope is the kind of objects that the move renames.
	scope moveScope
}

// moveScope is a kind of objects that a move renames.
type moveScope byte

const (
	movesCall     moveScope = iota + 1 // every instance of a module call, each keeping its key
	movesModule                        // one instance of a module call
	movesResource                      // every instance of a resource, each keeping its key
	movesInstance                      // one instance of a resource
)

// NewMove pairs the endpoints of a moved block of a module. It returns false if one is a module and the other a
// resource, which is not possible.
func NewMove(in Module, from, to *MoveEndpoint) (Move, bool) {
	if from.IsModule != to.IsModule {
		return Move{}, false
	}
	m := Move{Module: in, From: from, To: to, scope: movesInstance}
	switch {
	case from.IsModule && from.keyed() || from.IsModule && to.keyed():
		m.scope = movesModule
	case from.IsModule:
		m.scope = movesCall
	case from.Key == NoKey && to.Key == NoKey:
		m.scope = movesResource
	}
	return m, true
}

// ImpliedMove is the move of one instance that follows from adding or removing count. rng is where the
// resource is declared.
func ImpliedMove(from, to Instance, rng hcl.Range) Move {
	end := func(i Instance) *MoveEndpoint {
		return &MoveEndpoint{Steps: i.Module.Steps(), Resource: i.Resource, Key: i.Key, Range: rng}
	}
	return Move{From: end(from), To: end(to), scope: movesInstance}
}

// keyed reports whether the module endpoint has a key at its end.
func (e *MoveEndpoint) keyed() bool {
	return len(e.Steps) > 0 && e.Steps[len(e.Steps)-1].Key != NoKey
}

// IsModule reports whether the move renames a module call or an instance of one.
func (m Move) IsModule() bool { return m.scope == movesCall || m.scope == movesModule }

// MoveModule returns the address of the module instance after the move, and whether the move covers it: it is From,
// or below it.
func (m Move) MoveModule(mi ModuleInstance) (ModuleInstance, bool) {
	if !m.IsModule() || mi.IsRoot() {
		return mi, false
	}
	base, rel, ok := m.split(mi)
	n := len(m.From.Steps)
	if !ok || len(rel) < n {
		return mi, false
	}
	for i, s := range m.From.Steps {
		whole := m.scope == movesCall && i == n-1
		if rel[i].Name != s.Name || !whole && rel[i].Key != s.Key {
			return mi, false
		}
	}
	out := ModuleInstanceOf(base...)
	for i, s := range m.To.Steps {
		if m.scope == movesCall && i == len(m.To.Steps)-1 {
			s.Key = rel[n-1].Key
		}
		out = out.Child(s.Name, s.Key)
	}
	for _, s := range rel[n:] {
		out = out.Child(s.Name, s.Key)
	}
	return out, true
}

// MoveResource returns the address of the resource after the move, and whether the move covers all of it.
func (m Move) MoveResource(r AbsResource) (AbsResource, bool) {
	if m.IsModule() {
		module, ok := m.MoveModule(r.Module)
		return AbsResource{module, r.Resource}, ok
	}
	if m.scope != movesResource || r.Resource != m.From.Resource {
		return r, false
	}
	module, ok := m.moveModule(r.Module)
	if !ok {
		return r, false
	}
	return AbsResource{module, m.To.Resource}, true
}

// MoveInstance returns the address of the resource instance after the move, and whether the move covers it.
func (m Move) MoveInstance(i Instance) (Instance, bool) {
	if m.scope != movesInstance {
		r, ok := m.MoveResource(i.Abs())
		return r.Instance(i.Key), ok
	}
	if i.Resource != m.From.Resource || i.Key != m.From.Key {
		return i, false
	}
	module, ok := m.moveModule(i.Module)
	if !ok {
		return i, false
	}
	return Instance{module, m.To.Resource, m.To.Key}, true
}

// moveModule moves the module instance that contains a resource: it must match From exactly.
func (m Move) moveModule(mi ModuleInstance) (ModuleInstance, bool) {
	base, rel, ok := m.split(mi)
	if !ok || len(rel) != len(m.From.Steps) {
		return mi, false
	}
	for i, s := range m.From.Steps {
		if rel[i] != s {
			return mi, false
		}
	}
	out := ModuleInstanceOf(base...)
	for _, s := range m.To.Steps {
		out = out.Child(s.Name, s.Key)
	}
	return out, true
}

// split splits the steps of a module instance at the module that declares the move.
func (m Move) split(mi ModuleInstance) (base, rel []Step, ok bool) {
	steps := mi.Steps()
	path := m.Module.Path()
	if len(path) > len(steps) {
		return nil, nil, false
	}
	for i, name := range path {
		if steps[i].Name != name {
			return nil, nil, false
		}
	}
	return steps[:len(path)], steps[len(path):], true
}

// FromKey and ToKey return text that is equal exactly for endpoints that match the same objects, with [*] for any
// key. They are used to order and compare moves.
func (m Move) FromKey() string { return m.pattern(m.From) }

// ToKey: see FromKey.
func (m Move) ToKey() string { return m.pattern(m.To) }

func (m Move) pattern(e *MoveEndpoint) string {
	mi := ModuleInstanceOf(m.steps(e)...)
	switch m.scope {
	case movesResource:
		return Instance{mi, e.Resource, WildcardKey}.String()
	case movesInstance:
		return Instance{mi, e.Resource, e.Key}.String()
	default:
		return mi.String()
	}
}

// steps returns the absolute path of an endpoint, with WildcardKey for every step whose key does not matter.
func (m Move) steps(e *MoveEndpoint) []Step {
	var out []Step
	for _, name := range m.Module.Path() {
		out = append(out, Step{name, WildcardKey})
	}
	out = append(out, e.Steps...)
	if m.scope == movesCall {
		out[len(out)-1].Key = WildcardKey
	}
	return out
}

// SelectsModule reports whether the module instance matches From or To, or contains the resource to which that
// refers.
func (m Move) SelectsModule(e *MoveEndpoint, mi ModuleInstance) bool {
	return stepsMatch(m.steps(e), mi.Steps(), true)
}

// SelectsResource reports whether an endpoint of a resource move refers to the resource, or to an instance of it.
func (m Move) SelectsResource(e *MoveEndpoint, r AbsResource) bool {
	return !m.IsModule() && e.Resource == r.Resource && m.SelectsModule(e, r.Module)
}

// ChainsFrom reports whether m can move an object that prev has moved: m's From can match prev's To.
func (m Move) ChainsFrom(prev Move) bool { return sameThing(m, m.From, prev, prev.To) }

// sameThing reports whether two endpoints can match the same object at the same level.
func sameThing(am Move, a *MoveEndpoint, bm Move, b *MoveEndpoint) bool {
	if !stepsMatch(am.steps(a), bm.steps(b), true) {
		return false
	}
	switch {
	case am.IsModule() || bm.IsModule():
		return am.IsModule() && bm.IsModule()
	case am.scope == movesResource || bm.scope == movesResource:
		return am.scope == bm.scope && a.Resource == b.Resource
	default:
		return a.Resource == b.Resource && a.Key == b.Key
	}
}

// DependsOn reports whether other must be executed before m: because m moves an object that other has moved, or because
// an endpoint of one is inside an endpoint of the other. A move of an inner object comes before the move of the object
// that contains it, because afterwards nothing is at its From; a move into an object comes after the move that brings
// that object there. Both together make a cycle.
func (m Move) DependsOn(other Move) bool {
	if m.ChainsFrom(other) {
		return true
	}
	if !within(m, m.From, other, other.To) && !within(m, m.To, other, other.To) &&
		!within(other, other.From, m, m.From) && !within(other, other.To, m, m.From) {
		return false
	}
	// A move within a module is inside both endpoints of an outer module's move that only changes its key; the
	// outer move comes first then.
	return len(m.Module.Path()) >= len(other.Module.Path()) || !m.rekeysModule()
}

// within reports whether an endpoint of m is inside an endpoint of other.
func within(m Move, a *MoveEndpoint, other Move, b *MoveEndpoint) bool {
	inner, outer := m.steps(a), other.steps(b)
	if !stepsMatch(outer, inner, false) {
		return false
	}
	switch other.scope {
	case movesCall: // the instances of a call are inside it
		return m.scope != movesCall || len(inner) > len(outer)
	case movesModule:
		return !m.IsModule() || len(inner) > len(outer)
	case movesResource:
		return len(inner) == len(outer) && m.scope == movesInstance && a.Resource == b.Resource
	default:
		return false
	}
}

// rekeysModule reports whether the move only changes keys of module instances.
func (m Move) rekeysModule() bool {
	return m.scope == movesModule && slices.EqualFunc(m.From.Steps, m.To.Steps, func(a, b Step) bool {
		return a.Name == b.Name
	})
}

// stepsMatch reports whether pattern matches a prefix of steps, or all of them. A WildcardKey on either side
// matches any key.
func stepsMatch(pattern, steps []Step, all bool) bool {
	if len(pattern) > len(steps) || all && len(pattern) != len(steps) {
		return false
	}
	for i, p := range pattern {
		s := steps[i]
		if p.Name != s.Name || p.Key != s.Key && p.Key != WildcardKey && s.Key != WildcardKey {
			return false
		}
	}
	return true
}
