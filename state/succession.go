package state

import "github.com/millipede-iac/millipede/lang/addr"

// Succession returns the changes that make the objects of a state that Terraform has written belong to OpenTofu's
// providers: a provider of Terraform's registry becomes the one of the same name in OpenTofu's, unless required says
// that the configuration itself names the old one. The rule is OpenTofu's.
func Succession(s *State, required func(addr.Provider) bool) []Change {
	var out []Change
	for _, r := range s.SortedResources() {
		old := s.Resources[r].Provider.Provider
		if to := Successor(old, required); to != old {
			out = append(out, Handover(s, r, to)...)
		}
	}
	return out
}

// Successor returns the provider that the objects of another one come to belong to by Succession; mostly that one.
func Successor(old addr.Provider, required func(addr.Provider) bool) addr.Provider {
	if old.Host != addr.PredecessorHost || required(old) {
		return old
	}
	return addr.Provider{Host: addr.DefaultHost, Namespace: old.Namespace, Type: old.Type}
}

// Handover returns the changes that make all objects of a resource belong to another provider's configuration of the
// same name.
func Handover(s *State, r addr.AbsResource, to addr.Provider) []Change {
	var out []Change
	for key, i := range s.Resources[r].Instances {
		at := r.Instance(key)
		provider := s.ProviderOf(at)
		provider.Provider = to
		if i.Current != nil {
			out = append(out, SetObject{Addr: at, Provider: provider, Object: i.Current})
		}
		for deposed, o := range i.Deposed {
			out = append(out, SetObject{Addr: at, Deposed: deposed, Provider: provider, Object: o})
		}
	}
	return out
}
