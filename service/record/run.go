package record

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// RunStatus is the status of a run, in the words of the API.
type RunStatus string

// The statuses of a run. Picture:
//
//	pending -> plan_queued -> planning -> planned -> confirmed -> apply_queued -> applying -> applied
//	                             |  \-> planned_and_saved -^
//	                             \----> planned_and_finished
//
// Every status that is not final can become canceled, force_canceled, discarded or errored as the table next says.
const (
	Pending            RunStatus = "pending"
	PlanQueued         RunStatus = "plan_queued"
	Planning           RunStatus = "planning"
	Planned            RunStatus = "planned"
	PlannedAndSaved    RunStatus = "planned_and_saved"
	PlannedAndFinished RunStatus = "planned_and_finished"
	Confirmed          RunStatus = "confirmed"
	ApplyQueued        RunStatus = "apply_queued"
	Applying           RunStatus = "applying"
	Applied            RunStatus = "applied"
	Discarded          RunStatus = "discarded"
	Canceled           RunStatus = "canceled"
	ForceCanceled      RunStatus = "force_canceled"
	Errored            RunStatus = "errored"
)

// Statuses has all statuses, in the order in which a run passes through them.
var Statuses = []RunStatus{
	Pending, PlanQueued, Planning, Planned, PlannedAndSaved, PlannedAndFinished, Confirmed, ApplyQueued, Applying,
	Applied, Discarded, Canceled, ForceCanceled, Errored,
}

// RunEventKind is a kind of event of a run.
type RunEventKind string

// The events of a run.
const (
	// EventPlanQueued: it is the run's turn; it waits until fewer plans are running than the limit.
	EventPlanQueued RunEventKind = "plan_queued"
	// EventPlanStarted: the engine starts to plan.
	EventPlanStarted RunEventKind = "plan_started"
	// EventPlanEnded: the plan is complete; Outcome says how.
	EventPlanEnded RunEventKind = "plan_ended"
	// EventConfirmed: a person, or the auto-apply setting, has approved the plan.
	EventConfirmed RunEventKind = "confirmed"
	// EventApplyQueued: the run has the workspace; it waits until fewer applies are running than the limit.
	EventApplyQueued RunEventKind = "apply_queued"
	// EventApplyStarted: the engine starts to apply.
	EventApplyStarted RunEventKind = "apply_started"
	// EventApplied: the apply has succeeded.
	EventApplied RunEventKind = "applied"
	// EventFailed: the current phase has failed.
	EventFailed RunEventKind = "errored"
	// EventDiscarded: the plan will not be applied.
	EventDiscarded RunEventKind = "discarded"
	// EventCanceled: the run has ended because a person canceled it.
	EventCanceled RunEventKind = "canceled"
	// EventForceCanceled: the run was abandoned; its running operations are in doubt.
	EventForceCanceled RunEventKind = "force_canceled"
	// EventPlanAgain: the service ended during the plan, which starts again, because planning changes nothing.
	EventPlanAgain RunEventKind = "plan_again"
)

// Outcome is the result of a plan.
type Outcome byte

// The outcomes of a plan.
const (
	// Finished: there is nothing to apply, or the run is plan-only.
	Finished Outcome = iota + 1
	// Saved: the plan is kept for a later confirmation, and does not hold the workspace meanwhile.
	Saved
	// Waiting: the plan waits for confirmation.
	Waiting
)

// ErrTransition is wrapped by the error for an event that is not possible in the status of a run; the error
// names both.
var ErrTransition = errors.New("this is not possible in the status of the run")

// next is the transition table: for each event, the statuses in which it is possible, and the status that
// follows.
var next = map[RunEventKind]struct {
	from []RunStatus
	to   RunStatus
}{
	EventPlanQueued:    {[]RunStatus{Pending}, PlanQueued},
	EventPlanStarted:   {[]RunStatus{PlanQueued}, Planning},
	EventPlanAgain:     {[]RunStatus{Planning}, PlanQueued},
	EventConfirmed:     {[]RunStatus{Planned, PlannedAndSaved}, Confirmed},
	EventApplyQueued:   {[]RunStatus{Confirmed}, ApplyQueued},
	EventApplyStarted:  {[]RunStatus{ApplyQueued}, Applying},
	EventApplied:       {[]RunStatus{Applying}, Applied},
	EventFailed:        {[]RunStatus{PlanQueued, Planning, ApplyQueued, Applying}, Errored},
	EventDiscarded:     {[]RunStatus{Pending, Planned, PlannedAndSaved}, Discarded},
	EventCanceled:      {[]RunStatus{Pending, PlanQueued, Planning, Confirmed, ApplyQueued, Applying}, Canceled},
	EventForceCanceled: {[]RunStatus{PlanQueued, Planning, Confirmed, ApplyQueued, Applying}, ForceCanceled},
}

