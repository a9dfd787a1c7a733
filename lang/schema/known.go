package schema

import (
	"encoding/json"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// Hides reports whether messages must not show the attribute's value: it, or a part of it, is sensitive or
// write-only.
func (a *Attribute) Hides() bool {
	return a.any(func(a *Attribute) bool { return a.Sensitive || a.WriteOnly })
}

// Known returns the JSON of some attributes of an object of the block: those that are known, may be shown, and can
// be represented in JSON. It is nil if there are none. secrets are further paths that must not be shown; attributes
// that contain them are left out as a whole.
func (b *Block) Known(attrs map[string]cty.Value, secrets []cty.Path) []byte {
	hidden := map[string]bool{}
	for _, path := range secrets {
		if len(path) == 0 {
			return nil
		}
		if step, ok := path[0].(cty.GetAttrStep); ok {
			hidden[step.Name] = true
		}
	}
	known := map[string]json.RawMessage{}
	for name, v := range attrs {
		v, _ = v.UnmarkDeep()
		if hidden[name] || b.hides(name) || v == cty.NilVal || v.IsNull() || !v.IsWhollyKnown() {
			continue
		}
		// infinity is written, but is not JSON
		if text, err := ctyjson.Marshal(v, v.Type()); err == nil && json.Valid(text) {
			known[name] = text
		}
	}
	if len(known) == 0 {
		return nil
	}
	text, err := json.Marshal(known)
	if err != nil {
		return nil
	}
	return text
}

// hides reports whether messages must not show an attribute, or the blocks of a name. Names that the block does not
// have are not shown.
func (b *Block) hides(name string) bool {
	if a, ok := b.Attributes[name]; ok {
		return a.Hides()
	}
	nb, ok := b.Blocks[name]
	return !ok || nb.Block.ContainsSensitive() || nb.Block.ContainsWriteOnly()
}
