package tfe

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
)

// runResource returns the document of a run. Clients crash without its actions and without its relationships to
// plan and apply.
func (c *call) runResource(r *service.RunView) resource {
	times := map[string]any{}
	for status, at := range r.Times {
		name := string(status)
		switch status {
		case record.Pending:
			name = "plan-queueable"
		case record.PlanQueued:
			name = "plan-queued"
		case record.ApplyQueued:
			name = "apply-queued"
		case record.PlannedAndFinished:
			name = "planned-and-finished"
		case record.PlannedAndSaved:
			name = "planned-and-saved"
		case record.ForceCanceled:
			name = "force-canceled"
		}
		times[name+"-at"] = moment(at)
	}
	variables := []map[string]string{}
	for _, v := range r.Variables {
		// Until the plan has ended it is unknown which variables the configuration declares sensitive.
		if r.Run.Plan.Status != record.PhaseFinished || slices.Contains(r.Sensitive, v.Key) {
			v.Value = ""
		}
		variables = append(variables, map[string]string{"key": v.Key, "value": v.Value})
	}
	apply := r.Permissions.Runs >= record.Write
	var forceAt any
	if !r.CancelAsked.IsZero() {
		forceAt = moment(c.svc.Runs.ForceCancelAt(&r.Run))
	}
	waits := c.waits(&r.Run)
	a := map[string]any{
		"status": statusWord(r.Status), "has-changes": r.HasChanges, "message": r.Message, "source": r.Source,
		"created-at": moment(r.CreatedAt),
		"is-destroy": r.Destroy, "auto-apply": r.AutoApply, "plan-only": r.PlanOnly, "save-plan": r.SavePlan,
		"refresh":      r.Refresh,
		"refresh-only": r.RefreshOnly, "target-addrs": orEmpty(r.Targets), "replace-addrs": orEmpty(r.Replace),
		"variables":               variables,
		"allow-config-generation": r.GenerateConfig, "allow-empty-apply": r.AllowEmpty, "terraform-version": "latest",
		"trigger-reason": "manual", "status-timestamps": times, "position-in-queue": waits.Place, "waits-for": waits.Text,
		"canceled-at":               moment(later(r.Times[record.Canceled], r.Times[record.ForceCanceled])),
		"force-cancel-available-at": forceAt, "structured-run-output-enabled": r.Structured,
		"actions": map[string]bool{
			"is-cancelable": r.Status.Cancelable(), "is-confirmable": r.Status.Confirmable() && (r.HasChanges || r.AllowEmpty),
			"is-discardable": r.Status.Discardable(), "is-force-cancelable": c.svc.Runs.ForceCancelable(&r.Run),
		},
		"permissions": map[string]bool{
			"can-apply": apply, "can-cancel": r.Permissions.Runs >= record.Plan, "can-comment": true,
			"can-discard":      apply,
			"can-force-cancel": r.Permissions.Admin, "can-force-execute": apply, "can-override-policy-check": false,
		},
	}
	return resource{ID: r.ID, Type: "runs", Attributes: a, Relationships: map[string]any{
		"workspace": to("workspaces", r.Workspace), "plan": to("plans", r.Run.Plan.ID),
		"apply":                 to("applies", r.Apply.ID),
		"configuration-version": to("configuration-versions", r.Configuration), "created-by": to("users", r.CreatedBy),
		"task-stages": toAll("task-stages", nil), "policy-checks": toAll("policy-checks", nil),
		"cost-estimate": to("cost-estimates", ""), "confirmed-by": to("users", r.ConfirmedBy),
	}}
}

// statusWord returns the API's word for the status of a run. A command line treats an unknown word as that of a
// run in progress, and would report success.
func statusWord(s record.RunStatus) string {
	if s == record.ForceCanceled {
		s = record.Canceled
	}
	return string(s)
}

func later(x, y time.Time) time.Time {
	if x.After(y) {
		return x
	}
	return y
}

func orEmpty(all []string) []string {
	if all == nil {
		return []string{}
	}
	return all
}

// waits returns why a run waits, with its position in its queue; the zero value if it does not wait.
func (c *call) waits(r *record.Run) (w service.Wait) {
	if r.Status.Final() || r.Status.Computes() {
		if w.Kind == "approval" && r.AutoApply {
			return service.Wait{} // it waits only until its client has shown the plan
		}
		return w
	}
	w, err := c.svc.Runs.WaitsFor(r)
	if err != nil {
		return service.Wait{} // the document is right without it
	}
	return w
}

