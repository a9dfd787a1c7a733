package wire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/graph/plan"
)

// Task is one piece of work for a worker. It is self-contained: the worker never asks the coordinator for more. Exactly
// one of the operation fields is set. Values are msgpack of cty values by the implied type of the schema that the
// operation names; nil means null.
type Task struct {
	// Protocol is the version of the message; 0 when it is sent means the highest that this program speaks.
	Protocol int       `msgpack:"v"`
	Run      string    `msgpack:"r,omitempty"`
	Attempt  AttemptID `msgpack:"a,omitempty"`
	// Address names the object for messages, events and logs.
	Address  string   `msgpack:"ad,omitempty"`
	Provider Provider `msgpack:"p"`

	Schema    *SchemaTask    `msgpack:"sc,omitempty"`
	Validate  *ValidateTask  `msgpack:"va,omitempty"`
	Plan      *PlanTask      `msgpack:"pl,omitempty"`
	Read      *ReadDataTask  `msgpack:"rd,omitempty"`
	Apply     *ApplyTask     `msgpack:"ap,omitempty"`
	Import    *ImportTask    `msgpack:"im,omitempty"`
	Ephemeral *EphemeralTask `msgpack:"ep,omitempty"`
	Function  *FunctionTask  `msgpack:"fn,omitempty"`
	Provision *ProvisionTask `msgpack:"pv,omitempty"`

	// Worker is the worker that made the object: other workers leave the task to it for a while. Empty means any.
	Worker string `msgpack:"w,omitempty"`
	// More says that another operation of the same vertex follows this one unless it fails, so that the worker reserves
	// the slot for a while.
	More bool `msgpack:"m,omitempty"`

	// Environment is the environment of the plugin or the provisioners; nil is the worker's own.
	Environment *Environment `msgpack:"e,omitempty"`

	// List and Action are operations, too.
	List   *ListTask   `msgpack:"li,omitempty"`
	Action *ActionTask `msgpack:"ac,omitempty"`
}

// Operation returns the name of the task's operation; empty for a task without one.
func (t *Task) Operation() string {
	switch {
	case t.Schema != nil:
		return "schema"
	case t.Validate != nil:
		return "validate"
	case t.Plan != nil:
		return "plan"
	case t.Read != nil:
		return "read"
	case t.Apply != nil:
		return "apply"
	case t.Import != nil:
		return "import"
	case t.Ephemeral != nil:
		return "ephemeral"
	case t.Function != nil:
		return "function"
	case t.Provision != nil:
		return "provision"
	case t.List != nil:
		return "list"
	case t.Action != nil:
		return "action"
	}
	return ""
}

const (
	// QuestionLimit is how long a question about a provider may take that asks nothing of the world: its schemas,
	// a validation, a function. The time includes that for which all workers are busy.
	QuestionLimit = time.Hour
	// OperationLimit is how long any other call may take. Providers have time limits of their own, which are shorter.
	OperationLimit = 24 * time.Hour
)

// TimeLimit returns how long a coordinator waits for the answer to the task on the fast lane.
func (t *Task) TimeLimit() time.Duration {
	if t.Schema != nil || t.Validate != nil || t.Function != nil {
		return QuestionLimit
	}
	return OperationLimit
}

// Timed makes a call and ends it at the time limit of the task, with ErrOverdue. Otherwise a worker that gives signs of
// life, and no answer, would make its caller wait for ever.
func Timed(ctx context.Context, t *Task, call func(context.Context) ([]byte, error)) ([]byte, error) {
	limit := t.TimeLimit()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, ErrOverdue)
	defer cancel()
	answer, err := call(ctx)
	if err != nil && errors.Is(context.Cause(ctx), ErrOverdue) {
		return nil, fmt.Errorf("%w: its workers gave signs of life, or were busy, for %s", ErrOverdue, limit)
	}
	return answer, err
}

