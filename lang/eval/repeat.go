package eval

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/gocty"

	"github.com/millipede-iac/millipede/internal/bounds"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/marks"
)

// Cause is the Extra of a diagnostic about a value that was rejected because of a property of its inputs. Views
// show the references in the expression that have this property, which they leave out otherwise.
type Cause byte

const (
	// BecauseUnknown means that a part of the expression is unknown.
	BecauseUnknown Cause = iota + 1
	// BecauseConfidential means that a part of the expression is sensitive or ephemeral.
	BecauseConfidential
)

// Repeating are the options for evaluating count, for_each and enabled.
type Repeating struct {
	// AllowUnknown accepts an unknown value, as in validation. The result reports that it is unknown.
	AllowUnknown bool
	// AllowTuple accepts a tuple in for_each, as import blocks do.
	AllowTuple bool
	// Exclude is the address to suggest for -exclude if the value is unknown; empty if there is none to exclude.
	Exclude string
}

// EvalCount evaluates a count argument. known is false after errors, too.
func (s *Scope) EvalCount(expr *Expr, o Repeating) (n int, known bool, diags diag.List) {
	const summary = "Invalid count argument"
	v, ctx, diags := expr.Bind(s).eval(cty.Number, Once, cty.NilVal)
	if diags.HasErrors() {
		return 0, false, diags
	}
	v, found := v.Unmark() // showing the number of instances is the user's choice, even if it is sensitive
	problem := func(cause any, detail string) diag.List {
		return append(diags, about(expr.source, ctx, cause, summary, detail))
	}
	if _, ephemeral := found[marks.Ephemeral]; ephemeral {
		return 0, false, problem(BecauseConfidential,
			"The value is ephemeral or made from an ephemeral value, and instance keys would reveal it.")
	}
	switch {
	case v.IsNull():
		return 0, false, problem(nil, `The value of "count" is null. A whole number is required.`)
	case !v.IsKnown():
		if o.AllowUnknown {
			return 0, false, diags
		}
		return 0, false, problem(BecauseUnknown,
			`The value of "count" comes from resource attributes that are known only after apply, so the number of instances cannot be planned.`+
				"\n\n"+o.advice("count"))
	}
	if err := gocty.FromCtyValue(v, &n); err != nil {
		return 0, false, problem(nil, fmt.Sprintf(`The value of "count" does not fit: %s.`, err))
	}
	if n < 0 {
		return 0, false, problem(nil, `The value of "count" does not fit: it must be zero or more.`)
	}
	if n > bounds.Instances {
		return 0, false, problem(nil,
			fmt.Sprintf(`The value of "count" does not fit: %d instances are more than any run can handle.`, n))
	}
	return n, true, diags
}

// Element is one element of a for_each value.
type Element struct {
	// Name is the key as text.
	Name       string
	Key, Value cty.Value
}

// Repetition returns the values of each for the instance of this element.
func (e Element) Repetition() Repetition { return Repetition{EachKey: e.Key, EachValue: e.Value} }

