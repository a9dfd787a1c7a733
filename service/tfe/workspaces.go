package tfe

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
)

// workspaceResource is a workspace. Clients crash without its permissions, and without its terraform-version refuse to
// change a state.
func (c *call) workspaceResource(w *service.WorkspaceView) resource {
	p := w.Permissions
	names := []string{}
	for _, t := range w.Tags {
		if t.Value == "" {
			names = append(names, t.Key)
		}
	}
	plan, apply := p.Runs >= record.Plan, p.Runs >= record.Write
	return resource{
		ID: w.ID, Type: "workspaces",
		Attributes: map[string]any{
			"name": w.Name, "description": orNull(w.Description), "execution-mode": w.ExecutionMode,
			"operations":             w.ExecutionMode != record.ModeLocal,
			"auto-apply":             w.AutoApply,
			"auto-apply-run-trigger": w.Triggers.AutoApply, "terraform-version": w.TerraformVersion,
			"working-directory": w.WorkingDirectory, "structured-run-output-enabled": w.Structured,
			"locked":    w.Lock.Held(),
			"tag-names": names, "vcs-repo": nil, "created-at": moment(w.CreatedAt), "updated-at": moment(w.UpdatedAt),
			"allow-destroy-plan": w.AllowDestroy, "queue-all-runs": w.QueueAllRuns,
			"global-remote-state": w.GlobalState,
			"speculative-enabled": !w.Triggers.NoSpeculative, "file-triggers-enabled": w.Triggers.Files,
			"trigger-prefixes": orEmpty(w.Triggers.Prefixes), "trigger-patterns": orEmpty(w.Triggers.Patterns),
			"assessments-enabled": false, "source": "tfe-api", "source-name": orNull(w.SourceName),
			"source-url":  orNull(w.SourceURL),
			"environment": "default", "policy-check-failures": nil, "run-failures": nil, "resource-count": 0,
			"migration-environment":                      nil,
			"setting-overwrites":                         overwrites(w),
			"unarchived-workspace-change-requests-count": 0,
			"locked-reason":                              w.Lock.Reason,
			"approval-expiry-seconds":                    int(w.ApprovalExpiry / time.Second),
			"actions":                                    map[string]bool{"is-destroyable": true},
			"permissions": map[string]bool{
				"can-update": p.Admin, "can-destroy": p.Admin || p.Delete, "can-force-delete": p.Admin || p.Delete,
				"can-read-settings": true,
				"can-queue-run":     plan, "can-queue-apply": apply, "can-queue-destroy": apply,
				"can-read-variable":   p.Variables >= record.Read,
				"can-update-variable": p.Variables >= record.Write, "can-lock": p.Lock, "can-unlock": p.Lock,
				"can-force-unlock":        p.Admin,
				"can-read-state-versions": p.State >= record.Read, "can-read-state-outputs": p.Outputs,
				"can-create-state-versions": p.State >= record.Write, "can-manage-tags": p.Admin,
				"can-manage-run-tasks": false,
				"can-read-run":         p.Runs >= record.Read, "can-read-assessment-result": false,
			},
		},
		Relationships: map[string]any{
			"organization": to("organizations", w.Organization), "project": to("projects", w.Project),
			"current-run": to("runs", w.CurrentRun), "current-state-version": to("state-versions", w.CurrentState),
			"current-configuration-version": to("configuration-versions", w.CurrentConfiguration),
			"locked-by":                     lockedBy(w),
			"agent-pool":                    to("agent-pools", ""),
		},
		Links: map[string]any{
			"self":      "/api/v2/organizations/" + w.Organization + "/workspaces/" + w.Name,
			"self-html": "/app/" + w.Organization + "/workspaces/" + w.Name,
		},
	}
}

// overwrites says which settings a workspace has of its own. Clients crash when one of them is missing.
func overwrites(w *service.WorkspaceView) map[string]bool {
	return map[string]bool{"execution-mode": !w.InheritsMode, "agent-pool": !w.InheritsMode}
}

func lockedBy(w *service.WorkspaceView) any {
	if !w.Lock.Held() {
		return to("users", "")
	}
	return to(w.Lock.Kind+"s", w.Lock.ID)
}

