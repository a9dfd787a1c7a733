package tfc

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// The execution modes that are distinguished.
const (
	Local  = "local"
	Remote = "remote"
)

// Workspace is a workspace of an organization.
type Workspace struct {
	ID, Organization, Project, CurrentRun string
	// LockedByRun is set if Locked is, and a run has the lock.
	LockedByRun bool

	Name             string   `json:"name"`
	ExecutionMode    string   `json:"execution-mode"`
	Operations       *bool    `json:"operations"`
	Locked           bool     `json:"locked"`
	LockedReason     string   `json:"locked-reason"`
	TerraformVersion string   `json:"terraform-version"`
	WorkingDirectory string   `json:"working-directory"`
	TagNames         []string `json:"tag-names"`
	// ObjectLocks is set if the service is one of Millipede, and runs of the workspace lock only the objects that they
	// change.
	ObjectLocks bool `json:"object-locks"`
	// Structured is set if logs are JSON lines. In the response to a run it is the setting of that run.
	Structured  bool        `json:"structured-run-output-enabled"`
	AutoApply   bool        `json:"auto-apply"`
	VCS         any         `json:"vcs-repo"`
	Permissions Permissions `json:"permissions"`
}

// Permissions are the token's permissions for a workspace. Unknown ones are nil.
type Permissions struct {
	Run         *bool `json:"can-queue-run"`
	Apply       *bool `json:"can-queue-apply"`
	Update      *bool `json:"can-update"`
	ForceDelete *bool `json:"can-force-delete"`
}

// RunsHere reports whether the command line executes runs, and the service only stores the state.
func (w *Workspace) RunsHere() bool {
	return w.ExecutionMode == Local || w.ExecutionMode == "" && w.Operations != nil && !*w.Operations
}

func workspaceOf(r received) (*Workspace, error) {
	w := &Workspace{ID: r.ID}
	if err := r.into("workspaces", w); err != nil {
		return nil, err
	}
	w.Organization, w.Project, w.CurrentRun = r.to("organization"), r.to("project"), r.to("current-run")
	w.LockedByRun = w.Locked && r.reference("locked-by").Type == "runs"
	return w, nil
}

func (c *Client) workspace(ctx context.Context, method, path string, body any) (*Workspace, error) {
	var doc one
	if err := c.ask(ctx, method, path, nil, body, &doc); err != nil {
		return nil, err
	}
	return workspaceOf(doc.Data)
}

// Entitlements reports whether an organization can have runs that the service executes. It is the first request, so
// that a missing service is detected early.
func (c *Client) Entitlements(ctx context.Context, organization string) (operations bool, err error) {
	var doc one
	err = c.askFor(ctx, http.MethodGet, "organizations/"+url.PathEscape(organization)+"/entitlement-set", nil, nil,
		&doc, 3)
	if err != nil {
		return false, err
	}
	var a struct{ Operations bool }
	return a.Operations, doc.Data.into("entitlement-sets", &a)
}

func named(organization, name string) string {
	return "organizations/" + url.PathEscape(organization) + "/workspaces/" + url.PathEscape(name)
}

// Workspace returns the workspace of an organization with this name.
func (c *Client) Workspace(ctx context.Context, organization, name string) (*Workspace, error) {
	return c.workspace(ctx, http.MethodGet, named(organization, name), nil)
}

// WorkspaceByID returns a workspace.
func (c *Client) WorkspaceByID(ctx context.Context, id string) (*Workspace, error) {
	return c.workspace(ctx, http.MethodGet, "workspaces/"+url.PathEscape(id), nil)
}

// Filter selects workspaces: those that have all of the tags, whose names contain this part, that belong to this
// project. Zero fields are ignored.
type Filter struct {
	Tags    []string
	Part    string
	Project string
}