func (c *call) createRun() error {
	a := struct {
		Message        string            `json:"message"`
		Destroy        bool              `json:"is-destroy"`
		Refresh        *bool             `json:"refresh"`
		RefreshOnly    bool              `json:"refresh-only"`
		PlanOnly       bool              `json:"plan-only"`
		SavePlan       bool              `json:"save-plan"`
		AutoApply      *bool             `json:"auto-apply"`
		GenerateConfig bool              `json:"allow-config-generation"`
		AllowEmpty     bool              `json:"allow-empty-apply"`
		Version        string            `json:"terraform-version"`
		Targets        []string          `json:"target-addrs"`
		Replace        []string          `json:"replace-addrs"`
		Variables      []record.Argument `json:"variables"`
	}{}
	q, err := c.body(&a)
	if err != nil {
		return err
	}
	w, err := q.related("workspace")
	if err != nil {
		return err
	}
	if w.ID == "" {
		return &failure{http.StatusUnprocessableEntity, "invalid relationship", "a run needs a workspace"}
	}
	if a.Version != "" && a.Version != "latest" {
		return &failure{http.StatusUnprocessableEntity, "invalid attribute",
			"this service plans with its own engine: leave terraform-version out"}
	}
	cv, err := q.related("configuration-version")
	if err != nil {
		return err
	}
	r := record.Run{
		Configuration: cv.ID, Message: a.Message, Destroy: a.Destroy, Refresh: a.Refresh == nil || *a.Refresh,
		RefreshOnly: a.RefreshOnly,
		PlanOnly:    a.PlanOnly, SavePlan: a.SavePlan, AutoApply: a.AutoApply != nil && *a.AutoApply,
		GenerateConfig: a.GenerateConfig, AllowEmpty: a.AllowEmpty,
		Targets: a.Targets, Replace: a.Replace, Variables: a.Variables, Source: c.source(),
		Structured:      c.r.Header.Get("X-Terraform-Integration") == "cloud",
		TerraformCaller: c.r.Header.Get("Terraform-Version"),
	}
	if r.Message == "" {
		r.Message = "Queued manually"
	}
	made, err := c.svc.Runs.Create(c.actor, w.ID, r)
	if err != nil {
		return err
	}
	v, err := c.svc.Runs.Find(c.actor, made.ID)
	if err != nil {
		return err
	}
	res, more, err := c.wholeRun(v)
	if err != nil {
		return err
	}
	res.Attributes["variables"] = v.Variables // the client has just sent them
	return c.answer(http.StatusCreated, res, more)
}

func (c *call) run() error {
	r, err := c.svc.Runs.Find(c.actor, c.arg("run"))
	if err != nil {
		return err
	}
	c.svc.Runs.Seen(r.ID)
	res, more, err := c.wholeRun(r)
	if err != nil {
		return err
	}
	return c.ok(res, more...)
}

// wholeRun returns a run with its history and comments, and the documents to include.
func (c *call) wholeRun(r *service.RunView) (res resource, more []resource, err error) {
	res, more = c.runResource(r), c.besideRun(r)
	events, err := c.svc.Runs.History(c.actor, r.ID)
	if err != nil {
		return res, nil, err
	}
	said, err := c.svc.Runs.Comments(c.actor, r.ID)
	if err != nil {
		return res, nil, err
	}
	ids := map[string][]string{}
	for _, n := range events {
		if ids["run-events"] = append(ids["run-events"], n.ID); c.wants("run_events") {
			more = append(more, noteResource(n))
		}
	}
	for _, v := range said {
		if ids["comments"] = append(ids["comments"], v.ID); c.wants("comments") {
			more = append(more, commentResource(v))
		}
	}
	for _, kind := range []string{"run-events", "comments"} {
		res.Relationships[kind] = toAll(kind, ids[kind])
	}
	return res, more, nil
}