// included are the documents that a workspace can bring along.
func (c *call) includedWith(w *service.WorkspaceView, wants func(string) bool) (out []resource) {
	if wants("organization") {
		if o, err := c.Organization(c.actor, w.Organization); err == nil {
			out = append(out, organizationResource(o))
		}
	}
	if wants("project") {
		if p, err := c.Project(c.actor, w.Project); err == nil {
			out = append(out, projectResource(p))
		}
	}
	if wants("current_run") && w.CurrentRun != "" {
		if r, err := c.FindRun(c.actor, w.CurrentRun); err == nil {
			out = append(out, c.runResource(r))
		}
	}
	if wants("outputs") || wants("current_state_version") {
		v, err := c.CurrentState(c.actor, w.ID)
		if err != nil {
			return out
		}
		if wants("current_state_version") {
			out = append(out, c.stateResource(v))
		}
		for i := range v.Outputs {
			if o := &v.Outputs[i]; wants("outputs") {
				out = append(out, resource{ID: o.ID, Type: "workspace-outputs", Attributes: outputAttributes(o,
					!o.Sensitive)})
			}
		}
	}
	return out
}

// workspaceIncludes are the names that can be asked for.
var workspaceIncludes = []string{
	"organization", "project", "current_run", "current_state_version", "outputs", "locked_by",
	"current_configuration_version", "readme",
	"effective_tag_bindings", "current_assessment_result", "current_run.plan", "remote_state_consumers",
}

func (c *call) answerWorkspace(status int, w *service.WorkspaceView, err error) error {
	if err != nil {
		return err
	}
	wants, err := c.includes(workspaceIncludes...)
	if err != nil {
		return err
	}
	res := c.workspaceResource(w)
	more := c.includedWith(w, wants)
	if wants("outputs") {
		ids := []string{}
		for _, r := range more {
			if r.Type == "workspace-outputs" {
				ids = append(ids, r.ID)
			}
		}
		res.Relationships["outputs"] = toAll("workspace-outputs", ids)
	}
	if wants("effective_tag_bindings") {
		ids := []string{}
		tags, err := c.EffectiveTags(c.actor, w.ID)
		if err != nil {
			return err
		}
		for _, b := range bindings(tags) {
			ids, more = append(ids, b.ID), append(more, b)
		}
		res.Relationships["effective-tag-bindings"] = toAll("effective-tag-bindings", ids)
	}
	return c.answer(status, res, more)
}

// find returns the workspace that the path names, by its id or by its organization and name.
func (c *call) find() (*service.WorkspaceView, error) {
	if id := c.arg("ws"); id != "" {
		return c.Workspace(c.actor, id)
	}
	return c.WorkspaceNamed(c.actor, c.arg("org"), c.arg("name"))
}

func (c *call) workspace() error {
	w, err := c.find()
	return c.answerWorkspace(http.StatusOK, w, err)
}

func (c *call) workspaces() error {
	q := c.r.URL.Query()
	f := service.WorkspaceFilter{
		Project: q.Get("filter[project][id]"), Part: q.Get("search[name]"), Wildcard: q.Get("search[wildcard-name]"),
		Tags: words(q.Get("search[tags]")), Without: words(q.Get("search[exclude-tags]")),
	}
	for i := 0; ; i++ {
		key := q.Get(fmt.Sprintf("filter[tagged][%d][key]", i))
		if key == "" {
			break
		}
		f.Pairs = append(f.Pairs, record.Tag{Key: key, Value: q.Get(fmt.Sprintf("filter[tagged][%d][value]", i))})
	}
	wants, err := c.includes(workspaceIncludes...)
	if err != nil {
		return err
	}
	all, err := c.Workspaces(c.actor, c.arg("org"), f)
	if err != nil {
		return err
	}
	if q.Get("sort") == "-name" {
		slices.Reverse(all)
	}
	return list(c, all, c.workspaceResource,
		func(w *service.WorkspaceView) []resource { return c.includedWith(w, wants) })
}

func words(list string) (out []string) {
	for w := range strings.SplitSeq(list, ",") {
		if w = strings.TrimSpace(w); w != "" {
			out = append(out, w)
		}
	}
	return out
}

