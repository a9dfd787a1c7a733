package state

import (
	"bytes"
	"maps"
	"slices"

	"github.com/zclconf/go-cty/cty"
)

// Equal tells whether two objects say the same.
func (o *Object) Equal(p *Object) bool {
	if o == p {
		return true
	}
	if o == nil || p == nil {
		return false
	}
	return o.Status == p.Status && o.SchemaVersion == p.SchemaVersion && o.IdentityVersion == p.IdentityVersion &&
		o.CreateBeforeDestroy == p.CreateBeforeDestroy && o.SkipDestroy == p.SkipDestroy &&
		bytes.Equal(o.Attrs, p.Attrs) && bytes.Equal(o.Private, p.Private) && bytes.Equal(o.Identity, p.Identity) &&
		maps.Equal(o.Flatmap, p.Flatmap) && slices.Equal(o.Dependencies, p.Dependencies) &&
		slices.EqualFunc(o.Sensitive, p.Sensitive, func(a, b cty.Path) bool { return a.Equals(b) }) &&
		(o.Doubt == nil) == (p.Doubt == nil) && (o.Doubt == nil || o.Doubt.Attempt == p.Doubt.Attempt)
}
