package tfe

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/service/accounts"
	"github.com/millipede-iac/millipede/service/record"
)

func (c *call) account() error {
	u := c.svc.Users.Me(c.actor)
	return c.ok(userResource(&u))
}

func (c *call) user() error {
	u, err := c.svc.Users.Find(c.actor, c.arg("user"))
	if err != nil {
		return err
	}
	return c.ok(userResource(u))
}

func userResource(u *record.User) resource {
	return resource{ID: u.ID, Type: "users", Attributes: map[string]any{
		"username": u.Name, "email": orNull(u.Email), "is-service-account": false, "avatar-url": avatar(u),
		"v2-only": true, "is-admin": u.Admin,
		"two-factor": map[string]bool{"enabled": false, "verified": false},
		"permissions": map[string]bool{"can-create-organizations": u.Admin, "can-change-email": false,
			"can-change-username": false},
	}}
}

// avatar returns the address of a picture of a user: the address contains the picture, so that nothing is loaded from
// another host. It is a disc with the first letter of the name, in a colour that depends on the ID.
func avatar(u *record.User) string {
	letter := "?"
	if u.Name != "" {
		letter = strings.ToUpper(u.Name[:1]) // names are ASCII
	}
	hue := crc32.ChecksumIEEE([]byte(u.ID)) % 360
	return "data:image/svg+xml," + url.PathEscape(fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 40">`+
		`<circle cx="20" cy="20" r="20" fill="hsl(%d,50%%,35%%)"/><text x="20" y="27" font-family="sans-serif" `+
		`font-size="20" text-anchor="middle" fill="#fff">%s</text></svg>`, hue, letter))
}

// otherSettings are settings of organizations that concern features that the service does not have, with their
// defaults.
var otherSettings = map[string]bool{
	"aggregated-commit-status-enabled": true, "speculative-plan-management-enabled": true,
	"send-passing-statuses-for-untriggered-speculative-plans": false, "cost-estimation-enabled": false,
}

func (c *call) organizationResource(o *record.Organization) resource {
	may := c.actor.OrganizationPermissions(o)
	r := resource{ID: o.Name, Type: "organizations", Attributes: map[string]any{
		"name": o.Name, "external-id": "org-" + o.Name, "email": o.Email, "created-at": moment(o.CreatedAt),
		"collaborator-auth-policy": "password",
		"plan-is-enterprise":       false, "default-execution-mode": o.Mode(), "saml-enabled": false,
		"owners-team-saml-role-id": nil, "assessments-enforced": false,
		"session-timeout": nil, "session-remember": nil, "user-tokens-enabled": true,
		"allow-force-delete-workspaces": !o.NoForceDelete,
		"permissions": map[string]bool{
			"can-update": may.Own, "can-destroy": may.Own, "can-create-workspace": may.Workspaces,
			"can-create-project": may.Projects, "can-access-via-teams": true, "can-create-team": may.Teams,
			"can-manage-users": may.Members, "can-manage-varsets": may.Workspaces, "can-read-varsets": may.Workspaces,
			"can-update-api-token": may.Own, "can-traverse": true,
		},
	}, Relationships: map[string]any{"default-project": to("projects", o.DefaultProject)}}
	for name, value := range otherSettings {
		if own, ok := o.Others[name]; ok {
			value = own
		}
		r.Attributes[name] = value
	}
	return r
}

func (c *call) organizations() error {
	all, err := c.svc.Organizations.List(c.actor)
	if err != nil {
		return err
	}
	q := c.r.URL.Query()
	part, name, email := strings.ToLower(q.Get("q")), strings.ToLower(q.Get("q[name]")), strings.ToLower(q.Get("q[email]"))
	all = slices.DeleteFunc(all, func(o *record.Organization) bool {
		called, at := strings.ToLower(o.Name), strings.ToLower(o.Email)
		return !strings.Contains(called, part) && !strings.Contains(at, part) || !strings.Contains(called, name) ||
			!strings.Contains(at, email)
	})
	return list(c, all, c.organizationResource, nil)
}

func (c *call) organization() error {
	o, err := c.svc.Organizations.Find(c.actor, c.arg("org"))
	if err != nil {
		return err
	}
	var more []resource
	if c.wants("default_project") {
		if p, err := c.svc.Projects.Find(c.actor, o.DefaultProject); err == nil {
			more = append(more, c.projectResource(p))
		}
	}
	return c.ok(c.organizationResource(o), more...)
}

