// Package record is what the service knows of organizations, workspaces, runs and people, and the rules that hold for
// such a record alone: which status follows which, what a role may do, what a name may look like.
//
// It keeps nothing and asks nobody. The words are those of the API that clients speak.
package record

import (
	"slices"
	"strings"
	"time"
)

// Organization is the owner of everything but users.
type Organization struct {
	Name      string    `json:"name"` // its id, too
	Email     string    `json:"email,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	// DefaultProject is where workspaces are that name no project.
	DefaultProject string `json:"defaultProject"`
	// Owners is the team that may do everything.
	Owners string `json:"owners"`
	// DefaultMode is the execution mode of workspaces that set none; empty is remote.
	DefaultMode string `json:"defaultMode,omitempty"`
}

// Mode is the execution mode of workspaces that set none.
func (o *Organization) Mode() string {
	if o.DefaultMode == "" {
		return ModeRemote
	}
	return o.DefaultMode
}

// Membership is a person in an organization: a user, or one who is invited and becomes a member as soon as there is a
// user with the address.
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
	Tags         []Tag     `json:"tags,omitempty"` // sorted by key; workspaces have them, too
	CreatedAt    time.Time `json:"createdAt"`
}

// The execution modes of a workspace.
const (
	ModeRemote = "remote"
	ModeLocal  = "local"
	ModeAgent  = "agent" // carried out as remote: the workers are the agents
)

// How much plans of a workspace read.
const (
	RefreshAll     = "all"
	RefreshChanged = "changed"
)

// The bounds of a period that is not zero.
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
	// InheritsMode: the execution mode is that of the organization.
	InheritsMode bool `json:"inheritsMode,omitempty"`
	// Triggers are settings for version control and for runs of other workspaces, which the service keeps for the
	// programs that manage workspaces: nothing of it starts runs here.
	Triggers Triggers `json:"triggers,omitzero"`
	// Consumers are the workspaces whose runs may read the state.
	Consumers  []string  `json:"consumers,omitempty"`
	SourceName string    `json:"sourceName,omitempty"`
	SourceURL  string    `json:"sourceUrl,omitempty"`
	Tags       []Tag     `json:"tags,omitempty"` // sorted by key
	CreatedAt  time.Time `json:"createdAt"`
	UpdatedAt  time.Time `json:"updatedAt"`
	// ApprovalExpiry is how long a plan whose asker is gone waits for its approval; zero for ever.
	ApprovalExpiry time.Duration `json:"approvalExpiry,omitempty"`
	// ObjectLocks: runs that apply lock the objects that they touch, so that others go on at the same time, and no run
	// waits for the workspace.
	ObjectLocks bool `json:"objectLocks,omitempty"`
	// Refresh is how much ordinary plans read of what exists, RefreshAll or RefreshChanged; empty for what the
	// configuration says. A run that reads nothing, or does nothing but read, does so all the same.
	Refresh string `json:"refresh,omitempty"`
	// DriftPeriod is the time in which everything is read through in the background; zero for never.
	DriftPeriod time.Duration `json:"driftPeriod,omitempty"`

	Lock Lock `json:"lock,omitzero"`
	// CurrentRun is the run that has the workspace, or has it next; never one that is plan-only or saved.
	CurrentRun string `json:"currentRun,omitempty"`
	// CurrentConfiguration is what a run gets that names none.
	CurrentConfiguration string `json:"currentConfiguration,omitempty"`
	// CurrentState is the newest version of the state; empty for none.
	CurrentState string `json:"currentState,omitempty"`

	// Doubts are the operations of which nobody knows what became, as the engine saw them last, with those that are too
	// many counted alone. DoubtsOf is the run that has left them; DoubtsSeen the run after which the engine has looked.
	Doubts     []Doubt `json:"doubts,omitempty"`
	MoreDoubts int     `json:"moreDoubts,omitempty"`
	DoubtsOf   string  `json:"doubtsOf,omitempty"`
	DoubtsSeen string  `json:"doubtsSeen,omitempty"`
}

// Doubt is an operation of which nobody knows what became.
type Doubt struct {
	Address   string    `json:"address"`
	Operation string    `json:"operation"` // create, update or delete
	Worker    string    `json:"worker,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Started   time.Time `json:"started,omitzero"`
}

