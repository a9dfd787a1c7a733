package funcs

import (
	"fmt"

	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/zclconf/go-cty/cty"
)

// show formats a value for an error message, or a placeholder if it must not be shown.
func show(v any, from ...cty.ValueMarks) string {
	all := cty.NewValueMarks()
	for _, m := range from {
		all = cty.NewValueMarks(all, m)
	}
	sensitive, ephemeral := all.Has(marks.Sensitive), all.Has(marks.Ephemeral)
	switch {
	case sensitive && ephemeral:
		return "(ephemeral sensitive value)"
	case ephemeral:
		return "(ephemeral value)"
	case sensitive:
		return "(sensitive value)"
	}
	if s, ok := v.(string); ok {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprint(v)
}
