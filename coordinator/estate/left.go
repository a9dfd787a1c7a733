package estate

import (
	"context"
	"fmt"
	"slices"

	"github.com/millipede-iac/millipede/coordinator/layout"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
)

// Left returns a warning for each state that the directory has worked on, and does not use now, if only its store here
// has all of it: a run on it was cut off, or its snapshot was not written. The encryption must be set up.
func (e *homes) Left(ctx context.Context) diag.List {
	if e.Backend != nil {
		return nil
	}
	others, diags := e.others()
	for _, at := range others {
		diags = diags.Append(e.leftAt(ctx, at))
	}
	return diags
}

// others returns the stores of the directory that are not that of the present state. Those of an earlier version have
// no address: nobody has claimed them yet.
func (e *homes) others() ([]storeAt, diag.List) {
	present, diags := e.storeFor(StateOptions{}, nil)
	if diags.HasErrors() {
		return nil, diags
	}
	d := e.Directory()
	fail := func(err error) diag.List {
		return diag.List{diag.New(diag.Warning, "Failed to look for other states of this directory", err.Error()+".", nil)}
	}
	states, err := d.States()
	if err != nil {
		return nil, fail(err)
	}
	var out []storeAt
	for _, l := range states {
		if l != present.location {
			out = append(out, storeAt{Home: d.State(l), location: l})
		}
	}
	former, err := d.Workspaces()
	if err != nil {
		return nil, fail(err)
	}
	_, mayBeOurs := d.Unclaimed(present.location)
	for _, name := range former {
		at := storeAt{Home: d.Workspace(name)}
		if exists(at.Store()) && !(mayBeOurs && name == present.location.Workspace) {
			at.location = layout.Location{Workspace: name}
			out = append(out, at)
		}
	}
	return out, nil
}

// leftAt returns the warning about one state, if there is anything to say.
func (e *homes) leftAt(ctx context.Context, at storeAt) (diags diag.List) {
	what, workspace := at.location.String(), at.location.Workspace
	if at.location.Backend == "" {
		what, at.location = fmt.Sprintf("the workspace %q, whose store an earlier version of Millipede made", workspace),
			layout.Location{}
	}
	warn := func(summary, detail string) diag.List {
		return diag.List{diag.New(diag.Warning, summary, detail, nil)}
	}
	store, problems := e.openStore(ctx, at, e.lockInfo(""), reads, 0)
	if problems.HasErrors() {
		return warn("Another state of this directory cannot be read", fmt.Sprintf("The store of %s is in %s: %s.",
			what, at.Path(), problems.Err()))
	}
	defer func() { diags = diags.Append(store.close()) }()
	if store.elsewhere {
		return nil // a process works on it
	}
	runs, err := store.Runs(ctx, workspace)
	if err != nil {
		return warn("Another state of this directory cannot be read", fmt.Sprintf("The runs of %s: %s.", what, err))
	}
	const again = "To use that state again, run init -reconfigure with its backend"
	if n := slices.IndexFunc(runs, func(r journal.Run) bool { return !r.Over() }); n >= 0 {
		return warn("A run on another state was cut off", fmt.Sprintf("The run %s worked on %s. It has not ended, so that "+
			"state may lack results. %s. Then resume the run: %s runs resume %s", titled(runs[n]), what, again,
			diag.Program(), runs[n].ID))
	}
	versions, err := store.Versions(ctx, workspace)
	mark, markErr := store.Mark(ctx, workspace)
	switch {
	case err != nil || markErr != nil || len(versions) == 0:
		return diag.List{}.Append(err, markErr)
	case versions[0].Lineage == "", mark.Lineage == versions[0].Lineage && mark.Serial == versions[0].Serial:
		return nil
	}
	return warn("Another state was not written to its backend", fmt.Sprintf("The last version (serial %d) of %s is only "+
		"in the store %s. %s. The next command that changes the state writes it to the backend.", versions[0].Serial,
		what, at.Path(), again))
}
