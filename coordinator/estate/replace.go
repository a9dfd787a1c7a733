package estate

import (
	"context"
	"errors"
	"fmt"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/edit"
	"github.com/millipede-iac/millipede/state/journal"
)

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
		if why := edit.Refusal(ours, theirs); why != "" {
			return diag.Errors("Failed to write the imported state", why, nil)
		}
	}
	// As in OpenTofu, the push creates a version of its own: the serial in the file remains that of the file.
	theirs.Serial++
	return diags.Append(s.Replace(ctx, theirs, "state push"))
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

// Replace replaces the whole state of the workspace, and writes the snapshot.
func (s *Opened) Replace(ctx context.Context, st *state.State, cause string) diag.List {
	if err := s.sync.Replace(ctx, s.Workspace, s.LockID, st, journal.Because(cause)); err != nil {
		return diag.Errors("Failed to save state", err.Error()+".", nil)
	}
	return s.Push(ctx)
}
