package state

import "github.com/millipede-iac/millipede/lang/addr"

// Succession returns the changes that assign the objects of a state that Terraform has written to OpenTofu's
// providers: a provider of Terraform's registry is replaced by the one of the same name in OpenTofu's, unless
// required says that the configuration itself uses the old one. This is OpenTofu's rule.
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

// Successor returns the provider to which Succession assigns the objects of a provider; mostly the same one.
func Successor(old addr.Provider, required func(addr.Provider) bool) addr.Provider {
	if old.Host != addr.PredecessorHost || required(old) {
		return old
	}
	return addr.Provider{Host: addr.DefaultHost, Namespace: old.Namespace, Type: old.Type}
}

// Handover returns the changes that assign all objects of a resource to the configuration of the same name of
// another provider.
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
