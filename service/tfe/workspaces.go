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

// workspaceResource returns the document of a workspace. Clients crash without its permissions, and without its
// terraform-version they refuse to change a state.
func (c *call) workspaceResource(w *service.WorkspaceView) resource {
	p := w.Permissions
	names := []string{}
	for _, t := range w.Tags {
		if t.Value == "" {
			names = append(names, t.Key)
		}
	}
	plan, apply := p.Runs >= record.Plan, p.Runs >= record.Write
	facts, err := c.svc.Workspaces.Facts(w)
	if err != nil { // return the rest
		c.o.Logger.Warn("cannot read properties of a workspace", "workspace", w.ID, "error", err)
	}
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
			"environment": "default", "policy-check-failures": nil, "run-failures": nil, "resource-count": facts.Resources,
			"workspace-kpis-runs-count":                  facts.Runs,
			"migration-environment":                      nil,
			"setting-overwrites":                         overwrites(w),
			"unarchived-workspace-change-requests-count": 0,
			"locked-reason":                              w.Lock.Reason,
			"approval-expiry-seconds":                    int(w.ApprovalExpiry / time.Second),
			"object-locks":                               w.ObjectLocks,
			"refresh":                                    w.Refresh,
			"drift-period":                               service.PeriodText(w.DriftPeriod),
			"retention":                                  retentionOf(&w.Workspace),
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
			"current-run": to("runs", facts.Current), "latest-run": to("runs", facts.Latest),
			"current-state-version":         to("state-versions", w.CurrentState),
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

// overwrites returns which settings are the workspace's own. Clients crash if one is missing.
func overwrites(w *service.WorkspaceView) map[string]bool {
	return map[string]bool{"execution-mode": !w.InheritsMode, "agent-pool": !w.InheritsMode}
}

func lockedBy(w *service.WorkspaceView) any {
	if !w.Lock.Held() {
		return to("users", "")
	}
	return to(w.Lock.Kind+"s", w.Lock.ID)
}

// included are the documents that can be included with a workspace.
func (c *call) includedWith(w *service.WorkspaceView) (out []resource) {
	if c.wants("organization") {
		if o, err := c.svc.Organizations.Find(c.actor, w.Organization); err == nil {
			out = append(out, c.organizationResource(o))
		}
	}
	if c.wants("project") {
		if p, err := c.svc.Projects.Find(c.actor, w.Project); err == nil {
			out = append(out, c.projectResource(p))
		}
	}
	if c.wants("locked_by") && w.Lock.Held() {
		out = append(out, c.holder(w.Lock)...)
	}
	out = append(out, c.currentOf(w)...)
	if c.wants("outputs", "current_state_version", "current_state_version.outputs") {
		v, err := c.svc.States.Current(c.actor, w.ID)
		if err != nil {
			return out
		}
		if c.wants("current_state_version", "current_state_version.outputs") {
			out = append(out, c.stateResource(v))
		}
		for i := range v.Outputs {
			o := &v.Outputs[i]
			if c.wants("current_state_version.outputs") {
				out = append(out, outputResource(o, false))
			}
			if c.wants("outputs") {
				out = append(out, resource{ID: o.ID, Type: "workspace-outputs", Attributes: outputAttributes(o,
					!o.Sensitive)})
			}
		}
	}
	return out
}

// holder returns the document of a lock's holder.
func (c *call) holder(l record.Lock) []resource {
	switch l.Kind {
	case "run":
		if r, err := c.svc.Runs.Find(c.actor, l.ID); err == nil {
			return []resource{c.runResource(r)}
		}
	case "team":
		if t, err := c.svc.Teams.Find(c.actor, l.ID); err == nil {
			return []resource{teamResource(t)}
		}
	default:
		if u, err := c.svc.Users.Find(c.actor, l.ID); err == nil {
			return []resource{userResource(u)}
		}
	}
	return nil
}

// currentOf returns the current run and the current configuration of a workspace, as far as requested.
func (c *call) currentOf(w *service.WorkspaceView) (out []resource) {
	const run, version = "current_run", "current_configuration_version"
	if c.wants(run, run+".plan", run+".configuration_version", run+".configuration_version.ingress_attributes") {
		facts, err := c.svc.Workspaces.Facts(w)
		var r *service.RunView
		if err == nil && facts.Current != "" {
			r, err = c.svc.Runs.Find(c.actor, facts.Current)
		}
		if err == nil && r != nil {
			out = append(out, c.runResource(r))
			if c.wants(run + ".plan") {
				out = append(out, c.planResource(r))
			}
			if c.wants(run+".configuration_version", run+".configuration_version.ingress_attributes") {
				out = append(out, c.configurationOf(r.Configuration)...)
			}
		}
	}
	if c.wants(version, version+".ingress_attributes") {
		out = append(out, c.configurationOf(w.CurrentConfiguration)...)
	}
	return out
}

// configurationOf returns a configuration version, if there is one.
func (c *call) configurationOf(id string) []resource {
	if v, err := c.svc.Configurations.Find(c.actor, id); id != "" && err == nil {
		return []resource{c.configurationResource(v)}
	}
	return nil
}

func (c *call) answerWorkspace(status int, w *service.WorkspaceView, err error) error {
	if err != nil {
		return err
	}
	res := c.workspaceResource(w)
	more := c.includedWith(w)
	if vars, err := c.svc.Variables.List(c.actor, w.ID); err == nil { // if the actor may read them
		ids := []string{}
		for _, v := range vars {
			ids = append(ids, v.ID)
		}
		res.Relationships["vars"] = toAll("vars", ids)
	}
	if c.wants("outputs") {
		ids := []string{}
		for _, r := range more {
			if r.Type == "workspace-outputs" {
				ids = append(ids, r.ID)
			}
		}
		res.Relationships["outputs"] = toAll("workspace-outputs", ids)
	}
	if c.wants("effective_tag_bindings") {
		ids := []string{}
		all, err := c.effectiveBindings(w)
		if err != nil {
			return err
		}
		for _, b := range all {
			ids, more = append(ids, b.ID), append(more, b)
		}
		res.Relationships["effective-tag-bindings"] = toAll("effective-tag-bindings", ids)
	}
	return c.answer(status, res, more)
}

// find returns the workspace in the path, by its ID or by its organization and name.
func (c *call) find() (*service.WorkspaceView, error) {
	if id := c.arg("ws"); id != "" {
		return c.svc.Workspaces.Find(c.actor, id)
	}
	return c.svc.Workspaces.Named(c.actor, c.arg("org"), c.arg("name"))
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
	all, err := c.svc.Workspaces.List(c.actor, c.arg("org"), f)
	if err != nil {
		return err
	}
	if all, err = c.sorted(c.withRun(all)); err != nil {
		return err
	}
	return list(c, all, c.workspaceResource, c.includedWith)
}

// withRun returns the workspaces whose current run has one of the requested statuses.
func (c *call) withRun(all []*service.WorkspaceView) []*service.WorkspaceView {
	statuses := words(c.r.URL.Query().Get("filter[current-run][status]"))
	if len(statuses) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(w *service.WorkspaceView) bool {
		r := c.currentRun(w)
		return r == nil || !slices.Contains(statuses, statusWord(r.Status))
	})
}

