package service

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
	// run is the run that the token belongs to, when it is the token of a run.
	run *record.Run
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

// identify fills in the user, the teams or the run that the token of the actor belongs to.
func (a *Actor) identify(tx *store.Tx) (err error) {
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
		if a.run, err = tables.Runs.Look(tx, a.Token.Owner); err == nil && a.run.Status.Final() && !a.Token.Ended {
			return store.ErrNotFound
		}
	}
	return err
}

// admin reports whether the actor may do everything in every organization.
func (a *Actor) admin() bool { return a.User != nil && a.User.Admin }

// owns reports whether the actor may do everything in an organization.
func (a *Actor) owns(o *record.Organization) bool {
	if a.admin() {
		return true
	}
	for _, t := range a.teams {
		if t.ID == o.Owners {
			return true
		}
	}
	return false
}

// inside reports whether the actor may know that the organization exists.
func (a *Actor) inside(o *record.Organization) bool {
	if a.owns(o) || a.Token.Kind == record.TokenOrganization && strings.EqualFold(a.Token.Owner, o.Name) {
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
	return a.run != nil && strings.EqualFold(a.run.Organization, o.Name)
}

// manages reports whether the actor has a right in the whole organization: as its owner, or through a team for
// which what returns true.
func (a *Actor) manages(o *record.Organization, what func(*record.Team) bool) bool {
	if a.owns(o) {
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

func manageWorkspaces(t *record.Team) bool { return t.ManageWorkspaces }
func manageProjects(t *record.Team) bool   { return t.ManageProjects || t.ManageWorkspaces }
func manageTeams(t *record.Team) bool      { return t.ManageMembership || t.ManageTeams }
func manageAccess(t *record.Team) bool     { return t.ManageAccess }
func secretTeams(t *record.Team) bool      { return t.AccessSecretTeams }
func readProjects(t *record.Team) bool {
	return manageProjects(t) || t.ReadProjects || t.ReadWorkspaces
}

// organization returns an organization. The error is ErrNotFound if there is none, or the actor may not know of
// it.
func (a *Actor) organization(tx *store.Tx, name string) (*record.Organization, error) {
	o, err := tables.Organizations.Get(tx, strings.ToLower(name))
	if err != nil || !a.inside(o) {
		return nil, tables.NotFound("there is no organization %q, or you have no access to it", name)
	}
	return o, nil
}

// permissions returns the rights of the actor in a workspace.
func (a *Actor) permissions(tx *store.Tx, w *record.Workspace) (record.Permissions, error) {
	o, err := tables.Organizations.Look(tx, strings.ToLower(w.Organization))
	if err != nil {
		return record.Permissions{}, err
	}
	if a.manages(o, manageWorkspaces) {
		return record.All(), nil
	}
	var p record.Permissions
	if a.run != nil {
		switch {
		case a.run.Workspace == w.ID:
			p = record.Permissions{State: record.Read, Outputs: true}
		case strings.EqualFold(a.run.Organization, w.Organization) &&
			(w.GlobalState || slices.Contains(w.Consumers, a.run.Workspace)):
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

// workspace returns a workspace that the actor may see, with the actor's rights in it. The error is ErrNotFound
// otherwise.
func (a *Actor) workspace(tx *store.Tx, id string) (*record.Workspace, record.Permissions, error) {
	w, err := tables.Workspaces.Look(tx, id)
	if err == nil {
		var p record.Permissions
		if p, err = a.permissions(tx, w); err == nil && p.Any() {
			return w, p, nil
		}
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, record.Permissions{}, err
	}
	return nil, record.Permissions{}, tables.NotFound("there is no workspace %q, or you have no access to it", id)
}

// need is a right in a workspace, with its name for error messages.
type need struct {
	what string
	has  func(record.Permissions) bool
}

var (
	needSee      = need{"see this workspace", record.Permissions.Any}
	needReadRuns = need{"read the runs of this workspace",
		func(p record.Permissions) bool { return p.Runs >= record.Read }}
	needPlan = need{"queue runs in this workspace",
		func(p record.Permissions) bool { return p.Runs >= record.Plan }}
	needApply = need{"apply runs of this workspace",
		func(p record.Permissions) bool { return p.Runs >= record.Write }}
	needReadVars = need{"read the variables of this workspace",
		func(p record.Permissions) bool { return p.Variables >= record.Read }}
	needWriteVars = need{"change the variables of this workspace",
		func(p record.Permissions) bool { return p.Variables >= record.Write }}
	needOutputs   = need{"read the outputs of this workspace", func(p record.Permissions) bool { return p.Outputs }}
	needReadState = need{"read the state of this workspace",
		func(p record.Permissions) bool { return p.State >= record.Read }}
	needWriteState = need{"change the state of this workspace",
		func(p record.Permissions) bool { return p.State >= record.Write }}
	needLock   = need{"lock this workspace", func(p record.Permissions) bool { return p.Lock }}
	needDelete = need{"delete this workspace", func(p record.Permissions) bool { return p.Admin || p.Delete }}
	needAdmin  = need{"administer this workspace", func(p record.Permissions) bool { return p.Admin }}
)

// allowed returns a workspace in which the actor has a right. The error is ErrForbidden if the actor may see
// the workspace but lacks the right.
func (a *Actor) allowed(tx *store.Tx, id string, n need) (*record.Workspace, error) {
	w, p, err := a.workspace(tx, id)
	if err != nil {
		return nil, err
	}
	if !n.has(p) {
		return nil, tables.Forbidden("you are not allowed to %s", n.what)
	}
	return w, nil
}
