package funcs

import (
	"fmt"
	"math"
	"math/big"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/lang/syntax"
)

// assumptions are the functions that tell, while planning, what is certain of a value that only the apply makes known.
// They fail as soon as the value is known, and is another one.
func assumptions() family {
	all := family{
		"assumeequal": {assumeEqual(), "Gives the second value, and fails if the first one turns out to differ " +
			"from it."},
		"assumenotnull": {assumeNotNull(), "Gives a value that is not null, and fails if it turns out to be null."},
		"assumestringprefix": {assumeStringPrefix(), "Gives a string that begins with a prefix, and fails if it turns " +
			"out to begin otherwise."},
	}
	for kind, of := range map[string]func(cty.Type) cty.Type{"list": cty.List, "map": cty.Map, "set": cty.Set} {
		for suffix, bounds := range map[string][]string{"": {"min", "max"}, "min": {"min"}, "max": {"max"}} {
			all["assume"+kind+"length"+suffix] = builtin{assumeLength(kind, of(cty.DynamicPseudoType), bounds), fmt.Sprintf(
				"Gives a %s, and fails if its length turns out not to be within the bounds (%s).", kind,
				strings.Join(bounds, ", "))}
		}
	}
	return all
}

// assumption is a function whose result is its first argument. The other ones say what is certain of it: valid
// returns an error about them; holds reports whether a known value, not null, is as they say; refine adds what is
// certain to an unknown one. Errors do not show arguments, which may be sensitive.
type assumption struct {
	value  function.Parameter
	others []function.Parameter
	valid  func(others []cty.Value) error
	holds  func(v cty.Value, others []cty.Value) bool
	refine func(b *cty.RefinementBuilder, others []cty.Value) *cty.RefinementBuilder
	not    string // says that the assumption does not hold
}

func (a assumption) function() function.Function {
	a.value.AllowNull, a.value.AllowUnknown, a.value.AllowMarked = true, true, true
	return function.New(&function.Spec{
		Params: append([]function.Parameter{a.value}, a.others...),
		Type: func(args []cty.Value) (cty.Type, error) {
			for _, o := range args[1:] {
				if !o.IsKnown() {
					return args[0].Type(), nil
				}
			}
			return args[0].Type(), a.valid(args[1:])
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			v, had := args[0].Unmark()
			switch {
			case !v.IsKnown():
				v = a.refine(v.Refine(), args[1:]).NewValue()
			case !v.IsNull() && !a.holds(v, args[1:]):
				return cty.NilVal, function.NewArgErrorf(0, "%s", a.not)
			}
			return v.WithMarks(had), nil
		},
	})
}

func assumeStringPrefix() function.Function {
	return assumption{
		value:  function.Parameter{Name: "str", Type: cty.String},
		others: []function.Parameter{plain("prefix", cty.String)},
		valid:  func([]cty.Value) error { return nil },
		holds: func(v cty.Value, others []cty.Value) bool {
			return strings.HasPrefix(v.AsString(), others[0].AsString())
		},
		refine: func(b *cty.RefinementBuilder, others []cty.Value) *cty.RefinementBuilder {
			return b.StringPrefix(others[0].AsString())
		},
		not: "it was assumed that this string begins with the prefix, and it does not",
	}.function()
}

// assumeLength makes the function that assumes the bounds of that name, "min" and "max", of a kind of collections.
func assumeLength(kind string, of cty.Type, bounds []string) function.Function {
	limits := func(others []cty.Value) (least, most int, err error) {
		least, most = 0, math.MaxInt
		for i, name := range bounds {
			n, accuracy := others[i].AsBigFloat().Int64()
			switch {
			case accuracy != big.Exact || n < 0:
				return 0, 0, function.NewArgErrorf(1+i, "a length is a whole number that is not negative")
			case name == "min":
				least = int(n)
			default:
				most = int(n)
			}
		}
		if least > most {
			return 0, 0, function.NewArgErrorf(2, "the maximum is less than the minimum")
		}
		return least, most, nil
	}
	a := assumption{
		value: function.Parameter{Name: kind, Type: of},
		valid: func(others []cty.Value) error {
			_, _, err := limits(others)
			return err
		},
		holds: func(v cty.Value, others []cty.Value) bool {
			least, most, err := limits(others)
			n := v.LengthInt()
			return err == nil && least <= n && n <= most
		},
		refine: func(b *cty.RefinementBuilder, others []cty.Value) *cty.RefinementBuilder {
			least, most, err := limits(others)
			if err != nil {
				return b
			}
			if b = b.CollectionLengthLowerBound(least); most < math.MaxInt {
				b = b.CollectionLengthUpperBound(most)
			}
			return b
		},
		not: "an assumption about the length of this " + kind + " does not hold",
	}
	for _, name := range bounds {
		a.others = append(a.others, plain(name+"_length", cty.Number))
	}
	return a.function()
}

func assumeNotNull() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{anything("value")},
		Type:   func(args []cty.Value) (cty.Type, error) { return args[0].Type(), nil },
		Impl: func(args []cty.Value, ty cty.Type) (cty.Value, error) {
			v, had := args[0].Unmark()
			switch {
			case ty == cty.DynamicPseudoType:
				return cty.NilVal, function.NewArgErrorf(0, "nothing can be assumed of a value whose type is not known yet: "+
					"give it one, as in assumenotnull(convert(..., string))")
			case v.IsNull():
				return cty.NilVal, function.NewArgErrorf(0, "it was assumed that this value is not null, and it is")
			}
			return v.RefineNotNull().WithMarks(had), nil
		},
	})
}

// assumeEqual gives its second argument. Marks of the first one that protect its content are not taken over: the
// content is that of the second one.
func assumeEqual() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{anything("actual"), anything("expected")},
		Type: func(args []cty.Value) (cty.Type, error) {
			if _, err := syntax.Convert(args[0], args[1].Type()); err != nil {
				return cty.NilType, function.NewArgErrorf(0, "a value of type %s cannot be equal to one of type %s",
					args[0].Type().FriendlyName(), args[1].Type().FriendlyName())
			}
			return args[1].Type(), nil
		},
		Impl: func(args []cty.Value, ty cty.Type) (cty.Value, error) {
			actual, err := syntax.Convert(args[0], ty)
			if err != nil {
				return cty.NilVal, function.NewArgError(0, err)
			}
			actual, had := actual.UnmarkDeepWithPaths()
			expected, own := args[1].UnmarkDeepWithPaths()
			if same := actual.Equals(expected); same.IsKnown() && same.False() {
				return cty.NilVal, function.NewArgErrorf(0, "it was assumed that this value is equal to the second one, and "+
					"it is not")
			}
			for _, m := range had {
				delete(m.Marks, marks.Sensitive)
				delete(m.Marks, marks.Ephemeral)
				if len(m.Marks) > 0 {
					own = append(own, m)
				}
			}
			return expected.MarkWithPaths(own), nil
		},
	})
}
