package values

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/state"
)

// Region returns the region in an object's own arguments: its region or location, if known. Sensitive values
// are ignored.
func Region(v cty.Value) string {
	if v == cty.NilVal || v.IsMarked() || v.IsNull() || !v.IsKnown() || !v.Type().IsObjectType() {
		return ""
	}
	for _, name := range []string{"region", "location"} {
		if !v.Type().HasAttribute(name) {
			continue
		}
		if av := v.GetAttr(name); !av.IsMarked() && av.Type() == cty.String && av.IsKnown() && !av.IsNull() {
			return av.AsString()
		}
	}
	return ""
}

// SensitivePaths returns the paths that the expressions of a configuration made sensitive.
func SensitivePaths(v cty.Value) []cty.Path { return marks.PathsWith(v, marks.Sensitive) }

// SameMarks reports whether the same parts of two values are sensitive.
func SameMarks(a, b cty.Value) bool {
	if !a.ContainsMarked() && !b.ContainsMarked() {
		return true
	}
	pa, pb := SensitivePaths(a), SensitivePaths(b)
	if len(pa) != len(pb) {
		return false
	}
	seen := make(map[string]bool, len(pa))
	for _, p := range pa {
		seen[PathKey(p)] = true
	}
	for _, p := range pb {
		if !seen[PathKey(p)] {
			return false
		}
	}
	return true
}

// FormatPath returns a path as users write it: .a[0].b.
func FormatPath(p cty.Path) string {
	s := ""
	for _, step := range p {
		switch step := step.(type) {
		case cty.GetAttrStep:
			s += "." + step.Name
		case cty.IndexStep:
			switch {
			case step.Key.Type() == cty.String && step.Key.IsKnown() && !step.Key.IsNull():
				s += fmt.Sprintf("[%q]", step.Key.AsString())
			case step.Key.Type() == cty.Number && step.Key.IsKnown() && !step.Key.IsNull():
				s += "[" + step.Key.AsBigFloat().Text('f', -1) + "]"
			default:
				s += "[...]"
			}
		}
	}
	return s
}

// IgnorePaths returns the paths in a resource's ignore_changes.
func IgnorePaths(c *config.Resource) []cty.Path {
	var out []cty.Path
	for _, t := range c.IgnoreChanges {
		var p cty.Path
		for _, step := range t {
			switch step := step.(type) {
			case hcl.TraverseRoot:
				p = append(p, cty.GetAttrStep{Name: step.Name})
			case hcl.TraverseAttr:
				p = append(p, cty.GetAttrStep{Name: step.Name})
			case hcl.TraverseIndex:
				p = append(p, cty.IndexStep{Key: step.Key})
			}
		}
		out = append(out, p)
	}
	return out
}

// NoIdentity is the error for an import by identity of a resource type without identity.
func NoIdentity(resourceType string, subject *hcl.Range) *diag.Diagnostic {
	return diag.New(diag.Error, "Unable to determine identity schema for import identity",
		fmt.Sprintf("Objects of type %q cannot be imported by identity, because the provider declares none; "+
			"import by id.", resourceType), subject)
}

// EncodeIdentity returns the JSON of an identity object.
func EncodeIdentity(v cty.Value) []byte {
	b, err := ctyjson.Marshal(v, v.Type())
	if err != nil {
		return nil // a partly unknown identity is not stored
	}
	return b
}

// IDOf returns the attribute that identifies an object for people: the name of the attribute (id or name), and its
// value. Both are empty if the object has neither.
func IDOf(v cty.Value) (key, id string) {
	if v == cty.NilVal || v.IsNull() || !v.IsKnown() || !v.Type().IsObjectType() {
		return "", ""
	}
	return firstText(v, "id", "name")
}

// firstText returns the first of the named attributes of an object that is a known, nonempty text, with its
// name.
func firstText(v cty.Value, names ...string) (name, text string) {
	for _, name := range names {
		if !v.Type().HasAttribute(name) {
			continue
		}
		av := v.GetAttr(name)
		if !av.IsMarked() && av.Type() == cty.String && av.IsKnown() && !av.IsNull() {
			return name, av.AsString()
		}
	}
	return "", ""
}