// Next returns the status after an event. The error wraps ErrTransition if the event is not possible.
func Next(s RunStatus, k RunEventKind, o Outcome) (RunStatus, error) {
	if k == EventPlanEnded && s == Planning {
		switch o {
		case Finished:
			return PlannedAndFinished, nil
		case Saved:
			return PlannedAndSaved, nil
		case Waiting:
			return Planned, nil
		}
	}
	t, ok := next[k]
	if !ok || !slices.Contains(t.from, s) {
		return s, fmt.Errorf("%w: %s on a run that is %s", ErrTransition, k, s)
	}
	return t.to, nil
}

// Final reports whether a run in this status has ended.
func (s RunStatus) Final() bool {
	switch s {
	case PlannedAndFinished, Applied, Discarded, Canceled, ForceCanceled, Errored:
		return true
	}
	return false
}

// Confirmable reports whether a run in this status can be confirmed.
func (s RunStatus) Confirmable() bool { return s == Planned || s == PlannedAndSaved }

// Discardable reports whether a run in this status can be discarded.
func (s RunStatus) Discardable() bool { return s == Pending || s == Planned || s == PlannedAndSaved }

// Cancelable reports whether a run in this status can be canceled.
func (s RunStatus) Cancelable() bool {
	switch s {
	case Pending, PlanQueued, Planning, Confirmed, ApplyQueued, Applying:
		return true
	}
	return false
}

// Computes reports whether the engine is working on a run in this status.
func (s RunStatus) Computes() bool { return s == Planning || s == Applying }

// Holds reports whether a run in this status holds the workspace, so that no other run that may apply can
// continue there.
func (s RunStatus) Holds() bool {
	switch s {
	case PlanQueued, Planning, Planned, Confirmed, ApplyQueued, Applying:
		return true
	}
	return false
}

// The sources of runs: the kind of client that created one.
const (
	SourceCLI = "tfe-configuration-version" // a command line that follows the run
	SourceAPI = "tfe-api"
)

// Run is a run: a plan, followed by an apply if there is something to apply.
type Run struct {
	ID           string `json:"id"`
	Workspace    string `json:"workspace"`
	Organization string `json:"organization"`
	// Configuration is the configuration version; it may be empty only for a run that destroys.
	Configuration string    `json:"configuration,omitempty"`
	Status        RunStatus `json:"status"`
	Number        uint64    `json:"number"` // the order of creation, over all runs of the service

	Message         string     `json:"message,omitempty"`
	Source          string     `json:"source"` // the kind of client that created it
	Structured      bool       `json:"structured,omitempty"`
	Destroy         bool       `json:"destroy,omitempty"`
	Refresh         bool       `json:"refresh"`
	RefreshOnly     bool       `json:"refreshOnly,omitempty"`
	PlanOnly        bool       `json:"planOnly,omitempty"`
	SavePlan        bool       `json:"savePlan,omitempty"`
	AutoApply       bool       `json:"autoApply,omitempty"`
	Targets         []string   `json:"targets,omitempty"`
	Replace         []string   `json:"replace,omitempty"`
	GenerateConfig  bool       `json:"generateConfig,omitempty"`
	AllowEmpty      bool       `json:"allowEmpty,omitempty"` // a plan without changes can be applied
	Variables       []Argument `json:"variables,omitempty"`
	CreatedBy       string     `json:"createdBy"`
	CreatedAt       time.Time  `json:"createdAt"`
	EngineVersion   string     `json:"engineVersion"`
	TerraformCaller string     `json:"caller,omitempty"` // the version that the client says it has

	// ConfirmedBy is the person who approved the plan; empty if it was applied automatically.
	ConfirmedBy string `json:"confirmedBy,omitempty"`

	// HasChanges is set together with the status at the end of the plan.
	HasChanges bool `json:"hasChanges,omitempty"`
	// Generated says that the plan has generated configuration for imported objects.
	Generated bool `json:"generated,omitempty"`
	// Sensitive are the variables whose values are not shown; set at the end of the plan.
	Sensitive []string `json:"sensitive,omitempty"`
	// CancelAsked is when a person requested the cancellation; zero if nobody has.
	CancelAsked time.Time `json:"cancelAsked,omitzero"`
	// Resumed counts how often a restarted service has continued the run.
	Resumed int `json:"resumed,omitempty"`
	// Fence counts how often a phase of the run was begun. What an earlier one still does has no effect.
	Fence uint64 `json:"fence,omitempty"`
	// Deaths counts how often the process died that carried out the present phase: an engine, or the service. Suspended
	// says that it ended in order meanwhile.
	Deaths    int  `json:"deaths,omitempty"`
	Suspended bool `json:"suspended,omitempty"`

	Plan  Phase `json:"plan"`
	Apply Phase `json:"apply"`
	// Times are when the run first entered a status.
	Times map[RunStatus]time.Time `json:"times"`
}

