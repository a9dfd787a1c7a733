package funcs

import (
	"errors"
	"reflect"

	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/lang/syntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
)

func conversions() family {
	return family{
		"convert": {toConstraint(), "Turns a value into one of a type, which is written as that of a variable."},
		"tobool": {to(cty.Bool), "Turns a value into true or false; of the strings only \"true\" and \"false\" can " +
			"be turned."},
		"tolist": {to(cty.List(cty.DynamicPseudoType)),
			"Turns a set or tuple into a list, whose elements get one type."},
		"tomap": {to(cty.Map(cty.DynamicPseudoType)), "Turns an object into a map, whose elements get one type."},
		"tonumber": {boundedNullable(to(cty.Number), digits),
			"Turns a value into a number; a string must hold a decimal number."},
		"toset": {to(cty.Set(cty.DynamicPseudoType)), "Turns a list or tuple into a set, whose elements get one " +
			"type; equal elements become one."},
		"tostring": {boundedNullable(to(cty.String), number), "Turns a number or a bool into a string."},
	}
}

// Type is the result type of the console's type(): a capsule around the cty.Type of its argument.
var Type = cty.Capsule("type", reflect.TypeFor[cty.Type]())

// TypeMark marks values computed from a result of type(), so that the console can reject anything but such a result
// alone.
const TypeMark marks.Mark = "type"

func console() family {
	value := anything("value")
	value.AllowMarked = false
	return family{"type": {
		function.New(&function.Spec{
			Params: []function.Parameter{value},
			Type:   function.StaticReturnType(Type),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				ty := args[0].Type()
				return cty.CapsuleVal(Type, &ty).Mark(TypeMark), nil
			},
		}),
		"Shows the type of a value.",
	}}
}

// TypeOf returns the result of a call of the console's type(); ok is false for every other value. A value computed
// from such a result is an error.
func TypeOf(v cty.Value) (ty cty.Type, ok bool, err error) {
	if !marks.Contains(v, TypeMark) {
		return cty.NilType, false, nil
	}
	v, _ = v.UnmarkDeep()
	if !v.Type().Equals(Type) || v.IsNull() || !v.IsKnown() {
		return cty.NilType, false, errors.New("the function type() exists in the console only, and its result can be " +
			"shown, but not be used in another expression")
	}
	return *v.EncapsulatedValue().(*cty.Type), true, nil
}

// to builds the explicit conversion to a type or to a kind of type. Its parameter is untyped, so that errors are
// those of an explicit conversion.
func to(want cty.Type) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{
			Name: "v", Type: cty.DynamicPseudoType, AllowNull: true, AllowDynamicType: true, AllowMarked: true,
		}},
		Type: func(args []cty.Value) (cty.Type, error) {
			got := args[0].Type()
			if !got.Equals(want) && convert.GetConversionUnsafe(got, want) == nil {
				return cty.NilType, function.NewArgErrorf(0, "cannot convert %s to %s", got.FriendlyName(),
					want.FriendlyNameForConstraint())
			}
			return want, nil
		},
		Impl: func(args []cty.Value, ty cty.Type) (cty.Value, error) {
			v, err := syntax.Convert(args[0], ty)
			if err != nil {
				return cty.NilVal, function.NewArgErrorf(0, "cannot convert %s to %s%s",
					convertee(args[0]), want.FriendlyNameForConstraint(), requirement(args[0].Type(), want))
			}
			return v, nil
		},
	})
}

// toConstraint builds the conversion to a type that is an argument.
func toConstraint() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{anything("value"), {Name: "type", Type: syntax.ConstraintType}},
		Type: func(args []cty.Value) (cty.Type, error) {
			v, err := constrained(args[0], args[1])
			return v.Type(), err
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return constrained(args[0], args[1]) },
	})
}

// constrained converts a value to a type constraint, as a variable of that type does.
func constrained(v, constraint cty.Value) (cty.Value, error) {
	c := constraint.EncapsulatedValue().(*syntax.Constraint)
	if bare, had := v.Unmark(); c.Defaults != nil && !bare.IsNull() {
		v = c.Defaults.Apply(bare).WithMarks(had)
	}
	out, err := syntax.Convert(v, c.Type)
	if err != nil {
		return cty.DynamicVal, function.NewArgErrorf(0, "cannot convert %s to %s%s", convertee(v),
			c.Type.FriendlyNameForConstraint(), requirement(v.Type(), c.Type))
	}
	return out, nil
}

// convertee describes a value that cannot be converted: a string by its text, anything else by its type.
func convertee(v cty.Value) string {
	ty := v.Type()
	switch {
	case marks.Contains(v, marks.Ephemeral):
		return "this ephemeral " + ty.FriendlyName()
	case marks.Contains(v, marks.Sensitive):
		return "this sensitive " + ty.FriendlyName()
	}
	if v, _ = v.Unmark(); ty == cty.String && !v.IsNull() {
		return show(v.AsString())
	}
	return ty.FriendlyName()
}

// requirement says which strings can be converted.
func requirement(from, to cty.Type) string {
	switch {
	case from == cty.String && to == cty.Bool:
		return `; a string must be "true" or "false"`
	case from == cty.String && to == cty.Number:
		return "; a string must hold a decimal number"
	default:
		return ""
	}
}
