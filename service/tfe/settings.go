package tfe

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/retention"
)

// retentionAttribute is the attribute of that name: absent for no change, null for the retention of the service.
type retentionAttribute struct {
	given bool
	value *struct {
		Runs   int    `json:"runs"`
		States int    `json:"states"`
		For    string `json:"for"`
	}
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *retentionAttribute) UnmarshalJSON(data []byte) error {
	r.given = true
	return json.Unmarshal(data, &r.value)
}

// setting returns the change of the setting; nil for none.
func (r *retentionAttribute) setting() (**record.Retention, error) {
	var to *record.Retention
	switch {
	case !r.given:
		return nil, nil //nolint:nilnil // see the comment of the function
	case r.value != nil:
		age, err := retention.ParseAge(r.value.For)
		if err != nil {
			return nil, err
		}
		to = &record.Retention{Runs: r.value.Runs, States: r.value.States, For: age}
	}
	return &to, nil
}

// retentionOf returns the attribute of a workspace.
func retentionOf(w *record.Workspace) any {
	if w.Retention == nil {
		return nil
	}
	return map[string]any{"runs": w.Retention.Runs, "states": w.Retention.States,
		"for": service.PeriodText(w.Retention.For)}
}

// settings reads the settings of a workspace from a request.
func (c *call) settings() (o service.WorkspaceSettings, err error) {
	var a struct {
		Name             *string            `json:"name"`
		Description      *string            `json:"description"`
		ExecutionMode    *string            `json:"execution-mode"`
		Operations       *bool              `json:"operations"`
		TerraformVersion *string            `json:"terraform-version"`
		WorkingDirectory *string            `json:"working-directory"`
		AutoApply        *bool              `json:"auto-apply"`
		Structured       *bool              `json:"structured-run-output-enabled"`
		QueueAllRuns     *bool              `json:"queue-all-runs"`
		AllowDestroy     *bool              `json:"allow-destroy-plan"`
		GlobalState      *bool              `json:"global-remote-state"`
		SourceName       *string            `json:"source-name"`
		SourceURL        *string            `json:"source-url"`
		ApprovalExpiry   *int               `json:"approval-expiry-seconds"`
		ObjectLocks      *bool              `json:"object-locks"`
		Refresh          *string            `json:"refresh"`
		DriftPeriod      *string            `json:"drift-period"`
		Retention        retentionAttribute `json:"retention"`
		Overwrites       *struct {
			Mode *bool `json:"execution-mode"`
		} `json:"setting-overwrites"`
		Files       *bool     `json:"file-triggers-enabled"`
		Speculative *bool     `json:"speculative-enabled"`
		TriggerAuto *bool     `json:"auto-apply-run-trigger"`
		Prefixes    *[]string `json:"trigger-prefixes"`
		Patterns    *[]string `json:"trigger-patterns"`
		Assessments *bool     `json:"assessments-enabled"`
		AgentPool   string    `json:"agent-pool-id"` // empty from those that give one up
		VCS         any       `json:"vcs-repo"`      // null from those that give one up
		SSHKey      string    `json:"ssh-key-id"`
		DestroyAt   *string   `json:"auto-destroy-at"`
		DestroyIdle *string   `json:"auto-destroy-activity-duration"`
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
		ObjectLocks: a.ObjectLocks, Refresh: a.Refresh,
	}
	if a.ExecutionMode == nil && a.Operations != nil {
		mode := record.ModeLocal
		if *a.Operations {
			mode = record.ModeRemote
		}
		o.ExecutionMode = &mode
	}
	for lacking, asked := range map[string]bool{
		"health assessments": a.Assessments != nil && *a.Assessments, "agent pools": a.AgentPool != "",
		"connections to repositories": a.VCS != nil, "SSH keys": a.SSHKey != "",
		"workspaces that destroy themselves": a.DestroyAt != nil || a.DestroyIdle != nil,
	} {
		if asked {
			return o, &failure{http.StatusUnprocessableEntity, "invalid attribute", "this service has no " + lacking}
		}
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
	if a.DriftPeriod != nil {
		period, err := service.ParsePeriod(*a.DriftPeriod)
		if err != nil {
			return o, err
		}
		o.DriftPeriod = &period
	}
	if o.Retention, err = a.Retention.setting(); err != nil {
		return o, err
	}
	p, err := q.related("project")
	if err != nil {
		return o, err
	}
	if p.ID != "" {
		o.Project = &p.ID
	}
	tags, err := q.relatedAll("tags")
	if err != nil {
		return o, err
	}
	o.Tags = tagsOf(tags)
	if _, given := q.Data.Relationships["tag-bindings"]; given {
		bound, err := q.relatedAll("tag-bindings")
		if err != nil {
			return o, err
		}
		pairs := tagsOf(bound)
		o.Pairs = &pairs
	}
	return o, nil
}