// IDOfImport returns the attribute that identifies an object to be imported for people: the import ID, or the most
// significant attribute of an identity, with the name of the attribute.
func IDOfImport(i *plan.Importing) (key, id string) {
	if i.ID != "" {
		return "id", i.ID
	}
	if key, id = IDOf(i.Identity); key != "" || i.Identity == cty.NilVal || i.Identity.IsNull() ||
		!i.Identity.IsKnown() {
		return key, id
	}
	return firstText(i.Identity, slices.Sorted(maps.Keys(i.Identity.Type().AttributeTypes()))...)
}

// IDOfStored is IDOf for an object of the state, without decoding it completely.
func IDOfStored(o *state.Object) (key, id string) {
	if o == nil || o.Attrs == nil {
		return "", ""
	}
	for _, name := range []string{"id", "name"} {
		if text, ok := coding.TextAttribute(o.Attrs, name); ok && !hides(o.Sensitive, name) {
			return name, text
		}
	}
	return "", ""
}

// hides reports whether an attribute is among the sensitive paths.
func hides(paths []cty.Path, name string) bool {
	return slices.ContainsFunc(paths, func(p cty.Path) bool {
		if len(p) == 0 {
			return true
		}
		s, ok := p[0].(cty.GetAttrStep)
		return ok && s.Name == name
	})
}

// UnknownComputed returns a configuration in which all computed attributes without a value are unknown: the
// value of a data source or an ephemeral object that cannot be read yet.
func UnknownComputed(v cty.Value, b *schema.Block) cty.Value {
	v, pvms := v.UnmarkDeepWithPaths()
	return unknownBlock(v, b).MarkWithPaths(pvms)
}

func unknownBlock(v cty.Value, b *schema.Block) cty.Value {
	if v.IsNull() || !v.IsKnown() {
		return v
	}
	attrs := make(map[string]cty.Value, len(b.Attributes)+len(b.Blocks))
	for name, a := range b.Attributes {
		av := v.GetAttr(name)
		if av.IsNull() && a.Computed {
			av = cty.UnknownVal(a.ImpliedType())
		}
		attrs[name] = av
	}
	for name, nb := range b.Blocks {
		attrs[name] = unknownNested(v.GetAttr(name), nb)
	}
	return cty.ObjectVal(attrs)
}

func unknownNested(v cty.Value, nb *schema.NestedBlock) cty.Value {
	if v.IsNull() || !v.IsKnown() {
		return v
	}
	if nb.Nesting == schema.NestingSingle || nb.Nesting == schema.NestingGroup {
		return unknownBlock(v, &nb.Block)
	}
	if v.LengthInt() == 0 {
		return v
	}
	ty := v.Type()
	if ty.IsMapType() || ty.IsObjectType() {
		elements := map[string]cty.Value{}
		for it := v.ElementIterator(); it.Next(); {
			k, ev := it.Element()
			elements[k.AsString()] = unknownBlock(ev, &nb.Block)
		}
		if ty.IsObjectType() {
			return cty.ObjectVal(elements)
		}
		return cty.MapVal(elements)
	}
	var elements []cty.Value
	for it := v.ElementIterator(); it.Next(); {
		_, ev := it.Element()
		elements = append(elements, unknownBlock(ev, &nb.Block))
	}
	switch {
	case ty.IsSetType():
		return cty.SetVal(elements)
	case ty.IsTupleType():
		return cty.TupleVal(elements)
	default:
		return cty.ListVal(elements)
	}
}

// EphemeralValue marks the value of an ephemeral object: its sensitive parts as sensitive, and all of it as
// ephemeral.
func EphemeralValue(v cty.Value, b *schema.Block, sensitive []cty.Path) cty.Value {
	v, _ = v.UnmarkDeep()
	return MarkSensitive(v, b, sensitive).Mark(marks.Ephemeral)
}

// SentJSON returns the known, insensitive attributes of a planned object as JSON, for people who must find out
// the outcome of an operation. It is nil if there are none.
func SentJSON(v cty.Value, b *schema.Block) []byte {
	if v == cty.NilVal || v.IsNull() {
		return nil
	}
	hidden := SensitivePaths(v)
	bare, _ := v.UnmarkDeep()
	shown, err := cty.Transform(bare, func(p cty.Path, v cty.Value) (cty.Value, error) {
		if !v.IsKnown() {
			return cty.NullVal(v.Type()), nil
		}
		for _, h := range hidden {
			if p.Equals(h) {
				return cty.NullVal(v.Type()), nil
			}
		}
		return v, nil
	})
	if err != nil {
		return nil
	}
	out, err := ctyjson.Marshal(shown, b.ImpliedType())
	if err != nil {
		return nil
	}
	return out
}
