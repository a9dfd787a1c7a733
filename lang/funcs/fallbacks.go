package funcs

import (
	"errors"

	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// fallbacks contains the functions that get their arguments as expressions and decide whether to evaluate them.
func fallbacks() family {
	return family{
		"can": {tryfunc.CanFunc, "Tells whether an expression can be evaluated without an error."},
		"try": {tryfunc.TryFunc,
			"Gives the result of the first of its arguments that can be evaluated without an error."},
	}
}

// retired maps removed functions, which exist only to report an error, to their replacements.
var retired = map[string]string{
	"list": "tolist([...])",
	"map":  "tomap({...})",
}

func failing() family {
	f := family{}
	for name, instead := range retired {
		f[name] = builtin{removed(name, instead), "Is no longer part of the language."}
	}
	return f
}

func removed(name, instead string) function.Function {
	vals := anything("vals")
	err := errors.New("the function " + name + " is no longer part of the language; write " + instead + " instead")
	return function.New(&function.Spec{
		VarParam: &vals,
		Type:     func([]cty.Value) (cty.Type, error) { return cty.NilType, err },
		Impl:     func([]cty.Value, cty.Type) (cty.Value, error) { return cty.NilVal, err },
	})
}
