package service

import (
	"errors"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service/outline"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/skim"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// Resource is an instance of a managed resource in the current state of a workspace.
type Resource struct {
	// ID identifies the address in the workspace, in all versions of the state.
	ID string
	// Module is the address of its module; empty for the root module.
	Module, Type, Name string
	// Key is the key of the instance as it is written in addresses, in brackets; empty if it has none.
	Key string
	// Provider is the source address of its provider.
	Provider string
	// Changed is the version of the state in which it last changed, if that is known, with its time.
	Changed   string
	ChangedAt time.Time
}

// Resources returns the managed resource instances of a workspace's current state, in the order of the state; none
// if there is no state, or if the configuration encrypts it.
func (s *States) Resources(a *rights.Actor, workspace string) (out []*Resource, err error) {
	var v *record.StateVersion
	err = s.store.View(func(tx *store.Tx) error {
		w, err := a.Allowed(tx, workspace, rights.ReadState)
		if err == nil && w.CurrentState != "" {
			v, err = tables.StateVersions.Get(tx, w.CurrentState)
		}
		return err
	})
	if err != nil || v == nil || v.Encrypted {
		return nil, tables.Translated(err)
	}
	o, err := s.outlines.State(v)
	if err != nil {
		return nil, tables.Translated(err)
	}
	providers, err := s.resourceProviders(v)
	if err != nil {
		return nil, tables.Translated(err)
	}
	for i := range o.Objects {
		if r := resourceOf(&o.Objects[i]); r != nil {
			r.ID = "wsr-" + tables.Hash(workspace + " " + o.Objects[i].Address)[:16]
			r.Provider = providers[resourceKey{r.Module, r.Type, r.Name}]
			out = append(out, r)
		}
	}
	return out, s.dateResources(out)
}

// resourceOf returns a managed resource instance; nil for other objects. An object that is deposed is not an instance.
func resourceOf(o *outline.Object) *Resource {
	if o.Mode != "managed" || strings.HasSuffix(o.Address, ")") {
		return nil
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(o.Address, o.Module+"."), o.Type+".")
	name, key, indexed := strings.Cut(rest, "[")
	if indexed {
		key = "[" + key
	}
	return &Resource{Module: o.Module, Type: o.Type, Name: name, Key: key, Changed: o.Since}
}

// dateResources fills in when resources last changed.
func (s *States) dateResources(all []*Resource) error {
	times := map[string]time.Time{}
	return tables.Translated(s.store.View(func(tx *store.Tx) error {
		for _, r := range all {
			if _, known := times[r.Changed]; !known && r.Changed != "" {
				v, err := tables.StateVersions.Get(tx, r.Changed)
				if err != nil && !errors.Is(err, store.ErrNotFound) { // it may have been removed meanwhile
					return err
				}
				if err == nil {
					times[r.Changed] = v.CreatedAt
				}
			}
			r.ChangedAt = times[r.Changed]
		}
		return nil
	}))
}

// resourceKey identifies a resource in a state.
type resourceKey struct{ module, kind, name string }

// resourceProviders returns the source address of the provider of each managed resource in a version of a state.
func (s *States) resourceProviders(v *record.StateVersion) (out map[resourceKey]string, err error) {
	text, err := s.store.Read(tables.StateFile(v.ID))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, text.Close()) }()
	out = map[resourceKey]string{}
	d := skim.New(text)
	return out, d.Members(func(key string) error {
		if key != "resources" {
			return d.Skip()
		}
		return d.Elements(func() error {
			var k resourceKey
			mode, provider := "", ""
			parts := map[string]*string{"module": &k.module, "mode": &mode, "type": &k.kind, "name": &k.name,
				"provider": &provider}
			err := d.Members(func(key string) error {
				if to := parts[key]; to != nil {
					return d.Decode(to)
				}
				return d.Skip()
			})
			if mode == "managed" {
				out[k] = providerSource(provider)
			}
			return err
		})
	})
}

// providerSource returns the source address in the name of a provider configuration, such as
// module.a.provider["registry.terraform.io/hashicorp/aws"].west.
func providerSource(configuration string) string {
	_, rest, _ := strings.Cut(configuration, `provider["`)
	source, _, _ := strings.Cut(rest, `"`)
	return source
}