func (c *call) createOrganization() error {
	name, change, err := c.organizationSettings()
	if err != nil {
		return err
	}
	if name == nil {
		name = new(string)
	}
	email := ""
	set(&email, change.Email)
	o, err := c.svc.Organizations.Create(c.actor, *name, email)
	if err == nil {
		o, err = c.svc.Organizations.Change(c.actor, *name, change)
	}
	if err != nil {
		return err
	}
	return c.created(c.organizationResource(o))
}

func (c *call) changeOrganization() error {
	name, change, err := c.organizationSettings()
	if err != nil {
		return err
	}
	if name != nil && !strings.EqualFold(*name, c.arg("org")) {
		return &failure{http.StatusUnprocessableEntity, "invalid attribute", "an organization cannot be renamed"}
	}
	o, err := c.svc.Organizations.Change(c.actor, c.arg("org"), change)
	if err != nil {
		return err
	}
	return c.ok(c.organizationResource(o))
}

// organizationSettings reads the name and the settings of an organization from a request. It refuses settings that
// would have no effect although somebody relies on them.
func (c *call) organizationSettings() (name *string, o accounts.OrganizationSettings, err error) {
	var a struct {
		Name, Email *string
		Mode        *string `json:"default-execution-mode"`
		ForceDelete *bool   `json:"allow-force-delete-workspaces"`
		Policy      *string `json:"collaborator-auth-policy"`
		Owners      *string `json:"owners-team-saml-role-id"`
		Timeout     *int    `json:"session-timeout"`
		Remember    *int    `json:"session-remember"`
		UserTokens  *bool   `json:"user-tokens-enabled"`
		Assessments *bool   `json:"assessments-enforced"`
		HYOK        *bool   `json:"enforce-hyok"`
	}
	q, err := c.body(&a)
	if err != nil {
		return nil, o, err
	}
	is := func(b *bool, value bool) bool { return b != nil && *b == value }
	for lacking, asked := range map[string]bool{
		"authentication policy but passwords":                        a.Policy != nil && *a.Policy != "password",
		"role of its own for owners: set sso-team-id of their team":  a.Owners != nil && *a.Owners != "",
		"other terms of sessions than twelve hours":                  a.Timeout != nil || a.Remember != nil,
		"way to refuse the tokens of users":                          is(a.UserTokens, false),
		"health assessments":                                         is(a.Assessments, true),
		"keys that an organization holds: use the service's own key": is(a.HYOK, true),
	} {
		if asked {
			return nil, o, &failure{http.StatusUnprocessableEntity, "invalid attribute", "this service has no " + lacking}
		}
	}
	var others map[string]any
	if err := json.Unmarshal(q.Data.Attributes, &others); err != nil {
		others = nil // there are no attributes
	}
	o = accounts.OrganizationSettings{Email: a.Email, DefaultMode: a.Mode, Others: map[string]bool{}}
	for setting := range otherSettings {
		if value, ok := others[setting].(bool); ok {
			o.Others[setting] = value
		}
	}
	if a.ForceDelete != nil {
		forbidden := !*a.ForceDelete
		o.NoForceDelete = &forbidden
	}
	return a.Name, o, nil
}

func (c *call) changeAccount() error {
	var a struct{ Username, Email *string }
	if _, err := c.body(&a); err != nil {
		return err
	}
	u, err := c.svc.Users.ChangeMe(c.actor, a.Username, a.Email)
	if err != nil {
		return err
	}
	return c.ok(userResource(u))
}

