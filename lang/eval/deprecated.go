package eval

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/ctymarks"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/marks"
)

// warnDeprecated removes the marks of deprecated objects from a value, at any depth, and returns a warning for
// each. newWarning makes the warning with the subject of its sentence as the detail. Its Extra is the mark.
func warnDeprecated(v cty.Value, newWarning func(cty.Path) *diag.Diagnostic) (cty.Value, diag.List) {
	var diags diag.List
	// The callback never fails, so neither does the traversal.
	out, _ := v.WrangleMarksDeep(func(mark any, path cty.Path) (ctymarks.WrangleAction, error) {
		m, ok := mark.(marks.Deprecated)
		if !ok {
			return nil, nil
		}
		d := newWarning(path)
		d.Summary = "Value derived from a deprecated source"
		if m.Message == "" {
			d.Detail += fmt.Sprintf(" comes from %s, which is deprecated.", m.Origin)
		} else {
			d.Detail += fmt.Sprintf(" comes from %s, which is deprecated:\n\n%s", m.Origin, m.Message)
		}
		d.Extra = m
		diags = append(diags, d)
		return ctymarks.WrangleDrop, nil
	})
	return out, diags
}

// pathText formats a path in the syntax of the language: .a[0].b["x"].
func pathText(path cty.Path) string {
	var b strings.Builder
	for _, step := range path {
		switch step := step.(type) {
		case cty.GetAttrStep:
			b.WriteString("." + step.Name)
		case cty.IndexStep:
			key, _ := step.Key.Unmark()
			switch {
			case !key.IsKnown() || key.IsNull():
				b.WriteString("[...]")
			case key.Type() == cty.Number:
				b.WriteString("[" + key.AsBigFloat().Text('f', -1) + "]")
			case key.Type() == cty.String:
				b.WriteString("[" + strconv.Quote(key.AsString()) + "]")
			default: // an element of a set has no name
				b.WriteString("[...]")
			}
		}
	}
	return b.String()
}

// describe returns the text of an error of go-cty, prefixed by its path.
func describe(err error) string {
	var at cty.PathError
	if errors.As(err, &at) && len(at.Path) > 0 {
		return strings.TrimPrefix(pathText(at.Path), ".") + ": " + at.Error()
	}
	return err.Error()
}
