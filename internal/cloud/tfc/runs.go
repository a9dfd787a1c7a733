package tfc

import (
	"context"
	"io"
	"net/http"
	"net/url"
)

// Configuration is an uploaded configuration, or one to upload.
type Configuration struct {
	ID string

	Status string `json:"status"`
	Upload string `json:"upload-url"`
	// Problem is the error of one whose status is errored.
	Problem string `json:"error-message"`
}

// The statuses of a configuration that clients wait for.
const (
	ConfigurationUploaded = "uploaded"
	ConfigurationErrored  = "errored"
)

// NewConfiguration is the purpose of a configuration: a plan that is never applied (Speculative), or one that is
// saved (Provisional).
type NewConfiguration struct {
	AutoQueue   bool `json:"auto-queue-runs"`
	Speculative bool `json:"speculative"`
	Provisional bool `json:"provisional"`
}

// CreateConfiguration creates a configuration for an upload.
func (c *Client) CreateConfiguration(ctx context.Context, workspace string, n NewConfiguration) (*Configuration,
	error) {
	return c.configuration(ctx, http.MethodPost, "workspaces/"+url.PathEscape(workspace)+"/configuration-versions",
		sent{resource{Type: "configuration-versions", Attributes: n}})
}

// Configuration returns a configuration.
func (c *Client) Configuration(ctx context.Context, id string) (*Configuration, error) {
	return c.configuration(ctx, http.MethodGet, "configuration-versions/"+url.PathEscape(id), nil)
}

func (c *Client) configuration(ctx context.Context, method, path string, body any) (*Configuration, error) {
	var doc one
	if err := c.ask(ctx, method, path, nil, body, &doc); err != nil {
		return nil, err
	}
	v := &Configuration{ID: doc.Data.ID}
	return v, doc.Data.into("configuration-versions", v)
}

// UploadConfiguration uploads a configuration: a packed archive of this length, which body opens once for each
// attempt.
func (c *Client) UploadConfiguration(ctx context.Context, v *Configuration, length int64,
	body func() (io.ReadCloser, error)) error {
	return c.put(ctx, v.Upload, body, length)
}

// Status is the status of a run.
type Status string

// The statuses that are distinguished.
const (
	Pending            Status = "pending"
	Fetching           Status = "fetching"
	Queuing            Status = "queuing"
	PlanQueued         Status = "plan_queued"
	Planning           Status = "planning"
	Planned            Status = "planned"
	PlannedAndFinished Status = "planned_and_finished"
	PlannedAndSaved    Status = "planned_and_saved"
	PolicyOverride     Status = "policy_override"
	AwaitingDecision   Status = "post_plan_awaiting_decision"
	Confirmed          Status = "confirmed"
	QueuingApply       Status = "queuing_apply"
	ApplyQueued        Status = "apply_queued"
	Applying           Status = "applying"
	Applied            Status = "applied"
	Discarded          Status = "discarded"
	Errored            Status = "errored"
	Canceled           Status = "canceled"
	ForceCanceled      Status = "force_canceled"
)

// Final reports whether a run has ended.
func (s Status) Final() bool {
	switch s {
	case Applied, PlannedAndFinished, Discarded, Errored, Canceled, ForceCanceled:
		return true
	}
	return false
}

// Waiting reports whether a run waits to plan or, once it was confirmed, to apply.
func (s Status) Waiting() bool {
	switch s {
	case Pending, Fetching, Queuing, PlanQueued, Confirmed, QueuingApply, ApplyQueued:
		return true
	}
	return false
}

