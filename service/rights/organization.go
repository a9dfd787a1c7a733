package rights

import (
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// OrganizationPermissions are the rights of an actor in an organization itself.
type OrganizationPermissions struct {
	Own, Workspaces, Projects, Teams, Members bool
}

// OrganizationPermissions returns the rights of the actor in an organization itself.
func (a *Actor) OrganizationPermissions(o *record.Organization) OrganizationPermissions {
	return OrganizationPermissions{
		Own: a.Owns(o), Workspaces: a.Manages(o, ManageWorkspaces), Projects: a.Manages(o, ManageProjects),
		Teams: a.Manages(o, ManageTeams), Members: a.Manages(o, ManageMembers),
	}
}

// Membership returns a membership of an organization that the actor may know of, with the organization.
func (a *Actor) Membership(tx *store.Tx, id string) (*record.Membership, *record.Organization, error) {
	m, err := tables.Memberships.Get(tx, id)
	if err == nil {
		if o, err := a.Organization(tx, m.Organization); err == nil {
			return m, o, nil
		}
	}
	return nil, nil, tables.NotFound("there is no membership %q, or you have no access to it", id)
}
