package estate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/edit"
	"github.com/millipede-iac/millipede/state/journal"
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

// AnyManaged reports whether a state has anything but data sources.
func AnyManaged(st *state.State) bool {
	for r := range st.Resources {
		if r.Resource.Mode == addr.Managed {
			return true
		}
	}
	return false
}

// Move makes the changes of a move of objects from a state to the same or another one.
func Move(ctx context.Context, moves []edit.Move, source *state.State, at Changeable, target *state.State,
	to Changeable) (diags diag.List) {
	changes := edit.Changes(moves, source, target)
	// The target is written before the source: after a crash between the two, the objects are in both states,
	// but never in none.
	if len(changes.Arrive) > 0 {
		diags = diags.Append(to.Commit(ctx, changes.Arrive))
	}
	if !diags.HasErrors() {
		diags = diags.Append(at.Commit(ctx, changes.Away))
	}
	return diags
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

// PushState replaces the state by another one. Without force, that must have the same lineage and a greater serial.
func (s *Opened) PushState(ctx context.Context, theirs *state.State, force bool) diag.List {
	ours, diags := s.Load(ctx)
	if diags.HasErrors() {
		return diags
	}
	if ours.Lineage == theirs.Lineage && ours.Serial == theirs.Serial && ours.SameContent(theirs) {
		return diags.Append(s.Push(ctx)) // if it has not reached the backend, it is in errored.tfstate
	}
	if !force {
		if why := refusal(ours, theirs); why != "" {
			return diag.Errors("Failed to write the imported state", why, nil)
		}
	}
	// As in OpenTofu, the push creates a version of its own: the serial in the file remains that of the file.
	theirs.Serial++
	return diags.Append(s.Replace(ctx, theirs, "state push"))
}

// refusal returns the reason why a state may not replace another one; empty if it may.
func refusal(ours, theirs *state.State) string {
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

// RestoreVersion replaces the state by an earlier version, as a new version.
func (s *Opened) RestoreVersion(ctx context.Context, serial uint64) diag.List {
	st, err := s.Versions().LoadVersion(ctx, s.Workspace, serial)
	switch {
	case errors.Is(err, journal.ErrVersion):
		return diag.Errors("No such version",
			fmt.Sprintf("There is no version of the state with the serial %d. See: "+diag.Program()+" state restore",
				serial), nil)
	case err != nil:
		return diag.Errors("Failed to load state", err.Error()+".", nil)
	}
	now, diags := s.Load(ctx)
	if diags.HasErrors() {
		return diags
	}
	st.Serial = now.Serial + 1
	return diags.Append(s.Replace(ctx, st, fmt.Sprintf("state restore %d", serial)))
}
