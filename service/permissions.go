package service

import (
	"github.com/millipede-iac/millipede/service/record"
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