// Triggers say what else than people and programs starts runs.
type Triggers struct {
	Files         bool     `json:"files,omitempty"`
	NoSpeculative bool     `json:"noSpeculative,omitempty"`
	AutoApply     bool     `json:"autoApply,omitempty"`
	Prefixes      []string `json:"prefixes,omitempty"`
	Patterns      []string `json:"patterns,omitempty"`
}

// Halt is why nothing new starts in a workspace, or in the whole service.
type Halt struct {
	On     string    `json:"on"` // the ID of a workspace, or "service"
	Reason string    `json:"reason"`
	By     string    `json:"by"` // the name of who said so
	At     time.Time `json:"at"`
	// Emergency: what was under way was stopped, too.
	Emergency bool `json:"emergency,omitempty"`
}

// Tag is a tag of a workspace: a word, or a key with a value.
type Tag struct {
	Key   string `json:"key"`
	Value string `json:"value,omitempty"`
}

// Lock is who keeps others from changing a workspace. The zero value is no lock.
type Lock struct {
	// Kind is "user", "team" or "run"; empty for no lock.
	Kind   string    `json:"kind,omitempty"`
	ID     string    `json:"id,omitempty"` // of the user, the team or the run
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at,omitzero"`
	// Foreign is what the http backend's lock request said; nil for locks of the API.
	Foreign []byte `json:"foreign,omitempty"`
	// ForeignID is the ID in it.
	ForeignID string `json:"foreignId,omitempty"`
}

// Held tells whether there is a lock.
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
	Priority     bool     `json:"priority,omitempty"` // wins over the variables of workspaces and of runs
	Workspaces   []string `json:"workspaces,omitempty"`
	Projects     []string `json:"projects,omitempty"`
}

// Concerns tells whether the set's variables are those of the workspace, too.
func (s *VariableSet) Concerns(w *Workspace) bool {
	return s.Organization == w.Organization &&
		(s.Global || slices.Contains(s.Workspaces, w.ID) || slices.Contains(s.Projects, w.Project))
}

// The statuses of what is uploaded.
const (
	UploadPending  = "pending"
	Uploaded       = "uploaded"
	UploadErrored  = "errored"
	StateFinalized = "finalized"
	StateDiscarded = "discarded"
)

// Configuration is one version of the configuration of a workspace: an archive that was uploaded.
type Configuration struct {
	ID          string    `json:"id"`
	Workspace   string    `json:"workspace"`
	Status      string    `json:"status"`
	Speculative bool      `json:"speculative,omitempty"`
	Provisional bool      `json:"provisional,omitempty"`
	AutoQueue   bool      `json:"autoQueue,omitempty"`
	Source      string    `json:"source"`
	Problem     string    `json:"problem,omitempty"` // why it is errored
	Secret      string    `json:"secret"`            // the last element of the path at which it is uploaded
	CreatedAt   time.Time `json:"createdAt"`
	CreatedBy   string    `json:"createdBy"`
	Size        int64     `json:"size,omitempty"`
	MD5         string    `json:"md5,omitempty"` // of the archive, in hex: the same upload again is told by it
	// MayApply: who made it may apply runs, so that the run that its upload queues follows the workspace's auto-apply.
	MayApply bool `json:"mayApply,omitempty"`
}

// StateVersion is one version of the state of a workspace. Its bytes are kept beside it.
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
	Encrypted bool      `json:"encrypted,omitempty"` // by the configuration; the service cannot look into it
	Secret    string    `json:"secret"`              // the last element of the path at which it is uploaded
	Under     Lock      `json:"under,omitzero"`      // the lock of the workspace when it was made
	JSON      bool      `json:"json,omitempty"`      // its JSON form was uploaded
	Engine    string    `json:"engine,omitempty"`    // the version of the program that wrote it
	CreatedAt time.Time `json:"createdAt"`
	CreatedBy string    `json:"createdBy"`
	Outputs   []Output  `json:"outputs,omitempty"`
	Resources int       `json:"resources,omitempty"`
	// Providers are the configurations of providers that its objects belong to, as the state writes them; nil where they
	// are not known.
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
	Comment     string    `json:"comment,omitempty"` // the one that it is about
	CreatedAt   time.Time `json:"createdAt"`
}