// Run is a run.
type Run struct {
	ID, Workspace, Plan, Apply string
	// On is the workspace as it was for the run; nil unless it was requested, and the service has included it.
	On *Workspace
	// Planned is its plan; as On.
	Planned *Phase

	Status      Status `json:"status"`
	HasChanges  bool   `json:"has-changes"`
	Destroy     bool   `json:"is-destroy"`
	RefreshOnly bool   `json:"refresh-only"`
	PlanOnly    bool   `json:"plan-only"`
	AutoApply   bool   `json:"auto-apply"`
	Message     string `json:"message"`
	Created     string `json:"created-at"` // RFC 3339; empty if the service does not say
	Position    int    `json:"position-in-queue"`
	// Waits is the reason why the run waits, if the service provides it.
	Waits   string `json:"waits-for"`
	Actions struct {
		Cancelable   bool `json:"is-cancelable"`
		Confirmable  bool `json:"is-confirmable"`
		Discardable  bool `json:"is-discardable"`
		ForceCancels bool `json:"is-force-cancelable"`
	} `json:"actions"`
}

// NewRun describes a run to create.
type NewRun struct {
	Workspace, Configuration string

	AutoApply      bool          `json:"auto-apply"`
	Refresh        bool          `json:"refresh"`
	RefreshOnly    bool          `json:"refresh-only,omitempty"`
	Destroy        bool          `json:"is-destroy,omitempty"`
	SavePlan       bool          `json:"save-plan,omitempty"`
	GenerateConfig bool          `json:"allow-config-generation,omitempty"`
	Targets        []string      `json:"target-addrs,omitempty"`
	Replace        []string      `json:"replace-addrs,omitempty"`
	Variables      []RunVariable `json:"variables,omitempty"`
	Message        string        `json:"message,omitempty"`
}

// RunVariable is a variable of a run. Its value is an expression of the language.
type RunVariable struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

