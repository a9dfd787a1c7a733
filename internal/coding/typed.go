package coding

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/zclconf/go-cty/cty"
)

const (
	// valueDepth is the maximum depth of values: far more than real values have, and far less than the stack
	// allows.
	valueDepth = 10_000
	// typeDepth is the maximum depth of a type in its JSON form, where an object takes two levels.
	typeDepth = 256
	// jsonValueDepth is the maximum depth of a value in its JSON form.
	jsonValueDepth = 512

	// maxDigits is the maximum length of a number's text, and maxExponent its maximum size as a power of two:
	// without them a few bytes ("1e600000000") would become a text of gigabytes when the number is shown or sent.
	maxDigits   = 20_000
	maxExponent = 1 << 16
)

// checkValue is CheckBounds for a value of the given type. It also checks parts that only the type distinguishes
// from plain strings: numbers as text, and the types of dynamic values.
func checkValue(data []byte, ty cty.Type) error {
	rest, err := skipTyped(data, ty, valueDepth)
	if err == nil && len(rest) != 0 {
		err = ErrMalformed
	}
	return err
}

// skipTyped returns the data after the first value, which should have the given type. Values of another form are
// skipped: the decoder reports them.
func skipTyped(data []byte, ty cty.Type, depth int) ([]byte, error) {
	if len(data) == 0 || depth == 0 {
		return nil, ErrMalformed
	}
	switch {
	case ty == cty.Number:
		if text, _, ok := textOf(data); ok {
			if err := checkNumber(string(text)); err != nil {
				return nil, err
			}
		}
	case ty == cty.DynamicPseudoType:
		if n, rest, ok := lengthOf(data, array); ok && n == 2 {
			return skipDynamic(rest, depth-1)
		}
	case ty.IsListType() || ty.IsSetType():
		if n, rest, ok := lengthOf(data, array); ok {
			return skipEach(rest, n, depth-1, func(uint64) cty.Type { return ty.ElementType() })
		}
	case ty.IsTupleType():
		if n, rest, ok := lengthOf(data, array); ok && n == uint64(ty.Length()) {
			types := ty.TupleElementTypes()
			return skipEach(rest, n, depth-1, func(i uint64) cty.Type { return types[i] })
		}
	case ty.IsMapType():
		if n, rest, ok := lengthOf(data, mapping); ok {
			return skipEntries(rest, n, depth-1, func([]byte) cty.Type { return ty.ElementType() })
		}
	case ty.IsObjectType():
		if n, rest, ok := lengthOf(data, mapping); ok {
			types := ty.AttributeTypes()
			return skipEntries(rest, n, depth-1, func(name []byte) cty.Type { return types[string(name)] })
		}
	}
	return skipValue(data, depth)
}

// skipDynamic skips the two parts of a dynamic value: its type, and the value.
func skipDynamic(data []byte, depth int) ([]byte, error) {
	kind, rest, ok := textOf(data)
	if !ok {
		return skipValues(data, 2, depth+1)
	}
	switch string(kind) { // nearly all are one of these
	case `"string"`, `"bool"`:
		return skipValue(rest, depth)
	case `"number"`:
		return skipTyped(rest, cty.Number, depth)
	}
	ty, err := UnmarshalType(kind)
	if err != nil {
		return nil, err
	}
	return skipTyped(rest, ty, depth)
}

func skipEach(data []byte, n uint64, depth int, ty func(i uint64) cty.Type) ([]byte, error) {
	if n > uint64(len(data)) { // each needs at least a byte
		return nil, ErrMalformed
	}
	var err error
	for i := range n {
		if data, err = skipTyped(data, ty(i), depth); err != nil {
			return nil, err
		}
	}
	return data, nil
}

func skipEntries(data []byte, n uint64, depth int, ty func(key []byte) cty.Type) ([]byte, error) {
	if 2*n > uint64(len(data)) {
		return nil, ErrMalformed
	}
	for range n {
		key, rest, ok := textOf(data)
		of := cty.NilType
		if ok {
			of = ty(key)
		} else {
			var err error
			if rest, err = skipValue(data, depth); err != nil {
				return nil, err
			}
		}
		var err error
		if of == cty.NilType {
			data, err = skipValue(rest, depth)
		} else {
			data, err = skipTyped(rest, of, depth)
		}
		if err != nil {
			return nil, err
		}
	}
	return data, nil
}

// checkNumber rejects a number whose text would be disproportionately long.
func checkNumber(text string) error {
	if len(text) > maxDigits {
		return fmt.Errorf("%w: a number of %d digits", ErrMalformed, len(text))
	}
	if len(text) < 6 || !strings.ContainsAny(text, "eEpP") {
		return nil
	}
	f, _, err := big.ParseFloat(text, 10, 64, big.ToNearestEven)
	if err != nil {
		return nil //nolint:nilerr // the decoder reports it
	}
	return checkMagnitude(f)
}

func checkMagnitude(f *big.Float) error {
	if f.IsInf() || f.Sign() == 0 {
		return nil
	}
	if e := f.MantExp(nil); e > maxExponent || e < -maxExponent {
		return fmt.Errorf("%w: a number has too many digits", ErrMalformed)
	}
	return nil
}

// checkMagnitudes checks all numbers in a value.
func checkMagnitudes(v cty.Value) error {
	if !hasNumbers(v.Type()) {
		return nil
	}
	return cty.Walk(v, func(_ cty.Path, v cty.Value) (bool, error) {
		if v.Type() == cty.Number && v.IsKnown() && !v.IsNull() {
			return false, checkMagnitude(v.AsBigFloat())
		}
		return true, nil
	})
}

// hasNumbers reports whether a value of the type can contain a number.
func hasNumbers(ty cty.Type) bool {
	switch {
	case ty == cty.Number, ty == cty.DynamicPseudoType:
		return true
	case ty.IsCollectionType():
		return hasNumbers(ty.ElementType())
	case ty.IsTupleType():
		for _, e := range ty.TupleElementTypes() {
			if hasNumbers(e) {
				return true
			}
		}
	case ty.IsObjectType():
		for _, a := range ty.AttributeTypes() {
			if hasNumbers(a) {
				return true
			}
		}
	}
	return false
}
