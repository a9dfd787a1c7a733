package funcs

import (
	"errors"
	"math"
	"math/big"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	"github.com/zclconf/go-cty/cty/gocty"
)

func numeric() family {
	return family{
		"abs": {stdlib.AbsoluteFunc, "Gives the distance of a number from zero: the number itself, or its " +
			"opposite when it is negative."},
		"ceil":  {stdlib.CeilFunc, "Rounds a number up to the next whole number."},
		"floor": {stdlib.FloorFunc, "Rounds a number down to the next whole number."},
		"log": {onFloats("base", func(x, base float64) float64 { return math.Log(x) / math.Log(base) }),
			"Gives the logarithm of a number in a given base."},
		"max":      {stdlib.MaxFunc, "Gives the greatest of one or more numbers."},
		"min":      {stdlib.MinFunc, "Gives the smallest of one or more numbers."},
		"parseint": {parseInt(), "Reads a string as a whole number written in a base from 2 to 62."},
		"pow":      {onFloats("power", math.Pow), "Raises a number to a power."},
		"signum":   {stdlib.SignumFunc, "Tells the sign of a whole number: -1, 0 or 1."},
	}
}

// onFloats builds a function of two numbers that computes in 64 bits. go-cty's functions panic if the result is
// undefined.
func onFloats(second string, compute func(a, b float64) float64) function.Function {
	return returning(cty.Number, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		var in [2]float64
		for i := range in {
			if err := gocty.FromCtyValue(args[i], &in[i]); err != nil {
				return cty.NilVal, err
			}
		}
		out := compute(in[0], in[1])
		if math.IsNaN(out) {
			return cty.NilVal, errors.New("the result is not defined for these numbers")
		}
		return cty.NumberFloatVal(out), nil
	}, plain("num", cty.Number), plain(second, cty.Number))
}

func parseInt() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{withMarks("number", cty.DynamicPseudoType), withMarks("base", cty.Number)},
		Type: func(args []cty.Value) (cty.Type, error) {
			if ty := args[0].Type(); ty != cty.String {
				return cty.Number, function.NewArgErrorf(0, "a string is required, not %s", ty.FriendlyName())
			}
			return cty.Number, nil
		},
		RefineResult: notNull,
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			digits, digitMarks := args[0].Unmark()
			baseVal, baseMarks := args[1].Unmark()
			var base int
			if err := gocty.FromCtyValue(baseVal, &base); err != nil {
				return cty.NilVal, function.NewArgError(1, err)
			}
			if base < 2 || base > big.MaxBase {
				return cty.NilVal, function.NewArgErrorf(1, "the base must be a whole number from 2 to %d", big.MaxBase)
			}
			n, ok := new(big.Int).SetString(digits.AsString(), base)
			if !ok {
				return cty.NilVal, function.NewArgErrorf(0, "%s is not a whole number in base %s",
					show(digits.AsString(), digitMarks), show(base, baseMarks))
			}
			return cty.NumberVal(new(big.Float).SetInt(n)).WithMarks(digitMarks, baseMarks), nil
		},
	})
}
