package tfe

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/tables"
)

func (c *call) phaseAttributes(p *record.Phase) map[string]any {
	return map[string]any{
		"status": string(p.Status), "log-read-url": c.address("/logs/" + c.svc.Logs.Address(p)), "resource-additions": p.Add,
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

// phaseRun returns the run that the path identifies directly or by one of its phases.
func (c *call) phaseRun() (*service.RunView, error) {
	if id := c.arg("run"); id != "" {
		return c.svc.Runs.Find(c.actor, id)
	}
	return c.svc.Runs.OfPhase(c.actor, c.arg("phase"))
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
	data, ready, err := c.svc.Plans.JSON(c.r.Context(), c.actor, r.Run.Plan.ID, redacted)
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

// maxLog bounds the response to one request for a log, in bytes.
const maxLog = 1 << 20

// log returns a part of a log. If there is nothing yet, it waits, so that clients need not poll at short
// intervals.
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
	data, err := s.svc.Logs.Read(ctx, r.PathValue("address"), number("offset", 0), limit)
	if err != nil {
		if errors.Is(err, tables.ErrNotFound) || r.Context().Err() == nil {
			s.fail(w, r, err)
		}
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data) // an error means that the client has disconnected
}
