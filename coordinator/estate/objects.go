package estate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/edit"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/locks"
	"github.com/millipede-iac/millipede/state/tfstate"
)

// changeObjects has the backend make the changes of a transaction, and adopts the result, which contains what others
// have changed meanwhile.
func (s *Opened) changeObjects(ctx context.Context, tx journal.Commit) diag.List {
	prior, diags := s.Load(ctx)
	if diags.HasErrors() {
		return diags
	}
	next := prior.Clone()
	next.Apply(tx.Changes...)
	change, err := objectChange(prior, next, s.estate.EngineVersion)
	if err != nil {
		return diags.Append(diag.New(diag.Error, "Failed to save state", err.Error()+".", nil))
	}
	change.Operation = tx.Cause
	err = s.objects.ChangeObjects(s.estate.waiting(ctx), s.Workspace, change, s.objectsWait)
	where := s.backend.Describe(s.Workspace).Where
	var refused *backend.Refused
	switch {
	case errors.As(err, &refused):
		return diags.Append(diag.New(diag.Error, "Error acquiring the state lock", fmt.Sprintf("Runs change the state "+
			"of %s, so the command tried to lock only the objects that it changes. Nothing was changed: %s",
			where, refused.Reason), nil))
	case s.estate.Stop.Asked():
		return diags.Append(diag.New(diag.Error, "Operation interrupted", fmt.Sprintf("The command was stopped during the "+
			"change of %s. List the state to see whether it was changed.", where), nil))
	case err != nil:
		return diags.Append(diag.New(diag.Error, "Failed to save state", fmt.Sprintf("Changing %s: %s.", where, err), nil))
	}
	if _, err := s.sync.Pull(context.WithoutCancel(ctx), s.Workspace, s.LockID); err != nil {
		return diags.Append(s.estate.unreadable(err, true))
	}
	return diags
}

// objectChange returns the change of instances that makes one state the next one.
func objectChange(prior, next *state.State, version string) (c backend.ObjectChange, err error) {
	c.Lineage, c.Serial = prior.Lineage, prior.Serial
	objects, err := edit.ObjectsOf(prior, next)
	if err != nil {
		return c, err
	}
	for _, at := range objects.Removed {
		c.Removed = append(c.Removed, at.String())
	}
	if len(objects.Changed.Resources) > 0 {
		var text bytes.Buffer
		err = tfstate.Write(&text, objects.Changed, version, tfstate.Compact)
		c.State = text.Bytes()
	}
	return c, err
}

// objectsIn returns the instances of a change of objects.
func objectsIn(c backend.ObjectChange) (edit.Objects, error) {
	out := edit.Objects{Changed: state.Empty()}
	if len(c.State) > 0 {
		var diags diag.List
		if out.Changed, diags = tfstate.Parse(c.State); diags.HasErrors() {
			return out, diags.Err()
		}
	}
	for _, text := range c.Removed {
		at, diags := addr.ParseInstance(text)
		if diags.HasErrors() {
			return out, diags.Err()
		}
		out.Removed = append(out.Removed, at)
	}
	return out, nil
}

// ChangeObjects makes a change of single objects of a shared state: it locks them, and waits until waited ends for the
// holders of these locks. If it returns errors, nothing was changed, except that the snapshot may not have been
// written. A change that was made already is not an error.
func (s *Opened) ChangeObjects(ctx, waited context.Context, c backend.ObjectChange) diag.List {
	var has locks.Set
	for try := 0; ; try++ {
		prior, diags := s.Load(ctx)
		if diags.HasErrors() {
			return diags
		}
		objects, err := objectsIn(c)
		if err != nil {
			return refusedChange(err.Error())
		}
		changes, err := objects.Onto(prior)
		if err != nil {
			return refusedChange(err.Error())
		}
		next := prior.Clone()
		next.Apply(changes...)
		differences := state.Differences(prior, next)
		if len(differences) == 0 {
			return s.Push(ctx) // a repeated request: the first one may not have written the snapshot
		}
		const most = 3
		needs := edit.Locks(differences)
		if try == most { // others change the same resources again and again
			needs = locks.Set{locks.All: locks.Write}
		}
		if has == nil || !has.Covers(needs) {
			for o, m := range has {
				needs.Add(o, m)
			}
			if diags := s.lockObjects(ctx, waited, needs); diags.HasErrors() {
				return diags
			}
			has = needs
			continue // the state may have changed before the locks were granted
		}
		if diags := s.unchangedSince(ctx, c, differences); diags.HasErrors() {
			return diags
		}
		if err := s.takeTurn(ctx); err != nil {
			return diag.Errors("Operation interrupted", "The state was not changed.", nil)
		}
		return s.Record(ctx, journal.Commit{Changes: changes, EndVersion: true, Cause: c.Operation})
	}
}

// refusedChange returns the error of a change that others have made impossible. Its Extra is a *backend.Refused.
func refusedChange(reason string) diag.List {
	list := diag.Errors("The state was not changed", reason+".", nil)
	list[0].Extra = &backend.Refused{Reason: reason}
	return list
}

// RefusedIn returns the reason for which ChangeObjects has refused a change; nil if its errors are others.
func RefusedIn(list diag.List) *backend.Refused {
	for _, d := range list {
		if refused, ok := d.Extra.(*backend.Refused); ok {
			return refused
		}
	}
	return nil
}

// lockObjects requests locks, and waits for them until waited ends.
func (s *Opened) lockObjects(ctx, waited context.Context, set locks.Set) diag.List {
	if err := s.ask(ctx, set); err != nil {
		return diag.Errors("Error acquiring the state lock", err.Error()+".", nil)
	}
	var blockers []locks.Blocker
	granted, diags := s.await(ctx, waited, func(list []locks.Blocker) { blockers = list }, nil)
	if granted || diags.HasErrors() {
		return diags
	}
	var reasons []string
	for _, b := range blockers {
		reasons = append(reasons, b.String())
	}
	return refusedChange("it needs locks of " + strings.Join(reasons, "; "))
}

// unchangedSince returns an error if others have changed the instances of the differences since the version that a
// change was made for.
func (s *Opened) unchangedSince(ctx context.Context, c backend.ObjectChange, own []state.Difference) diag.List {
	changed, err := s.store.Since(ctx, s.Workspace, c.Lineage, c.Serial)
	switch {
	case errors.Is(err, journal.ErrVersion):
		return refusedChange("the state was replaced by another one meanwhile; run the command again")
	case err != nil:
		return diag.Errors("Failed to load state", err.Error()+".", nil)
	}
	for _, d := range changed {
		ours := slices.ContainsFunc(own, func(o state.Difference) bool {
			return o.Instance == d.Instance && d.Output == "" && !d.Checks
		})
		if ours {
			by := d.By.Who
			if by == "" {
				by = "another operation"
			}
			return refusedChange(fmt.Sprintf("%s has been changed by %s since the command read the state; run the command "+
				"again", d.Instance, by))
		}
	}
	return nil
}