// Provider says which plugin executes a task, with which configuration.
type Provider struct {
	Package Package `msgpack:"k"`
	// Address is the provider instance as users know it, for messages.
	Address string `msgpack:"a,omitempty"`
	// Config is the value of the provider block by the provider's schema; Digest identifies it (and the
	// instance), so that one process serves all tasks with the same digest. An empty digest asks for a process
	// that is not configured.
	Config []byte `msgpack:"c,omitempty"`
	Digest string `msgpack:"d,omitempty"`
	// Dir is the coordinator's working directory, absolute: the plugin runs there, where the worker has it, since
	// configurations name files by relative paths.
	Dir string `msgpack:"wd,omitempty"`
	// Mock replaces the provider's answers about an object, in tests.
	Mock *Mock `msgpack:"m,omitempty"`
	// MayDefer tells the provider that it may put off what it is asked, because something that it needs is not known
	// yet; the result has Deferred then. A worker that does not know this field does not allow it.
	MayDefer bool `msgpack:"md,omitempty"`
}

// Mock describes the objects of a mocked provider. Values is a JSON object with the values of attributes that the
// provider would compute.
type Mock struct {
	Values []byte `msgpack:"v,omitempty"`
}

// Package identifies a provider package. The worker finds the content for its own platform: built in, in a local
// directory that the coordinator shares (embedded), or as a blob that is named PackageName.
type Package struct {
	Source  string `msgpack:"s"` // host/namespace/type
	Version string `msgpack:"v,omitempty"`
	// Hashes are the acceptable h1: and zh: hashes from the lock file; empty for unlocked packages (development
	// overrides, reattached providers), whose Unlocked digest then tells builds apart.
	Hashes   []string `msgpack:"h,omitempty"`
	Unlocked string   `msgpack:"u,omitempty"`
}

// Key identifies the package for pools and caches.
func (p Package) Key() string {
	if p.Unlocked != "" {
		return p.Source + "@" + p.Unlocked
	}
	return p.Source + "@" + p.Version
}

// PackageName is the name under which the blob of a package for a platform (os_arch) is bound.
func PackageName(p Package, platform string) string {
	return "provider/" + p.Key() + "/" + platform
}

// SchemaTask asks for schemas. With no lists: the provider's own, the functions and the names of all types. All
// asks for everything (providers schema).
type SchemaTask struct {
	Managed   []string `msgpack:"m,omitempty"`
	Data      []string `msgpack:"d,omitempty"`
	Ephemeral []string `msgpack:"e,omitempty"`
	All       bool     `msgpack:"a,omitempty"`
	// Lists are the managed resource types for whose list blocks schemas are requested.
	Lists []string `msgpack:"l,omitempty"`
	// Actions are types of actions.
	Actions []string `msgpack:"ac,omitempty"`
}

// ValidateTask runs one of the provider's Validate calls. Kind is provider, managed, data, ephemeral, list or
// action.
type ValidateTask struct {
	Kind   string `msgpack:"k"`
	Type   string `msgpack:"t,omitempty"`
	Config []byte `msgpack:"c"`
	// IncludeObject and Limit are those of a list block; Limit is 0 if it is unknown.
	IncludeObject bool  `msgpack:"o,omitempty"`
	Limit         int64 `msgpack:"l,omitempty"`
}

// StoredObject is an object as the state holds it, in whatever schema version.
type StoredObject struct {
	SchemaVersion   int64             `msgpack:"v"`
	Attrs           []byte            `msgpack:"a,omitempty"` // JSON
	Flatmap         map[string]string `msgpack:"f,omitempty"`
	Private         []byte            `msgpack:"p,omitempty"`
	Identity        []byte            `msgpack:"i,omitempty"` // JSON
	IdentityVersion int64             `msgpack:"iv,omitempty"`
	Tainted         bool              `msgpack:"t,omitempty"`
}

