package tfe

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service/record"
)

func teamResource(t *record.Team) resource {
	return resource{ID: t.ID, Type: "teams", Attributes: map[string]any{
		"name": t.Name, "visibility": orDefault(t.Visibility, "secret"), "users-count": len(t.Users),
		"sso-team-id": nil, "allow-member-token-management": true,
		"organization-access": map[string]bool{
			"manage-workspaces": t.ManageWorkspaces, "manage-projects": t.ManageProjects,
			"read-workspaces": t.ReadWorkspaces,
			"read-projects":   t.ReadProjects, "manage-membership": t.ManageMembership,
			"manage-teams":    t.ManageMembership,
			"manage-policies": false, "manage-policy-overrides": false, "manage-vcs-settings": false,
			"manage-providers": false,
			"manage-modules":   false, "manage-run-tasks": false, "manage-organization-access": false,
			"access-secret-teams": false,
		},
		"permissions": map[string]bool{"can-update-membership": true, "can-destroy": true,
			"can-update-organization-access": true},
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
	all, err := c.Teams(c.actor, c.arg("org"))
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
	return list(c, all, teamResource, nil)
}

func (c *call) team() error {
	t, err := c.Team(c.actor, c.arg("team"))
	if err != nil {
		return err
	}
	return c.ok(teamResource(t))
}

func (c *call) createTeam() error {
	return c.putTeam(record.Team{Organization: c.arg("org")}, http.StatusCreated)
}

func (c *call) changeTeam() error {
	t, err := c.Team(c.actor, c.arg("team"))
	if err != nil {
		return err
	}
	return c.putTeam(*t, http.StatusOK)
}

func (c *call) putTeam(t record.Team, status int) error {
	var a struct {
		Name       *string `json:"name"`
		Visibility *string `json:"visibility"`
		Access     struct {
			ManageWorkspaces *bool `json:"manage-workspaces"`
			ManageProjects   *bool `json:"manage-projects"`
			ReadWorkspaces   *bool `json:"read-workspaces"`
			ReadProjects     *bool `json:"read-projects"`
			ManageMembership *bool `json:"manage-membership"`
		} `json:"organization-access"`
	}
	if _, err := c.body(&a); err != nil {
		return err
	}
	set(&t.Name, a.Name)
	set(&t.Visibility, a.Visibility)
	set(&t.ManageWorkspaces, a.Access.ManageWorkspaces)
	set(&t.ManageProjects, a.Access.ManageProjects)
	set(&t.ReadWorkspaces, a.Access.ReadWorkspaces)
	set(&t.ReadProjects, a.Access.ReadProjects)
	set(&t.ManageMembership, a.Access.ManageMembership)
	kept, err := c.PutTeam(c.actor, t)
	if err != nil {
		return err
	}
	return c.answer(status, teamResource(kept), nil)
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

func (c *call) deleteTeam() error {
	if err := c.DeleteTeam(c.actor, c.arg("team")); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

// members adds users to a team, by their names or identities, or removes them.
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
		if err := c.ChangeMembers(c.actor, c.arg("team"), names, remove); err != nil {
			return err
		}
		return c.empty(http.StatusNoContent)
	}
}

// levels are the words for what somebody may do with one kind of thing.
var (
	runLevels      = []string{"none", "read", "plan", "apply"}
	variableLevels = []string{"none", "read", "none", "write"}
)

// onProjects tells whether the path is about access to projects.
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
	rights := map[string]any{
		"runs": runLevels[p.Runs], "variables": variableLevels[p.Variables], "state-versions": state,
		"sentinel-mocks":    "none",
		"workspace-locking": p.Lock, "locking": p.Lock, "run-tasks": false, "create": p.Admin, "move": p.Admin,
		"delete": p.Admin,
	}
	if strings.HasPrefix(x.On, "prj-") {
		return resource{ID: x.ID, Type: "team-projects", Attributes: map[string]any{
			"access": x.Role, "workspace-access": rights,
			"project-access": map[string]any{"settings": "read", "teams": "none", "variable-sets": "none"},
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
	all, err := c.Accesses(c.actor, c.r.FormValue(name))
	if err != nil {
		return err
	}
	return list(c, all, c.accessResource, nil)
}

func (c *call) access() error {
	x, err := c.Access(c.actor, c.arg("access"))
	if err != nil {
		return err
	}
	return c.ok(c.accessResource(x))
}

// rights are custom permissions in a request.
type rights struct {
	Runs    string `json:"runs"`
	Vars    string `json:"variables"`
	State   string `json:"state-versions"`
	Locking *bool  `json:"workspace-locking"`
	Lock    *bool  `json:"locking"`
}

func (r *rights) permissions() record.Permissions {
	p := record.Permissions{}
	for i, word := range runLevels {
		if word == r.Runs {
			p.Runs = i
		}
	}
	switch r.Vars {
	case "read":
		p.Variables = record.Read
	case "write":
		p.Variables = record.Write
	}
	switch r.State {
	case "read-outputs":
		p.Outputs = true
	case "read":
		p.State, p.Outputs = record.Read, true
	case "write":
		p.State, p.Outputs = record.Write, true
	}
	p.Lock = r.Locking != nil && *r.Locking || r.Lock != nil && *r.Lock
	return p
}

func (c *call) grant() error   { return c.putAccess("", http.StatusCreated) }
func (c *call) regrant() error { return c.putAccess(c.arg("access"), http.StatusOK) }

func (c *call) putAccess(id string, status int) error {
	var a struct {
		Access    string          `json:"access"`
		Workspace json.RawMessage `json:"workspace-access"`
	}
	q, err := c.body(&a)
	if err != nil {
		return err
	}
	x := record.Access{ID: id, Role: a.Access}
	var r rights
	text := []byte(q.Data.Attributes)
	on := "workspace"
	if c.onProjects() {
		on, text = "project", a.Workspace
	}
	if a.Access == "custom" && len(text) > 0 {
		if err := json.Unmarshal(text, &r); err != nil {
			return &failure{http.StatusUnprocessableEntity, "invalid attribute",
				"the permissions cannot be read: " + err.Error()}
		}
		x.Custom = r.permissions()
	}
	for name, to := range map[string]*string{"team": &x.Team, on: &x.On} {
		ref, err := q.related(name)
		if err != nil {
			return err
		}
		*to = ref.ID
	}
	kept, err := c.PutAccess(c.actor, x)
	if err != nil {
		return err
	}
	return c.answer(status, c.accessResource(kept), nil)
}

func (c *call) revoke() error {
	if err := c.DeleteAccess(c.actor, c.arg("access")); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

func tokenResource(t *record.Token, token string) resource {
	return resource{ID: t.ID, Type: "authentication-tokens", Attributes: map[string]any{
		"created-at": moment(t.CreatedAt), "last-used-at": moment(t.LastUsed), "description": t.Description,
		"expired-at": moment(t.Expires),
		"token":      orNull(token),
	}}
}

func (c *call) userTokens() error {
	all, err := c.Tokens(c.actor, record.TokenUser, c.arg("owner"))
	if err != nil {
		return err
	}
	return list(c, all, func(t *record.Token) resource { return tokenResource(t, "") }, nil)
}

// newToken makes a token of a kind for the owner in the path.
func newToken(kind, arg string) handler {
	return func(c *call) error {
		var a struct {
			Description string     `json:"description"`
			Expires     *time.Time `json:"expired-at"`
		}
		if _, err := c.body(&a); err != nil {
			return err
		}
		var expires time.Time
		set(&expires, a.Expires)
		token, kept, err := c.CreateToken(c.actor, kind, c.arg(arg), a.Description, expires)
		if err != nil {
			return err
		}
		return c.created(tokenResource(kept, token))
	}
}

// dropToken revokes the one token of a team or an organization.
func dropToken(kind string) handler {
	return func(c *call) error {
		all, err := c.Tokens(c.actor, kind, c.arg("owner"))
		if err != nil {
			return err
		}
		for _, t := range all {
			if err := c.DeleteToken(c.actor, t.ID); err != nil {
				return err
			}
		}
		return c.empty(http.StatusNoContent)
	}
}

func (c *call) deleteToken() error {
	if err := c.DeleteToken(c.actor, c.arg("token")); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

func notificationResource(n *record.Notification) resource {
	return resource{ID: n.ID, Type: "notification-configurations", Attributes: map[string]any{
		"name": n.Name, "destination-type": n.Destination, "url": orNull(n.URL), "token": nil, "enabled": n.Enabled,
		"triggers":   orEmpty(n.Triggers),
		"created-at": moment(n.CreatedAt), "updated-at": moment(n.UpdatedAt), "delivery-responses": []any{},
		"email-addresses": []string{},
	}, Relationships: map[string]any{"subscribable": to("workspaces", n.Workspace), "users": toAll("users", nil)}}
}

func (c *call) notifications() error {
	all, err := c.Notifications(c.actor, c.arg("ws"))
	if err != nil {
		return err
	}
	return list(c, all, notificationResource, nil)
}

func (c *call) notification() error {
	n, err := c.Notification(c.actor, c.arg("nc"))
	if err != nil {
		return err
	}
	return c.ok(notificationResource(n))
}

func (c *call) createNotification() error {
	return c.putNotification(record.Notification{Workspace: c.arg("ws")}, http.StatusCreated)
}

func (c *call) changeNotification() error {
	n, err := c.Notification(c.actor, c.arg("nc"))
	if err != nil {
		return err
	}
	return c.putNotification(*n, http.StatusOK)
}

func (c *call) putNotification(n record.Notification, status int) error {
	var a struct {
		Name        *string  `json:"name"`
		Destination *string  `json:"destination-type"`
		URL         *string  `json:"url"`
		Token       *string  `json:"token"`
		Enabled     *bool    `json:"enabled"`
		Triggers    []string `json:"triggers"`
	}
	if _, err := c.body(&a); err != nil {
		return err
	}
	set(&n.Name, a.Name)
	set(&n.Destination, a.Destination)
	set(&n.URL, a.URL)
	set(&n.Token, a.Token)
	set(&n.Enabled, a.Enabled)
	if a.Triggers != nil {
		n.Triggers = a.Triggers
	}
	kept, err := c.PutNotification(c.actor, n)
	if err != nil {
		return err
	}
	return c.answer(status, notificationResource(kept), nil)
}

func (c *call) deleteNotification() error {
	if err := c.DeleteNotification(c.actor, c.arg("nc")); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}
