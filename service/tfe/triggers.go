package tfe

import (
	"net/http"

	"github.com/millipede-iac/millipede/service"
)

func triggerResource(t *service.RunTriggerView) resource {
	return resource{ID: t.ID, Type: "run-triggers", Attributes: map[string]any{
		"created-at": moment(t.CreatedAt), "workspace-name": t.Target.Name, "sourceable-name": t.Origin.Name,
	}, Relationships: map[string]any{
		"workspace": to("workspaces", t.Workspace), "sourceable": to("workspaces", t.Source),
	}}
}

// besideTrigger returns the documents that can be included with a run trigger.
func (c *call) besideTrigger(t *service.RunTriggerView) (out []resource) {
	if c.wants("workspace") {
		out = append(out, c.workspaceResource(t.Target))
	}
	if c.wants("sourceable") {
		out = append(out, c.workspaceResource(t.Origin))
	}
	return out
}

func (c *call) runTriggers() error {
	outbound := false
	switch c.r.FormValue("filter[run-trigger][type]") {
	case "inbound":
	case "outbound":
		outbound = true
	default:
		return &failure{http.StatusBadRequest, "invalid parameter", "filter[run-trigger][type] must be inbound or outbound"}
	}
	all, err := c.svc.RunTriggers.List(c.actor, c.arg("ws"), outbound)
	if err != nil {
		return err
	}
	return list(c, all, triggerResource, c.besideTrigger)
}

func (c *call) createRunTrigger() error {
	q, err := c.body(&struct{}{})
	if err != nil {
		return err
	}
	source, err := q.related("sourceable")
	if err != nil {
		return err
	}
	t, err := c.svc.RunTriggers.Create(c.actor, c.arg("ws"), source.ID)
	if err != nil {
		return err
	}
	return c.created(triggerResource(t))
}

func (c *call) runTrigger() error {
	t, err := c.svc.RunTriggers.Find(c.actor, c.arg("trigger"))
	if err != nil {
		return err
	}
	return c.ok(triggerResource(t), c.besideTrigger(t)...)
}

func (c *call) deleteRunTrigger() error {
	if err := c.svc.RunTriggers.Delete(c.actor, c.arg("trigger")); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}
