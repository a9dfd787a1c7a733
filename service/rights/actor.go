// Package rights says what an actor may see and do.
//
// Its functions decide from records alone: they read in the transaction of the caller, and change nothing. They do not
// authenticate: package accounts finds the actor of a token.
package rights

import (
	"errors"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// Actor is the person, team or run that makes a request, as its token said at that moment. Authenticate each
// request anew; do not keep an Actor.
type Actor struct {
	Token *record.Token
	// User is the person, when the token is one of a user; nil otherwise.
	User *record.User
	// teams are the teams whose rights the actor has.
	teams []*record.Team
	// Run is the run that the token belongs to, when it is the token of a run.
	Run *record.Run
	// member lists the organizations, in lower case, of which the user is a member, with or without a team.
	member []string
	// From is the address from which the request came.
	From string
}

// Name returns the name of the actor in logs and locks.
func (a *Actor) Name() string {
	if a.User != nil {
		return a.User.Name
	}
	return a.Token.Kind + " " + a.Token.Owner
}

// ID returns the ID of the user, team, organization or run that owns the token.
func (a *Actor) ID() string { return a.Token.Owner }

// Identify fills in the user, the teams or the run that the token of the actor belongs to. The error is
// store.ErrNotFound if there is none any more, or if the user is disabled.
func (a *Actor) Identify(tx *store.Tx) (err error) {
	switch a.Token.Kind {
	case record.TokenUser:
		if a.User, err = tables.Users.Look(tx, a.Token.Owner); err != nil {
			return err
		}
		if a.User.Disabled {
			return store.ErrNotFound
		}
		if a.teams, err = tables.Teams.LookAll(tx, "user", a.User.ID); err != nil {
			return err
		}
		theirs, err := tables.Memberships.LookAll(tx, "user", a.User.ID)
		for _, m := range theirs {
			a.member = append(a.member, strings.ToLower(m.Organization))
		}
		return err
	case record.TokenTeam:
		var t *record.Team
		if t, err = tables.Teams.Look(tx, a.Token.Owner); err == nil {
			a.teams = []*record.Team{t}
		}
	case record.TokenOrganization:
		_, err = tables.Organizations.Look(tx, a.Token.Owner)
	case record.TokenRun:
		if a.Run, err = tables.Runs.Look(tx, a.Token.Owner); err == nil && a.Run.Status.Final() && !a.Token.Ended {
			return store.ErrNotFound
		}
	}
	return err
}

// Admin reports whether the actor may do everything in every organization.
func (a *Actor) Admin() bool { return a.User != nil && a.User.Admin }

// Owns reports whether the actor may do everything in an organization.
func (a *Actor) Owns(o *record.Organization) bool {
	if a.Admin() {
		return true
	}
	for _, t := range a.teams {
		if t.ID == o.Owners {
			return true
		}
	}
	return false
}

// Inside reports whether the actor may know that the organization exists.
func (a *Actor) Inside(o *record.Organization) bool {
	if a.Owns(o) || a.Token.Kind == record.TokenOrganization && strings.EqualFold(a.Token.Owner, o.Name) {
		return true
	}
	for _, t := range a.teams {
		if strings.EqualFold(t.Organization, o.Name) {
			return true
		}
	}
	if slices.Contains(a.member, strings.ToLower(o.Name)) {
		return true
	}
	return a.Run != nil && strings.EqualFold(a.Run.Organization, o.Name)
}

// Manages reports whether the actor has a right in the whole organization: as its owner, or through a team for
// which what returns true.
func (a *Actor) Manages(o *record.Organization, what func(*record.Team) bool) bool {
	if a.Owns(o) {
		return true
	}
	if a.Token.Kind == record.TokenOrganization && strings.EqualFold(a.Token.Owner, o.Name) {
		return true
	}
	for _, t := range a.teams {
		if strings.EqualFold(t.Organization, o.Name) && what(t) {
			return true
		}
	}
	return false
}

// ManageWorkspaces reports whether a team gives the right to manage all workspaces of its organization, for Manages.
func ManageWorkspaces(t *record.Team) bool { return t.ManageWorkspaces }

// ManageProjects reports whether a team gives the right to manage all projects of its organization, for Manages.
func ManageProjects(t *record.Team) bool { return t.ManageProjects || t.ManageWorkspaces }

// ManageTeams reports whether a team gives the right to manage the teams of its organization, for Manages.
func ManageTeams(t *record.Team) bool { return t.ManageMembership || t.ManageTeams }

// ManageMembers reports whether a team gives the right to manage the members of its organization, for Manages.
func ManageMembers(t *record.Team) bool { return t.ManageMembership }

// ManageAccess reports whether a team gives the right to let teams manage its organization, for Manages.
func ManageAccess(t *record.Team) bool { return t.ManageAccess }

func secretTeams(t *record.Team) bool { return t.AccessSecretTeams }
func readProjects(t *record.Team) bool {
	return ManageProjects(t) || t.ReadProjects || t.ReadWorkspaces
}

// Organization returns an organization. The error is ErrNotFound if there is none, or the actor may not know of
// it.
func (a *Actor) Organization(tx *store.Tx, name string) (*record.Organization, error) {
	o, err := tables.Organizations.Get(tx, strings.ToLower(name))
	if err != nil || !a.Inside(o) {
		return nil, tables.NotFound("there is no organization %q, or you have no access to it", name)
	}
	return o, nil
}

// Permissions returns the rights of the actor in a workspace.
func (a *Actor) Permissions(tx *store.Tx, w *record.Workspace) (record.Permissions, error) {
	o, err := tables.Organizations.Look(tx, strings.ToLower(w.Organization))
	if err != nil {
		return record.Permissions{}, err
	}
	if a.Manages(o, ManageWorkspaces) {
		return record.All(), nil
	}
	var p record.Permissions
	if a.Run != nil {
		switch {
		case a.Run.Workspace == w.ID:
			p = record.Permissions{State: record.Read, Outputs: true}
		case strings.EqualFold(a.Run.Organization, w.Organization) &&
			(w.GlobalState || slices.Contains(w.Consumers, a.Run.Workspace)):
			p = record.Permissions{State: record.Read, Outputs: true}
		}
	}
	for _, t := range a.teams {
		if !strings.EqualFold(t.Organization, w.Organization) {
			continue
		}
		if t.ReadWorkspaces {
			p = p.Plus((&record.Access{Role: "read"}).Permissions())
		}
		for _, on := range []string{w.ID, w.Project} {
			access, err := tables.Accesses.LookUp(tx, "pair", t.ID, on)
			switch {
			case err == nil:
				p = p.Plus(access.Permissions())
			case !errors.Is(err, store.ErrNotFound):
				return p, err
			}
		}
	}
	return p, nil
}

// Workspace returns a workspace that the actor may see, with the actor's rights in it. The error is ErrNotFound
// otherwise.
func (a *Actor) Workspace(tx *store.Tx, id string) (*record.Workspace, record.Permissions, error) {
	w, err := tables.Workspaces.Look(tx, id)
	if err == nil {
		var p record.Permissions
		if p, err = a.Permissions(tx, w); err == nil && p.Any() {
			return w, p, nil
		}
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, record.Permissions{}, err
	}
	return nil, record.Permissions{}, tables.NotFound("there is no workspace %q, or you have no access to it", id)
}

// Right is a right in a workspace. What is its name in error messages, as in "you are not allowed to WHAT".
type Right struct {
	What string
	Has  func(record.Permissions) bool
}

// The rights in a workspace.
var (
	See      = Right{"see this workspace", record.Permissions.Any}
	ReadRuns = Right{"read the runs of this workspace",
		func(p record.Permissions) bool { return p.Runs >= record.Read }}
	Plan = Right{"queue runs in this workspace",
		func(p record.Permissions) bool { return p.Runs >= record.Plan }}
	Apply = Right{"apply runs of this workspace",
		func(p record.Permissions) bool { return p.Runs >= record.Write }}
	ReadVariables = Right{"read the variables of this workspace",
		func(p record.Permissions) bool { return p.Variables >= record.Read }}
	WriteVariables = Right{"change the variables of this workspace",
		func(p record.Permissions) bool { return p.Variables >= record.Write }}
	ReadOutputs = Right{"read the outputs of this workspace", func(p record.Permissions) bool { return p.Outputs }}
	ReadState   = Right{"read the state of this workspace",
		func(p record.Permissions) bool { return p.State >= record.Read }}
	WriteState = Right{"change the state of this workspace",
		func(p record.Permissions) bool { return p.State >= record.Write }}
	Lock       = Right{"lock this workspace", func(p record.Permissions) bool { return p.Lock }}
	Delete     = Right{"delete this workspace", func(p record.Permissions) bool { return p.Admin || p.Delete }}
	Administer = Right{"administer this workspace", func(p record.Permissions) bool { return p.Admin }}
)

// Allowed returns a workspace in which the actor has a right. The error is ErrForbidden if the actor may see
// the workspace but lacks the right.
func (a *Actor) Allowed(tx *store.Tx, id string, n Right) (*record.Workspace, error) {
	w, p, err := a.Workspace(tx, id)
	if err != nil {
		return nil, err
	}
	if !n.Has(p) {
		return nil, tables.Forbidden("you are not allowed to %s", n.What)
	}
	return w, nil
}

// LockKind returns the kind of holder that the actor is, for its locks.
func (a *Actor) LockKind() string {
	if a.Token.Kind == record.TokenUser {
		return "user"
	}
	return "team"
}

// StateVersion returns a version of the state of a workspace in which the actor has a right. The error is ErrNotFound
// if there is none, or the actor may not see its workspace.
func (a *Actor) StateVersion(tx *store.Tx, id string, n Right) (*record.StateVersion, error) {
	v, err := tables.StateVersions.Get(tx, id)
	if err != nil {
		return nil, tables.NotFound("there is no state version %q, or you have no access to it", id)
	}
	_, err = a.Allowed(tx, v.Workspace, n)
	return v, err
}
