package state

import (
	"bytes"
	"maps"
	"slices"

	"github.com/zclconf/go-cty/cty"
)

// Equal reports whether two objects are equal. Attributes are compared as text, because their JSON is canonical.
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
		maps.Equal(o.Flatmap, p.Flatmap) && o.Dependencies.Equal(p.Dependencies) &&
		slices.EqualFunc(o.Sensitive, p.Sensitive, func(a, b cty.Path) bool { return a.Equals(b) }) &&
		o.Doubt.equal(p.Doubt)
}

func (d *Doubt) equal(e *Doubt) bool {
	if d == nil || e == nil {
		return d == e
	}
	return d.Run == e.Run && d.Attempt == e.Attempt && d.Worker == e.Worker && d.Pool == e.Pool &&
		d.Operation == e.Operation && d.Started.Equal(e.Started) && d.Reason == e.Reason &&
		bytes.Equal(d.Sent, e.Sent) && d.Before == e.Before && d.Answer.equal(e.Answer)
}

func (a *Answer) equal(b *Answer) bool {
	if a == nil || b == nil {
		return a == b
	}
	return bytes.Equal(a.Known, b.Known) && bytes.Equal(a.Private, b.Private) && bytes.Equal(a.Raw, b.Raw)
}

// SameContent reports whether two states have the same content. Lineages, serials and engine versions are ignored.
func (s *State) SameContent(t *State) bool {
	return maps.EqualFunc(s.Resources, t.Resources, (*Resource).equal) &&
		maps.EqualFunc(s.Outputs, t.Outputs, (*Output).equal) &&
		slices.EqualFunc(s.Checks, t.Checks, CheckResult.equal)
}

func (r *Resource) equal(q *Resource) bool {
	return r == q || r.Provider == q.Provider && maps.EqualFunc(r.Instances, q.Instances, (*Instance).equal)
}

func (i *Instance) equal(j *Instance) bool {
	return i == j || i.ProviderKey == j.ProviderKey && i.ProviderModule == j.ProviderModule &&
		i.Current.Equal(j.Current) && maps.EqualFunc(i.Deposed, j.Deposed, (*Object).Equal)
}

func (o *Output) equal(p *Output) bool {
	return o.Sensitive == p.Sensitive && o.Deprecated == p.Deprecated && o.Value.RawEquals(p.Value)
}

func (c CheckResult) equal(d CheckResult) bool {
	return c.Kind == d.Kind && c.Config == d.Config && c.Status == d.Status &&
		slices.EqualFunc(c.Objects, d.Objects, func(a, b CheckObject) bool {
			return a.Address == b.Address && a.Status == b.Status && slices.Equal(a.Failures, b.Failures)
		})
}