// Argument is the value of a variable that was given with a run: an HCL expression.
type Argument struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// PhaseStatus is the status of a plan or an apply, in the words of the API.
type PhaseStatus string

// The statuses of a phase.
const (
	PhasePending  PhaseStatus = "pending"
	PhaseQueued   PhaseStatus = "queued"
	PhaseRunning  PhaseStatus = "running"
	PhaseFinished PhaseStatus = "finished"
	PhaseErrored  PhaseStatus = "errored"
	PhaseCanceled PhaseStatus = "canceled"
	// PhaseUnreachable is the status of an apply that will never start, because the run has ended before.
	PhaseUnreachable PhaseStatus = "unreachable"
)

// Phase is the plan or the apply of a run.
type Phase struct {
	ID     string      `json:"id"`
	Status PhaseStatus `json:"status"`
	// LogSecret signs the addresses at which the log can be read without a token. It is never disclosed.
	LogSecret string    `json:"logSecret"`
	Started   time.Time `json:"started,omitzero"`
	Ended     time.Time `json:"ended,omitzero"`
	Add       int       `json:"add,omitempty"`
	Change    int       `json:"change,omitempty"`
	Destroy   int       `json:"destroy,omitempty"`
	Import    int       `json:"import,omitempty"`
}

// Enter applies an event to the run: it sets the statuses of the run and of its phases, and the times. The
// error wraps ErrTransition if the event is not possible; the run is unchanged then.
func (r *Run) Enter(k RunEventKind, o Outcome, at time.Time) error {
	s, err := Next(r.Status, k, o)
	if err != nil {
		return err
	}
	applies := r.Status == Confirmed || r.Status == ApplyQueued || r.Status == Applying
	r.Status = s
	if r.Times == nil {
		r.Times = map[RunStatus]time.Time{}
	}
	if _, known := r.Times[s]; !known {
		r.Times[s] = at
	}
	phase := &r.Plan
	if applies {
		phase = &r.Apply
	}
	switch k {
	case EventPlanQueued, EventPlanAgain:
		r.Plan.Status = PhaseQueued
	case EventPlanStarted:
		r.Plan.Status, r.Plan.Started = PhaseRunning, at
	case EventPlanEnded:
		r.Plan.Status, r.Plan.Ended = PhaseFinished, at
	case EventConfirmed, EventApplyQueued:
		r.Apply.Status = PhaseQueued
	case EventApplyStarted:
		r.Apply.Status, r.Apply.Started = PhaseRunning, at
	case EventApplied:
		r.Apply.Status, r.Apply.Ended = PhaseFinished, at
	case EventFailed:
		phase.Status, phase.Ended = PhaseErrored, at
	case EventCanceled, EventForceCanceled:
		phase.end(PhaseCanceled, at)
	case EventDiscarded:
		r.Plan.end(PhaseCanceled, at)
	}
	if s.Final() && r.Apply.Status == PhasePending {
		r.Apply.Status = PhaseUnreachable
	}
	return nil
}

// end sets the final status of a phase, unless it has ended.
func (p *Phase) end(s PhaseStatus, at time.Time) {
	if p.Status != PhaseFinished && p.Status != PhaseErrored {
		p.Status, p.Ended = s, at
	}
}
