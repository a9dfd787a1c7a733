package tfe

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/millipede-iac/millipede/service/accounts"
	"github.com/millipede-iac/millipede/service/record"
)

// others are rights to features that the service does not have.
var others = []string{
	"manage-policies", "manage-policy-overrides", "manage-vcs-settings", "manage-providers", "manage-modules",
	"manage-run-tasks", "manage-agent-pools",
}

func teamResource(t *record.Team) resource {
	access := map[string]bool{
		"manage-workspaces": t.ManageWorkspaces, "manage-projects": t.ManageProjects,
		"read-workspaces": t.ReadWorkspaces, "read-projects": t.ReadProjects,
		"manage-membership": t.ManageMembership, "manage-teams": t.ManageTeams,
		"manage-organization-access": t.ManageAccess, "access-secret-teams": t.AccessSecretTeams,
	}
	for _, name := range others {
		access[name] = slices.Contains(t.Others, name)
	}
	return resource{ID: t.ID, Type: "teams", Attributes: map[string]any{
		"name": t.Name, "visibility": orDefault(t.Visibility, "secret"), "users-count": len(t.Users),
		"sso-team-id": orNull(t.SSO), "allow-member-token-management": !t.NoMemberTokens,
		"organization-access": access,
		"permissions": map[string]bool{"can-update-membership": true, "can-destroy": t.Name != "owners",
			"can-update-organization-access": t.Name != "owners"},
	}, Relationships: map[string]any{"organization": to("organizations", t.Organization),
		"users": toAll("users", t.Users)}}
}

func orDefault(text, or string) string {
	if text == "" {
		return or
	}
	return text
}

func (c *call) teams() error {
	all, err := c.svc.Teams.List(c.actor, c.arg("org"))
	if err != nil {
		return err
	}
	if names := words(c.r.FormValue("filter[names]")); len(names) > 0 {
		var some []*record.Team
		for _, t := range all {
			for _, n := range names {
				if strings.EqualFold(n, t.Name) {
					some = append(some, t)
				}
			}
		}
		all = some
	}
	if part := strings.ToLower(c.r.FormValue("q")); part != "" {
		all = slices.DeleteFunc(all, func(t *record.Team) bool {
			return !strings.Contains(strings.ToLower(t.Name), part)
		})
	}
	return list(c, all, teamResource, c.besideTeam)
}

func (c *call) team() error {
	t, err := c.svc.Teams.Find(c.actor, c.arg("team"))
	if err != nil {
		return err
	}
	res, more := teamResource(t), c.besideTeam(t)
	ids := []string{}
	all, err := c.membershipsOf(t)
	if err != nil {
		return err
	}
	for _, m := range all {
		if ids = append(ids, m.ID); c.wants("organization_memberships") {
			more = append(more, membershipResource(m))
		}
	}
	res.Relationships["organization-memberships"] = toAll("organization-memberships", ids)
	return c.ok(res, more...)
}

// membershipsOf returns the members of a team, and who is invited to it.
func (c *call) membershipsOf(t *record.Team) ([]*accounts.MembershipView, error) {
	all, err := c.svc.Memberships.List(c.actor, t.Organization)
	return slices.DeleteFunc(all, func(m *accounts.MembershipView) bool {
		return !t.Has(m.User) && (m.User != "" || !slices.Contains(m.Teams, t.ID))
	}), err
}

func (c *call) teamMemberships() error {
	t, err := c.svc.Teams.Find(c.actor, c.arg("team"))
	if err != nil {
		return err
	}
	all, err := c.membershipsOf(t)
	if err != nil {
		return err
	}
	return list(c, all, membershipResource, c.besideMembership)
}

// besideTeam returns the documents that can be included with a team.
func (c *call) besideTeam(t *record.Team) (more []resource) {
	if !c.wants("users") {
		return nil
	}
	for _, id := range t.Users {
		if u, err := c.svc.Users.Find(c.actor, id); err == nil {
			more = append(more, userResource(u))
		}
	}
	return more
}

func (c *call) createTeam() error {
	t := record.Team{Organization: c.arg("org")}
	change, err := c.teamChange()
	if err == nil {
		err = change(&t)
	}
	if err != nil {
		return err
	}
	kept, err := c.svc.Teams.Create(c.actor, t)
	return c.answerTeam(http.StatusCreated, kept, err)
}

func (c *call) changeTeam() error {
	change, err := c.teamChange()
	if err != nil {
		return err
	}
	t, err := c.svc.Teams.Change(c.actor, c.arg("team"), change)
	return c.answerTeam(http.StatusOK, t, err)
}

func (c *call) answerTeam(status int, t *record.Team, err error) error {
	if err != nil {
		return err
	}
	return c.answer(status, teamResource(t), nil)
}