func runOf(doc one) (*Run, error) {
	r := &Run{ID: doc.Data.ID}
	if err := doc.Data.into("runs", r); err != nil {
		return nil, err
	}
	r.Workspace, r.Plan, r.Apply = doc.Data.to("workspace"), doc.Data.to("plan"), doc.Data.to("apply")
	var err error
	for _, more := range doc.Included {
		switch more.Type {
		case "workspaces":
			r.On, err = workspaceOf(more)
		case "plans":
			r.Planned, err = phaseOf(more, "plans")
		}
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// CreateRun creates a run.
func (c *Client) CreateRun(ctx context.Context, n NewRun) (*Run, error) {
	doc := resource{Type: "runs", Attributes: n, Relationships: map[string]related{
		"workspace": {reference{ID: n.Workspace, Type: "workspaces"}},
	}}
	if n.Configuration != "" {
		doc.Relationships["configuration-version"] = related{reference{ID: n.Configuration,
			Type: "configuration-versions"}}
	}
	var made one
	if err := c.ask(ctx, http.MethodPost, "runs", nil, sent{doc}, &made); err != nil {
		return nil, err
	}
	return runOf(made)
}

// Run returns a run.
func (c *Client) Run(ctx context.Context, id string) (*Run, error) { return c.run(ctx, id, nil) }

// RunWith returns a run with its workspace and its plan.
func (c *Client) RunWith(ctx context.Context, id string) (*Run, error) {
	r, err := c.run(ctx, id, url.Values{"include": {"workspace,plan"}})
	if Refused(err, http.StatusBadRequest) { // it does not support one of them
		return c.run(ctx, id, nil)
	}
	return r, err
}

func (c *Client) run(ctx context.Context, id string, query url.Values) (*Run, error) {
	var doc one
	if err := c.ask(ctx, http.MethodGet, "runs/"+url.PathEscape(id), query, nil, &doc); err != nil {
		return nil, err
	}
	return runOf(doc)
}

// Runs lists the runs of a workspace, the newest first, until fn returns false.
func (c *Client) Runs(ctx context.Context, workspace string, fn func(*Run) bool) error {
	return c.all(ctx, "workspaces/"+url.PathEscape(workspace)+"/runs", nil, func(r received) (bool, error) {
		run, err := runOf(one{Data: r})
		return err == nil && fn(run), err
	})
}

func (c *Client) act(ctx context.Context, run, action, comment string) error {
	body := map[string]string{}
	if comment != "" {
		body["comment"] = comment
	}
	return c.ask(ctx, http.MethodPost, "runs/"+url.PathEscape(run)+"/actions/"+action, nil, body, nil)
}

// Confirm confirms the apply of a run's plan. Here and below, a Conflict means that this is not possible in its
// status.
func (c *Client) Confirm(ctx context.Context, run, comment string) error {
	return c.act(ctx, run, "apply", comment)
}

// Discard discards the plan of a run.
func (c *Client) Discard(ctx context.Context, run, comment string) error {
	return c.act(ctx, run, "discard", comment)
}

// Cancel asks a run to stop.
func (c *Client) Cancel(ctx context.Context, run, comment string) error {
	return c.act(ctx, run, "cancel", comment)
}

// ForceCancel abandons a run that was canceled and does not end. The outcome of its running operations is then unknown.
func (c *Client) ForceCancel(ctx context.Context, run, comment string) error {
	return c.act(ctx, run, "force-cancel", comment)
}

// Resolve records the outcomes of operations in doubt in a service of Millipede: the object with the ID exists or,
// if that is empty, there is none. Other services respond with NotFound.
func (c *Client) Resolve(ctx context.Context, workspace string, addresses []string, id string) error {
	outcomeOf := func(address string) map[string]any {
		if id != "" {
			return map[string]any{"address": address, "created": id}
		}
		return map[string]any{"address": address, "not-created": true}
	}
	body := outcomeOf(addresses[0])
	if len(addresses) > 1 { // older services know one at a time
		var all []map[string]any
		for _, address := range addresses {
			all = append(all, outcomeOf(address))
		}
		body = map[string]any{"outcomes": all}
	}
	path := "/api/millipede/v1/workspaces/" + url.PathEscape(workspace) + "/doubts"
	return c.askFor(ctx, http.MethodPost, path, nil, body, nil, 1) // no retry: a first attempt may have ended the doubt
}

// Note is an entry of the service about a run.
type Note struct {
	Action      string `json:"action"`
	Description string `json:"description"`
}

// Notes lists the service's entries about a run; none if it has no such lists.
func (c *Client) Notes(ctx context.Context, run string) ([]Note, error) {
	var out []Note
	err := c.all(ctx, "runs/"+url.PathEscape(run)+"/run-events", nil, func(r received) (bool, error) {
		var n Note
		err := r.into("run-events", &n)
		out = append(out, n)
		return true, err
	})
	if NotFound(err) {
		return nil, nil
	}
	return out, err
}

// Phase is the plan or the apply of a run.
type Phase struct {
	ID string

	Status     string `json:"status"`
	Log        string `json:"log-read-url"`
	HasChanges bool   `json:"has-changes"`
	// Generated is set if the plan has generated configuration.
	Generated bool `json:"generated-configuration"`
}

// Over reports whether a phase has ended, and with it its log.
func (p *Phase) Over() bool {
	switch p.Status {
	case "finished", "errored", "canceled", "unreachable":
		return true
	}
	return false
}

// The kinds of phases.
const (
	Plans   = "plans"
	Applies = "applies"
)

func phaseOf(r received, kind string) (*Phase, error) {
	p := &Phase{ID: r.ID}
	return p, r.into(kind, p)
}

// Phase returns a plan or an apply.
func (c *Client) Phase(ctx context.Context, kind, id string) (*Phase, error) {
	var doc one
	if err := c.ask(ctx, http.MethodGet, kind+"/"+url.PathEscape(id), nil, nil, &doc); err != nil {
		return nil, err
	}
	return phaseOf(doc.Data, kind)
}

// PlanJSON returns the JSON form of a plan: complete, or without sensitive values and with the schemas of the
// providers. It is nil if the service has none.
func (c *Client) PlanJSON(ctx context.Context, plan string, redacted bool) ([]byte, error) {
	name := "json-output"
	if redacted {
		name += "-redacted"
	}
	data, err := c.get(ctx, "plans/"+url.PathEscape(plan)+"/"+name)
	if NotFound(err) {
		return nil, nil
	}
	return data, err
}
