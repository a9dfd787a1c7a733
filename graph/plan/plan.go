// Package plan models what will change: a plan, its changes, their actions and reasons.
//
// A plan is pure data: it is made by the coordinator's planning run, saved by graph/plan/planfile and carried out
// without a second decision. The package evaluates nothing and orders nothing; the apply graph inside is built by
// package graph.
package plan

import (
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// Mode is the kind of plan.
type Mode byte

// The modes.
const (
	Normal Mode = iota
	Destroy
	RefreshOnly
)

// Action is what a change does to one object.
type Action string

// The actions. The ones with two words are replacements; the JSON form writes them as two actions.
const (
	NoOp             Action = "no-op"
	Create           Action = "create"
	Read             Action = "read"
	Update           Action = "update"
	Delete           Action = "delete"
	DeleteThenCreate Action = "delete-create"
	CreateThenDelete Action = "create-delete"
	Forget           Action = "forget"
	ForgetThenCreate Action = "forget-create"
)

// IsReplace reports whether the action ends one object and begins another.
func (a Action) IsReplace() bool {
	return a == DeleteThenCreate || a == CreateThenDelete || a == ForgetThenCreate
}

// Reason says why an action was chosen where that is not obvious, with the words of the plan's JSON form.
type Reason string

// The reasons.
const (
	NoReason                      Reason = ""
	ReplaceBecauseTainted         Reason = "replace_because_tainted"
	ReplaceByRequest              Reason = "replace_by_request"
	ReplaceByTriggers             Reason = "replace_by_triggers"
	ReplaceBecauseCannotUpdate    Reason = "replace_because_cannot_update"
	DeleteBecauseNoResourceConfig Reason = "delete_because_no_resource_config"
	DeleteBecauseWrongRepetition  Reason = "delete_because_wrong_repetition"
	DeleteBecauseCountIndex       Reason = "delete_because_count_index"
	DeleteBecauseEachKey          Reason = "delete_because_each_key"
	DeleteBecauseNoModule         Reason = "delete_because_no_module"
	DeleteBecauseNoMoveTarget     Reason = "delete_because_no_move_target"
	ForgotBecauseLifecycle        Reason = "forgot_because_lifecycle_destroy_in_config"
	ForgotBecauseRemembered       Reason = "forgot_because_lifecycle_destroy_in_state"
	DeleteBecauseEnabledFalse     Reason = "delete_because_enabled_false"
	ReadBecauseConfigUnknown      Reason = "read_because_config_unknown"
	ReadBecauseDependencyPending  Reason = "read_because_dependency_pending"
	ReadBecauseCheckNested        Reason = "read_because_check_nested"
)

// Change is what will happen to one resource instance object.
type Change struct {
	Addr addr.Instance
	// Previous is where the object was before moves; equal to Addr when it did not move.
	Previous addr.Instance
	// Deposed is set when the change concerns a deposed object.
	Deposed  state.DeposedKey
	Provider addr.ProviderInstance

	Action Action
	Reason Reason
	// Before and After are of the schema's implied type, with sensitive marks; null where there is no object.
	// After may hold unknown values. Both are unmarked ephemeral-free.
	Before, After cty.Value
	// ReplacePaths are the paths whose changes force a replacement.
	ReplacePaths []cty.Path
	// PriorPrivate and PlannedPrivate are the provider's own.
	PriorPrivate, PlannedPrivate []byte
	// BeforeIdentity and AfterIdentity are cty.NilVal when the type has no identity.
	BeforeIdentity, AfterIdentity cty.Value
	SchemaVersion                 int64
	IdentityVersion               int64

	// CreateBeforeDestroy is the effective order, with what it was forced by.
	CreateBeforeDestroy bool
	SkipDestroy         bool

	Importing       *Importing
	GeneratedConfig string
	// Legacy marks changes of providers of the legacy type system.
	Legacy bool
	// Tainted tells that the prior object was tainted.
	Tainted bool
}

// Moved reports whether the object is at another address than before.
func (c *Change) Moved() bool { return c.Previous != c.Addr }

// Importing says that the object is imported by this plan.
type Importing struct {
	ID       string
	Identity cty.Value // cty.NilVal when imported by ID
	Unknown  bool
}

// OutputChange is what will happen to one root output.
type OutputChange struct {
	Name            string
	Action          Action // no-op, create, update, delete
	Before, After   cty.Value
	Sensitive       bool // after; BeforeSensitive for what was
	BeforeSensitive bool
}

// Variable is one root input variable as given.
type Variable struct {
	// Value is as given, before conversion to the declared type, or the default; cty.NilVal when there is neither, and
	// for an ephemeral value that was given.
	Value     cty.Value
	Ephemeral bool
	Sensitive bool
}

// Plan is everything that a planning run found.
type Plan struct {
	Mode          Mode
	EngineVersion string
	Timestamp     time.Time
	Workspace     string

	Variables map[string]Variable
	Targets   []addr.Target
	Excludes  []addr.Target
	Replace   []addr.Instance

	Changes []*Change
	// Drift lists what refreshing found changed outside, and pure moves.
	Drift   []*Change
	Outputs []*OutputChange
	Checks  []state.CheckResult
	// Relevant are the attributes outside that influenced the plan.
	Relevant []Relevant

	// Prior is the state after refreshing and moves, before any change.
	Prior *state.State
	// BaseLineage and BaseSerial identify the stored state that the plan was made for.
	BaseLineage string
	BaseSerial  uint64

	// Backend describes where the snapshot is kept: type, msgpack-free JSON of its configuration, workspace.
	BackendType   string
	BackendConfig []byte

	// Graph is the apply graph.
	Graph Graph
	// RestsOn is what has to be as it was when the plan was made, so that it can be carried out; nil when that is all.
	RestsOn *RestsOn
	// Untouched are the configuration objects whose check results stay as they are stored, because what they look
	// at has changed since the plan was made.
	Untouched []string

	// Unread says which objects the plan took as they are stored because nothing about them changes; nil for none.
	Unread *Unread

	// Errored is set when planning failed: the plan can be shown, never applied.
	Errored bool
	// Circle names changes each of which waits for the next one, and the last one for the first: everything was
	// planned, but there is no order to carry it out in. Errored is set then, too. Nil when there is an order.
	Circle []string
	// Providers are the packages that the plan was made with: source, version and hashes.
	Providers []ProviderSelection
}

// ProviderSelection is a provider as selected by the dependency lock file.
type ProviderSelection struct {
	Source  addr.Provider
	Version string
	Hashes  []string
}

// Relevant is one attribute of a resource that a changing object refers to.
type Relevant struct {
	Resource  addr.Instance
	Attribute cty.Path
}

// Applyable reports whether carrying the plan out would change anything, the state included.
func (p *Plan) Applyable() bool {
	if p.Errored {
		return false
	}
	if p.Mode == RefreshOnly {
		return len(p.Drift) > 0 || p.outputsChange()
	}
	return p.HasChanges()
}

// Differs reports whether the plan found or plans anything but what is: what -detailed-exitcode asks. Other than for
// HasChanges, a refresh that only finds that something has another address is nothing.
func (p *Plan) Differs() bool {
	if p.Mode != RefreshOnly {
		return p.HasChanges()
	}
	for _, c := range p.Drift {
		if c.Action != NoOp {
			return true
		}
	}
	return p.outputsChange()
}

// HasChanges reports whether the plan changes an object, an output, or an address.
func (p *Plan) HasChanges() bool {
	for _, c := range p.Changes {
		if c.Action != NoOp || c.Moved() || c.Importing != nil {
			return true
		}
	}
	return p.outputsChange()
}

func (p *Plan) outputsChange() bool {
	for _, o := range p.Outputs {
		if o.Action != NoOp {
			return true
		}
	}
	return false
}

// VertexKind is what a vertex of the apply graph does.
type VertexKind byte

// The kinds of vertices.
const (
	// Sync does nothing; it stands for a named value, or for all instances of a resource, in the order.
	Sync VertexKind = iota + 1
	// ApplyObject creates or updates the object of Change, or re-checks it when the change is a no-op.
	ApplyObject
	// DestroyObject deletes (or deposes and deletes, or forgets) the object of Change.
	DestroyObject
	// ReadObject reads a data source that was put off.
	ReadObject
	// EvalOutput evaluates a root output and stores it, or any output's preconditions.
	EvalOutput
	// EvalCheck evaluates the assertions of a check block.
	EvalCheck
	// OpenObject opens the objects of an ephemeral resource; CloseObject closes them.
	OpenObject
	CloseObject
)

// Vertex is one vertex of the apply graph.
type Vertex struct {
	Kind VertexKind
	// Change is the index into Plan.Changes for object vertices, else -1.
	Change int
	// Node names the vertex of the plan graph that the vertex stands for; the zero value names none.
	Node Node
	// Address is the object, instance or named value, as text.
	Address string
}

// Node names a vertex of the plan graph: a block of the configuration, or a resource that has none any more. It says
// all that is needed to find the block again, so that a plan does not depend on how a later version orders its graph.
type Node struct {
	// Kind says what the vertex is there for; package graph has the words.
	Kind   string
	Module addr.Module
	// Name is the block as expressions in its own module write it; a provider has its whole address.
	Name string
}

// Hidden tells that a vertex does nothing that a user would call an operation: named values, objects that stay as they
// are, and those that are forgotten.
func (p *Plan) Hidden(v int) bool {
	x := p.Graph.Vertices[v]
	if x.Change < 0 {
		return true
	}
	switch action := p.Changes[x.Change].Action; x.Kind {
	case DestroyObject:
		return action == Forget || action == ForgetThenCreate
	case ReadObject:
		return false
	default:
		return action == NoOp
	}
}

// Graph is the apply graph: instance by instance, plain data, in an order in which it was built (not sorted).
type Graph struct {
	Vertices []Vertex
	// Edges are pairs (before, after): after waits for before.
	Edges [][2]int32
	// Values is how many of the edges, from the first on, are there because a value flows along them; the others order
	// what ends. It is 0 in a plan of before, where that is not known.
	Values int
}