// Workspaces lists workspaces of an organization.
func (c *Client) Workspaces(ctx context.Context, organization string, f Filter) ([]*Workspace, error) {
	query := url.Values{}
	for name, value := range map[string]string{
		"search[tags]": strings.Join(f.Tags, ","), "search[name]": f.Part, "filter[project][id]": f.Project,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	var out []*Workspace
	err := c.all(ctx, "organizations/"+url.PathEscape(organization)+"/workspaces", query, func(r received) (bool, error) {
		w, err := workspaceOf(r)
		out = append(out, w)
		return true, err
	})
	return out, err
}

func tagged(names []string) []reference {
	out := []reference{}
	for _, n := range names {
		out = append(out, reference{Type: "tags", Attributes: map[string]string{"name": n}})
	}
	return out
}

// NewWorkspace describes a workspace to create. Zero fields are left to the service.
type NewWorkspace struct {
	Name, Project, TerraformVersion, ExecutionMode string
	Tags                                           []string
}

// CreateWorkspace creates a workspace.
func (c *Client) CreateWorkspace(ctx context.Context, organization string, n NewWorkspace) (*Workspace, error) {
	attributes := map[string]any{"name": n.Name}
	if n.TerraformVersion != "" {
		attributes["terraform-version"] = n.TerraformVersion
	}
	if n.ExecutionMode != "" {
		attributes["execution-mode"] = n.ExecutionMode
	}
	links := map[string]related{}
	if n.Project != "" {
		links["project"] = related{reference{ID: n.Project, Type: "projects"}}
	}
	if len(n.Tags) > 0 {
		links["tags"] = related{tagged(n.Tags)}
	}
	return c.workspace(ctx, http.MethodPost, "organizations/"+url.PathEscape(organization)+"/workspaces",
		sent{resource{"workspaces", attributes, links}})
}

// ChangeWorkspace sets attributes of a workspace, by their names in the API.
func (c *Client) ChangeWorkspace(ctx context.Context, id string, attributes map[string]any) (*Workspace, error) {
	return c.workspace(ctx, http.MethodPatch, "workspaces/"+url.PathEscape(id),
		sent{resource{"workspaces", attributes, nil}})
}

// AddTags adds tags to a workspace, which may have them already.
func (c *Client) AddTags(ctx context.Context, id string, tags []string) error {
	return c.ask(ctx, http.MethodPost, "workspaces/"+url.PathEscape(id)+"/relationships/tags", nil, sent{tagged(tags)},
		nil)
}

// DeleteWorkspace deletes a workspace. Unless forced, one that is locked or that manages resources is kept, with a
// Conflict, if the service can tell.
func (c *Client) DeleteWorkspace(ctx context.Context, organization string, w *Workspace, force bool) error {
	path := named(organization, w.Name)
	if force || w.Permissions.ForceDelete == nil {
		return c.ask(ctx, http.MethodDelete, path, nil, nil, nil)
	}
	return c.ask(ctx, http.MethodPost, path+"/actions/safe-delete", nil, nil, nil)
}

// Lock locks a workspace; a Conflict if it is already locked. If the response is lost and the request repeated, the
// service says that it is locked, and only the reason shows the holder.
func (c *Client) Lock(ctx context.Context, id, reason string) error {
	body := sent{map[string]any{"type": "", "attributes": map[string]string{"reason": reason}}}
	return c.ask(ctx, http.MethodPost, "workspaces/"+url.PathEscape(id)+"/actions/lock", nil, body, nil)
}

// Unlock releases the token's own lock; a Conflict if there is none, or it belongs to another.
func (c *Client) Unlock(ctx context.Context, id string) error {
	return c.ask(ctx, http.MethodPost, "workspaces/"+url.PathEscape(id)+"/actions/unlock", nil, nil, nil)
}

// ForceUnlock breaks another's lock; a Conflict if there is none, or a run has it.
func (c *Client) ForceUnlock(ctx context.Context, id string) error {
	return c.ask(ctx, http.MethodPost, "workspaces/"+url.PathEscape(id)+"/actions/force-unlock", nil, nil, nil)
}

// Project returns the ID of the project with this name; empty if there is none, or the service has no projects.
func (c *Client) Project(ctx context.Context, organization, name string) (id string, err error) {
	err = c.all(ctx, "organizations/"+url.PathEscape(organization)+"/projects", url.Values{"filter[names]": {name}},
		func(r received) (bool, error) {
			var a struct{ Name string }
			if err := r.into("projects", &a); err != nil {
				return false, err
			}
			if a.Name == name {
				id = r.ID
			}
			return id == "", nil
		})
	if NotFound(err) {
		err = nil
	}
	return id, err
}

// CreateProject creates a project, and returns its ID.
func (c *Client) CreateProject(ctx context.Context, organization, name string) (string, error) {
	var doc one
	err := c.ask(ctx, http.MethodPost, "organizations/"+url.PathEscape(organization)+"/projects", nil,
		sent{resource{"projects", map[string]string{"name": name}, nil}}, &doc)
	return doc.Data.ID, err
}

// Variable is a variable of a workspace.
type Variable struct {
	Key       string  `json:"key"`
	Value     *string `json:"value"` // nil for a sensitive one
	Category  string  `json:"category"`
	HCL       bool    `json:"hcl"`
	Sensitive bool    `json:"sensitive"`
}

// Variables lists the variables of a workspace.
func (c *Client) Variables(ctx context.Context, workspace string) ([]Variable, error) {
	var out []Variable
	err := c.all(ctx, "workspaces/"+url.PathEscape(workspace)+"/vars", nil, func(r received) (bool, error) {
		var v Variable
		err := r.into("vars", &v)
		out = append(out, v)
		return true, err
	})
	return out, err
}

// StateVersion is one version of a workspace's state.
type StateVersion struct {
	ID string

	Serial   uint64     `json:"serial"`
	Lineage  string     `json:"lineage"`
	MD5      string     `json:"md5"`
	Status   string     `json:"status"`
	Created  *time.Time `json:"created-at"`
	Download string     `json:"hosted-state-download-url"`
	Upload   string     `json:"hosted-state-upload-url"`
}

func stateOf(r received) (*StateVersion, error) {
	v := &StateVersion{ID: r.ID}
	return v, r.into("state-versions", v)
}

// CurrentState returns the current version of a workspace's state; nil if there is none.
func (c *Client) CurrentState(ctx context.Context, workspace string) (*StateVersion, error) {
	var doc one
	err := c.ask(ctx, http.MethodGet, "workspaces/"+url.PathEscape(workspace)+"/current-state-version", nil, nil, &doc)
	switch {
	case NotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return stateOf(doc.Data)
}

// StateVersions lists the versions of a workspace's state, the newest first, until fn returns false.
func (c *Client) StateVersions(ctx context.Context, organization, workspace string, fn func(*StateVersion) bool) error {
	query := url.Values{"filter[organization][name]": {organization}, "filter[workspace][name]": {workspace}}
	return c.all(ctx, "state-versions", query, func(r received) (bool, error) {
		v, err := stateOf(r)
		return err == nil && fn(v), err
	})
}

// DownloadState returns the bytes of a version.
func (c *Client) DownloadState(ctx context.Context, v *StateVersion) ([]byte, error) {
	return c.get(ctx, v.Download)
}
