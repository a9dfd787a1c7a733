package change

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"
)

// violation is a violation of a rule by a value. The text is for the authors of the provider: it shows values as Go
// code, so that a report contains everything they need.
type violation struct {
	path cty.Path
	text string
	// shows is set if the text contains values.
	shows bool
}

// violations is a list in no particular order, because schemas are maps.
type violations []violation

// add records a violation. The path is copied, so the caller may reuse its array.
func (l *violations) add(path cty.Path, format string, args ...any) {
	*l = append(*l, violation{path: slices.Clone(path), text: fmt.Sprintf(format, args...)})
}

// show records a violation whose text contains values.
func (l *violations) show(path cty.Path, format string, args ...any) {
	l.add(path, format, args...)
	(*l)[len(*l)-1].shows = true
}

// without returns the list with texts replaced that show a value at one of the secret paths, inside it or around
// it.
func (l violations) without(secrets []cty.Path) violations {
	if len(secrets) == 0 {
		return l
	}
	out := slices.Clone(l)
	for i, b := range out {
		if b.shows && slices.ContainsFunc(secrets, func(s cty.Path) bool {
			return s.HasPrefix(b.path) ||
				b.path.HasPrefix(s)
		}) {
			out[i].text = hidden
		}
	}
	return out
}

// hidden replaces a text that would show a secret.
const hidden = "the value is wrong here (sensitive values are not shown)"

// sorted sorts the list by path, then by text, so that the order of messages is deterministic.
func (l violations) sorted() violations {
	slices.SortFunc(l, func(a, b violation) int {
		return cmp.Or(cmp.Compare(pathText(a.path), pathText(b.path)), cmp.Compare(a.text, b.text))
	})
	return l
}

// pathText formats a path as it is written after an object's address: .disk[0].size, .tags["a"].
func pathText(path cty.Path) string {
	var s strings.Builder
	for _, step := range path {
		switch step := step.(type) {
		case cty.GetAttrStep:
			s.WriteString("." + step.Name)
		case cty.IndexStep:
			s.WriteString("[" + keyText(step.Key) + "]")
		}
	}
	return s.String()
}

// keyText formats the key of a list or map; the key of a set is its whole element, which is too long to show.
func keyText(key cty.Value) string {
	switch {
	case !key.IsKnown() || key.IsNull():
		return "?"
	case key.Type() == cty.Number:
		return key.AsBigFloat().Text('f', -1)
	case key.Type() == cty.String:
		return strconv.Quote(key.AsString())
	default:
		return "..."
	}
}
