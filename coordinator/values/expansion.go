package values

import (
	"fmt"
	"path/filepath"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/bounds"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
)

// Mode is how a block repeats.
type Mode byte

// The modes.
const (
	Single Mode = iota
	Count
	ForEach
	// Enabled is a single instance that may be absent.
	Enabled
)

// Expansion has the instances of a block that may repeat.
type Expansion struct {
	Mode Mode
	// Keys are sorted. They are empty if Unknown is set: an error was reported, or the instances are not known yet, and
	// the store defers.
	Keys    []addr.Key
	Unknown bool
	each    map[addr.Key]eval.Repetition
	wild    eval.Repetition
}

// Repetition returns the values of count and each for the instance with this key.
func (e *Expansion) Repetition(k addr.Key) eval.Repetition {
	if k == addr.WildcardKey {
		return e.wild
	}
	if rep, ok := e.each[k]; ok {
		return rep
	}
	return RepetitionOf(k)
}

// RepetitionOf returns the values that follow from the key alone: each.value is missing.
func RepetitionOf(k addr.Key) eval.Repetition {
	if n, ok := k.Int(); ok {
		return eval.Repetition{CountIndex: cty.NumberIntVal(int64(n))}
	}
	if s, ok := k.Str(); ok {
		return eval.Repetition{EachKey: cty.StringVal(s)}
	}
	return eval.Once
}

// Has reports whether there is an instance with this key.
func (e *Expansion) Has(k addr.Key) bool {
	switch e.Mode {
	case ForEach:
		_, ok := e.each[k]
		return ok
	case Count:
		n, ok := k.Int()
		return ok && 0 <= n && n < len(e.Keys)
	default:
		return len(e.Keys) == 1 && k == addr.NoKey
	}
}

// modeOf returns how a block with these arguments repeats.
func modeOf(count, forEach, enabled hcl.Expression) Mode {
	switch {
	case count != nil:
		return Count
	case forEach != nil:
		return ForEach
	case enabled != nil:
		return Enabled
	default:
		return Single
	}
}

// expand evaluates the repetition arguments of a block in m. In validation, one instance stands for all.
// exclude is the address for the -exclude option that is proposed if the number of instances is unknown.
func (m *Module) expand(count, forEach, enabled hcl.Expression, exclude string) (Expansion, diag.List) {
	e := Expansion{Mode: modeOf(count, forEach, enabled), Keys: []addr.Key{addr.NoKey}}
	validating := m.store.Phase == Validating
	o := eval.Repeating{AllowUnknown: validating || m.store.Defers, Exclude: exclude}
	var known bool
	var diags diag.List
	switch e.Mode {
	case Count:
		var n int
		n, known, diags = m.Scope.EvalCount(m.store.Code.Expr(count), o)
		if validating {
			return e.wildcard(unknownRepetition(Count)), diags
		}
		if diags = diags.Append(m.store.crowded(n, count)); diags.HasErrors() {
			break
		}
		e.Keys = make([]addr.Key, n)
		for i := range e.Keys {
			e.Keys[i] = addr.IntKey(i)
		}
	case ForEach:
		var elements []eval.Element
		elements, known, diags = m.Scope.EvalForEach(m.store.Code.Expr(forEach), o)
		if validating {
			return e.wildcard(unknownRepetition(ForEach)), diags
		}
		if diags = diags.Append(m.store.crowded(len(elements), forEach)); diags.HasErrors() {
			break
		}
		e.each = make(map[addr.Key]eval.Repetition, len(elements))
		e.Keys = make([]addr.Key, len(elements))
		for i, el := range elements {
			e.Keys[i] = addr.StringKey(el.Name)
			e.each[e.Keys[i]] = el.Repetition()
		}
	case Enabled:
		if validating {
			return e, nil // OpenTofu evaluates the argument in planning
		}
		var on bool
		on, known, diags = m.Scope.EvalEnabled(m.store.Code.Expr(enabled), o)
		if !on {
			e.Keys = nil
		}
	default:
		return e, nil
	}
	if !known || diags.HasErrors() {
		e.Keys, e.Unknown = nil, true
		e.wild = unknownRepetition(e.Mode)
	}
	return e, diags
}

// unknownRepetition has the values of count and each where the instances are not known.
func unknownRepetition(m Mode) eval.Repetition {
	switch m {
	case Count:
		return eval.Repetition{CountIndex: cty.UnknownVal(cty.Number).RefineNotNull()}
	case ForEach:
		return eval.Repetition{EachKey: cty.UnknownVal(cty.String).RefineNotNull(), EachValue: cty.DynamicVal}
	default:
		return eval.Once
	}
}

// crowded returns an error if a run would have more instances than it can handle with the n of another block. Each
// takes memory, and a few modules inside each other have billions.
func (s *Store) crowded(n int, argument hcl.Expression) diag.List {
	if s.instances.Add(int64(n)) <= bounds.Instances {
		return nil
	}
	s.instances.Add(-int64(n))
	return diag.Errors("Too many instances", fmt.Sprintf("With the %d instances of this block, all blocks of the run "+
		"would have more than %d instances together, which is the most that a run can handle.", n, bounds.Instances),
		argument.Range().Ptr())
}

// wildcard returns the expansion with the single instance of validation.
func (e Expansion) wildcard(rep eval.Repetition) Expansion {
	e.Keys, e.wild = []addr.Key{addr.WildcardKey}, rep
	return e
}

func slashed(dir string) string {
	if dir == "" {
		return "."
	}
	return filepath.ToSlash(dir)
}