// EvalForEach evaluates a for_each argument. The elements are sorted by their keys. known is false after errors, too.
func (s *Scope) EvalForEach(expr *Expr, o Repeating) (elements []Element, known bool, diags diag.List) {
	v, ctx, diags := expr.Bind(s).eval(cty.DynamicPseudoType, Once, cty.NilVal)
	if diags.HasErrors() {
		return nil, false, diags
	}
	before := len(diags)
	problem := func(cause any, detail string) {
		diags = append(diags, about(expr.source, ctx, cause, "Invalid for_each argument", detail))
	}
	ty := v.Type()
	v, found := v.Unmark()
	if _, sensitive := found[marks.Sensitive]; sensitive {
		problem(BecauseConfidential, "The value is sensitive or made from a sensitive value, and instance keys would "+
			"reveal it.")
	}
	if _, ephemeral := found[marks.Ephemeral]; ephemeral {
		problem(BecauseConfidential, "The value is ephemeral or made from an ephemeral value, and instance keys "+
			"would reveal it.")
	}
	unknown := "value may have keys or elements"
	switch {
	case ty == cty.DynamicPseudoType:
	case ty.IsMapType() || ty.IsObjectType():
		unknown = "map has keys"
	case ty.IsTupleType() && o.AllowTuple:
		unknown = "tuple has elements"
	case ty.IsSetType():
		unknown = "set has elements"
		if e := ty.ElementType(); e != cty.String && e != cty.DynamicPseudoType {
			problem(nil, fmt.Sprintf("The value does not fit: a set has to be of strings here, and this one is of %s.",
				e.FriendlyName()))
			return nil, false, diags
		}
	default:
		allowed := "a map or a set of strings"
		if o.AllowTuple {
			allowed = "a map, a set of strings or a tuple"
		}
		problem(nil, fmt.Sprintf("The value does not fit: %s is needed, and this is %s.", allowed,
			withArticle(ty.FriendlyName())))
		return nil, false, diags
	}
	switch {
	case v.IsNull():
		problem(nil, "The value does not fit: it is null.")
	case !v.IsKnown() || (ty.IsSetType() && !v.IsWhollyKnown()):
		if !o.AllowUnknown {
			problem(BecauseUnknown, fmt.Sprintf(
				"The %s that come from resource attributes known only after apply, so it cannot be planned which "+
					"instances there are.\n\n"+
					"A map helps whose keys are written in the configuration and whose values alone are known "+
					"later.\n\n%s", unknown, o.advice("for_each")))
		}
		return nil, false, diags
	}
	if len(diags) > before {
		return nil, false, diags
	}
	elements = make([]Element, 0, v.LengthInt())
	for it := v.ElementIterator(); it.Next(); {
		key, value := it.Element()
		if ty.IsSetType() {
			if value.IsNull() {
				problem(nil, "The value does not fit: a set must have no null elements here.")
				return nil, false, diags
			}
			key = value
		}
		elements = append(elements, newElement(key, value))
	}
	return elements, true, diags
}

func newElement(key, value cty.Value) Element {
	if key.Type() == cty.Number { // of a tuple
		return Element{key.AsBigFloat().Text('f', -1), key, value}
	}
	return Element{key.AsString(), key, value}
}

// EvalEnabled evaluates the enabled argument of a lifecycle block. known is false after errors, too.
func (s *Scope) EvalEnabled(expr *Expr, o Repeating) (enabled, known bool, diags diag.List) {
	v, ctx, diags := expr.Bind(s).eval(cty.DynamicPseudoType, Once, cty.NilVal)
	if diags.HasErrors() {
		return false, false, diags
	}
	before := len(diags)
	problem := func(cause any, detail string) {
		diags = append(diags, about(expr.source, ctx, cause, "Invalid enabled argument", detail))
	}
	v, found := v.Unmark()
	if _, sensitive := found[marks.Sensitive]; sensitive {
		problem(BecauseConfidential, "The value is sensitive or made from a sensitive value, and whether there is an "+
			"instance would reveal it.")
	}
	if _, ephemeral := found[marks.Ephemeral]; ephemeral {
		problem(BecauseConfidential, "The value is ephemeral, or made from an ephemeral value.")
	}
	if v.IsNull() {
		problem(nil, "The value does not fit: it is null.")
	}
	if !v.IsKnown() && !o.AllowUnknown {
		problem(BecauseUnknown, "The value is known only after apply, so it cannot be planned whether there is an "+
			"instance.")
	}
	if len(diags) > before || !v.IsKnown() {
		return false, false, diags
	}
	v, err := convert.Convert(v, cty.Bool)
	if err != nil {
		problem(nil, fmt.Sprintf("The value does not fit: %s.", err))
		return false, false, diags
	}
	return v.True(), true, diags
}

// advice suggests how to proceed although a value is unknown.
func (o Repeating) advice(argument string) string {
	if o.Exclude == "" {
		return fmt.Sprintf("With the option -target, the dependencies of %s can be applied first, and the rest after "+
			"that.",
			argument)
	}
	return fmt.Sprintf("With the planning option -exclude=%s, everything else can be applied first, and this after it.",
		shellWord(o.Exclude))
}

// about returns an error about the value of an expression.
func about(expr hcl.Expression, ctx *hcl.EvalContext, cause any, summary, detail string) *diag.Diagnostic {
	d := diag.New(diag.Error, summary, detail, expr.Range().Ptr())
	d.Expression, d.EvalContext, d.Extra = expr, ctx, cause
	return d
}
