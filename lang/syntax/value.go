package syntax

import (
	"errors"
	"fmt"
	"math/big"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/bounds"
)

// The errors of values beyond the bounds.
var (
	ErrTooDeep = fmt.Errorf("the value is nested more than %d levels deep, which is the most that a value may be",
		bounds.Depth)
	ErrTooMany = fmt.Errorf("the value has more than %d elements, which is the most that a value may have",
		bounds.Elements)
	ErrTooLong = fmt.Errorf("the text has more than %d MiB, which is the most that a computed text may have",
		bounds.String>>20)
	ErrTooGreat = errors.New("the number has more than 100000 digits, which is the most that a number may have")
)

// MaxDigits is how many digits a number may have. They are all written where it becomes text, and reading them takes
// time with their square.
const MaxDigits = 100_000

// CheckValue reports whether a value is within the bounds. Values can share parts, so that a few of them stand for more
// elements than the memory holds once they are written: shared parts count wherever they occur.
func CheckValue(v cty.Value) error {
	if ty := v.Type(); ty.IsPrimitiveType() && ty != cty.Number {
		return nil // the functions and templates that make texts bound them
	}
	w := weigher{elements: bounds.Elements, text: -1}
	return w.value(v, 0)
}

// CheckWritten is CheckValue for a value that is written as text: the texts in it are counted, too.
func CheckWritten(v cty.Value) error {
	w := weigher{elements: bounds.Elements, text: bounds.String, escaped: 2 * bounds.String}
	return w.value(v, 0)
}

// CheckType reports whether a type is within the bounds of values.
func CheckType(ty cty.Type) error {
	w := weigher{elements: bounds.Elements}
	return w.kind(ty, 0)
}

// weigher counts what a value consists of.
type weigher struct {
	elements int
	text     int // negative: texts are not counted
	escaped  int // their length in JSON
}

// escapedLength returns the length of a text in JSON.
func escapedLength(text string) int {
	n := len(text)
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"', c == '\\', c == '\n', c == '\r', c == '\t':
			n++
		case c < ' ', c == '<', c == '>', c == '&':
			n += len(`\u0000`) - 1
		}
	}
	return n
}

func (w *weigher) value(v cty.Value, depth int) error {
	if w.elements--; w.elements < 0 {
		return ErrTooMany
	}
	if depth > bounds.Depth {
		return ErrTooDeep
	}
	v, _ = v.Unmark()
	ty := v.Type()
	if !v.IsKnown() || v.IsNull() {
		return w.kind(ty, depth)
	}
	switch {
	case ty == cty.Number:
		if digits(v.AsBigFloat()) > MaxDigits {
			return ErrTooGreat
		}
	case ty == cty.String && w.text >= 0:
		text := v.AsString()
		w.text -= len(text)
		if w.escaped -= escapedLength(text); w.text < 0 || w.escaped < 0 {
			return ErrTooLong
		}
	case ty.IsTupleType() || ty.IsObjectType() || ty.IsCollectionType():
		if v.LengthInt() == 0 {
			return w.kind(ty, depth)
		}
		for it := v.ElementIterator(); it.Next(); {
			_, element := it.Element()
			if err := w.value(element, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// kind counts a type that no value shows.
func (w *weigher) kind(ty cty.Type, depth int) error {
	if depth > bounds.Depth {
		return ErrTooDeep
	}
	if w.elements--; w.elements < 0 {
		return ErrTooMany
	}
	switch {
	case ty.IsCollectionType():
		return w.kind(ty.ElementType(), depth+1)
	case ty.IsTupleType():
		for _, element := range ty.TupleElementTypes() {
			if err := w.kind(element, depth+1); err != nil {
				return err
			}
		}
	case ty.IsObjectType():
		for _, attribute := range ty.AttributeTypes() {
			if err := w.kind(attribute, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// digits returns about how many decimal digits a number has before and after its point.
func digits(f *big.Float) int {
	exponent := f.MantExp(nil) // 0 for infinities
	return max(exponent, -exponent)*3/10 + 8
}
