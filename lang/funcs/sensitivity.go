package funcs

import (
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

func sensitivity() family {
	return family{
		"ephemeralasnull": {ephemeralAsNull(), "Replaces what is ephemeral in a value by null, so that the rest can " +
			"be stored."},
		"issensitive":  {isSensitive(), "Tells whether a value itself, not something inside it, is sensitive."},
		"nonsensitive": {remarked(withoutSensitive), "Gives a sensitive value as one that may be shown."},
		"sensitive": {remarked(func(v cty.Value) cty.Value { return v.Mark(marks.Sensitive) }),
			"Gives a value as a sensitive one, which is not shown."},
	}
}

// remarked builds a function that changes only the marks of its argument.
func remarked(change func(cty.Value) cty.Value) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{anything("value")},
		Type:   func(args []cty.Value) (cty.Type, error) { return args[0].Type(), nil },
		Impl:   func(args []cty.Value, _ cty.Type) (cty.Value, error) { return change(args[0]), nil },
	})
}

func withoutSensitive(v cty.Value) cty.Value {
	bare, all := v.Unmark()
	delete(all, marks.Sensitive)
	return bare.WithMarks(all)
}

// isSensitive returns an unknown value for an unknown argument: the value that becomes known may not have the mark,
// as with the condition of `unknown ? sensitive("a") : "b"`.
func isSensitive() function.Function {
	return returning(cty.Bool, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		if !args[0].IsKnown() {
			return cty.UnknownVal(cty.Bool), nil
		}
		return cty.BoolVal(marks.Has(args[0], marks.Sensitive)), nil
	}, anything("value"))
}

func ephemeralAsNull() function.Function {
	return remarked(func(v cty.Value) cty.Value {
		v, err := cty.Transform(v, func(_ cty.Path, v cty.Value) (cty.Value, error) {
			bare, all := v.Unmark()
			if _, ephemeral := all[marks.Ephemeral]; !ephemeral && v.IsKnown() {
				return v, nil
			}
			delete(all, marks.Ephemeral)
			if !bare.IsKnown() { // without refinements: an ephemeral value becomes null
				return cty.UnknownVal(bare.Type()).WithMarks(all), nil
			}
			return cty.NullVal(bare.Type()).WithMarks(all), nil
		})
		if err != nil {
			panic("funcs: the transformation of an ephemeral value has no errors of its own: " + err.Error())
		}
		return v
	})
}
