package coding

import (
	"math/big"

	"github.com/zclconf/go-cty/cty"
)

// precision is the number of bits of a number's mantissa that cty reads from text.
const precision = 512

// wholePrecision gives a whole number the precision that cty gives the same number in text. A number that comes from a
// float64 or an int64 has only 53 or 64 bits: cty computes sums within these bits, and writes the shortest text that
// tells the number from its neighbours within them. So 2^63 from a float64 becomes 9223372036854776000. A fraction
// keeps its bits: in more of them, the float64 for 0.1 is the text 0.1000000000000000055511151231257827.
func wholePrecision(f *big.Float) *big.Float {
	if f.Prec() >= precision || !f.IsInt() {
		return f
	}
	return new(big.Float).SetPrec(precision).Set(f)
}

// exactNumbers applies wholePrecision to all numbers in a value.
func exactNumbers(v cty.Value) cty.Value {
	if !hasNumbers(v.Type()) {
		return v
	}
	exact, err := cty.Transform(v, func(_ cty.Path, v cty.Value) (cty.Value, error) {
		if v.Type() != cty.Number || v.IsNull() || !v.IsKnown() || v.IsMarked() {
			return v, nil
		}
		return cty.NumberVal(wholePrecision(v.AsBigFloat())), nil
	})
	if err != nil {
		return v // the callback never fails
	}
	return exact
}
