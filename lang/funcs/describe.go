package funcs

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// Signature describes a function for tools. Its JSON form is the one that `metadata functions -json` prints for
// each function.
type Signature struct {
	Description string     `json:"description,omitempty"`
	ReturnType  cty.Type   `json:"return_type"`
	Parameters  []Argument `json:"parameters,omitempty"`
	// Variadic describes the arguments after Parameters; nil if there cannot be any.
	Variadic *Argument `json:"variadic_parameter,omitempty"`
}

// Argument describes one parameter of a function.
type Argument struct {
	Name        string   `json:"name,omitempty"`
	Description string   `json:"description,omitempty"`
	Nullable    bool     `json:"is_nullable,omitempty"`
	Type        cty.Type `json:"type"`
}

// Describe returns the signature of each function that [Names] lists, by plain name. The same signatures apply to
// the names under "core::".
func Describe() map[string]Signature {
	all := Table(Options{})
	out := make(map[string]Signature, len(names()))
	for _, name := range names() {
		out[name] = SignatureOf(all[name])
	}
	return out
}

// SignatureOf describes any function, so that providers' functions can be listed beside those of this package.
//
// The return type is the one for arguments whose types alone are known.
func SignatureOf(fn function.Function) Signature {
	sig := Signature{Description: fn.Description()}
	var known []cty.Type
	lazy := false // has expressions as parameters, like try and can
	argument := func(p function.Parameter) Argument {
		known = append(known, p.Type)
		ty := p.Type
		if ty.IsCapsuleType() {
			lazy = true
			ty = cty.DynamicPseudoType
		}
		return Argument{Name: p.Name, Description: p.Description, Nullable: p.AllowNull, Type: ty}
	}
	for _, p := range fn.Params() {
		sig.Parameters = append(sig.Parameters, argument(p))
	}
	if p := fn.VarParam(); p != nil {
		a := argument(*p)
		sig.Variadic = &a
	}

	ret, err := fn.ReturnType(known)
	switch {
	case err == nil:
		sig.ReturnType = ret
	case lazy:
		sig.ReturnType = cty.DynamicPseudoType
	default:
		panic(fmt.Sprintf("funcs: a function refuses arguments of its own parameter types %#v: %s", known, err))
	}
	return sig
}
