package syntax

import (
	"errors"
	"math/big"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// Reading a number takes time with the square of its digits, and cannot be interrupted. A number with a great exponent
// takes its full length in memory as soon as something is added to it. So all texts that become numbers are measured
// before: literals, texts that an operator, a function or an argument takes as a number, and those that functions
// decode. Then every number is within the bounds, and only products and quotients can leave them.

// ErrManyDigits is the error of a text with too many long numbers.
var ErrManyDigits = errors.New("the text has too many numbers with thousands of digits")

// maxReading is the most that the squares of the lengths of all numbers in a text may add up to: seconds.
const maxReading = 1e12

// shortest is the length of the shortest text of a number that is too great: 1e100000.
const shortest = 8

// Numerals adds up the time that reading the numbers of one text takes.
type Numerals struct{ time float64 }

// Add adds a number, or any other text.
func (n *Numerals) Add(text string) error {
	if err := CheckNumeral(text); err != nil {
		return err
	}
	if n.time += float64(len(text)) * float64(len(text)); n.time > maxReading {
		return ErrManyDigits
	}
	return nil
}

// mantissa returns how many bytes at the beginning of a text are of the digits of a number.
func mantissa(text string) int { return len(text) - len(strings.TrimLeft(text, "+-.0123456789")) }

// CheckNumeral reports whether a text can be read as a number within the bounds. The text need not be a number.
func CheckNumeral(text string) error {
	if len(text) < shortest {
		return nil
	}
	mantissa := mantissa(text)
	switch {
	case mantissa > MaxDigits:
		return ErrTooGreat
	case mantissa == 0 || mantissa == len(text) || !strings.ContainsRune("eEpP", rune(text[mantissa])):
		return nil
	}
	// Reading a number with an exponent is fast; only its digits are many.
	f, _, err := big.ParseFloat(text, 10, 512, big.ToNearestEven)
	if err == nil && digits(f) > MaxDigits {
		return ErrTooGreat
	}
	return nil // the conversion reports the error
}

// Convert is convert.Convert for values that may have been made to take long: texts that become numbers are measured.
func Convert(v cty.Value, want cty.Type) (cty.Value, error) {
	if err := CheckConversion(v, want); err != nil {
		return cty.UnknownVal(want.WithoutOptionalAttributesDeep()), err
	}
	return convert.Convert(v, want)
}

// CheckConversion reports whether all texts in a value that become numbers in a conversion are within the bounds.
func CheckConversion(v cty.Value, want cty.Type) error {
	got := v.Type()
	switch {
	case want == cty.Number && got == cty.String:
		if v, _ = v.Unmark(); v.IsKnown() && !v.IsNull() {
			return CheckNumeral(v.AsString())
		}
		return nil
	case want == cty.DynamicPseudoType || want.IsPrimitiveType() || got.IsPrimitiveType() || !HasNumbers(want) ||
		got.Equals(want):
		return nil
	}
	if v, _ = v.Unmark(); !v.IsKnown() || v.IsNull() || !v.CanIterateElements() {
		return nil
	}
	for it := v.ElementIterator(); it.Next(); {
		key, element := it.Element()
		if into, ok := within(want, key); ok {
			if err := CheckConversion(element, into); err != nil {
				return err
			}
		}
	}
	return nil
}

// within returns the type that an element of a value gets in a conversion of the value; false if it is left out.
func within(want cty.Type, key cty.Value) (cty.Type, bool) {
	switch {
	case want.IsCollectionType():
		return want.ElementType(), true
	case want.IsTupleType() && key.Type() == cty.Number:
		i, _ := key.AsBigFloat().Int64()
		types := want.TupleElementTypes()
		if i < int64(len(types)) {
			return types[i], true
		}
	case want.IsObjectType() && key.Type() == cty.String:
		if key, _ = key.Unmark(); key.IsKnown() && want.HasAttribute(key.AsString()) {
			return want.AttributeType(key.AsString()), true
		}
	}
	return cty.NilType, false
}

// HasNumbers reports whether a type is that of a number, or contains one.
func HasNumbers(ty cty.Type) bool {
	switch {
	case ty == cty.Number:
		return true
	case ty.IsCollectionType():
		return HasNumbers(ty.ElementType())
	case ty.IsTupleType():
		for _, element := range ty.TupleElementTypes() {
			if HasNumbers(element) {
				return true
			}
		}
	case ty.IsObjectType():
		for _, attribute := range ty.AttributeTypes() {
			if HasNumbers(attribute) {
				return true
			}
		}
	}
	return false
}

// Converted is an expression whose value will be converted to a type.
type Converted struct {
	hcl.Expression
	Want cty.Type
}

// UnwrapExpression is for HCL, which asks what kind of expression it is.
func (c Converted) UnwrapExpression() hcl.Expression { return c.Expression }

// Value implements hcl.Expression.
func (c Converted) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	v, diags := c.Expression.Value(ctx)
	if diags.HasErrors() {
		return v, diags
	}
	if err := CheckConversion(v, c.Want); err != nil {
		return cty.DynamicVal, tooLargeValue(c.Range(), err)
	}
	return v, diags
}

