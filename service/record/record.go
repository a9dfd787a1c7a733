// Package record defines the records of the service about organizations, workspaces, runs and users, with the
// rules that concern a single record: transitions of a status, the rights of a role, valid names.
//
// It does no I/O. The words are those of the API that clients use.
package record

import (
	"slices"
	"strings"
	"time"
)

// Organization owns everything but users.
type Organization struct {
	Name      string    `json:"name"` // also its ID
	Email     string    `json:"email,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	// DefaultProject is the project of new workspaces for which none is given.
	DefaultProject string `json:"defaultProject"`
	// Owners is the team with all rights.
	Owners string `json:"owners"`
	// DefaultMode is the execution mode of workspaces that have none of their own; empty means remote.
	DefaultMode string `json:"defaultMode,omitempty"`
	// NoForceDelete: only owners may delete workspaces that still manage objects.
	NoForceDelete bool `json:"noForceDelete,omitempty"`
	// Others are settings of features that the service does not have, by their API names. They are stored for the
	// programs that manage organizations, and have no effect.
	Others map[string]bool `json:"others,omitempty"`
}

// Mode returns the execution mode of workspaces that have none of their own.
func (o *Organization) Mode() string {
	if o.DefaultMode == "" {
		return ModeRemote
	}
	return o.DefaultMode
}

// Membership is a user in an organization, or an invitation, which becomes a membership when there is a user
// with its address.
type Membership struct {
	ID           string    `json:"id"`
	Organization string    `json:"organization"`
	User         string    `json:"user,omitempty"` // empty while it is an invitation
	Email        string    `json:"email,omitempty"`
	Teams        []string  `json:"teams,omitempty"` // of an invitation
	CreatedAt    time.Time `json:"createdAt"`
}

// Project is a group of workspaces.
type Project struct {
	ID           string    `json:"id"`
	Organization string    `json:"organization"`
	Name         string    `json:"name"`
	Description  string    `json:"description,omitempty"`
	Tags         []Tag     `json:"tags,omitempty"` // sorted by key; inherited by workspaces
	CreatedAt    time.Time `json:"createdAt"`
}

// The execution modes of a workspace.
const (
	ModeRemote = "remote"
	ModeLocal  = "local"
	ModeAgent  = "agent" // executed like remote: the workers are the agents
)

// How many objects the plans of a workspace read.
const (
	RefreshAll     = "all"
	RefreshChanged = "changed"
)

// The bounds of a nonzero drift period.
const (
	MinDriftPeriod = time.Minute
	MaxDriftPeriod = 90 * 24 * time.Hour
)

// Workspace is one state with its settings.
type Workspace struct {
	ID               string `json:"id"`
	Organization     string `json:"organization"`
	Project          string `json:"project"`
	Name             string `json:"name"`
	Description      string `json:"description,omitempty"`
	ExecutionMode    string `json:"executionMode"`
	AutoApply        bool   `json:"autoApply,omitempty"`
	TerraformVersion string `json:"terraformVersion"`
	WorkingDirectory string `json:"workingDirectory,omitempty"`
	Structured       bool   `json:"structured"`
	QueueAllRuns     bool   `json:"queueAllRuns,omitempty"`
	AllowDestroy     bool   `json:"allowDestroy"`
	GlobalState      bool   `json:"globalState,omitempty"` // every workspace of the organization may read its state
	// InheritsMode: the workspace uses the execution mode of the organization.
	InheritsMode bool `json:"inheritsMode,omitempty"`
	// Triggers are settings for version control, which are stored for the programs that manage workspaces and start
	// no runs, and for runs that RunTriggers create.
	Triggers Triggers `json:"triggers,omitzero"`
	// Consumers are the workspaces whose runs may read the state.
	Consumers  []string  `json:"consumers,omitempty"`
	SourceName string    `json:"sourceName,omitempty"`
	SourceURL  string    `json:"sourceUrl,omitempty"`
	Tags       []Tag     `json:"tags,omitempty"` // sorted by key
	CreatedAt  time.Time `json:"createdAt"`
	UpdatedAt  time.Time `json:"updatedAt"`
	// ApprovalExpiry is how long a plan waits for approval after its client is gone; zero means for ever.
	ApprovalExpiry time.Duration `json:"approvalExpiry,omitempty"`
	// ObjectLocks: applies lock only the objects that they change, so that several runs can apply at the same
	// time and no run waits for the workspace.
	ObjectLocks bool `json:"objectLocks,omitempty"`
	// Refresh is how many existing objects an ordinary plan reads: RefreshAll or RefreshChanged; empty leaves
	// it to the configuration. Runs that explicitly skip refreshing, or only refresh, ignore it.
	Refresh string `json:"refresh,omitempty"`
	// DriftPeriod is the time in which all objects are read once in the background; zero for never.
	DriftPeriod time.Duration `json:"driftPeriod,omitempty"`
	// Retention replaces the service's retention for the workspace; nil leaves that in force.
	Retention *Retention `json:"retention,omitempty"`
	// Bounds are those of its plans. The lower one of them and of the service's counts.
	Bounds Bounds `json:"bounds,omitzero"`

	Lock Lock `json:"lock,omitzero"`
	// CurrentRun is the run that holds the workspace or is the next to hold it; never a plan-only or saved one.
	CurrentRun string `json:"currentRun,omitempty"`
	// CurrentConfiguration is the configuration version of runs for which none is given.
	CurrentConfiguration string `json:"currentConfiguration,omitempty"`
	// CurrentState is the ID of the latest state version; empty if there is none.
	CurrentState string `json:"currentState,omitempty"`

	// Doubts are the operations in doubt at the last look of the engine; the last field counts those that are
	// not listed. DoubtsOf is the run that left them; DoubtsSeen is the run after which the engine looked last.
	Doubts     []Doubt `json:"doubts,omitempty"`
	MoreDoubts int     `json:"moreDoubts,omitempty"`
	DoubtsOf   string  `json:"doubtsOf,omitempty"`
	DoubtsSeen string  `json:"doubtsSeen,omitempty"`
}

// Bounds are what a plan may need at most. Zero is no bound.
type Bounds struct {
	// PlanTime is how long a plan may take, with the time for which it waits for workers.
	PlanTime time.Duration `json:"planTime,omitempty"`
	// PlanMemory is the memory of its process, in MiB. In a workspace with such a bound, each plan has a process of its
	// own.
	PlanMemory int64 `json:"planMemory,omitempty"`
	// PlanSize is the size of what is stored of it, in MiB: the plan, the schemas of its providers, and its JSON.
	PlanSize int64 `json:"planSize,omitempty"`
}

// Within returns the bounds of a workspace in a service with others. A workspace without a bound on memory gets none:
// that of the service is one of all its engines.
func (b Bounds) Within(of Bounds) Bounds {
	lower := func(own, of int64) int64 {
		if own == 0 || of != 0 && of < own {
			return of
		}
		return own
	}
	w := Bounds{PlanTime: time.Duration(lower(int64(b.PlanTime), int64(of.PlanTime))),
		PlanSize: lower(b.PlanSize, of.PlanSize)}
	if b.PlanMemory != 0 {
		w.PlanMemory = lower(b.PlanMemory, of.PlanMemory)
	}
	return w
}

// Retention says how long records of the past are kept. The zero value keeps everything.
type Retention struct {
	// Runs and States are how many ended runs, and how many state versions, a workspace keeps; 0 for all.
	// Configurations are removed when no run needs them.
	Runs   int `json:"runs,omitempty"`
	States int `json:"states,omitempty"`
	// For is the minimum age of records that are removed.
	For time.Duration `json:"for,omitempty"`
}

// Everything reports whether nothing is ever removed.
func (r Retention) Everything() bool { return r.Runs == 0 && r.States == 0 }

// Doubt is an operation whose outcome is unknown.
type Doubt struct {
	Address   string    `json:"address"`
	Operation string    `json:"operation"` // create, update or delete
	Worker    string    `json:"worker,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Started   time.Time `json:"started,omitzero"`
}