// teamChange reads the change of a team from the request.
func (c *call) teamChange() (func(*record.Team) error, error) {
	var a struct {
		Name         *string         `json:"name"`
		Visibility   *string         `json:"visibility"`
		SSO          *string         `json:"sso-team-id"`
		MemberTokens *bool           `json:"allow-member-token-management"`
		Access       map[string]bool `json:"organization-access"`
	}
	_, err := c.body(&a)
	return func(t *record.Team) error {
		set(&t.Name, a.Name)
		set(&t.Visibility, a.Visibility)
		set(&t.SSO, a.SSO)
		if a.MemberTokens != nil {
			t.NoMemberTokens = !*a.MemberTokens
		}
		for name, to := range map[string]*bool{
			"manage-workspaces": &t.ManageWorkspaces, "manage-projects": &t.ManageProjects,
			"read-workspaces": &t.ReadWorkspaces, "read-projects": &t.ReadProjects,
			"manage-membership": &t.ManageMembership, "manage-teams": &t.ManageTeams,
			"manage-organization-access": &t.ManageAccess, "access-secret-teams": &t.AccessSecretTeams,
		} {
			if v, ok := a.Access[name]; ok {
				*to = v
			}
		}
		for _, name := range others {
			if v, ok := a.Access[name]; ok {
				t.Others = slices.DeleteFunc(slices.Clone(t.Others), func(o string) bool { return o == name })
				if v {
					t.Others = append(t.Others, name)
				}
			}
		}
		return nil
	}, err
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

func (c *call) deleteTeam() error {
	if err := c.svc.Teams.Delete(c.actor, c.arg("team")); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

// members adds users to a team, or removes them. They are given by names or IDs.
func members(remove bool) handler {
	return func(c *call) error {
		refs, err := c.references()
		if err != nil {
			return err
		}
		var names []string
		for _, r := range refs {
			names = append(names, r.ID)
		}
		if err := c.svc.Teams.ChangeMembers(c.actor, c.arg("team"), names, remove); err != nil {
			return err
		}
		return c.empty(http.StatusNoContent)
	}
}

// levels are the words for the levels of a right.
var (
	runLevels      = []string{"none", "read", "plan", "apply"}
	variableLevels = []string{"none", "read", "none", "write"}
)

// onProjects reports whether the path is about access to projects.
func (c *call) onProjects() bool { return strings.Contains(c.r.URL.Path, "/team-projects") }

func (c *call) accessResource(x *record.Access) resource {
	p := x.Permissions()
	state := "none"
	switch {
	case p.State >= record.Write:
		state = "write"
	case p.State >= record.Read:
		state = "read"
	case p.Outputs:
		state = "read-outputs"
	}
	mocks := orDefault(x.Mocks, "none")
	if x.Role != "custom" && p.Runs >= record.Write {
		mocks = "read"
	}
	rights := map[string]any{
		"runs": runLevels[p.Runs], "variables": variableLevels[p.Variables], "state-versions": state,
		"sentinel-mocks":    mocks,
		"workspace-locking": p.Lock, "locking": p.Lock, "run-tasks": x.Tasks || p.Admin, "create": p.Create,
		"move": p.Move, "delete": p.Delete,
	}
	if strings.HasPrefix(x.On, "prj-") {
		own := x.ProjectRights()
		return resource{ID: x.ID, Type: "team-projects", Attributes: map[string]any{
			"access": x.Role, "workspace-access": rights,
			"project-access": map[string]any{"settings": own.Settings, "teams": own.Teams, "variable-sets": own.Sets},
		}, Relationships: map[string]any{"team": to("teams", x.Team), "project": to("projects", x.On)}}
	}
	rights["access"] = x.Role
	return resource{ID: x.ID, Type: "team-workspaces", Attributes: rights, Relationships: map[string]any{
		"team": to("teams", x.Team), "workspace": to("workspaces", x.On),
	}}
}

func (c *call) accesses() error {
	name := "filter[workspace][id]"
	if c.onProjects() {
		name = "filter[project][id]"
	}
	all, err := c.svc.TeamAccess.List(c.actor, c.r.FormValue(name))
	if err != nil {
		return err
	}
	return list(c, all, c.accessResource, nil)
}

func (c *call) access() error {
	x, err := c.svc.TeamAccess.Find(c.actor, c.arg("access"))
	if err != nil {
		return err
	}
	return c.ok(c.accessResource(x))
}

// accessAttributes are custom permissions in a request. Nil fields are not changed.
type accessAttributes struct {
	Runs    *string `json:"runs"`
	Vars    *string `json:"variables"`
	State   *string `json:"state-versions"`
	Mocks   *string `json:"sentinel-mocks"`
	Locking *bool   `json:"workspace-locking"`
	Lock    *bool   `json:"locking"`
	Tasks   *bool   `json:"run-tasks"`
	Create  *bool   `json:"create"`
	Move    *bool   `json:"move"`
	Delete  *bool   `json:"delete"`
}

// given returns the name of a permission that is set; empty if none is.
func (r *accessAttributes) given() string {
	for _, p := range []struct {
		name string
		set  bool
	}{
		{"Runs", r.Runs != nil}, {"Variables", r.Vars != nil}, {"State versions", r.State != nil},
		{"Sentinel mocks", r.Mocks != nil}, {"Workspace locking", r.Locking != nil || r.Lock != nil},
		{"Run tasks", r.Tasks != nil}, {"Create", r.Create != nil}, {"Move", r.Move != nil}, {"Delete", r.Delete != nil},
	} {
		if p.set {
			return p.name
		}
	}
	return ""
}

// apply changes an access; the error names an invalid word.
func (r *accessAttributes) apply(x *record.Access) error {
	p := &x.Custom
	if r.Runs != nil {
		if p.Runs = slices.Index(runLevels, *r.Runs); p.Runs < 0 {
			return badRight("runs", *r.Runs)
		}
	}
	if r.Vars != nil {
		level, ok := map[string]int{"none": record.No, "read": record.Read, "write": record.Write}[*r.Vars]
		if p.Variables = level; !ok {
			return badRight("variables", *r.Vars)
		}
	}
	if r.State != nil {
		level, ok := map[string]int{"none": record.No, "read-outputs": record.No, "read": record.Read,
			"write": record.Write}[*r.State]
		if p.State, p.Outputs = level, *r.State != "none"; !ok {
			return badRight("state-versions", *r.State)
		}
	}
	set(&p.Lock, r.Locking)
	set(&p.Lock, r.Lock)
	set(&p.Create, r.Create)
	set(&p.Move, r.Move)
	set(&p.Delete, r.Delete)
	set(&x.Mocks, r.Mocks)
	set(&x.Tasks, r.Tasks)
	return nil
}

func badRight(name, word string) error {
	return &failure{http.StatusUnprocessableEntity, "invalid attribute", name + " cannot be " + strconv.Quote(word)}
}

func (c *call) grant() error {
	var x record.Access
	change, err := c.accessChange()
	if err == nil {
		err = change(&x)
	}
	if err != nil {
		return err
	}
	kept, err := c.svc.TeamAccess.Create(c.actor, x)
	return c.answerAccess(http.StatusCreated, kept, err)
}

func (c *call) changeAccess() error {
	change, err := c.accessChange()
	if err != nil {
		return err
	}
	kept, err := c.svc.TeamAccess.Change(c.actor, c.arg("access"), change)
	return c.answerAccess(http.StatusOK, kept, err)
}

func (c *call) answerAccess(status int, x *record.Access, err error) error {
	if err != nil {
		return err
	}
	return c.answer(status, c.accessResource(x), nil)
}

// accessChange reads the change of an access from the request.
func (c *call) accessChange() (func(*record.Access) error, error) {
	var a struct {
		Access    string          `json:"access"`
		Workspace json.RawMessage `json:"workspace-access"`
		Project   struct {
			Settings *string `json:"settings"`
			Teams    *string `json:"teams"`
			Sets     *string `json:"variable-sets"`
		} `json:"project-access"`
	}
	q, err := c.body(&a)
	if err != nil {
		return nil, err
	}
	var r accessAttributes
	text := []byte(q.Data.Attributes)
	on := "workspace"
	if c.onProjects() {
		on, text = "project", a.Workspace
	}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, &failure{http.StatusUnprocessableEntity, "invalid attribute",
				"the permissions cannot be read: " + err.Error()}
		}
	}
	team, err := q.related("team")
	if err != nil {
		return nil, err
	}
	place, err := q.related(on)
	return func(x *record.Access) error {
		x.Role, x.Team, x.On = cmp.Or(a.Access, x.Role), cmp.Or(team.ID, x.Team), cmp.Or(place.ID, x.On)
		if name := r.given(); name != "" && x.Role != "custom" {
			return &failure{http.StatusUnprocessableEntity, "invalid attribute", fmt.Sprintf(
				"%s is read-only when access level is '%s'; use the 'custom' access level to set this attribute.", name,
				x.Role)}
		}
		if err := r.apply(x); err != nil {
			return err
		}
		set(&x.Project.Settings, a.Project.Settings)
		set(&x.Project.Teams, a.Project.Teams)
		set(&x.Project.Sets, a.Project.Sets)
		return nil
	}, err
}

func (c *call) revoke() error {
	if err := c.svc.TeamAccess.Delete(c.actor, c.arg("access")); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}
