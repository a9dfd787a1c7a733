package document

import (
	"encoding/json"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// functionForm is the JSON form of the signature of a function, in diagnostics and in `metadata functions`.
type functionForm struct {
	Name          string          `json:"name"`
	Params        []paramForm     `json:"params"`
	VariadicParam *paramForm      `json:"variadic_param,omitempty"`
	ReturnType    json.RawMessage `json:"return_type"`
}

type paramForm struct {
	Name string          `json:"name"`
	Type json.RawMessage `json:"type"`
}

// describeFunction returns the signature of a function; name has no namespace.
func describeFunction(name string, f function.Function) *functionForm {
	out := &functionForm{Name: name, Params: []paramForm{}}
	var types []cty.Type
	describe := func(p function.Parameter) paramForm {
		types = append(types, p.Type)
		return paramForm{p.Name, typeForm(p.Type)}
	}
	for _, p := range f.Params() {
		out.Params = append(out.Params, describe(p))
	}
	if p := f.VarParam(); p != nil {
		v := describe(*p)
		out.VariadicParam = &v
	}
	result, err := f.ReturnType(types)
	if err != nil {
		// Some functions cannot determine a result type from arguments of dynamic type.
		result = cty.DynamicPseudoType
	}
	out.ReturnType = typeForm(result)
	return out
}

// ParameterList returns the names of the parameters in the form of a call.
func (f *functionForm) ParameterList() string {
	names := make([]string, 0, len(f.Params)+1)
	for _, p := range f.Params {
		names = append(names, p.Name)
	}
	if f.VariadicParam != nil {
		names = append(names, f.VariadicParam.Name+"...")
	}
	return strings.Join(names, ", ")
}
