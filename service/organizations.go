package service

import (
	"strings"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// Organization returns an organization.
func (s *Service) Organization(a *Actor, name string) (o *record.Organization, err error) {
	err = s.store.View(func(tx *store.Tx) error { o, err = a.organization(tx, name); return err })
	return o, told(err)
}

// Organizations returns those that the actor knows of.
func (s *Service) Organizations(a *Actor) (out []*record.Organization, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		for o, err := range organizations.All(tx) {
			if err != nil {
				return err
			}
			if a.inside(o) {
				out = append(out, o)
			}
		}
		return nil
	})
	return out, told(err)
}

// CreateOrganization makes an organization with its owners' team, of which the actor is a member, and its default
// project.
func (s *Service) CreateOrganization(a *Actor, name, email string) (o *record.Organization, err error) {
	if a.User == nil || !a.admin() {
		return nil, forbidden("only administrators of the service make organizations")
	}
	if !record.ValidName(name) {
		return nil, invalid("Name must be letters, digits, - and _, and begin with a letter or a digit")
	}
	err = s.audited(a, "organization.create", name, func(tx *store.Tx) error {
		if _, err := organizations.Get(tx, strings.ToLower(name)); err == nil {
			return invalid("Name has already been taken")
		}
		now := s.now().UTC()
		p := &record.Project{ID: newID("prj"), Organization: name, Name: "Default Project", CreatedAt: now}
		t := &record.Team{ID: newID("team"), Organization: name, Name: "owners", Users: []string{a.User.ID},
			Visibility: "organization"}
		o = &record.Organization{Name: name, Email: email, CreatedAt: now, DefaultProject: p.ID, Owners: t.ID}
		if err := organizations.Put(tx, o); err != nil {
			return err
		}
		if err := teams.Put(tx, t); err != nil {
			return err
		}
		return projects.Put(tx, p)
	})
	return o, err
}

// DeleteOrganization removes an organization without workspaces.
func (s *Service) DeleteOrganization(a *Actor, name string) error {
	return s.audited(a, "organization.delete", name, func(tx *store.Tx) error {
		o, err := a.organization(tx, name)
		if err != nil {
			return err
		}
		if !a.owns(o) {
			return forbidden("only owners delete an organization")
		}
		key := strings.ToLower(name)
		if len(workspaces.List(tx, "organization", key)) > 0 {
			return conflict("the organization %s still has workspaces", name)
		}
		for _, id := range projects.List(tx, "organization", key) {
			if err := projects.Delete(tx, id); err != nil {
				return err
			}
		}
		for _, id := range teams.List(tx, "organization", key) {
			if err := s.dropTeam(tx, id); err != nil {
				return err
			}
		}
		for _, id := range variableSets.List(tx, "organization", key) {
			if err := s.dropSet(tx, id); err != nil {
				return err
			}
		}
		for _, id := range tokens.List(tx, "owner", record.TokenOrganization, key) {
			if err := tokens.Delete(tx, id); err != nil {
				return err
			}
		}
		return organizations.Delete(tx, key)
	})
}

// Projects returns the projects of an organization; those called name, if one is given.
func (s *Service) Projects(a *Actor, organization string, names ...string) (out []*record.Project, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		o, err := a.organization(tx, organization)
		if err != nil {
			return err
		}
		all, err := projects.Select(tx, "organization", strings.ToLower(o.Name))
		for _, p := range all {
			if len(names) == 0 || containsFold(names, p.Name) {
				out = append(out, p)
			}
		}
		return err
	})
	return out, told(err)
}

func containsFold(names []string, name string) bool {
	for _, n := range names {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// Project returns a project.
func (s *Service) Project(a *Actor, id string) (p *record.Project, err error) {
	err = s.store.View(func(tx *store.Tx) error { p, _, err = a.project(tx, id); return err })
	return p, told(err)
}

// project returns a project of an organization that the actor knows of.
func (a *Actor) project(tx *store.Tx, id string) (*record.Project, *record.Organization, error) {
	p, err := projects.Get(tx, id)
	if err == nil {
		if o, err := a.organization(tx, p.Organization); err == nil {
			return p, o, nil
		}
	}
	return nil, nil, notFound("there is no project %q, or you have no access to it", id)
}

// PutProject makes a project (with an empty ID) or changes its name and description.
func (s *Service) PutProject(a *Actor, p record.Project) (*record.Project, error) {
	p.Name = strings.TrimSpace(p.Name)
	if p.Name == "" || len(p.Name) > 90 {
		return nil, invalid("Name must have between 1 and 90 characters")
	}
	err := s.audited(a, "project.put", p.Name, func(tx *store.Tx) error {
		if p.ID != "" {
			kept, _, err := a.project(tx, p.ID)
			if err != nil {
				return err
			}
			kept.Name, kept.Description = p.Name, p.Description
			p = *kept
		}
		o, err := a.organization(tx, p.Organization)
		if err != nil {
			return err
		}
		if !a.manages(o, manageProjects) {
			return forbidden("you are not allowed to change projects of %s", o.Name)
		}
		if p.ID == "" {
			p.ID, p.Organization, p.CreatedAt = newID("prj"), o.Name, s.now().UTC()
		}
		return projects.Put(tx, &p)
	})
	return &p, err
}

// DeleteProject removes a project without workspaces.
func (s *Service) DeleteProject(a *Actor, id string) error {
	return s.audited(a, "project.delete", id, func(tx *store.Tx) error {
		p, o, err := a.project(tx, id)
		switch {
		case err != nil:
			return err
		case !a.manages(o, manageProjects):
			return forbidden("you are not allowed to change projects of %s", o.Name)
		case o.DefaultProject == p.ID:
			return conflict("the default project cannot be deleted")
		case len(workspaces.List(tx, "project", p.ID)) > 0:
			return conflict("the project %s still has workspaces", p.Name)
		}
		return projects.Delete(tx, p.ID)
	})
}