// Triggers are settings for starting runs by other events.
type Triggers struct {
	Files         bool     `json:"files,omitempty"`
	NoSpeculative bool     `json:"noSpeculative,omitempty"`
	AutoApply     bool     `json:"autoApply,omitempty"`
	Prefixes      []string `json:"prefixes,omitempty"`
	Patterns      []string `json:"patterns,omitempty"`
}

// UploadTerm is how long an upload address is valid.
const UploadTerm = 24 * time.Hour

// MaxDoubts bounds the list of a workspace's operations in doubt.
const MaxDoubts = 200

// Halt prevents runs from starting, in a workspace or in the whole service, or operations, in a pool.
type Halt struct {
	On     string    `json:"on"` // the ID of a workspace, "service", or "pool:" with the name of a pool
	Reason string    `json:"reason"`
	By     string    `json:"by"` // the name of the person
	At     time.Time `json:"at"`
	// Emergency: runs in progress were stopped, too.
	Emergency bool `json:"emergency,omitempty"`
}

// HaltOn returns Halt.On for a workspace, by its ID; for the whole service if the ID is empty.
func HaltOn(workspace string) string {
	if workspace == "" {
		return "service"
	}
	return workspace
}

// Tag is a tag of a workspace: a word, or a key with a value.
type Tag struct {
	Key   string `json:"key"`
	Value string `json:"value,omitempty"`
}

