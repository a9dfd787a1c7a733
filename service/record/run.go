package record

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// RunStatus is where a run stands. The words are those of the API.
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

// Statuses are all statuses, in the order in which a run comes to them.
var Statuses = []RunStatus{
	Pending, PlanQueued, Planning, Planned, PlannedAndSaved, PlannedAndFinished, Confirmed, ApplyQueued, Applying,
	Applied, Discarded, Canceled, ForceCanceled, Errored,
}

// RunEventKind is what happens to a run.
type RunEventKind string

// The events of a run.
const (
	// EventPlanQueued: its turn has come; it waits for a place among the plans that compute at a time.
	EventPlanQueued RunEventKind = "plan_queued"
	// EventPlanStarted: the engine plans.
	EventPlanStarted RunEventKind = "plan_started"
	// EventPlanEnded: the plan is there; Outcome says what it is.
	EventPlanEnded RunEventKind = "plan_ended"
	// EventConfirmed: somebody, or the run's auto-apply, has approved the plan.
	EventConfirmed RunEventKind = "confirmed"
	// EventApplyQueued: it has the workspace; it waits for a place among the applies.
	EventApplyQueued RunEventKind = "apply_queued"
	// EventApplyStarted: the engine applies.
	EventApplyStarted RunEventKind = "apply_started"
	// EventApplied: the apply has succeeded.
	EventApplied RunEventKind = "applied"
	// EventFailed: the phase under way has failed.
	EventFailed RunEventKind = "errored"
	// EventDiscarded: the plan will not be applied.
	EventDiscarded RunEventKind = "discarded"
	// EventCanceled: the run has ended because somebody canceled it.
	EventCanceled RunEventKind = "canceled"
	// EventForceCanceled: the run was left; what it had under way is in doubt.
	EventForceCanceled RunEventKind = "force_canceled"
	// EventPlanAgain: the service ended while it planned; planning changes nothing, so that it starts again.
	EventPlanAgain RunEventKind = "plan_again"
)

// Outcome is how a plan ended.
type Outcome byte

// The outcomes of a plan.
const (
	// Finished: there is nothing to apply, or the run is plan-only.
	Finished Outcome = iota + 1
	// Saved: the plan is kept for a later confirmation and holds nothing meanwhile.
	Saved
	// Waiting: the plan waits for its confirmation.
	Waiting
)

// ErrTransition is wrapped by the error of an event that a run cannot have in its status; the error names both.
var ErrTransition = errors.New("the run cannot do this in its status")

// next is the transition function as a table: the statuses that an event may find, and what they become.
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

// Next returns the status that an event leads to. The error wraps ErrTransition.
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

// Final tells whether a run in this status has ended.
func (s RunStatus) Final() bool {
	switch s {
	case PlannedAndFinished, Applied, Discarded, Canceled, ForceCanceled, Errored:
		return true
	}
	return false
}

// Confirmable tells whether a run in this status waits for its confirmation.
func (s RunStatus) Confirmable() bool { return s == Planned || s == PlannedAndSaved }

// Discardable tells whether the run can be discarded.
func (s RunStatus) Discardable() bool { return s == Pending || s == Planned || s == PlannedAndSaved }

// Cancelable tells whether the run can be canceled.
func (s RunStatus) Cancelable() bool {
	switch s {
	case Pending, PlanQueued, Planning, Confirmed, ApplyQueued, Applying:
		return true
	}
	return false
}

// Computes tells whether the engine works on a run in this status.
func (s RunStatus) Computes() bool { return s == Planning || s == Applying }

// Holds tells whether a run in this status has the workspace, so that no other run that may apply goes on there.
func (s RunStatus) Holds() bool {
	switch s {
	case PlanQueued, Planning, Planned, Confirmed, ApplyQueued, Applying:
		return true
	}
	return false
}

// Run is one run: a plan, and an apply if it comes to that.
type Run struct {
	ID           string `json:"id"`
	Workspace    string `json:"workspace"`
	Organization string `json:"organization"`
	// Configuration is the version of the configuration that it runs; empty for none, which only a destroying run may
	// have.
	Configuration string    `json:"configuration,omitempty"`
	Status        RunStatus `json:"status"`
	Number        uint64    `json:"number"` // the order of creation, over all runs of the service

	Message         string     `json:"message,omitempty"`
	Source          string     `json:"source"` // which client made it
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
	AllowEmpty      bool       `json:"allowEmpty,omitempty"` // a plan without changes can be applied, too
	Variables       []Argument `json:"variables,omitempty"`
	CreatedBy       string     `json:"createdBy"`
	CreatedAt       time.Time  `json:"createdAt"`
	EngineVersion   string     `json:"engineVersion"`
	TerraformCaller string     `json:"caller,omitempty"` // the version that the client says it has

	// ConfirmedBy is who approved the plan; empty when it was applied automatically.
	ConfirmedBy string `json:"confirmedBy,omitempty"`

	// HasChanges is known once the plan has ended, and written with the status that says so.
	HasChanges bool `json:"hasChanges,omitempty"`
	// Generated tells that the plan has made configuration for objects that are imported.
	Generated bool `json:"generated,omitempty"`
	// Sensitive are the variables whose values are told to nobody; known once the plan has ended.
	Sensitive []string `json:"sensitive,omitempty"`
	// CancelAsked is when somebody asked for it to be canceled; zero for not.
	CancelAsked time.Time `json:"cancelAsked,omitzero"`
	// Resumed counts how often the service went on with it after it had ended in its midst.
	Resumed int `json:"resumed,omitempty"`

	Plan  Phase `json:"plan"`
	Apply Phase `json:"apply"`
	// Times are when it entered a status the first time.
	Times map[RunStatus]time.Time `json:"times"`
}

// Argument is the value of a variable that came with a run: an expression in HCL.
type Argument struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// PhaseStatus is where the plan or the apply of a run stands. The words are those of the API.
type PhaseStatus string

// The statuses of a phase.
const (
	PhasePending  PhaseStatus = "pending"
	PhaseQueued   PhaseStatus = "queued"
	PhaseRunning  PhaseStatus = "running"
	PhaseFinished PhaseStatus = "finished"
	PhaseErrored  PhaseStatus = "errored"
	PhaseCanceled PhaseStatus = "canceled"
	// PhaseUnreachable is an apply that will not come, because the run has ended without.
	PhaseUnreachable PhaseStatus = "unreachable"
)

// Phase is the plan or the apply of a run.
type Phase struct {
	ID     string      `json:"id"`
	Status PhaseStatus `json:"status"`
	// LogSecret signs the addresses at which its log is read without a token. It is told to nobody.
	LogSecret string    `json:"logSecret"`
	Started   time.Time `json:"started,omitzero"`
	Ended     time.Time `json:"ended,omitzero"`
	Add       int       `json:"add,omitempty"`
	Change    int       `json:"change,omitempty"`
	Destroy   int       `json:"destroy,omitempty"`
	Import    int       `json:"import,omitempty"`
}

// Enter applies an event to the run: its status, the statuses of its phases, and the time, which are written together.
// The error wraps ErrTransition; the run is unchanged then.
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

// end gives a phase that has not ended its end.
func (p *Phase) end(s PhaseStatus, at time.Time) {
	if p.Status != PhaseFinished && p.Status != PhaseErrored {
		p.Status, p.Ended = s, at
	}
}