// currentRun returns the current run of a workspace, or nil.
func (c *call) currentRun(w *service.WorkspaceView) *service.RunView {
	facts, err := c.svc.Workspaces.Facts(w)
	if err != nil || facts.Current == "" {
		return nil
	}
	r, err := c.svc.Runs.Find(c.actor, facts.Current)
	if err != nil {
		return nil
	}
	return r
}

// sorted sorts workspaces as requested; they are passed sorted by name. Workspaces without a run come last.
func (c *call) sorted(all []*service.WorkspaceView) ([]*service.WorkspaceView, error) {
	by, down := strings.CutPrefix(c.r.URL.Query().Get("sort"), "-")
	var when func(*service.WorkspaceView) time.Time
	switch by {
	case "", "name":
		if down {
			slices.Reverse(all)
		}
		return all, nil
	case "latest-change-at":
		when = func(w *service.WorkspaceView) time.Time { return w.UpdatedAt }
	case "current-run.created-at":
		runs := map[string]time.Time{}
		for _, w := range all {
			if r := c.currentRun(w); r != nil {
				runs[w.ID] = r.CreatedAt
			}
		}
		when = func(w *service.WorkspaceView) time.Time { return runs[w.ID] }
	default:
		return nil, &failure{http.StatusBadRequest, "invalid parameter",
			"workspaces are sorted by name, latest-change-at or current-run.created-at"}
	}
	slices.SortStableFunc(all, func(x, y *service.WorkspaceView) int {
		switch a, b := when(x), when(y); {
		case a.IsZero() || b.IsZero():
			return b.Compare(a)
		case down:
			return b.Compare(a)
		default:
			return a.Compare(b)
		}
	})
	return all, nil
}

func words(list string) (out []string) {
	for w := range strings.SplitSeq(list, ",") {
		if w = strings.TrimSpace(w); w != "" {
			out = append(out, w)
		}
	}
	return out
}

func (c *call) createWorkspace() error {
	o, err := c.settings()
	if err != nil {
		return err
	}
	w, err := c.svc.Workspaces.Create(c.actor, c.arg("org"), o)
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
	w, err = c.svc.Workspaces.Change(c.actor, w.ID, o)
	return c.answerWorkspace(http.StatusOK, w, err)
}

func (c *call) deleteWorkspace() error { return c.remove(false) }
func (c *call) safeDelete() error      { return c.remove(true) }

func (c *call) remove(safe bool) error {
	w, err := c.find()
	if err != nil {
		return err
	}
	if safe {
		err = c.svc.Workspaces.Delete(c.actor, w.ID, true)
	} else {
		err = c.svc.Workspaces.Remove(c.r.Context(), c.actor, w.ID)
	}
	if err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

func (c *call) lock() error {
	// In this document the type is empty, and the attributes may be missing.
	var a struct{ Reason string }
	if _, err := c.body(&a); err != nil {
		return err
	}
	w, err := c.svc.Workspaces.Lock(c.actor, c.arg("ws"), a.Reason)
	return c.answerWorkspace(http.StatusOK, w, err)
}

func (c *call) unlock() error {
	w, err := c.svc.Workspaces.Unlock(c.actor, c.arg("ws"))
	return c.answerWorkspace(http.StatusOK, w, err)
}

func (c *call) forceUnlock() error {
	w, err := c.svc.Workspaces.ForceUnlock(c.actor, c.arg("ws"))
	return c.answerWorkspace(http.StatusOK, w, err)
}

func (c *call) consumers() error {
	all, err := c.svc.Workspaces.Consumers(c.actor, c.arg("ws"))
	if err != nil {
		return err
	}
	return list(c, all, c.workspaceResource, nil)
}

// The changes of a list.
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
		err = c.svc.Workspaces.ChangeConsumers(c.actor, c.arg("ws"), func(have []string) []string { return how(have, ids) })
		if err != nil {
			return err
		}
		return c.empty(http.StatusNoContent)
	}
}