// Lock is the lock of a workspace. The zero value means that it is not locked.
type Lock struct {
	// Kind is "user", "team" or "run"; empty for no lock.
	Kind   string    `json:"kind,omitempty"`
	ID     string    `json:"id,omitempty"` // of the user, the team or the run
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at,omitzero"`
	// Foreign is the lock request of a client of the http backend; nil for locks of the API.
	Foreign []byte `json:"foreign,omitempty"`
	// ForeignID is the lock ID in Foreign.
	ForeignID string `json:"foreignId,omitempty"`
}

// Held reports whether there is a lock.
func (l Lock) Held() bool { return l.Kind != "" }

// The categories of variables.
const (
	CategoryTerraform = "terraform"
	CategoryEnv       = "env"
)

// Variable is a variable of a workspace or of a set.
type Variable struct {
	ID          string `json:"id"`
	Parent      string `json:"parent"` // the workspace or the set
	Key         string `json:"key"`
	Value       string `json:"value"`
	Category    string `json:"category"`
	HCL         bool   `json:"hcl,omitempty"`
	Sensitive   bool   `json:"sensitive,omitempty"`
	Description string `json:"description,omitempty"`
	Version     string `json:"version"`
}

// VariableSet is a set of variables that workspaces share.
type VariableSet struct {
	ID           string   `json:"id"`
	Organization string   `json:"organization"`
	Name         string   `json:"name"`
	Description  string   `json:"description,omitempty"`
	Global       bool     `json:"global,omitempty"`
	Priority     bool     `json:"priority,omitempty"` // takes precedence over variables of workspaces and runs
	Workspaces   []string `json:"workspaces,omitempty"`
	Projects     []string `json:"projects,omitempty"`
}

// Concerns reports whether the set applies to the workspace.
func (s *VariableSet) Concerns(w *Workspace) bool {
	return s.Organization == w.Organization &&
		(s.Global || slices.Contains(s.Workspaces, w.ID) || slices.Contains(s.Projects, w.Project))
}

// The statuses of an upload.
const (
	UploadPending  = "pending"
	Uploaded       = "uploaded"
	UploadErrored  = "errored"
	Archived       = "archived" // its files were removed
	StateFinalized = "finalized"
	StateDiscarded = "discarded"
)