// besideRun returns the documents that can be included with a run.
func (c *call) besideRun(r *service.RunView) (more []resource) {
	if c.wants("workspace") {
		ws := c.workspaceResource(r.On)
		// Clients render JSON lines if the workspace has structured output: use the setting of this run.
		ws.Attributes["structured-run-output-enabled"] = r.Structured
		more = append(more, ws)
	}
	if c.wants("plan") {
		more = append(more, c.planResource(r))
	}
	if c.wants("apply") {
		more = append(more, c.applyResource(r))
	}
	if c.wants("configuration_version", "configuration_version.ingress_attributes") {
		more = append(more, c.configurationOf(r.Configuration)...)
	}
	for name, id := range map[string]string{"created_by": r.CreatedBy, "confirmed_by": r.ConfirmedBy} {
		if c.wants(name) && id != "" {
			if u, err := c.svc.Users.Find(c.actor, id); err == nil {
				more = append(more, userResource(u))
			}
		}
	}
	return more
}

// maxRuns bounds a list of runs.
const maxRuns = 1000

func (c *call) runs() error {
	all, err := c.svc.Runs.List(c.actor, c.arg("ws"), maxRuns)
	return c.listRuns(all, err)
}

func (c *call) organizationRuns() error {
	all, err := c.svc.Runs.OfOrganization(c.actor, c.arg("org"), maxRuns)
	return c.listRuns(all, err)
}

// listRuns returns the runs that match the request.
func (c *call) listRuns(all []*service.RunView, err error) error {
	if err != nil {
		return err
	}
	q := c.r.URL.Query()
	statuses, sources := words(q.Get("filter[status]")), words(q.Get("filter[source]"))
	operations, spaces := words(q.Get("filter[operation]")), words(q.Get("filter[workspace_names]"))
	text, who, commit := strings.ToLower(q.Get("search[basic]")), q.Get("search[user]"), q.Get("search[commit]")
	among := func(list []string, word string) bool { return len(list) == 0 || slices.Contains(list, word) }
	all = slices.DeleteFunc(all, func(r *service.RunView) bool {
		group := "non_final"
		if r.Status.Final() {
			group = "final"
		}
		wanted := q.Get("filter[status_group]")
		if commit != "" || who != "" && !strings.Contains(strings.ToLower(c.nameOf(r.CreatedBy)), strings.ToLower(who)) {
			return true // no run has a commit
		}
		return !among(statuses, statusWord(r.Status)) || !among(sources, r.Source) || !among(operations, operation(&r.Run)) ||
			!among(spaces, r.On.Name) || wanted != "" && wanted != group ||
			!strings.Contains(strings.ToLower(r.ID+" "+r.Message), text)
	})
	return list(c, all, c.runResource, c.besideRun)
}

// nameOf returns the name of a user; empty if the actor may not see it.
func (c *call) nameOf(id string) string {
	u, err := c.svc.Users.Find(c.actor, id)
	if err != nil {
		return ""
	}
	return u.Name
}

// operation returns the API's word for the operation of a run.
func operation(r *record.Run) string {
	switch {
	case r.Destroy:
		return "destroy"
	case r.RefreshOnly:
		return "refresh_only"
	case r.SavePlan:
		return "save_plan"
	case r.PlanOnly:
		return "plan_only"
	}
	return "plan_and_apply"
}

func (c *call) runQueue() error {
	all, err := c.svc.Runs.Queue(c.actor, c.arg("org"))
	if err != nil {
		return err
	}
	return list(c, all, c.runResource, nil)
}

func (c *call) applyRun() error       { return c.act(c.svc.Runs.Confirm) }
func (c *call) discardRun() error     { return c.act(c.svc.Runs.Discard) }
func (c *call) cancelRun() error      { return c.act(c.svc.Runs.Cancel) }
func (c *call) forceCancelRun() error { return c.act(c.svc.Runs.ForceCancel) }

// forceExecuteRun has no body.
func (c *call) forceExecuteRun() error {
	if err := c.svc.Runs.ForceExecute(c.actor, c.arg("run")); err != nil {
		return err
	}
	return c.empty(http.StatusAccepted)
}

// act performs an action on a run. The body of the request is a plain object, not a document.
func (c *call) act(do func(*rights.Actor, string, string) error) error {
	var a struct{ Comment string }
	if err := c.decode(&a); err != nil {
		return err
	}
	if err := do(c.actor, c.arg("run"), a.Comment); err != nil {
		return err
	}
	return c.empty(http.StatusAccepted)
}