// settings reads what a client sets of a workspace.
func (c *call) settings() (o service.WorkspaceSettings, err error) {
	var a struct {
		Name             *string `json:"name"`
		Description      *string `json:"description"`
		ExecutionMode    *string `json:"execution-mode"`
		Operations       *bool   `json:"operations"`
		TerraformVersion *string `json:"terraform-version"`
		WorkingDirectory *string `json:"working-directory"`
		AutoApply        *bool   `json:"auto-apply"`
		Structured       *bool   `json:"structured-run-output-enabled"`
		QueueAllRuns     *bool   `json:"queue-all-runs"`
		AllowDestroy     *bool   `json:"allow-destroy-plan"`
		GlobalState      *bool   `json:"global-remote-state"`
		SourceName       *string `json:"source-name"`
		SourceURL        *string `json:"source-url"`
		ApprovalExpiry   *int    `json:"approval-expiry-seconds"`
		Overwrites       *struct {
			Mode *bool `json:"execution-mode"`
		} `json:"setting-overwrites"`
		Files       *bool     `json:"file-triggers-enabled"`
		Speculative *bool     `json:"speculative-enabled"`
		TriggerAuto *bool     `json:"auto-apply-run-trigger"`
		Prefixes    *[]string `json:"trigger-prefixes"`
		Patterns    *[]string `json:"trigger-patterns"`
		Assessments *bool     `json:"assessments-enabled"`
	}
	q, err := c.body(&a)
	if err != nil {
		return o, err
	}
	o = service.WorkspaceSettings{
		Name: a.Name, Description: a.Description, ExecutionMode: a.ExecutionMode, TerraformVersion: a.TerraformVersion,
		WorkingDirectory: a.WorkingDirectory, AutoApply: a.AutoApply, Structured: a.Structured,
		QueueAllRuns: a.QueueAllRuns,
		AllowDestroy: a.AllowDestroy, GlobalState: a.GlobalState, SourceName: a.SourceName, SourceURL: a.SourceURL,
	}
	if a.ExecutionMode == nil && a.Operations != nil {
		mode := record.ModeLocal
		if *a.Operations {
			mode = record.ModeRemote
		}
		o.ExecutionMode = &mode
	}
	if a.Assessments != nil && *a.Assessments {
		return o, &failure{http.StatusUnprocessableEntity, "invalid attribute", "this service has no health assessments"}
	}
	if a.Overwrites != nil && a.Overwrites.Mode != nil {
		inherits := !*a.Overwrites.Mode
		o.InheritsMode = &inherits
	}
	o.Triggers = func(t *record.Triggers) {
		set(&t.Files, a.Files)
		set(&t.AutoApply, a.TriggerAuto)
		set(&t.Prefixes, a.Prefixes)
		set(&t.Patterns, a.Patterns)
		if a.Speculative != nil {
			t.NoSpeculative = !*a.Speculative
		}
	}
	if a.ApprovalExpiry != nil {
		expiry := time.Duration(*a.ApprovalExpiry) * time.Second
		o.ApprovalExpiry = &expiry
	}
	p, err := q.related("project")
	if err != nil {
		return o, err
	}
	if p.ID != "" {
		o.Project = &p.ID
	}
	for _, kind := range []string{"tags", "tag-bindings"} {
		tags, err := q.relatedAll(kind)
		if err != nil {
			return o, err
		}
		o.Tags = append(o.Tags, tagsOf(tags)...)
	}
	return o, nil
}

// tagsOf reads tags, which have a name, or bindings, which have a key and a value.
func tagsOf(refs []reference) (out []record.Tag) {
	for _, r := range refs {
		t := record.Tag{Key: r.Attributes.Key, Value: r.Attributes.Value}
		if t.Key == "" {
			t.Key = r.Attributes.Name
		}
		if t.Key == "" {
			t.Key = r.ID
		}
		out = append(out, t)
	}
	return out
}

func (c *call) createWorkspace() error {
	o, err := c.settings()
	if err != nil {
		return err
	}
	w, err := c.CreateWorkspace(c.actor, c.arg("org"), o)
	return c.answerWorkspace(http.StatusCreated, w, err)
}

