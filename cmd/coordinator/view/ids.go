package view

import (
	"encoding/json"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// StateIDs returns a function that tells what the objects of a state are called: their id or name, unless it is
// sensitive. See ProgressOptions.ID. The state must not change meanwhile.
func StateIDs(s *state.State, schemas *values.Schemas) func(address string) (key, id string) {
	return func(address string) (string, string) {
		plain, deposed, _ := strings.Cut(address, " (deposed object ")
		a, diags := addr.ParseInstance(plain)
		if diags.HasErrors() {
			return "", ""
		}
		o := s.Object(a, state.DeposedKey(strings.TrimSuffix(deposed, ")")))
		if o == nil || o.Attrs == nil {
			return "", ""
		}
		var attrs struct{ ID, Name any }
		if json.Unmarshal(o.Attrs, &attrs) != nil {
			return "", "" // whoever uses the object reports that it cannot be read
		}
		sc := schemas.Resource(s.Resources[a.Abs()].Provider.Provider, a.Resource.Mode, a.Resource.Type)
		for _, n := range []struct {
			key   string
			value any
		}{{"id", attrs.ID}, {"name", attrs.Name}} {
			text, ok := n.value.(string)
			if !ok || hides(o.Sensitive, n.key) {
				continue
			}
			if sc != nil && sc.Block.Attributes[n.key] != nil && sc.Block.Attributes[n.key].Sensitive {
				continue
			}
			return n.key, text
		}
		return "", ""
	}
}

// hides tells whether an attribute is among the sensitive paths.
func hides(paths []cty.Path, name string) bool {
	for _, p := range paths {
		if len(p) == 0 {
			return true
		}
		if s, ok := p[0].(cty.GetAttrStep); ok && s.Name == name {
			return true
		}
	}
	return false
}
