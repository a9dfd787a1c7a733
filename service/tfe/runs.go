package tfe

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
)

// runResource is a run. Clients crash without its actions and without its relationships to plan and apply.
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
		// Until the plan has ended nobody knows which of them the configuration declares sensitive.
		if r.Run.Plan.Status != record.PhaseFinished || slices.Contains(r.Sensitive, v.Key) {
			v.Value = ""
		}
		variables = append(variables, map[string]string{"key": v.Key, "value": v.Value})
	}
	apply := r.Permissions.Runs >= record.Write
	var forceAt any
	if !r.CancelAsked.IsZero() {
		forceAt = moment(c.ForceCancelAt(&r.Run))
	}
	a := map[string]any{
		"status": string(r.Status), "has-changes": r.HasChanges, "message": r.Message, "source": r.Source,
		"created-at": moment(r.CreatedAt),
		"is-destroy": r.Destroy, "auto-apply": r.AutoApply, "plan-only": r.PlanOnly, "save-plan": r.SavePlan,
		"refresh":      r.Refresh,
		"refresh-only": r.RefreshOnly, "target-addrs": orEmpty(r.Targets), "replace-addrs": orEmpty(r.Replace),
		"variables":               variables,
		"allow-config-generation": r.GenerateConfig, "allow-empty-apply": false, "terraform-version": "latest",
		"trigger-reason": "manual", "status-timestamps": times, "position-in-queue": c.position(&r.Run),
		"canceled-at":               moment(r.Times[record.Canceled]),
		"force-cancel-available-at": forceAt, "structured-run-output-enabled": r.Structured,
		"actions": map[string]bool{
			"is-cancelable": r.Status.Cancelable(), "is-confirmable": r.Status.Confirmable() && r.HasChanges,
			"is-discardable": r.Status.Discardable(), "is-force-cancelable": c.ForceCancelable(&r.Run),
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

func orEmpty(all []string) []string {
	if all == nil {
		return []string{}
	}
	return all
}

// position is the place of a run in what it waits for; zero for one that does not wait.
func (c *call) position(r *record.Run) int {
	if r.Status.Final() || r.Status.Computes() {
		return 0
	}
	w, err := c.Waits(c.actor, r.ID)
	if err != nil {
		return 0
	}
	return w.Place
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
	cv, err := q.related("configuration-version")
	if err != nil {
		return err
	}
	r := record.Run{
		Configuration: cv.ID, Message: a.Message, Destroy: a.Destroy, Refresh: a.Refresh == nil || *a.Refresh,
		RefreshOnly: a.RefreshOnly,
		PlanOnly:    a.PlanOnly, SavePlan: a.SavePlan, AutoApply: a.AutoApply != nil && *a.AutoApply,
		GenerateConfig: a.GenerateConfig,
		Targets:        a.Targets, Replace: a.Replace, Variables: a.Variables, Source: c.source(),
		Structured:      c.r.Header.Get("X-Terraform-Integration") == "cloud",
		TerraformCaller: c.r.Header.Get("Terraform-Version"),
	}
	if r.Message == "" {
		r.Message = "Queued manually"
	}
	made, err := c.CreateRun(c.actor, w.ID, r)
	if err != nil {
		return err
	}
	v, err := c.FindRun(c.actor, made.ID)
	if err != nil {
		return err
	}
	res := c.runResource(v)
	res.Attributes["variables"] = v.Variables // who asked has just said them
	return c.created(res)
}

func (c *call) run() error {
	r, err := c.FindRun(c.actor, c.arg("run"))
	if err != nil {
		return err
	}
	c.Seen(r.ID)
	wants, err := c.includes("workspace", "plan", "apply", "task_stages", "created_by", "configuration_version",
		"configuration_version.ingress_attributes", "cost_estimate", "policy_checks", "run_events", "comments",
		"confirmed_by")
	if err != nil {
		return err
	}
	res, more := c.runResource(r), c.besideRun(r, wants)
	events, err := c.RunHistory(c.actor, r.ID)
	if err != nil {
		return err
	}
	said, err := c.Comments(c.actor, r.ID)
	if err != nil {
		return err
	}
	ids := map[string][]string{}
	for _, n := range events {
		if ids["run-events"] = append(ids["run-events"], n.ID); wants("run_events") {
			more = append(more, noteResource(n))
		}
	}
	for _, v := range said {
		if ids["comments"] = append(ids["comments"], v.ID); wants("comments") {
			more = append(more, commentResource(v))
		}
	}
	for _, kind := range []string{"run-events", "comments"} {
		res.Relationships[kind] = toAll(kind, ids[kind])
	}
	return c.ok(res, more...)
}

// besideRun are the documents that a run can bring along.
func (c *call) besideRun(r *service.RunView, wants func(string) bool) (more []resource) {
	if wants("workspace") {
		ws := c.workspaceResource(r.On)
		// A client renders JSON lines when the workspace has them: those of this run count.
		ws.Attributes["structured-run-output-enabled"] = r.Structured
		more = append(more, ws)
	}
	if wants("plan") {
		more = append(more, c.planResource(r))
	}
	if wants("apply") {
		more = append(more, c.applyResource(r))
	}
	if wants("configuration_version") {
		if v, err := c.Configuration(c.actor, r.Configuration); err == nil {
			more = append(more, c.configurationResource(v))
		}
	}
	if wants("created_by") {
		if u, err := c.User(c.actor, r.CreatedBy); err == nil {
			more = append(more, userResource(u))
		}
	}
	return more
}

// maxRuns bounds a list of runs.
const maxRuns = 1000

func (c *call) runs() error {
	all, err := c.Runs(c.actor, c.arg("ws"), maxRuns)
	return c.listRuns(all, err)
}

func (c *call) organizationRuns() error {
	all, err := c.OrganizationRuns(c.actor, c.arg("org"), maxRuns)
	return c.listRuns(all, err)
}

// listRuns answers with those runs that the request asks for.
func (c *call) listRuns(all []*service.RunView, err error) error {
	if err != nil {
		return err
	}
	wants, err := c.includes("workspace", "plan", "apply", "created_by", "configuration_version", "cost_estimate",
		"configuration_version.ingress_attributes")
	if err != nil {
		return err
	}
	q := c.r.URL.Query()
	statuses, sources := words(q.Get("filter[status]")), words(q.Get("filter[source]"))
	operations, spaces := words(q.Get("filter[operation]")), words(q.Get("filter[workspace_names]"))
	text := strings.ToLower(q.Get("search[basic]"))
	among := func(list []string, word string) bool { return len(list) == 0 || slices.Contains(list, word) }
	all = slices.DeleteFunc(all, func(r *service.RunView) bool {
		group := "non_final"
		if r.Status.Final() {
			group = "final"
		}
		wanted := q.Get("filter[status_group]")
		return !among(statuses, string(r.Status)) || !among(sources, r.Source) || !among(operations, operation(&r.Run)) ||
			!among(spaces, r.On.Name) || wanted != "" && wanted != group ||
			!strings.Contains(strings.ToLower(r.ID+" "+r.Message), text)
	})
	return list(c, all, c.runResource, func(r *service.RunView) []resource { return c.besideRun(r, wants) })
}

// operation is the word for what a run does.
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
	all, err := c.Queue(c.actor, c.arg("org"))
	if err != nil {
		return err
	}
	return list(c, all, c.runResource, nil)
}

func (c *call) runEvents() error {
	all, err := c.RunHistory(c.actor, c.arg("run"))
	if err != nil {
		return err
	}
	wants, err := c.includes("actor", "comment")
	if err != nil {
		return err
	}
	return list(c, all, noteResource, func(n *record.RunNote) (more []resource) {
		if wants("actor") && n.Actor != "" {
			if u, err := c.User(c.actor, n.Actor); err == nil {
				more = append(more, userResource(u))
			}
		}
		return more
	})
}

func noteResource(n *record.RunNote) resource {
	return resource{ID: n.ID, Type: "run-events", Attributes: map[string]any{
		"action": n.Action, "description": n.Description, "created-at": moment(n.CreatedAt),
	}, Relationships: map[string]any{"run": to("runs", n.Run), "actor": to("users", n.Actor)}}
}

func commentResource(v *record.Comment) resource {
	return resource{ID: v.ID, Type: "comments", Attributes: map[string]any{"body": v.Body,
		"created-at": moment(v.CreatedAt)},
		Relationships: map[string]any{"run-event": to("run-events", ""), "created-by": to("users", v.Actor)}}
}

func (c *call) comments() error {
	all, err := c.Comments(c.actor, c.arg("run"))
	if err != nil {
		return err
	}
	return list(c, all, commentResource, nil)
}

func (c *call) readComment() error {
	v, err := c.FindComment(c.actor, c.arg("comment"))
	if err != nil {
		return err
	}
	return c.ok(commentResource(v))
}

func (c *call) runEvent() error {
	n, err := c.FindRunNote(c.actor, c.arg("event"))
	if err != nil {
		return err
	}
	return c.ok(noteResource(n))
}

func (c *call) comment() error {
	var a struct{ Body string }
	if _, err := c.body(&a); err != nil {
		return err
	}
	v, err := c.Comment(c.actor, c.arg("run"), a.Body)
	if err != nil {
		return err
	}
	return c.created(commentResource(v))
}

func (c *call) applyRun() error       { return c.act(c.Confirm) }
func (c *call) discardRun() error     { return c.act(c.Discard) }
func (c *call) cancelRun() error      { return c.act(c.Cancel) }
func (c *call) forceCancelRun() error { return c.act(c.ForceCancel) }

// act carries an action on a run out. Its body is a plain object, not a document.
func (c *call) act(do func(*service.Actor, string, string) error) error {
	var a struct{ Comment string }
	if err := c.decode(&a); err != nil {
		return err
	}
	if err := do(c.actor, c.arg("run"), a.Comment); err != nil {
		return err
	}
	return c.empty(http.StatusAccepted)
}

func (c *call) phaseAttributes(p *record.Phase) map[string]any {
	return map[string]any{
		"status": string(p.Status), "log-read-url": c.address("/logs/" + c.LogAddress(p)), "resource-additions": p.Add,
		"resource-changes": p.Change, "resource-destructions": p.Destroy, "resource-imports": p.Import,
		"status-timestamps": map[string]any{"started-at": moment(p.Started), "finished-at": moment(p.Ended)},
	}
}

func (c *call) planResource(r *service.RunView) resource {
	a := c.phaseAttributes(&r.Run.Plan)
	a["has-changes"], a["generated-configuration"] = r.HasChanges, r.Generated
	return resource{ID: r.Run.Plan.ID, Type: "plans", Attributes: a,
		Relationships: map[string]any{"run": to("runs", r.ID)}, Links: map[string]any{
			"self": "/api/v2/plans/" + r.Run.Plan.ID, "json-output": "/api/v2/plans/" + r.Run.Plan.ID + "/json-output",
			"json-output-redacted": "/api/v2/plans/" + r.Run.Plan.ID + "/json-output-redacted",
		}}
}

func (c *call) applyResource(r *service.RunView) resource {
	return resource{ID: r.Apply.ID, Type: "applies", Attributes: c.phaseAttributes(&r.Apply),
		Relationships: map[string]any{"run": to("runs", r.ID)}}
}

// phaseRun returns the run that the path names by itself or by one of its phases.
func (c *call) phaseRun() (*service.RunView, error) {
	if id := c.arg("run"); id != "" {
		return c.FindRun(c.actor, id)
	}
	return c.RunOfPhase(c.actor, c.arg("phase"))
}

func (c *call) plan() error {
	r, err := c.phaseRun()
	if err != nil {
		return err
	}
	return c.ok(c.planResource(r))
}

func (c *call) apply() error {
	r, err := c.phaseRun()
	if err != nil {
		return err
	}
	return c.ok(c.applyResource(r))
}

func (c *call) planJSON() error     { return c.planDocument(false) }
func (c *call) planRedacted() error { return c.planDocument(true) }

func (c *call) planDocument(redacted bool) error {
	r, err := c.phaseRun()
	if err != nil {
		return err
	}
	data, ready, err := c.PlanJSON(c.actor, r.Run.Plan.ID, redacted)
	if err != nil {
		return err
	}
	if !ready {
		return c.empty(http.StatusNoContent)
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = c.w.Write(data)
	return nil
}

// maxLog bounds what one request for a log gets.
const maxLog = 1 << 20

// log answers with a part of a log. Where there is nothing yet the request is held, so that clients need not ask again
// and again.
func (s *server) log(w http.ResponseWriter, r *http.Request) {
	number := func(name string, or int64) int64 {
		if n, err := strconv.ParseInt(r.FormValue(name), 10, 64); err == nil && n >= 0 {
			return n
		}
		return or
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.o.Poll)
	defer cancel()
	limit := int(min(number("limit", maxLog), maxLog))
	data, err := s.Log(ctx, r.PathValue("address"), number("offset", 0), limit)
	if err != nil {
		if errors.Is(err, service.ErrNotFound) || r.Context().Err() == nil {
			s.fail(w, r, err)
		}
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data) // the reader has gone away otherwise
}
