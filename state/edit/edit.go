// Package edit makes the changes of a state that people make by hand: it moves, removes, marks and reassigns objects,
// and says whether one state may replace another. It reads and writes no files, and takes no locks.
package edit

import (
	"fmt"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/tfstate"
)

// Taint returns the object of an instance with the mark that makes the next plan replace it. An object in doubt cannot
// be marked.
func Taint(at addr.Instance, o *state.Object) (*state.Object, diag.List) {
	if o.Status == state.InDoubt {
		return nil, diag.Errors("Resource instance is in doubt",
			fmt.Sprintf("The outcome of an operation on %s is unknown. Record it first, with: "+diag.Program()+
				" runs resolve", at), nil)
	}
	marked := *o
	marked.Status = state.Tainted
	return &marked, nil
}

// Untaint returns a tainted object of an instance without its mark.
func Untaint(at addr.Instance, o *state.Object) (*state.Object, diag.List) {
	if o.Status != state.Tainted {
		return nil, diag.Errors("Resource instance is not tainted",
			fmt.Sprintf("Resource instance %s is not tainted, so there is no mark to remove.", at), nil)
	}
	marked := *o
	marked.Status = state.Ready
	return &marked, nil
}

// Reassigned returns the resources of a state that belong to one provider, with the changes that assign them to
// another one.
func Reassigned(st *state.State, from, to addr.Provider) (resources []string, changes []state.Change) {
	for _, r := range st.SortedResources() {
		if st.Resources[r].Provider.Provider == from {
			resources = append(resources, r.String())
			changes = append(changes, state.Handover(st, r, to)...)
		}
	}
	return resources, changes
}

// Removal returns the changes that remove an instance with all its objects from a state.
func Removal(st *state.State, at addr.Instance) []state.Change {
	i := st.Instance(at)
	var out []state.Change
	for _, key := range i.DeposedKeys() {
		out = append(out, state.SetObject{Addr: at, Deposed: key})
	}
	if i.Current != nil {
		out = append(out, state.SetObject{Addr: at})
	}
	return out
}

// ParseState returns the state in a file with the given name.
func ParseState(name string, text []byte) (*state.State, diag.List) {
	st, diags := tfstate.Parse(text)
	what := fmt.Sprintf("Failed to read source state %q", name)
	switch {
	case diags.HasErrors():
		return nil, diag.Errors(what, diags.Err().Error(), nil)
	case st == nil:
		return nil, diag.Errors(what, "The file has no state.", nil)
	}
	return st, diags
}

// Refusal returns the reason why a state may not replace another one; empty if it may.
func Refusal(ours, theirs *state.State) string {
	switch {
	case ours.IsEmpty(), theirs.Lineage == "":
		return "" // nothing can be lost, or the state is from a version without lineages
	case ours.Lineage != "" && theirs.Lineage != "" && ours.Lineage != theirs.Lineage:
		return fmt.Sprintf("cannot import state with lineage %q over unrelated state with lineage %q",
			theirs.Lineage, ours.Lineage)
	case theirs.Serial < ours.Serial:
		return fmt.Sprintf("cannot import state with serial %d over newer state with serial %d",
			theirs.Serial, ours.Serial)
	case theirs.Serial == ours.Serial:
		return fmt.Sprintf("cannot overwrite existing state with serial %d with a different state that has the "+
			"same serial", ours.Serial)
	}
	return ""
}
