package view

import (
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
)

// delta is the difference between two values, ready to be shown. A delta whose action is NoOp is an unchanged
// value.
type delta struct {
	kind   deltaKind
	action plan.Action
	// forces is set if this difference causes the replacement of the object.
	forces bool

	// before and after are set for primitives.
	before, after *datum
	// items are the elements, or else the attributes and elements whose names are at the same index of names,
	// sorted.
	items  []*delta
	names  []string
	blocks []blockDelta
	// inner is the content of an unknown value (its value before; nil if there was none), of a sensitive one, or of
	// a value whose type changes; in the last case other is the new value.
	inner, other *delta
	// hidBefore and hidAfter are set if the value is sensitive before or after.
	hidBefore, hidAfter bool
}

// blockDelta are the nested blocks of one type.
type blockDelta struct {
	name string
	// items are the blocks. For nesting by map, labels are their keys; otherwise it is nil.
	items               []*delta
	labels              []string
	forces              bool
	hidBefore, hidAfter bool
}

type deltaKind byte

const (
	primitiveDelta deltaKind = iota
	listDelta
	nestedListDelta
	setDelta
	nestedSetDelta
	mapDelta
	nestedMapDelta
	objectDelta
	nestedObjectDelta
	bodyDelta
	unknownDelta
	sensitiveDelta
	sensitiveBlockDelta
	writeOnlyDelta
	retypedDelta
)

// pair is a value before and after. If strict is set, a null is a value of its own, as in lists and maps; otherwise
// it equals an absent value, as for attributes.
type pair struct {
	before, after *datum
	strict        bool
	// openEnded makes every child unknown afterwards: the value itself is unknown, and its shape is shown.
	openEnded bool
	// forces are the paths that force a replacement; shown are the paths to show.
	forces, shown pathSet
}

func (p pair) missing(d *datum) bool {
	return d == nil || !p.strict && d.kind == nullKind && !d.unknown
}

// action is the change of the value as a whole.
func (p pair) action() plan.Action {
	switch noBefore, noAfter := p.missing(p.before), p.missing(p.after); {
	case noBefore && noAfter:
		return plan.NoOp
	case noBefore:
		return plan.Create
	case noAfter:
		return plan.Delete
	case !p.after.unknown && same(p.before, p.after):
		return plan.NoOp
	default:
		return plan.Update
	}
}

// base returns the action of a compound value before its parts are compared.
func (p pair) base() plan.Action {
	switch noBefore, noAfter := p.before.nothing(), p.after.nothing(); {
	case noBefore == noAfter:
		return plan.NoOp
	case noBefore:
		return plan.Create
	default:
		return plan.Delete
	}
}

// merge returns the action of a compound value, given its action so far and that of another part.
func merge(current, part plan.Action) plan.Action {
	switch part {
	case plan.NoOp, current:
		return current
	default:
		return plan.Update
	}
}

// attr returns the pair of an attribute, where null means absent.
func (p pair) attr(name string) pair {
	c := p.element(name)
	c.strict = false
	return c
}

// element returns the pair of an element of a map.
func (p pair) element(name string) pair {
	c := pair{before: p.before.attr(name), after: p.after.attr(name), strict: true, forces: p.forces.child(name),
		shown: p.shown.child(name)}
	if p.openEnded {
		c.after = unknownDatum
	}
	return c.settled()
}

// item returns the pair of two elements of a sequence; an index of -1 means that there is none.
func (p pair) item(b, a int) pair {
	c := pair{strict: true}
	at := b
	if b < 0 {
		at = a
	} else {
		c.before = p.before.item(b)
	}
	if a >= 0 {
		c.after = p.after.item(a)
	}
	c.forces, c.shown = p.forces.at(at), p.shown.at(at)
	return c
}

// settled returns a pair without a difference if the value is not to be shown; otherwise p.
func (p pair) settled() pair {
	if !p.shown.any() {
		p.after = p.before
		p.openEnded = false
	}
	return p
}

// pathSet is a set of paths, relative to a position within them.
type pathSet struct {
	paths []cty.Path
	// deep adds everything below the end of a path; everywhere adds everything.
	deep, everywhere bool
}

var everywhere = pathSet{everywhere: true}

// ends reports whether one of the paths ends here.
func (t pathSet) ends() bool {
	if t.everywhere {
		return true
	}
	for _, p := range t.paths {
		if len(p) == 0 {
			return true
		}
	}
	return false
}

// any reports whether one of the paths passes through this position.
func (t pathSet) any() bool { return t.everywhere || len(t.paths) > 0 }

func (t pathSet) child(name string) pathSet {
	return t.down(func(s cty.PathStep) bool {
		switch s := s.(type) {
		case cty.GetAttrStep:
			return s.Name == name
		case cty.IndexStep:
			return s.Key.Type() == cty.String && s.Key.IsKnown() && !s.Key.IsNull() && s.Key.AsString() == name
		}
		return false
	})
}

func (t pathSet) at(i int) pathSet {
	return t.down(func(s cty.PathStep) bool {
		step, ok := s.(cty.IndexStep)
		if !ok || !step.Key.IsKnown() || step.Key.IsNull() {
			return false
		}
		switch step.Key.Type() {
		case cty.Number:
			n, _ := step.Key.AsBigFloat().Int64()
			return int(n) == i
		case cty.String:
			// In the language a["0"] means a[0].
			n, err := strconv.ParseFloat(step.Key.AsString(), 64)
			return err == nil && int(n) == i
		}
		return false
	})
}

func (t pathSet) down(follows func(cty.PathStep) bool) pathSet {
	if t.everywhere || len(t.paths) == 0 {
		return t
	}
	out := pathSet{deep: t.deep}
	for _, p := range t.paths {
		switch {
		case len(p) == 0:
			if t.deep {
				out.paths = append(out.paths, p)
			}
		case follows(p[0]):
			out.paths = append(out.paths, p[1:])
		}
	}
	return out
}

// linesInCommon reports whether two strings have several lines each and share one.
func linesInCommon(a, b *datum) bool {
	if a == nil || b == nil || a.kind != stringKind || b.kind != stringKind || !strings.Contains(a.text+b.text, "\n") {
		return false
	}
	lines := map[string]bool{}
	for line := range strings.SplitSeq(a.text, "\n") {
		lines[line] = true
	}
	for line := range strings.SplitSeq(b.text, "\n") {
		if lines[line] {
			return true
		}
	}
	return false
}
