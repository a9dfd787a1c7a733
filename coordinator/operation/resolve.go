package operation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/locks"
	"github.com/millipede-iac/millipede/wire"
)

// CutOff returns a run of the workspace that was cut off with operations in progress, or nil. The operations may still
// be executed, or their results are waiting. Until the results are recorded, the state is incomplete, and another plan
// could do the same things twice. Runs with locks of objects do not count, because their objects stay locked until the
// runs are settled or resumed.
func CutOff(ctx context.Context, store RunsAndLocks, workspace string) (*journal.Run, error) {
	runs, err := store.Runs(ctx, workspace)
	if err != nil {
		return nil, err
	}
	shared, err := sharing(ctx, store, workspace)
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		if r.Over() || shared[r.ID] {
			continue
		}
		if under, err := UnderWay(ctx, store, r); err != nil || under {
			return &r, err
		}
	}
	return nil, nil
}

// RunsAndLocks are the roles of a store that CutOff needs; journal.Store has them.
type RunsAndLocks interface {
	journal.Runs
	LockRequests(ctx context.Context, workspace string) ([]locks.Request, error)
}

// UnderWay reports whether operations of an unfinished run were sent and may still be executed, or have results
// that are not recorded.
func UnderWay(ctx context.Context, store journal.Runs, r journal.Run) (bool, error) {
	events, err := store.Events(ctx, r.ID)
	if err != nil {
		return false, err
	}
	statuses, _, err := journal.Fold(r.Vertices, events)
	if err != nil {
		return false, fmt.Errorf("the journal of the run %s: %w", r.ID, err)
	}
	return slices.Contains(statuses, journal.Dispatched), nil
}

// Resolve returns the transaction that ends the doubt about an object, given its outcome by the user: id is the ID
// of the existing object, which is read; empty means that the operation did not take place. The outcome of a
// deletion is determined by reading the object. When Resolve returns, the operation can no longer be started. If
// its run is not over, the transaction also records the outcome for the run, so that a resumed run continues after
// the operation, or starts it again. prior is the stored state.
//
// For an invocation of an action, id is any text if it took place. Of several invocations of one action that are in
// doubt, one is resolved.
//
// If a worker has started the operation since the doubt was recorded, the user's outcome is rejected: Resolve
// returns errors, and a transaction that records the worker, which must be committed nevertheless.
func (s *Session) Resolve(ctx context.Context, prior *state.State, at addr.Instance, id, who string) (tx journal.Commit,
	diags diag.List) {
	defer caught(&diags)
	key, o := doubtful(prior, at)
	if o == nil {
		return journal.Commit{}, diag.Errors("Nothing is in doubt", fmt.Sprintf("No operation on %s is in doubt.", at), nil)
	}
	set := state.SetObject{Addr: at, Deposed: key, Provider: prior.ProviderOf(at)}
	if begun, diags := s.writeTombstone(ctx, o.Doubt, "its outcome was told by "+who); diags.HasErrors() {
		if begun == "" {
			return journal.Commit{}, diags
		}
		taken, d := *o, *o.Doubt
		d.Worker = begun
		taken.Doubt, set.Object = &d, &taken
		return journal.Commit{Changes: []state.Change{set}}, diags // a repeated command is accepted
	}
	done := id != ""
	switch {
	case at.Resource.Mode == addr.Action: // nothing but the doubt was stored
	case o.Doubt.Operation == "create" && !done:
	case o.Doubt.Operation == "delete":
		there, diags := s.exists(ctx, at, set.Provider, o)
		if diags.HasErrors() {
			return journal.Commit{}, diags
		}
		if done = !there; there {
			set.Object = o.BeforeDoubt()
		}
	case done:
		imported, diags := s.Import(ctx, at, set.Provider, id)
		if diags.HasErrors() {
			return journal.Commit{}, diags
		}
		imported.Dependencies, imported.CreateBeforeDestroy, imported.SkipDestroy = o.Dependencies,
			o.CreateBeforeDestroy, o.SkipDestroy
		set.Object = imported
	default:
		set.Object = o.BeforeDoubt()
	}
	tx, err := s.verdict(ctx, o.Doubt, done, who)
	if err != nil {
		return tx, diag.Errors("Failed to read the run", err.Error()+".", nil)
	}
	tx.Changes, tx.EndVersion = []state.Change{set}, true
	return tx, nil
}

// doubtful returns the object in doubt of an instance: the current one, or else a deposed one.
func doubtful(s *state.State, at addr.Instance) (state.DeposedKey, *state.Object) {
	i := s.Instance(at)
	if i == nil {
		return "", nil
	}
	inDoubt := func(o *state.Object) bool { return o != nil && o.Status == state.InDoubt && o.Doubt != nil }
	if inDoubt(i.Current) {
		return state.CurrentObject, i.Current
	}
	for _, key := range slices.Sorted(maps.Keys(i.Deposed)) {
		if inDoubt(i.Deposed[key]) {
			return key, i.Deposed[key]
		}
	}
	return "", nil
}

// writeTombstone ensures that no worker can start the operation in doubt: its task may still be waiting in a stream. It
// fails, and names the worker, if one has started it since it was marked as in doubt. An embedded worker has ended
// with its run.
func (s *Session) writeTombstone(ctx context.Context, d *state.Doubt, why string) (begun string, diags diag.List) {
	ref := wire.TaskRef{Pool: d.Pool, Coordinator: s.Hub.Coordinator(), Run: d.Run, Attempt: wire.AttemptID(d.Attempt)}
	c, err := s.Hub.Claim(ctx, ref, wire.Claim{Nonce: s.NewID(), At: s.Now(), Tombstone: true, Reason: why})
	switch {
	case err != nil:
		return "", diag.Errors("Failed to end the attempt", fmt.Sprintf("Writing a tombstone for the attempt %s: %s.",
			d.Attempt, err), nil)
	case !c.Tombstone && c.Worker != d.Worker && !(s.Embedded && d.Worker == ""):
		return c.Worker, diag.Errors("The operation has begun",
			fmt.Sprintf("Worker %s has started the attempt %s, which was not known when its operation was marked as in "+
				"doubt. Check again whether it has happened, and repeat the command; or resume the run, which takes "+
				"its result:\n  "+diag.Program()+" runs resume %s", c.Worker, d.Attempt, d.Run), nil)
	}
	return "", nil
}

// verdict returns the event for the journal of the run when a doubt is resolved: the operation is done, or it never
// took place. It returns none for a run that is over.
func (s *Session) verdict(ctx context.Context, d *state.Doubt, done bool, who string) (journal.Commit, error) {
	r, _, err := s.Store.RunPlan(ctx, d.Run)
	if errors.Is(err, journal.ErrNoRun) || err == nil && r.Over() {
		return journal.Commit{}, nil
	}
	if err != nil {
		return journal.Commit{}, err
	}
	events, err := s.Store.Events(ctx, d.Run)
	if err != nil {
		return journal.Commit{}, err
	}
	statuses, open, err := journal.Fold(r.Vertices, events)
	if err != nil {
		return journal.Commit{}, err
	}
	for v, e := range open {
		if e.Attempt != d.Attempt || statuses[v] != journal.Doubt {
			continue
		}
		e.Kind, e.At, e.Worker, e.Permits, e.Detail = journal.Retract, s.Now().UTC(), d.Worker, nil, "resolved by "+who
		if done {
			e.Kind = journal.Finish
		}
		return journal.Commit{Run: d.Run, Events: []journal.Event{e}}, nil
	}
	return journal.Commit{}, nil
}