// MovedFrom says that the prior object comes from another resource type or provider.
type MovedFrom struct {
	Provider string `msgpack:"p"` // host/namespace/type
	Type     string `msgpack:"t"`
}

// PlanTask refreshes and plans one managed instance.
type PlanTask struct {
	Type string `msgpack:"t"`
	// Prior is nil when there is no object yet.
	Prior     *StoredObject `msgpack:"p,omitempty"`
	MovedFrom *MovedFrom    `msgpack:"mf,omitempty"`
	// Import, when set, is done first; its object becomes the prior one.
	Import *ImportTask `msgpack:"im,omitempty"`
	// Refresh reads the object before planning. SkipPlan ends after that (refresh-only, data about orphans).
	Refresh  bool `msgpack:"rf,omitempty"`
	SkipPlan bool `msgpack:"sp,omitempty"`
	// Destroy plans the deletion; Config is nil then.
	Destroy bool   `msgpack:"de,omitempty"`
	Config  []byte `msgpack:"c,omitempty"`
	Meta    []byte `msgpack:"m,omitempty"`
	// IgnorePaths are the ignore_changes paths (each msgpack-coded by EncodePath); IgnoreAll ignores all.
	IgnorePaths [][]byte `msgpack:"ig,omitempty"`
	IgnoreAll   bool     `msgpack:"ia,omitempty"`
	// Sensitive are the paths (EncodePath) whose values the configuration marks as sensitive: they stay out of
	// messages.
	Sensitive [][]byte `msgpack:"se,omitempty"`
	// Replace forces a replacement ("requested" by -replace, "triggered" by replace_triggered_by; empty else).
	Replace string `msgpack:"re,omitempty"`
	// IfChanged has an object refreshed only if a plan against the stored object results in a change. A worker that does
	// not know this field always refreshes.
	IfChanged bool `msgpack:"rc,omitempty"`
}

// PlanResult answers a PlanTask.
type PlanResult struct {
	// Upgraded is the prior object in the current schema, before refreshing; nil when there was none.
	Upgraded []byte `msgpack:"u,omitempty"`
	// Prior is the object as it is now (refreshed or imported), nil when there is none (any more).
	Prior         []byte `msgpack:"p,omitempty"`
	PriorPrivate  []byte `msgpack:"pp,omitempty"`
	PriorIdentity []byte `msgpack:"pi,omitempty"` // msgpack by the identity schema
	// Planned is nil for a deletion, and when SkipPlan was asked.
	Planned         []byte `msgpack:"n,omitempty"`
	PlannedPrivate  []byte `msgpack:"np,omitempty"`
	PlannedIdentity []byte `msgpack:"ni,omitempty"`
	// Action is no-op, create, update, delete or delete-create (the coordinator turns that into create-delete).
	Action plan.Action `msgpack:"ac"`
	// Reason is why a replacement is needed: "tainted", "requested", "triggers", "cannot_update", or empty.
	Reason       string   `msgpack:"rs,omitempty"`
	ReplacePaths [][]byte `msgpack:"rp,omitempty"`
	// SchemaVersion and IdentityVersion are those of the values above.
	SchemaVersion   int64 `msgpack:"sv,omitempty"`
	IdentityVersion int64 `msgpack:"iv,omitempty"`
	Legacy          bool  `msgpack:"l,omitempty"`
	// Unread says that the object was not refreshed although the task allowed it, because the stored object needs no
	// change.
	Unread bool `msgpack:"ur,omitempty"`
}

// ReadDataTask reads a data source; it validates the configuration first.
type ReadDataTask struct {
	Type   string `msgpack:"t"`
	Config []byte `msgpack:"c"`
	Meta   []byte `msgpack:"m,omitempty"`
}

