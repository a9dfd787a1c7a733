package rights

import (
	"errors"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// MayVariables checks a right of the actor in the variables of a workspace or a variable set.
func (a *Actor) MayVariables(tx *store.Tx, parent string, n Right) error {
	if !strings.HasPrefix(parent, "varset-") {
		_, err := a.Allowed(tx, parent, n)
		return err
	}
	set, org, err := a.VariableSet(tx, parent)
	if err == nil && n.What != ReadVariables.What && !a.Manages(org, ManageWorkspaces) {
		return tables.Forbidden("you are not allowed to change the variable set %s", set.Name)
	}
	return err
}

// VariableSet returns a variable set of an organization that the actor may know of.
func (a *Actor) VariableSet(tx *store.Tx, id string) (*record.VariableSet, *record.Organization, error) {
	set, err := tables.VariableSets.Get(tx, id)
	if err == nil {
		if o, err := a.Organization(tx, set.Organization); err == nil {
			if reads, err := a.ReadsVariableSet(tx, o, set); reads || err != nil {
				return set, o, err
			}
		}
	}
	return nil, nil, tables.NotFound("there is no variable set %q, or you have no access to it", id)
}

// ReadsVariableSet reports whether the actor may read a variable set: with the right to manage or read all workspaces,
// or to read the variables of a workspace that uses the set.
func (a *Actor) ReadsVariableSet(tx *store.Tx, o *record.Organization, set *record.VariableSet) (bool, error) {
	if a.Manages(o, func(t *record.Team) bool { return t.ManageWorkspaces || t.ReadWorkspaces }) {
		return true, nil
	}
	on := slices.Clone(set.Workspaces)
	for _, p := range set.Projects {
		on = append(on, tables.Workspaces.List(tx, "project", p)...)
	}
	if set.Global {
		on = tables.Workspaces.List(tx, "organization", strings.ToLower(o.Name))
	}
	for _, id := range on {
		w, err := tables.Workspaces.Get(tx, id)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return false, err
		}
		if p, err := a.Permissions(tx, w); err != nil || ReadVariables.Has(p) {
			return err == nil, err
		}
	}
	return false, nil
}
