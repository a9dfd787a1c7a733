package accounts

import (
	"strings"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// Projects group the workspaces of an organization.
type Projects struct {
	*shared
	workspaces Workspaces
}

// ProjectPermissions are the rights of an actor in a project itself.
type ProjectPermissions struct {
	Update, Delete, CreateWorkspaces, ManageTeams bool
}

// List returns the projects of an organization, or those with the given names.
func (s *Projects) List(a *rights.Actor, organization string, names ...string) (out []*record.Project, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		o, err := a.Organization(tx, organization)
		if err != nil {
			return err
		}
		all, err := tables.Projects.Select(tx, "organization", strings.ToLower(o.Name))
		for _, p := range all {
			sees, err := a.SeesProject(tx, o, p)
			if err != nil {
				return err
			}
			if sees && (len(names) == 0 || containsFold(names, p.Name)) {
				out = append(out, p)
			}
		}
		return err
	})
	return out, tables.Translated(err)
}

// Permissions returns the rights of the actor in a project itself.
func (s *Projects) Permissions(a *rights.Actor, p *record.Project) (out ProjectPermissions, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		o, err := a.Organization(tx, p.Organization)
		if err != nil {
			return err
		}
		granted, err := a.ProjectRights(tx, p)
		if err != nil {
			return err
		}
		all := a.Manages(o, rights.ManageProjects)
		out = ProjectPermissions{
			Update: all || granted.Settings == "update" || granted.Settings == "delete",
			Delete: all || granted.Settings == "delete", ManageTeams: all || granted.Teams == "manage",
		}
		out.CreateWorkspaces, err = a.CreatesIn(tx, o, p.ID)
		return err
	})
	return out, tables.Translated(err)
}

// Find returns a project.
func (s *Projects) Find(a *rights.Actor, id string) (p *record.Project, err error) {
	err = s.store.View(func(tx *store.Tx) error { p, _, err = a.Project(tx, id); return err })
	return p, tables.Translated(err)
}

// Create creates a project.
func (s *Projects) Create(a *rights.Actor, p record.Project) (*record.Project, error) {
	return s.put(a, p.Name, func(tx *store.Tx) (*record.Project, bool, error) {
		o, err := a.Organization(tx, p.Organization)
		if err != nil {
			return nil, false, err
		}
		p.ID, p.Organization, p.CreatedAt = tables.NewID("prj"), o.Name, s.now().UTC()
		return &p, a.Manages(o, rights.ManageProjects), nil
	})
}

// Change changes the name, the description and the tags of a project. change gets the stored project, within
// the transaction, so that two changes at the same time do not undo each other.
func (s *Projects) Change(a *rights.Actor, id string, change func(*record.Project) error) (*record.Project, error) {
	return s.put(a, id, func(tx *store.Tx) (*record.Project, bool, error) {
		p, o, err := a.Project(tx, id)
		if err != nil {
			return nil, false, err
		}
		granted, err := a.ProjectRights(tx, p)
		if err != nil {
			return nil, false, err
		}
		may := granted.Settings == "update" || granted.Settings == "delete" || a.Manages(o, rights.ManageProjects)
		return p, may, change(p)
	})
}

// put stores the project that make returns, if the actor may change it.
func (s *Projects) put(a *rights.Actor, object string, make func(*store.Tx) (p *record.Project, may bool, err error),
) (p *record.Project, err error) {
	err = s.audit.Change(a, "project.put", object, func(tx *store.Tx) error {
		var may bool
		if p, may, err = make(tx); err != nil {
			return err
		}
		p.Name = strings.TrimSpace(p.Name)
		switch {
		case !may:
			return tables.Forbidden("you are not allowed to change projects of %s", p.Organization)
		case p.Name == "" || len(p.Name) > 90:
			return tables.Invalid("Name must have between 1 and 90 characters")
		case strings.ContainsAny(p.Name, "<>/\\!@#$%^&*;:\x00\n") || len(p.Name) < 3:
			return tables.Invalid("Name must have at least 3 characters, and only letters, numbers, spaces, -, _ and .")
		}
		if p.Tags, err = tables.TidyTags(p.Tags); err != nil {
			return err
		}
		return tables.Projects.Put(tx, p)
	})
	return p, err
}

// Delete removes a project that has no workspaces.
func (s *Projects) Delete(a *rights.Actor, id string) error {
	return s.audit.Change(a, "project.delete", id, func(tx *store.Tx) error {
		p, o, err := a.Project(tx, id)
		if err != nil {
			return err
		}
		granted, err := a.ProjectRights(tx, p)
		switch {
		case err != nil:
			return err
		case granted.Settings != "delete" && !a.Manages(o, rights.ManageProjects):
			return tables.Forbidden("you are not allowed to change projects of %s", o.Name)
		case o.DefaultProject == p.ID:
			return tables.Conflict("the default project cannot be deleted")
		case s.workspaces.InProject(tx, p.ID):
			return tables.Conflict("the project %s still has workspaces", p.Name)
		}
		return tables.Projects.Delete(tx, p.ID)
	})
}

func containsFold(names []string, name string) bool {
	for _, n := range names {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}
