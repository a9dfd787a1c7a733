package edit

import (
	"encoding/json"
	"fmt"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

// Matching returns the instances in any of the targets, sorted, or all instances if there are no targets. A target
// that matches nothing is an error.
func Matching(st *state.State, targets []addr.Target) ([]addr.Instance, diag.List) {
	all := st.Addrs()
	if len(targets) == 0 {
		return all, nil
	}
	var out []addr.Instance
	var diags diag.List
	seen := map[addr.Instance]bool{}
	for _, t := range targets {
		known := false
		for _, at := range all {
			if !t.Contains(at) {
				continue
			}
			known = true
			if !seen[at] {
				seen[at] = true
				out = append(out, at)
			}
		}
		if known {
			continue
		}
		kind := "resource"
		switch t.Kind {
		case addr.TargetModule, addr.TargetModuleInstance:
			kind = "module"
		case addr.TargetInstance:
			kind = "resource instance"
		}
		diags = diags.Append(diag.New(diag.Error, "Unknown "+kind,
			fmt.Sprintf("There is no %s %s in the state. What was added to the configuration gets there when that is "+
				"applied.", kind, t), nil))
	}
	return out, diags
}

// Managed returns the managed instances of a state, sorted.
func Managed(st *state.State) []addr.Instance {
	var out []addr.Instance
	for _, at := range st.Addrs() {
		if at.Resource.Mode == addr.Managed {
			out = append(out, at)
		}
	}
	return out
}

// AnyManaged reports whether a state has anything but data sources.
func AnyManaged(st *state.State) bool {
	for r := range st.Resources {
		if r.Resource.Mode == addr.Managed {
			return true
		}
	}
	return false
}

// IsNone reports whether there is no state: it was never stored, or it was removed or moved elsewhere since. One in an
// old format has no lineage either, but the version of the program that wrote it.
func IsNone(st *state.State) bool { return st.Lineage == "" && st.EngineVersion == "" && st.IsEmpty() }

// ObjectID returns the attribute "id" of an object; empty if it has none.
func ObjectID(o *state.Object) string {
	if o == nil {
		return ""
	}
	if o.Flatmap != nil {
		return o.Flatmap["id"]
	}
	var attrs struct {
		ID any `json:"id"`
	}
	if err := json.Unmarshal(o.Attrs, &attrs); err != nil {
		return "" // an object without attributes
	}
	text, _ := attrs.ID.(string)
	return text
}