func (c *call) deleteOrganization() error {
	if err := c.svc.Organizations.Delete(c.actor, c.arg("org")); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

// entitlements returns the features of the organization. Without operations, clients would execute all runs
// themselves.
func (c *call) entitlements() error {
	o, err := c.svc.Organizations.Find(c.actor, c.arg("org"))
	if err != nil {
		return err
	}
	return c.ok(resource{ID: "org-" + o.Name, Type: "entitlement-sets", Attributes: map[string]any{
		"operations": true, "state-storage": true, "teams": true, "agents": false, "cost-estimation": false,
		"policy-enforcement":      false,
		"private-module-registry": false, "run-tasks": false, "sentinel": false, "sso": false,
		"vcs-integrations": false,
		"audit-logging":    false, "configuration-designer": false, "global-run-tasks": false,
		"private-run-tasks": false,
	}})
}

func (c *call) capacity() error {
	all, err := c.svc.Runs.Queue(c.actor, c.arg("org"))
	if err != nil {
		return err
	}
	pending, running := 0, 0
	for _, r := range all {
		if r.Status.Computes() {
			running++
		} else if r.Status == record.Pending || r.Status == record.PlanQueued || r.Status == record.ApplyQueued ||
			r.Status == record.Confirmed {
			pending++
		}
	}
	return c.ok(resource{ID: c.arg("org"), Type: "organization-capacity", Attributes: map[string]any{
		"organization": c.arg("org"), "pending": pending, "running": running,
	}})
}

func (c *call) projectResource(p *record.Project) resource {
	may, err := c.svc.Projects.Permissions(c.actor, p)
	if err != nil { // return the rest
		c.o.Logger.Warn("cannot read the rights in a project", "project", p.ID, "error", err)
	}
	relations := map[string]any{"organization": to("organizations", p.Organization)}
	if c.wants("effective_tag_bindings") {
		ids := []string{}
		for _, b := range bindings(p.Tags) {
			ids = append(ids, b.ID)
		}
		relations["effective-tag-bindings"] = toAll("effective-tag-bindings", ids)
	}
	return resource{ID: p.ID, Type: "projects", Attributes: map[string]any{
		"name": p.Name, "description": p.Description, "created-at": moment(p.CreatedAt),
		"auto-destroy-activity-duration": nil,
		"permissions": map[string]bool{"can-update": may.Update, "can-destroy": may.Delete,
			"can-create-workspace": may.CreateWorkspaces, "can-manage-teams": may.ManageTeams},
	}, Relationships: relations}
}

func (c *call) projects() error {
	var names []string
	if name := c.r.FormValue("filter[names]"); name != "" {
		names = words(name)
	}
	all, err := c.svc.Projects.List(c.actor, c.arg("org"), names...)
	if err != nil {
		return err
	}
	if part := strings.ToLower(c.r.FormValue("q")); part != "" {
		all = slices.DeleteFunc(all, func(p *record.Project) bool {
			return !strings.Contains(strings.ToLower(p.Name), part)
		})
	}
	return list(c, all, c.projectResource, c.besideProject)
}

func (c *call) answerProject(status int, p *record.Project, err error) error {
	if err != nil {
		return err
	}
	return c.answer(status, c.projectResource(p), c.besideProject(p))
}

// besideProject returns the documents that can be included with a project.
func (c *call) besideProject(p *record.Project) (more []resource) {
	if c.wants("effective_tag_bindings") {
		more = bindings(p.Tags)
	}
	if c.wants("organization") {
		if o, err := c.svc.Organizations.Find(c.actor, p.Organization); err == nil {
			more = append(more, c.organizationResource(o))
		}
	}
	return more
}

func (c *call) project() error {
	p, err := c.svc.Projects.Find(c.actor, c.arg("project"))
	return c.answerProject(http.StatusOK, p, err)
}

func (c *call) createProject() error {
	p := record.Project{Organization: c.arg("org")}
	change, err := c.projectChange()
	if err == nil {
		err = change(&p)
	}
	if err != nil {
		return err
	}
	kept, err := c.svc.Projects.Create(c.actor, p)
	return c.answerProject(http.StatusCreated, kept, err)
}

func (c *call) changeProject() error {
	change, err := c.projectChange()
	if err != nil {
		return err
	}
	p, err := c.svc.Projects.Change(c.actor, c.arg("project"), change)
	return c.answerProject(http.StatusOK, p, err)
}

// projectChange reads the change of a project from the request.
func (c *call) projectChange() (func(*record.Project) error, error) {
	var a struct{ Name, Description *string }
	q, err := c.body(&a)
	if err != nil {
		return nil, err
	}
	tags, err := q.relatedAll("tag-bindings")
	return func(p *record.Project) error {
		set(&p.Name, a.Name)
		set(&p.Description, a.Description)
		if tags != nil {
			p.Tags = tagsOf(tags)
		}
		return nil
	}, err
}

func (c *call) deleteProject() error {
	if err := c.svc.Projects.Delete(c.actor, c.arg("project")); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}