// ApplyTask executes one planned change of one object. For a deletion Planned and Config are nil.
type ApplyTask struct {
	Type string `msgpack:"t"`
	// Action is create, update or delete.
	Action plan.Action `msgpack:"ac"`
	// Prior is by the current schema (the plan upgraded it); nil for a creation.
	Prior           []byte   `msgpack:"p,omitempty"`
	PriorPrivate    []byte   `msgpack:"pp,omitempty"`
	PriorIdentity   []byte   `msgpack:"pi,omitempty"`
	Planned         []byte   `msgpack:"n,omitempty"`
	PlannedPrivate  []byte   `msgpack:"np,omitempty"`
	PlannedIdentity []byte   `msgpack:"ni,omitempty"`
	Config          []byte   `msgpack:"c,omitempty"`
	Meta            []byte   `msgpack:"m,omitempty"`
	IgnorePaths     [][]byte `msgpack:"ig,omitempty"`
	IgnoreAll       bool     `msgpack:"ia,omitempty"`
	// Sensitive is as in PlanTask.
	Sensitive [][]byte `msgpack:"se,omitempty"`
	// Stored is used instead of Prior where the plan did not go through the provider (a deposed object).
	Stored *StoredObject `msgpack:"st,omitempty"`
	// Settled says that the provider made the plan from this configuration, with nothing unknown in it: asked for its
	// plan again, it would be asked the same question.
	Settled bool `msgpack:"ok,omitempty"`
}

// ApplyResult answers an ApplyTask.
type ApplyResult struct {
	// Object is nil when there is no object now.
	Object          []byte `msgpack:"o,omitempty"`
	Private         []byte `msgpack:"p,omitempty"`
	Identity        []byte `msgpack:"i,omitempty"`
	SchemaVersion   int64  `msgpack:"sv,omitempty"`
	IdentityVersion int64  `msgpack:"iv,omitempty"`
	// Tainted: a creation failed halfway; the object exists but is not whole.
	Tainted bool `msgpack:"t,omitempty"`
	// Unchanged: with the values that were unknown in the plan, nothing is left to update, and the provider was not
	// called.
	Unchanged bool `msgpack:"u,omitempty"`
}

// ImportTask finds an existing object by ID or Identity (msgpack by the identity schema).
type ImportTask struct {
	Type     string `msgpack:"t"`
	ID       string `msgpack:"i,omitempty"`
	Identity []byte `msgpack:"n,omitempty"`
}

// ImportResult answers an ImportTask: the object read after the import.
type ImportResult struct {
	Objects []ImportedObject `msgpack:"o"`
}

// ImportedObject is one object of an import.
type ImportedObject struct {
	Type            string `msgpack:"t"`
	Object          []byte `msgpack:"o,omitempty"`
	Private         []byte `msgpack:"p,omitempty"`
	Identity        []byte `msgpack:"i,omitempty"`
	SchemaVersion   int64  `msgpack:"sv,omitempty"`
	IdentityVersion int64  `msgpack:"iv,omitempty"`
}

// EphemeralTask opens, renews or closes an ephemeral object ("open", "renew", "close").
type EphemeralTask struct {
	Op      string `msgpack:"op"`
	Type    string `msgpack:"t"`
	Config  []byte `msgpack:"c,omitempty"`
	Private []byte `msgpack:"p,omitempty"`
}

// EphemeralResult answers an EphemeralTask.
type EphemeralResult struct {
	Object  []byte    `msgpack:"o,omitempty"`
	Private []byte    `msgpack:"p,omitempty"`
	RenewAt time.Time `msgpack:"r,omitempty"`
}

// ListTask lists the existing objects of a managed resource type. The worker sends them in pages to an address; see
// Parts.
type ListTask struct {
	Type string `msgpack:"t"`
	// Config is by the schema of the list block.
	Config []byte `msgpack:"c"`
	// IncludeObject asks for whole objects. Limit is the most objects that are wanted; at least 1.
	IncludeObject bool  `msgpack:"o,omitempty"`
	Limit         int64 `msgpack:"l"`
	// Generate asks for the configuration of each object, from a provider that can make it. It needs IncludeObject.
	Generate bool `msgpack:"g,omitempty"`
	// Address is where the pages are sent to.
	Address string `msgpack:"a"`
}

