package rights

import (
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// KnowsTeam reports whether the actor may see a team: as a member, with the right to manage teams, or, for teams
// that are not secret, as a member of the organization.
func (a *Actor) KnowsTeam(t *record.Team, o *record.Organization) bool {
	if t.Visibility == "organization" || a.Manages(o, ManageTeams) || a.Manages(o, secretTeams) {
		return true
	}
	return slices.ContainsFunc(a.teams, func(mine *record.Team) bool { return mine.ID == t.ID })
}

// Team returns a team that the actor may see, with its organization.
func (a *Actor) Team(tx *store.Tx, id string) (*record.Team, *record.Organization, error) {
	t, err := tables.Teams.Get(tx, id)
	if err == nil {
		if o, err := a.Organization(tx, t.Organization); err == nil && a.KnowsTeam(t, o) {
			return t, o, nil
		}
	}
	return nil, nil, tables.NotFound("there is no team %q, or you have no access to it", id)
}

// MayTokens checks that the actor manages the tokens of an owner, and returns the owner's ID.
func (a *Actor) MayTokens(tx *store.Tx, kind, owner string) (string, error) {
	switch kind {
	case record.TokenUser:
		if a.User != nil && (a.User.ID == owner || a.Admin()) {
			if _, err := tables.Users.Get(tx, owner); err == nil {
				return owner, nil
			}
		}
	case record.TokenTeam:
		if t, o, err := a.Team(tx, owner); err == nil && (a.Owns(o) || t.ID != o.Owners && a.Manages(o, ManageTeams)) {
			return t.ID, nil
		}
	case record.TokenOrganization:
		if o, err := a.Organization(tx, owner); err == nil && a.Owns(o) {
			return strings.ToLower(o.Name), nil
		}
	}
	return "", tables.NotFound("there is no %s %q whose tokens you manage", kind, owner)
}

// MayGrant checks that the actor may see, or change, the rights of teams in a workspace or a project.
func (a *Actor) MayGrant(tx *store.Tx, on string, change bool) error {
	if !strings.HasPrefix(on, "prj-") {
		n := See
		if change {
			n = Administer
		}
		_, err := a.Allowed(tx, on, n)
		return err
	}
	p, o, err := a.Project(tx, on)
	if err != nil {
		return err
	}
	granted, err := a.ProjectRights(tx, p)
	if err != nil {
		return err
	}
	if change && !a.Manages(o, ManageProjects) && granted.Teams != "manage" {
		return tables.Forbidden("you are not allowed to change the access to the project %s", p.Name)
	}
	return nil
}