// Comment is what somebody said of a run.
type Comment struct {
	ID        string    `json:"id"`
	Note      string    `json:"note,omitempty"` // the entry of the run's history about it
	Run       string    `json:"run"`
	Body      string    `json:"body"`
	Actor     string    `json:"actor"`
	CreatedAt time.Time `json:"createdAt"`
}

// Notification is where events of a workspace's runs are to be sent.
type Notification struct {
	ID          string    `json:"id"`
	Workspace   string    `json:"workspace"`
	Name        string    `json:"name"`
	Destination string    `json:"destination"` // generic, slack...
	URL         string    `json:"url,omitempty"`
	Token       string    `json:"token,omitempty"`
	Users       []string  `json:"users,omitempty"`  // whom it is mailed to
	Emails      []string  `json:"emails,omitempty"` // further addresses that it is mailed to
	Enabled     bool      `json:"enabled,omitempty"`
	Triggers    []string  `json:"triggers,omitempty"`
	Last        *Response `json:"last,omitempty"`
	CreatedAt   time.Time `json:"createdAt"`
	UpdatedAt   time.Time `json:"updatedAt"`
}

// Delivery is a notification that is still to be sent. It is removed once it is, or is given up.
type Delivery struct {
	ID            string    `json:"id"`
	Configuration string    `json:"configuration"`
	Run           string    `json:"run"`
	Trigger       string    `json:"trigger"`
	Message       string    `json:"message"`
	Status        RunStatus `json:"status"`
	By            string    `json:"by,omitempty"`
	At            time.Time `json:"at"`
	// Drifted and Undrifted count objects, of a notification about drift.
	Drifted   int `json:"drifted,omitempty"`
	Undrifted int `json:"undrifted,omitempty"`
	// Attempts is how often it was tried; Due is when it is tried next.
	Attempts int       `json:"attempts,omitempty"`
	Due      time.Time `json:"due"`
}

// Response is what a receiver of notifications has answered last.
type Response struct {
	SentAt  time.Time           `json:"sentAt"`
	Code    int                 `json:"code,omitempty"` // 0: there was no answer, and Body says why
	Headers map[string][]string `json:"headers,omitempty"`
	Body    string              `json:"body,omitempty"`
}

// Successful tells whether the receiver has taken it.
func (r *Response) Successful() bool { return r.Code/100 == 2 }

// Audit is one line of the audit log: who asked for which change, from where, and how it ended.
type Audit struct {
	At      time.Time `json:"at"`
	Actor   string    `json:"actor"`
	Token   string    `json:"token,omitempty"`
	From    string    `json:"from,omitempty"`
	Action  string    `json:"action"`
	Object  string    `json:"object,omitempty"`
	Outcome string    `json:"outcome"`
}

// ValidName tells whether an organization or a workspace may be called so: letters, digits, - and _, at most 90, the
// first of them a letter or a digit.
func ValidName(name string) bool {
	return valid(name, 90, func(c byte) bool { return letter(c) || lower(c) || digit(c) }, "-_")
}

// ValidTag tells whether a workspace can have this tag: lower-case letters, digits, :, - and _, at most 255, the first
// of them a letter or a digit.
func ValidTag(name string) bool {
	return valid(name, 255, func(c byte) bool { return lower(c) || digit(c) }, ":-_")
}

// ValidKey tells whether a variable may be called so: letters, digits, - and _, at most 256. Those of the environment
// may have dots, too.
func ValidKey(name, category string) bool {
	others := "-_"
	if category == CategoryEnv {
		others = "-_."
	}
	any := func(c byte) bool { return letter(c) || lower(c) || digit(c) || strings.IndexByte(others, c) >= 0 }
	return valid(name, 256, any, "")
}

// valid tells whether a name has at most so many characters, which all are of the first kind or, but for the first one,
// among the others.
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
