package view

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/marks"
)

// RawText returns the value of an output as output -raw shows it: without quotes, and as it is.
func RawText(name string, v cty.Value) (string, diag.List) {
	text, err := convert.Convert(v, cty.String)
	switch {
	case err != nil:
		return "", diag.Errors("Unsupported value for raw output", fmt.Sprintf(
			"With -raw, strings, numbers and bools can be shown, and the output value %q is %s. The option -json "+
				"shows values of every type.", name, v.Type().FriendlyName()), nil)
	case text.IsNull():
		return "", diag.Errors("Unsupported value for raw output", fmt.Sprintf("The output value %q is null, which has "+
			"no text.", name), nil)
	case !text.IsKnown() || marks.Has(text, marks.Ephemeral):
		return "", diag.Errors("Unsupported value for raw output", fmt.Sprintf("The output value %q is not known.", name),
			nil)
	}
	return text.AsString(), nil
}
