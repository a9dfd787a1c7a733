package service

import (
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// OrganizationPermissions are the rights of an actor in an organization itself.
type OrganizationPermissions struct {
	Own, Workspaces, Projects, Teams, Members bool
}

// OrganizationPermissions returns the rights of the actor in an organization itself.
func (a *Actor) OrganizationPermissions(o *record.Organization) OrganizationPermissions {
	return OrganizationPermissions{
		Own: a.owns(o), Workspaces: a.manages(o, manageWorkspaces), Projects: a.manages(o, manageProjects),
		Teams: a.manages(o, manageTeams), Members: a.manages(o, manageMembers),
	}
}

// ProjectPermissions are the rights of an actor in a project itself.
type ProjectPermissions struct {
	Update, Delete, CreateWorkspaces, ManageTeams bool
}

// Permissions returns the rights of the actor in a project itself.
func (s *Projects) Permissions(a *Actor, p *record.Project) (out ProjectPermissions, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		o, err := a.organization(tx, p.Organization)
		if err != nil {
			return err
		}
		rights, err := a.projectRights(tx, p)
		if err != nil {
			return err
		}
		all := a.manages(o, manageProjects)
		out = ProjectPermissions{
			Update: all || rights.Settings == "update" || rights.Settings == "delete",
			Delete: all || rights.Settings == "delete", ManageTeams: all || rights.Teams == "manage",
		}
		out.CreateWorkspaces, err = a.createsIn(tx, o, p.ID)
		return err
	})
	return out, told(err)
}