// Configuration is a configuration version of a workspace: an uploaded archive.
type Configuration struct {
	ID          string    `json:"id"`
	Workspace   string    `json:"workspace"`
	Status      string    `json:"status"`
	Speculative bool      `json:"speculative,omitempty"`
	Provisional bool      `json:"provisional,omitempty"`
	AutoQueue   bool      `json:"autoQueue,omitempty"`
	Source      string    `json:"source"`
	Problem     string    `json:"problem,omitempty"` // the reason of the status errored
	Secret      string    `json:"secret"`            // the last element of the path at which it is uploaded
	CreatedAt   time.Time `json:"createdAt"`
	CreatedBy   string    `json:"createdBy"`
	Size        int64     `json:"size,omitempty"`
	MD5         string    `json:"md5,omitempty"` // of the archive, in hex; detects a repeated upload
	// MayApply: its creator may apply runs, so that the run that its upload queues follows the auto-apply
	// setting of the workspace.
	MayApply bool `json:"mayApply,omitempty"`
	// ArchivedAt is when its files were removed.
	ArchivedAt time.Time `json:"archivedAt,omitzero"`
}

// StateVersion is a version of the state of a workspace. Its content is stored in a file.
type StateVersion struct {
	ID        string    `json:"id"`
	Workspace string    `json:"workspace"`
	Run       string    `json:"run,omitempty"`
	Serial    uint64    `json:"serial"`
	Lineage   string    `json:"lineage"`
	MD5       string    `json:"md5"` // of the exact bytes, in hex
	Size      int64     `json:"size"`
	Status    string    `json:"status"`
	Force     bool      `json:"force,omitempty"`
	Encrypted bool      `json:"encrypted,omitempty"` // by the configuration; the service cannot read it
	Secret    string    `json:"secret"`              // the last element of the path at which it is uploaded
	Under     Lock      `json:"under,omitzero"`      // the lock of the workspace when it was made
	JSON      bool      `json:"json,omitempty"`      // its JSON form was uploaded
	Engine    string    `json:"engine,omitempty"`    // the version of the program that wrote it
	CreatedAt time.Time `json:"createdAt"`
	CreatedBy string    `json:"createdBy"`
	Outputs   []Output  `json:"outputs,omitempty"`
	Resources int       `json:"resources,omitempty"`
	// Providers are the provider configurations of its objects, as they are written in the state; nil if they
	// are unknown.
	Providers []string `json:"providers,omitzero"`
}

// Output is an output value of a state version.
type Output struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Sensitive bool   `json:"sensitive,omitempty"`
	Type      []byte `json:"type"`  // as cty's JSON
	Value     []byte `json:"value"` // as JSON
}

// RunNote is an entry of a run's history.
type RunNote struct {
	ID          string    `json:"id"`
	Run         string    `json:"run"`
	Action      string    `json:"action"`
	Description string    `json:"description,omitempty"`
	Actor       string    `json:"actor,omitempty"`
	Comment     string    `json:"comment,omitempty"` // the comment that it is about
	CreatedAt   time.Time `json:"createdAt"`
}

// Comment is a comment on a run.
type Comment struct {
	ID        string    `json:"id"`
	Note      string    `json:"note,omitempty"` // the entry of the run's history about it
	Run       string    `json:"run"`
	Body      string    `json:"body"`
	Actor     string    `json:"actor"`
	CreatedAt time.Time `json:"createdAt"`
}

// Notification is a receiver of notifications about a workspace's runs.
type Notification struct {
	ID          string    `json:"id"`
	Workspace   string    `json:"workspace"`
	Name        string    `json:"name"`
	Destination string    `json:"destination"` // generic, slack...
	URL         string    `json:"url,omitempty"`
	Token       string    `json:"token,omitempty"`
	Users       []string  `json:"users,omitempty"`  // receivers by mail
	Emails      []string  `json:"emails,omitempty"` // further mail addresses
	Enabled     bool      `json:"enabled,omitempty"`
	Triggers    []string  `json:"triggers,omitempty"`
	Last        *Response `json:"last,omitempty"`
	CreatedAt   time.Time `json:"createdAt"`
	UpdatedAt   time.Time `json:"updatedAt"`
}

