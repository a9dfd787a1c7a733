package querying

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/generate"
	"github.com/millipede-iac/millipede/wire"
)

// Blocks returns the configuration that imports an object as the resource to: a resource block and an import block. The
// object's value must be known.
func (l *List) Blocks(o *Object, to addr.Resource) (resource, imports string) {
	provider := generate.Provider(to, l.Local, l.Provider.Key)
	v := o.Config
	if v == cty.NilVal {
		v, _ = o.Value.UnmarkDeep()
	}
	return generate.Resource(to, provider, l.Managed.Block, v), generate.Import(to, provider, o.Identity)
}

// Decode decodes an object of a page.
func (m *Managed) Decode(from *wire.ListedObject) (*Object, error) {
	o := &Object{Name: from.Name, Value: cty.NilVal, Config: cty.NilVal}
	var err error
	if o.Identity, err = coding.DecodeValue(from.Identity, m.Identity); err != nil {
		return nil, err
	}
	if from.Object != nil {
		v, err := coding.DecodeValue(from.Object, m.Type)
		if err != nil {
			return nil, err
		}
		o.Value = values.MarkSensitive(v, m.Block, nil)
	}
	if from.Config != nil {
		if o.Config, err = coding.DecodeValue(from.Config, m.Type); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// Key returns a text that identifies an object among all of its type.
func (l *List) Key(o *Object) string { return l.Managed.Key(o.Identity) }

// Region returns the region of an object: as the object or its identity has it, or else as the list block or its
// provider says; empty if none of them has one.
func (l *List) Region(o *Object) string {
	if o.Value != cty.NilVal {
		bare, _ := o.Value.UnmarkDeep()
		if region := values.Region(bare); region != "" {
			return region
		}
	}
	if region := values.Region(o.Identity); region != "" {
		return region
	}
	return l.Place
}