func (c *call) changeWorkspace() error {
	w, err := c.find()
	if err != nil {
		return err
	}
	o, err := c.settings()
	if err != nil {
		return err
	}
	w, err = c.ChangeWorkspace(c.actor, w.ID, o)
	return c.answerWorkspace(http.StatusOK, w, err)
}

func (c *call) deleteWorkspace() error { return c.remove(false) }
func (c *call) safeDelete() error      { return c.remove(true) }

func (c *call) remove(safe bool) error {
	w, err := c.find()
	if err != nil {
		return err
	}
	if err := c.DeleteWorkspace(c.actor, w.ID, safe); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

func (c *call) lock() error {
	// The type of this document is empty, and its attributes may be missing.
	var a struct{ Reason string }
	if _, err := c.body(&a); err != nil {
		return err
	}
	w, err := c.Lock(c.actor, c.arg("ws"), a.Reason)
	return c.answerWorkspace(http.StatusOK, w, err)
}

func (c *call) unlock() error {
	w, err := c.Unlock(c.actor, c.arg("ws"))
	return c.answerWorkspace(http.StatusOK, w, err)
}

func (c *call) forceUnlock() error {
	w, err := c.ForceUnlock(c.actor, c.arg("ws"))
	return c.answerWorkspace(http.StatusOK, w, err)
}

func (c *call) tags() error {
	w, err := c.find()
	if err != nil {
		return err
	}
	return list(c, w.Tags, func(t record.Tag) resource {
		return resource{ID: "tag-" + t.Key, Type: "tags", Attributes: map[string]any{"name": t.Key}}
	}, nil)
}

func (c *call) addTags() error {
	refs, err := c.references()
	if err != nil {
		return err
	}
	if err := c.SetTags(c.actor, c.arg("ws"), tagsOf(refs), nil); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

func (c *call) removeTags() error {
	refs, err := c.references()
	if err != nil {
		return err
	}
	var names []string
	for _, t := range tagsOf(refs) {
		names = append(names, strings.TrimPrefix(t.Key, "tag-"))
	}
	if err := c.SetTags(c.actor, c.arg("ws"), nil, names); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

// bindings are tags with their values.
func bindings(tags []record.Tag) []resource {
	out := []resource{}
	for _, t := range tags {
		out = append(out, resource{
			ID: "tb-" + t.Key, Type: "effective-tag-bindings", Attributes: map[string]any{"key": t.Key,
				"value": t.Value},
		})
	}
	return out
}

func (c *call) listBindings(tags []record.Tag) error {
	return list(c, bindings(tags), func(r resource) resource {
		if !strings.HasSuffix(c.r.URL.Path, "/effective-tag-bindings") {
			r.Type = "tag-bindings"
		}
		return r
	}, nil)
}

func (c *call) tagBindings() error {
	w, err := c.find()
	if err != nil {
		return err
	}
	tags := w.Tags
	if strings.HasSuffix(c.r.URL.Path, "/effective-tag-bindings") {
		if tags, err = c.EffectiveTags(c.actor, w.ID); err != nil {
			return err
		}
	}
	return c.listBindings(tags)
}

func (c *call) addTagBindings() error {
	refs, err := c.references()
	if err != nil {
		return err
	}
	if err := c.SetTags(c.actor, c.arg("ws"), tagsOf(refs), nil); err != nil {
		return err
	}
	return c.tagBindings()
}

func (c *call) consumers() error {
	all, err := c.Consumers(c.actor, c.arg("ws"))
	if err != nil {
		return err
	}
	return list(c, all, c.workspaceResource, nil)
}

// How a list is changed.
func add(have, ids []string) []string { return append(remove(have, ids), ids...) }
func remove(have, ids []string) []string {
	return slices.DeleteFunc(have, func(id string) bool { return slices.Contains(ids, id) })
}
func replace(_, ids []string) []string { return ids }

func changeConsumers(how func(have, ids []string) []string) handler {
	return func(c *call) error {
		refs, err := c.references()
		if err != nil {
			return err
		}
		var ids []string
		for _, r := range refs {
			ids = append(ids, r.ID)
		}
		err = c.ChangeConsumers(c.actor, c.arg("ws"), func(have []string) []string { return how(have, ids) })
		if err != nil {
			return err
		}
		return c.empty(http.StatusNoContent)
	}
}