// ListPage is a part of the answer to a ListTask.
type ListPage struct {
	// Number counts the pages of a call from 0. The same page may arrive more than once.
	Number  int            `msgpack:"n"`
	Objects []ListedObject `msgpack:"o"`
}

// The bounds of a page: it is sent when it has one of them. An object that is larger is a page of its own.
const (
	MaxPageObjects = 500
	MaxPageBytes   = 192 << 10
)

// ListedObject is an object that exists.
type ListedObject struct {
	Name     string `msgpack:"n,omitempty"` // what people call it
	Identity []byte `msgpack:"i"`           // msgpack by the identity schema
	Object   []byte `msgpack:"o,omitempty"` // nil if objects were not requested
	// Config is the configuration that the provider has made for the object; nil if none was requested, or the provider
	// cannot.
	Config []byte `msgpack:"c,omitempty"`
}

// Size returns the number of bytes of the object's parts.
func (o *ListedObject) Size() int {
	return len(o.Name) + len(o.Identity) + len(o.Object) + len(o.Config)
}

// ListResult answers a ListTask when all pages were taken.
type ListResult struct {
	Pages   int   `msgpack:"p"`
	Objects int64 `msgpack:"o"`
}

// ActionTask plans the invocation of an action, or invokes it. An invocation changes the world, and travels on the safe
// lane. Its result has diagnostics alone.
type ActionTask struct {
	Type string `msgpack:"t"`
	// Config is by the schema of the action. Parts may be unknown if the invocation is planned.
	Config []byte `msgpack:"c"`
	Invoke bool   `msgpack:"i,omitempty"`
	// Sensitive hides the messages about the progress, because the configuration has sensitive values.
	Sensitive bool `msgpack:"s,omitempty"`
}

// FunctionTask calls a provider's function. Args are msgpack by the parameters' types; Dynamic type where the
// parameter is dynamic.
type FunctionTask struct {
	Name string   `msgpack:"n"`
	Args [][]byte `msgpack:"a"`
}

// FunctionResult answers a FunctionTask. ErrorArg is the argument that Error concerns, or -1.
type FunctionResult struct {
	Value    []byte `msgpack:"v,omitempty"`
	Error    string `msgpack:"e,omitempty"`
	ErrorArg int    `msgpack:"ea"`
}

// ProvisionTask runs the provisioners of an object that was just created, or is about to be destroyed, in order.
type ProvisionTask struct {
	Provisioners []Provisioner `msgpack:"p"`
	// Dir is the coordinator's working directory, absolute: provisioners that name no other directory run there, if the
	// worker has it.
	Dir string `msgpack:"d,omitempty"`
}

// Provisioner is one evaluated provisioner block. Config and Connection are msgpack of values of the types that
// package provider/provisioner declares.
type Provisioner struct {
	Type       string `msgpack:"t"`
	Config     []byte `msgpack:"c"`
	Connection []byte `msgpack:"n,omitempty"`
	Continue   bool   `msgpack:"co,omitempty"` // on_failure = continue
	// Sensitive hides the output because the configuration holds sensitive values, Ephemeral because it holds
	// ephemeral ones.
	Sensitive bool `msgpack:"s,omitempty"`
	Ephemeral bool `msgpack:"e,omitempty"`
	// Files are the files on the coordinator's machine that the configuration names: one for each script, or the source
	// with, for a directory, its content behind it. If it is empty, the worker looks on its own machine.
	Files []File `msgpack:"f,omitempty"`
}

// File is a file or a directory that is sent with a task.
type File struct {
	// Path is relative to the named file or directory, with slashes; empty for that itself.
	Path string `msgpack:"p,omitempty"`
	Dir  bool   `msgpack:"d,omitempty"`
	Data []byte `msgpack:"c,omitempty"`
}

