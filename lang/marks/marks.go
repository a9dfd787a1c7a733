// Package marks names the marks that values of the language carry: sensitive, ephemeral, deprecated.
//
// A mark is a property of a value that travels through expressions by the rules of go-cty. This package
// knows no expression, no schema and no printer.
package marks

import "github.com/zclconf/go-cty/cty"

// Mark is a mark without a payload.
type Mark string

const (
	// Sensitive marks a value that must not be shown.
	Sensitive Mark = "sensitive"
	// Ephemeral marks a value that lives only as long as one phase of one run and is never stored.
	Ephemeral Mark = "ephemeral"
)

// Deprecated marks a value that comes from a deprecated variable or output; each carries its own message.
type Deprecated struct {
	// Message is what the author of the deprecation wrote.
	Message string
	// Origin is the address of the deprecated object, for the warning.
	Origin string
	// Remote tells that it belongs to a module from elsewhere, which its user cannot change.
	Remote bool
}

// Has reports whether v itself (not something inside it) carries m.
func Has(v cty.Value, m any) bool { return v.IsMarked() && v.HasMark(m) }

// Contains reports whether v, or anything inside it, carries m.
func Contains(v cty.Value, m any) bool {
	if !anywhere(v) {
		return false
	}
	_, found := v.UnmarkDeep()
	_, ok := found[m]
	return ok
}

// PathsWith returns the paths of the values inside v that carry m, in the order that cty walks them.
func PathsWith(v cty.Value, m any) []cty.Path {
	_, paths := Separate(v, m)
	return paths
}

// Separate returns v without any mark, and what PathsWith returns: in one walk.
func Separate(v cty.Value, m any) (bare cty.Value, paths []cty.Path) {
	if !anywhere(v) {
		return v, nil
	}
	bare, pvms := v.UnmarkDeepWithPaths()
	for _, pvm := range pvms {
		if _, ok := pvm.Marks[m]; ok {
			paths = append(paths, pvm.Path)
		}
	}
	return bare, paths
}

// anywhere reports whether v, or anything inside it, is marked. Most values are not, and cty's own walks build the
// path to each of the parts that they look at.
func anywhere(v cty.Value) bool {
	switch ty := v.Type(); {
	case v.IsMarked():
		return true
	case ty.IsPrimitiveType() || !v.IsKnown() || v.IsNull():
		return false
	case ty.IsObjectType():
		for name := range ty.AttributeTypes() {
			if anywhere(v.GetAttr(name)) {
				return true
			}
		}
		return false
	case !v.CanIterateElements():
		return false
	}
	for it := v.ElementIterator(); it.Next(); {
		if _, element := it.Element(); anywhere(element) {
			return true
		}
	}
	return false
}

// Apply returns v with m put on the value at each of the paths. A path that leads nowhere marks nothing.
func Apply(v cty.Value, m any, paths []cty.Path) cty.Value {
	if len(paths) == 0 {
		return v
	}
	pvms := make([]cty.PathValueMarks, 0, len(paths))
	for _, p := range paths {
		pvms = append(pvms, cty.PathValueMarks{Path: p, Marks: cty.NewValueMarks(m)})
	}
	return v.MarkWithPaths(pvms)
}