// Operand is an operand or an argument that becomes a number, if the operator or the function wants one.
type Operand struct {
	*hclsyntax.ParenthesesExpr
	taker *taker // a pointer, since expressions are keys of maps
}

// taker reports whether a value of an evaluation can be taken.
type taker struct {
	value func(ctx *hcl.EvalContext, v cty.Value) error
}

// UnwrapExpression is for HCL, which asks what kind of expression it is.
func (o Operand) UnwrapExpression() hcl.Expression { return o.Expression }

// Around returns the operand with another expression that has the same value.
func (o Operand) Around(e hclsyntax.Expression) Operand { return Operand{around(e), o.taker} }

// Value implements hcl.Expression.
func (o Operand) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	v, diags := o.Expression.Value(ctx)
	if diags.HasErrors() {
		return v, diags
	}
	if err := o.taker.value(ctx, v); err != nil {
		return cty.DynamicVal, tooLargeValue(o.Range(), err)
	}
	return v, diags
}

// number returns an expression as the operand of an operator that takes numbers.
func number(e hclsyntax.Expression) hclsyntax.Expression {
	if _, literal := e.(*hclsyntax.LiteralValueExpr); literal {
		return e
	}
	return Operand{around(e), &taker{func(ctx *hcl.EvalContext, v cty.Value) error {
		spend(ctx, v)
		return CheckConversion(v, cty.Number)
	}}}
}

// index returns an expression as an index of a collection. In a map it is a key, which can look like a number with a
// great exponent. To know which it is, the collection is evaluated, if it is a reference. If it were evaluated twice in
// other cases, that would double with each index that follows another one: there the key is refused, unless the
// collection is certainly none of numbered elements.
func index(e, collection hclsyntax.Expression) hclsyntax.Expression {
	switch e := e.(type) {
	case *hclsyntax.LiteralValueExpr:
		return e
	case *hclsyntax.ScopeTraversalExpr:
		if e.Traversal.RootName() == "count" {
			return e // it is looked for by its type
		}
	}
	return Operand{around(e), &taker{func(ctx *hcl.EvalContext, v cty.Value) error {
		spend(ctx, v)
		text, ok := plainText(v)
		if !ok || CheckNumeral(text) == nil {
			return nil
		}
		if mantissa(text) > MaxDigits || numbered(collection, ctx) {
			return ErrTooGreat
		}
		return nil
	}}}
}

// numbered reports whether an expression may have a value whose elements have numbers.
func numbered(e hclsyntax.Expression, ctx *hcl.EvalContext) bool {
	switch e := Plain(e).(type) {
	case *hclsyntax.ScopeTraversalExpr:
		v, diags := e.Value(ctx)
		return !diags.HasErrors() && sequence(v.Type())
	case *hclsyntax.ParenthesesExpr:
		return numbered(e.Expression, ctx)
	case *hclsyntax.ForExpr:
		return e.KeyExpr == nil
	case *hclsyntax.ObjectConsExpr:
		return false
	}
	return true
}

// sequence reports whether the indexes of a type are numbers.
func sequence(ty cty.Type) bool { return ty.IsListType() || ty.IsTupleType() }

// boundKeys makes those keys of a traversal bounded, in place, that are texts and numbers that are too great.
func boundKeys(t hcl.Traversal) {
	for i, part := range t {
		if step, is := part.(hcl.TraverseIndex); is {
			if text, ok := plainText(step.Key); ok && CheckNumeral(text) != nil {
				t[i] = greatKey{step}
			}
		}
	}
}

// greatKey is the key of a map that would be a number too great for the index of a list. HCL tells lists' indexes that
// are whole from those that are not by writing them out.
type greatKey struct{ hcl.TraverseIndex }

// TraversalStep implements hcl.Traverser.
func (k greatKey) TraversalStep(v cty.Value) (cty.Value, hcl.Diagnostics) {
	if sequence(v.Type()) {
		return cty.DynamicVal, tooLargeValue(k.SrcRange, ErrTooGreat)
	}
	return k.TraverseIndex.TraversalStep(v)
}