// Result answers a Task.
type Result struct {
	// Protocol is the version of the message, which is that of the task. 0 is as in Task.
	Protocol int       `msgpack:"v"`
	Attempt  AttemptID `msgpack:"a,omitempty"`
	Nonce    string    `msgpack:"n,omitempty"` // the claim that this result belongs to
	Worker   string    `msgpack:"w"`
	Pool     string    `msgpack:"po,omitempty"`
	Started  time.Time `msgpack:"st"`
	Ended    time.Time `msgpack:"en"`
	// Doubt is set instead of an operation's result if the worker cannot know the outcome.
	Doubt string `msgpack:"db,omitempty"`
	// NotStarted: the attempt was claimed, but the operation never began; another attempt may be made.
	NotStarted bool `msgpack:"ns,omitempty"`

	Diagnostics []Diagnostic `msgpack:"d,omitempty"`

	Schema *SchemaResult `msgpack:"sc,omitempty"`
	Plan   *PlanResult   `msgpack:"pl,omitempty"`
	// ReadData: the object; Validate of a provider: the prepared config
	Value     []byte           `msgpack:"va,omitempty"`
	Apply     *ApplyResult     `msgpack:"ap,omitempty"`
	Import    *ImportResult    `msgpack:"im,omitempty"`
	Ephemeral *EphemeralResult `msgpack:"ep,omitempty"`
	Function  *FunctionResult  `msgpack:"fn,omitempty"`

	// Answer is set beside Doubt if the provider has answered with an object that cannot be kept.
	Answer *Answer `msgpack:"an,omitempty"`

	// List ends the pages of a list.
	List *ListResult `msgpack:"li,omitempty"`

	// Deferred is why the provider has put the operation off, a provider.DeferralReason; empty if it has not. The
	// operation's result is then what is known beforehand; that of reading and opening is empty.
	Deferred string `msgpack:"df,omitempty"`
}

// Answer has the known part of a provider's answer that cannot be stored as it is.
type Answer struct {
	// Known is a JSON object with the attributes that could be read and may be shown.
	Known []byte `msgpack:"k,omitempty"`
	// Private is the provider's private data about the object.
	Private []byte `msgpack:"p,omitempty"`
	// Raw is the beginning of the object as the provider has sent it, up to MaxRaw bytes.
	Raw []byte `msgpack:"r,omitempty"`
}

// MaxRaw is the size of Answer.Raw in bytes.
const MaxRaw = 64 << 10

// Diagnostic is a problem on the wire. Path is coded by EncodePath; nil when the problem has none.
type Diagnostic struct {
	Severity byte   `msgpack:"s"`
	Summary  string `msgpack:"m"`
	Detail   string `msgpack:"d,omitempty"`
	Path     []byte `msgpack:"p,omitempty"`
	// Lost says that the plugin died or was cut off during the call.
	Lost string `msgpack:"l,omitempty"`
}

// SchemaResult answers a SchemaTask: a part of provider.Schemas, coded by EncodeSchemas.
type SchemaResult struct {
	Schemas []byte `msgpack:"s"`
	// Names of all types, always.
	Managed   []string `msgpack:"m,omitempty"`
	Data      []string `msgpack:"d,omitempty"`
	Ephemeral []string `msgpack:"e,omitempty"`
}

// Event is a live event of a run: progress of an operation.
type Event struct {
	Address string    `msgpack:"a"`
	Attempt AttemptID `msgpack:"t,omitempty"`
	Worker  string    `msgpack:"w,omitempty"`
	Kind    string    `msgpack:"k"` // "output" (a provisioner's line), "provision_start", "provision_end", "progress" (of an action), "log"
	Text    string    `msgpack:"x,omitempty"`
	Name    string    `msgpack:"n,omitempty"`
	Failed  bool      `msgpack:"f,omitempty"`
}