// RunTrigger makes each applied run of a workspace create a run in another one.
type RunTrigger struct {
	ID        string    `json:"id"`
	Workspace string    `json:"workspace"` // where the runs are created
	Source    string    `json:"source"`    // the workspace whose runs create them
	CreatedAt time.Time `json:"createdAt"`
	CreatedBy string    `json:"createdBy"`
}

// Delivery is a notification that must still be sent. It is removed when it is sent or given up.
type Delivery struct {
	ID            string    `json:"id"`
	Configuration string    `json:"configuration"`
	Run           string    `json:"run"`
	Trigger       string    `json:"trigger"`
	Message       string    `json:"message"`
	Status        RunStatus `json:"status"`
	By            string    `json:"by,omitempty"`
	At            time.Time `json:"at"`
	// Drifted and Undrifted count objects; only for a notification about drift.
	Drifted   int `json:"drifted,omitempty"`
	Undrifted int `json:"undrifted,omitempty"`
	// Attempts is the number of attempts so far; Due is the time of the next one.
	Attempts int       `json:"attempts,omitempty"`
	Due      time.Time `json:"due"`
}

// Response is the latest response of a receiver of notifications.
type Response struct {
	SentAt  time.Time           `json:"sentAt"`
	Code    int                 `json:"code,omitempty"` // 0: there was no response, and Body has the error
	Headers map[string][]string `json:"headers,omitempty"`
	Body    string              `json:"body,omitempty"`
}

// Successful reports whether the receiver has accepted the notification.
func (r *Response) Successful() bool { return r.Code/100 == 2 }

// Audit is an entry of the audit log: an actor, its address, the requested change, and the result.
type Audit struct {
	At      time.Time `json:"at"`
	Actor   string    `json:"actor"`
	Token   string    `json:"token,omitempty"`
	From    string    `json:"from,omitempty"`
	Action  string    `json:"action"`
	Object  string    `json:"object,omitempty"`
	Outcome string    `json:"outcome"`
}

// ValidName reports whether a name is valid for an organization or a workspace: up to 90 letters, digits, - and
// _, of which the first is a letter or a digit.
func ValidName(name string) bool {
	return valid(name, 90, func(c byte) bool { return letter(c) || lower(c) || digit(c) }, "-_")
}

// Reserved reports whether a name cannot be that of an organization, because the pages of the service have it in their
// addresses, in the place of an organization.
func Reserved(name string) bool {
	switch strings.ToLower(name) {
	case "login", "logout", "settings":
		return true
	}
	return false
}

// ValidTag reports whether a tag is valid: up to 255 lower-case letters, digits, :, - and _, of which the first
// is a letter or a digit.
func ValidTag(name string) bool {
	return valid(name, 255, func(c byte) bool { return lower(c) || digit(c) }, ":-_")
}

// ValidKey reports whether a name is valid for a variable: up to 256 letters, digits, - and _; names of
// environment variables may also have dots.
func ValidKey(name, category string) bool {
	others := "-_"
	if category == CategoryEnv {
		others = "-_."
	}
	any := func(c byte) bool { return letter(c) || lower(c) || digit(c) || strings.IndexByte(others, c) >= 0 }
	return valid(name, 256, any, "")
}

// valid reports whether a name has up to most characters, each of which satisfies first or, except the first
// one, is in others.
func valid(name string, most int, first func(byte) bool, others string) bool {
	if name == "" || len(name) > most || !first(name[0]) {
		return false
	}
	for _, c := range []byte(name[1:]) {
		if !first(c) && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return true
}

func letter(c byte) bool { return 'A' <= c && c <= 'Z' }
func lower(c byte) bool  { return 'a' <= c && c <= 'z' }
func digit(c byte) bool  { return '0' <= c && c <= '9' }

// ValidMode reports whether a text is an execution mode.
func ValidMode(mode string) bool {
	return mode == ModeRemote || mode == ModeLocal || mode == ModeAgent
}

// Set changes a field to a new value; nil leaves it unchanged.
func Set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}