// argument returns an argument of a call.
func argument(e hclsyntax.Expression, call *hclsyntax.FunctionCallExpr, i int) hclsyntax.Expression {
	if _, literal := e.(*hclsyntax.LiteralValueExpr); literal {
		return e
	}
	spread := call.ExpandFinal && i == len(call.Args)-1
	return Operand{around(e), &taker{func(ctx *hcl.EvalContext, v cty.Value) error {
		if text, ok := plainText(v); ok && !numeric(text) || !ok && v.Type().IsPrimitiveType() {
			return nil
		}
		if call.Name == "optional" && ctx == nil { // of a type: the type of the default is no value
			return checkTexts(v)
		}
		if !spread {
			spend(ctx, v)
			return CheckConversion(v, parameter(ctx, call.Name, i))
		}
		plain, _ := v.Unmark()
		if !plain.IsKnown() || plain.IsNull() || !plain.CanIterateElements() {
			return nil
		}
		at := i
		for it := plain.ElementIterator(); it.Next(); at++ {
			_, element := it.Element()
			spend(ctx, element)
			if err := CheckConversion(element, parameter(ctx, call.Name, at)); err != nil {
				return err
			}
		}
		return nil
	}}}
}

// numeric reports whether a text may be a number that is too great.
func numeric(text string) bool {
	return len(text) >= shortest && strings.IndexByte("+-.0123456789", text[0]) >= 0
}

func plainText(v cty.Value) (string, bool) {
	if v, _ = v.Unmark(); v.Type() == cty.String && v.IsKnown() && !v.IsNull() {
		return v.AsString(), true
	}
	return "", false
}

// parameter returns the type of a parameter; dynamic if it is not known.
func parameter(ctx *hcl.EvalContext, name string, i int) cty.Type {
	for ; ctx != nil; ctx = ctx.Parent() {
		fn, ok := ctx.Functions[name]
		if !ok {
			continue
		}
		if params := fn.Params(); i < len(params) {
			return params[i].Type
		}
		if rest := fn.VarParam(); rest != nil {
			return rest.Type
		}
		break
	}
	return cty.DynamicPseudoType
}

// spend takes the time from the budget of the loops around an evaluation that reading a text as a number takes.
func spend(ctx *hcl.EvalContext, v cty.Value) {
	text, ok := plainText(v)
	if !ok || len(text) <= longNumeral {
		return
	}
	if n := mantissa(text); n > longNumeral {
		if b, _ := budgetOf(ctx); b != nil {
			b.write(n * n / longNumeral)
		}
	}
}

// longNumeral is how many digits a text has whose conversion to a number takes longer than making the text.
const longNumeral = 1000

// checkTexts checks all texts in a value.
func checkTexts(v cty.Value) error {
	if text, ok := plainText(v); ok {
		return CheckNumeral(text)
	}
	if v, _ = v.Unmark(); !v.IsKnown() || v.IsNull() || !v.CanIterateElements() {
		return nil
	}
	for it := v.ElementIterator(); it.Next(); {
		_, element := it.Element()
		if err := checkTexts(element); err != nil {
			return err
		}
	}
	return nil
}

// hasLong reports whether a text may have a number that is too great, or a long one.
func hasLong(src []byte) bool {
	run := 0
	for i, b := range src {
		switch {
		case b >= '0' && b <= '9' || b == '.':
			if run++; run > longNumeral {
				return true
			}
		case run > 0 && (b == 'e' || b == 'E') && greatExponent(src[i+1:]):
			return true
		default:
			run = 0
		}
	}
	return false
}

// greatExponent reports whether a text begins with an exponent of at least as many digits as MaxDigits has.
func greatExponent(src []byte) bool {
	i := 0
	if len(src) > 0 && (src[0] == '+' || src[0] == '-') {
		i = 1
	}
	from := i
	for i < len(src) && src[i] >= '0' && src[i] <= '9' {
		i++
	}
	return i-from >= shortest-2
}

func tooLargeValue(at hcl.Range, err error) hcl.Diagnostics {
	return beyond(at, "Value too large", "The value of this expression cannot be used: "+err.Error()+".")
}

func tooGreat(at hcl.Range, err error) hcl.Diagnostics {
	return problem(at, "Number too large", "This number cannot be read: "+err.Error()+".")
}

// NumeralLen returns how many bytes at the beginning of a text could be of one number.
func NumeralLen[T string | []byte](text T) int {
	i := 0
	for i < len(text) && strings.IndexByte("+-.eE0123456789", text[i]) >= 0 {
		i++
	}
	return i
}
