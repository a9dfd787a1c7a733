package funcs

import (
	"errors"
	"math"
	"math/big"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	"github.com/zclconf/go-cty/cty/gocty"

	"github.com/millipede-iac/millipede/lang/syntax"
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
		"pow":      {pow(), "Raises a number to a power."},
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
		result := big.NewFloat(out)
		if result.IsInt() {
			result.SetPrec(precision)
		}
		return cty.NumberVal(result), nil
	}, plain("num", cty.Number), plain(second, cty.Number))
}

// precision is the number of bits of a number's mantissa in which the language computes: that of numbers in text. A
// number with fewer bits is also written with fewer digits: 2^63 with the 53 bits of a float64 is 9223372036854776000.
const precision = 512

// pow raises whole numbers exactly if the result is within the range of 64-bit floats, and other numbers in 64 bits.
func pow() function.Function {
	return returning(cty.Number, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		inexact, err := onFloats("power", math.Pow).Call(args)
		if err != nil || inexact.AsBigFloat().IsInf() {
			return inexact, err
		}
		base, exponent := args[0].AsBigFloat(), args[1].AsBigFloat()
		if !base.IsInt() || !exponent.IsInt() || exponent.Sign() < 0 {
			return inexact, nil
		}
		whole, _ := base.Int(nil)
		times, _ := exponent.Int(nil) // large only for the bases -1, 0 and 1, since the result is finite
		return wholeNumber(whole.Exp(whole, times, nil)), nil
	}, plain("num", cty.Number), plain("power", cty.Number))
}

// wholeNumber returns a whole number as a value.
func wholeNumber(n *big.Int) cty.Value {
	return cty.NumberVal(new(big.Float).SetPrec(precision).SetInt(n))
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
			if len(digits.AsString()) > syntax.MaxDigits {
				return cty.NilVal, function.NewArgError(0, syntax.ErrTooGreat)
			}
			n, ok := new(big.Int).SetString(digits.AsString(), base)
			if !ok {
				return cty.NilVal, function.NewArgErrorf(0, "%s is not a whole number in base %s",
					show(digits.AsString(), digitMarks), show(base, baseMarks))
			}
			return wholeNumber(n).WithMarks(digitMarks, baseMarks), nil
		},
	})
}
