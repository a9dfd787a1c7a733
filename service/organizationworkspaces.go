package service

import (
	"strings"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/variables"
)

// organizationWorkspaces answers what accounts ask about workspaces.
type organizationWorkspaces struct{ sets *variables.Sets }

// InOrganization implements accounts.Workspaces.
func (organizationWorkspaces) InOrganization(tx *store.Tx, organization string) bool {
	return len(tables.Workspaces.List(tx, "organization", organization)) > 0
}

// InProject implements accounts.Workspaces.
func (organizationWorkspaces) InProject(tx *store.Tx, project string) bool {
	return len(tables.Workspaces.List(tx, "project", project)) > 0
}

// DropVariableSets implements accounts.Workspaces.
func (w organizationWorkspaces) DropVariableSets(tx *store.Tx, organization string) error {
	for _, id := range tables.VariableSets.List(tx, "organization", organization) {
		if err := w.sets.Drop(tx, id); err != nil {
			return err
		}
	}
	return nil
}

// Inherit implements accounts.Workspaces.
func (organizationWorkspaces) Inherit(tx *store.Tx, o *record.Organization) error {
	for _, id := range tables.Workspaces.List(tx, "organization", strings.ToLower(o.Name)) {
		w, err := tables.Workspaces.Get(tx, id)
		if err != nil {
			return err
		}
		if !w.InheritsMode {
			continue
		}
		w.ExecutionMode = o.Mode()
		if err := tables.Workspaces.Put(tx, w); err != nil {
			return err
		}
	}
	return nil
}
