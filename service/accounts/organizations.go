package accounts

import (
	"maps"
	"strings"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// Organizations are the organizations of the service.
type Organizations struct {
	*shared
	memberships *Memberships
	teams       *Teams
	workspaces  Workspaces
}

// Find returns an organization.
func (s *Organizations) Find(a *rights.Actor, name string) (o *record.Organization, err error) {
	err = s.store.View(func(tx *store.Tx) error { o, err = a.Organization(tx, name); return err })
	return o, tables.Translated(err)
}

// List returns the organizations that the actor may know of.
func (s *Organizations) List(a *rights.Actor) (out []*record.Organization, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		for o, err := range tables.Organizations.All(tx) {
			if err != nil {
				return err
			}
			if a.Inside(o) {
				out = append(out, o)
			}
		}
		return nil
	})
	return out, tables.Translated(err)
}

// Create creates an organization, its team of owners, of which the actor becomes a member, and its
// default project.
func (s *Organizations) Create(a *rights.Actor, name, email string) (o *record.Organization, err error) {
	if a.User == nil || !a.Admin() {
		return nil, tables.Forbidden("only administrators of the service may create organizations")
	}
	if !record.ValidName(name) {
		return nil, tables.Invalid("Name must be letters, digits, - and _, and begin with a letter or a digit")
	}
	if record.Reserved(name) {
		return nil, tables.Invalid("Name is reserved: the pages of the service have the addresses /app/login, " +
			"/app/logout and /app/settings")
	}
	err = s.audit.Change(a, "organization.create", name, func(tx *store.Tx) error {
		if _, err := tables.Organizations.Get(tx, strings.ToLower(name)); err == nil {
			return tables.Invalid("Name has already been taken")
		}
		now := s.now().UTC()
		p := &record.Project{ID: tables.NewID("prj"), Organization: name, Name: "Default Project", CreatedAt: now}
		t := &record.Team{ID: tables.NewID("team"), Organization: name, Name: "owners", Users: []string{a.User.ID},
			Visibility: "organization"}
		o = &record.Organization{Name: name, Email: email, CreatedAt: now, DefaultProject: p.ID, Owners: t.ID}
		if err := tables.Organizations.Put(tx, o); err != nil {
			return err
		}
		if err := tables.Teams.Put(tx, t); err != nil {
			return err
		}
		if err := s.memberships.belong(tx, name, a.User); err != nil {
			return err
		}
		return tables.Projects.Put(tx, p)
	})
	return o, err
}

// OrganizationSettings are the settings of an organization that can be changed. Nil fields are not changed.
type OrganizationSettings struct {
	Email, DefaultMode *string
	NoForceDelete      *bool
	// Others has the settings of record.Organization.Others to change.
	Others map[string]bool
}

// Change changes the settings of an organization. A new default execution mode applies to the
// workspaces that have none of their own.
func (s *Organizations) Change(a *rights.Actor, name string, c OrganizationSettings) (o *record.Organization,
	err error) {
	err = s.audit.Change(a, "organization.change", name, func(tx *store.Tx) error {
		if o, err = a.Organization(tx, name); err != nil {
			return err
		}
		if !a.Owns(o) {
			return tables.Forbidden("only owners may change an organization")
		}
		record.Set(&o.Email, c.Email)
		record.Set(&o.NoForceDelete, c.NoForceDelete)
		if len(c.Others) > 0 {
			all := map[string]bool{}
			maps.Copy(all, o.Others)
			maps.Copy(all, c.Others)
			o.Others = all
		}
		if c.DefaultMode != nil && *c.DefaultMode != o.Mode() {
			if !record.ValidMode(*c.DefaultMode) {
				return tables.Invalid("Default execution mode must be remote, local or agent")
			}
			o.DefaultMode = *c.DefaultMode
			if err := s.workspaces.Inherit(tx, o); err != nil {
				return err
			}
		}
		return tables.Organizations.Put(tx, o)
	})
	return o, err
}

// Delete removes an organization that has no workspaces.
func (s *Organizations) Delete(a *rights.Actor, name string) error {
	return s.audit.Change(a, "organization.delete", name, func(tx *store.Tx) error {
		o, err := a.Organization(tx, name)
		if err != nil {
			return err
		}
		if !a.Owns(o) {
			return tables.Forbidden("only owners may delete an organization")
		}
		key := strings.ToLower(name)
		if s.workspaces.InOrganization(tx, key) {
			return tables.Conflict("the organization %s still has workspaces", name)
		}
		for _, id := range tables.Projects.List(tx, "organization", key) {
			if err := tables.Projects.Delete(tx, id); err != nil {
				return err
			}
		}
		for _, id := range tables.Teams.List(tx, "organization", key) {
			if err := s.teams.drop(tx, id); err != nil {
				return err
			}
		}
		if err := s.workspaces.DropVariableSets(tx, key); err != nil {
			return err
		}
		for _, id := range tables.Memberships.List(tx, "organization", key) {
			if err := tables.Memberships.Delete(tx, id); err != nil {
				return err
			}
		}
		for _, id := range tables.Tokens.List(tx, "owner", record.TokenOrganization, key) {
			if err := tables.Tokens.Delete(tx, id); err != nil {
				return err
			}
		}
		return tables.Organizations.Delete(tx, key)
	})
}
