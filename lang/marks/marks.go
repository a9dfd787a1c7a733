// Package marks defines the marks of values of the language: sensitive, ephemeral, deprecated.
//
// A mark is a property of a value that is propagated through expressions by the rules of go-cty. This package does
// not depend on expressions, schemas or printers.
package marks

import "github.com/zclconf/go-cty/cty"

// Mark is a mark without a payload.
type Mark string

const (
	// Sensitive marks a value that must not be shown.
	Sensitive Mark = "sensitive"
	// Ephemeral marks a value that exists only during one phase of one run and is never stored.
	Ephemeral Mark = "ephemeral"
)

// Deprecated marks a value that comes from a deprecated variable or output; each carries its own message.
type Deprecated struct {
	// Message is the message in the declaration.
	Message string
	// Origin is the address of the deprecated object, for the warning.
	Origin string
	// Remote is set if the object belongs to a remote module, which its user cannot change.
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

// PathsWith returns the paths of the values inside v that carry m, in the order of cty's traversal.
func PathsWith(v cty.Value, m any) []cty.Path {
	_, paths := Separate(v, m)
	return paths
}

// Separate returns v without any mark, and the result of PathsWith, in one traversal.
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

// Without returns v without any mark.
func Without(v cty.Value) cty.Value {
	if anywhere(v) {
		v, _ = v.UnmarkDeep()
	}
	return v
}

// anywhere reports whether v, or anything inside it, is marked. It is faster than cty's traversals, which build the
// path of each part; most values have no marks.
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

// Apply returns v with m added to the value at each of the paths. A path that does not exist is ignored.
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
