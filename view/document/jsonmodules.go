package document

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/state"
)

// ModulesJSON returns the JSON document about the modules of a configuration: the form of `modules -json`, as
// Terraform documents it since version 1.10. Callers come before the modules that they call.
func ModulesJSON(tree *config.Tree) ([]byte, error) {
	type module struct {
		Key     string `json:"key"` // the names of the calls, from the root, with dots
		Source  string `json:"source"`
		Version string `json:"version"` // of a registry module, else empty
	}
	all := []module{}
	var add func(n *config.Node, path []string)
	add = func(n *config.Node, path []string) {
		for _, name := range slices.Sorted(maps.Keys(n.Children)) {
			child, at := n.Children[name], append(slices.Clone(path), name)
			all = append(all, module{strings.Join(at, "."), child.Call.Source, child.Version})
			add(child, at)
		}
	}
	add(tree.Root, nil)
	return line(struct {
		FormatVersion string   `json:"format_version"`
		Modules       []module `json:"modules"`
	}{"1.0", all})
}

// IdentitiesJSON returns the JSON document about the identities of instances, by address: the form of `state identities
// -json`, as Terraform documents it since version 1.12. Instances without an identity are left out.
func IdentitiesJSON(st *state.State, of []addr.Instance) ([]byte, error) {
	all := map[string]json.RawMessage{}
	for _, at := range of {
		if o := st.Object(at, state.CurrentObject); o != nil && len(o.Identity) > 0 {
			all[at.String()] = o.Identity
		}
	}
	return line(all)
}
