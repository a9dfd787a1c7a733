package variables

import (
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/service/audit"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// Sets are the variables that several workspaces of an organization share.
type Sets struct {
	store *store.Store
	audit *audit.Log
}

// NewSets returns the variable sets in a store.
func NewSets(st *store.Store, l *audit.Log) *Sets { return &Sets{st, l} }

// List returns the variable sets of an organization; if a workspace is given, the ones that apply to
// it.
func (s *Sets) List(a *rights.Actor, organization, workspace string) (out []*record.VariableSet, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		var w *record.Workspace
		if workspace != "" {
			if w, err = a.Allowed(tx, workspace, rights.ReadVariables); err != nil {
				return err
			}
			organization = w.Organization
		}
		o, err := a.Organization(tx, organization)
		if err != nil {
			return err
		}
		all, err := tables.VariableSets.Select(tx, "organization", strings.ToLower(o.Name))
		for _, set := range all {
			reads, err := a.ReadsVariableSet(tx, o, set)
			if err != nil {
				return err
			}
			if reads && (w == nil || set.Concerns(w)) {
				out = append(out, set)
			}
		}
		return err
	})
	return out, tables.Translated(err)
}

// Find returns a variable set.
func (s *Sets) Find(a *rights.Actor, id string) (set *record.VariableSet, err error) {
	err = s.store.View(func(tx *store.Tx) error { set, _, err = a.VariableSet(tx, id); return err })
	return set, tables.Translated(err)
}

// Create creates a variable set.
func (s *Sets) Create(a *rights.Actor, v record.VariableSet) (*record.VariableSet, error) {
	return s.put(a, v.Name, func(tx *store.Tx) (*record.VariableSet, *record.Organization, error) {
		o, err := a.Organization(tx, v.Organization)
		if err != nil {
			return nil, nil, err
		}
		v.ID, v.Organization = tables.NewID("varset"), o.Name
		return &v, o, nil
	})
}

// Change changes a variable set. change gets the stored one, within the transaction, so that two changes at
// the same time do not undo each other.
func (s *Sets) Change(a *rights.Actor, id string, change func(*record.VariableSet) error) (
	*record.VariableSet, error) {
	return s.put(a, id, func(tx *store.Tx) (*record.VariableSet, *record.Organization, error) {
		v, o, err := a.VariableSet(tx, id)
		if err != nil {
			return nil, nil, err
		}
		return v, o, change(v)
	})
}

// put stores the set that make returns, with its organization, if the actor may change it.
func (s *Sets) put(a *rights.Actor, object string,
	make func(*store.Tx) (*record.VariableSet, *record.Organization, error)) (v *record.VariableSet, err error) {
	err = s.audit.Change(a, "varset.put", object, func(tx *store.Tx) error {
		var o *record.Organization
		if v, o, err = make(tx); err != nil {
			return err
		}
		if v.Name = strings.TrimSpace(v.Name); v.Name == "" {
			return tables.Invalid("Name can't be blank")
		}
		if !a.Manages(o, rights.ManageWorkspaces) {
			return tables.Forbidden("you are not allowed to change variable sets of %s", o.Name)
		}
		if err := within(tx, o, v.Workspaces, v.Projects); err != nil {
			return err
		}
		return tables.VariableSets.Put(tx, v)
	})
	return v, err
}

// Assign adds workspaces and projects to those that use a variable set, or removes them.
func (s *Sets) Assign(a *rights.Actor, id string, workspaceIDs, projectIDs []string, remove bool) error {
	return s.audit.Change(a, "varset.assign", id, func(tx *store.Tx) error {
		set, o, err := a.VariableSet(tx, id)
		if err != nil {
			return err
		}
		if !a.Manages(o, rights.ManageWorkspaces) {
			return tables.Forbidden("you are not allowed to change variable sets of %s", o.Name)
		}
		if !remove {
			if err := within(tx, o, workspaceIDs, projectIDs); err != nil {
				return err
			}
		}
		for _, w := range workspaceIDs {
			set.Workspaces = assign(set.Workspaces, w, remove)
		}
		for _, p := range projectIDs {
			set.Projects = assign(set.Projects, p, remove)
		}
		return tables.VariableSets.Put(tx, set)
	})
}

// within checks that workspaces and projects are in an organization.
func within(tx *store.Tx, o *record.Organization, workspaceIDs, projectIDs []string) error {
	for _, id := range workspaceIDs {
		if w, err := tables.Workspaces.Get(tx, id); err != nil || w.Organization != o.Name {
			return tables.NotFound("there is no workspace %q in %s", id, o.Name)
		}
	}
	for _, id := range projectIDs {
		if p, err := tables.Projects.Get(tx, id); err != nil || p.Organization != o.Name {
			return tables.NotFound("there is no project %q in %s", id, o.Name)
		}
	}
	return nil
}

func assign(all []string, id string, remove bool) []string {
	all = slices.DeleteFunc(all, func(o string) bool { return o == id })
	if remove {
		return all
	}
	return append(all, id)
}

// Delete removes a variable set with its variables.
func (s *Sets) Delete(a *rights.Actor, id string) error {
	return s.audit.Change(a, "varset.delete", id, func(tx *store.Tx) error {
		_, o, err := a.VariableSet(tx, id)
		if err != nil {
			return err
		}
		if !a.Manages(o, rights.ManageWorkspaces) {
			return tables.Forbidden("you are not allowed to change variable sets of %s", o.Name)
		}
		return s.Drop(tx, id)
	})
}

func (s *Sets) Drop(tx *store.Tx, id string) error {
	for _, v := range tables.Variables.List(tx, "parent", id) {
		if err := tables.Variables.Delete(tx, v); err != nil {
			return err
		}
	}
	return tables.VariableSets.Delete(tx, id)
}
