// Package plan models a plan: its changes, their actions and reasons.
//
// A plan is pure data: it is made by the coordinator's planning run, saved by graph/plan/planfile, and applied
// without further decisions. The package evaluates and orders nothing; the apply graph is built by package graph.
package plan

import (
	"slices"
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

// Action is the effect of a change on one object.
type Action string

// The actions. The compound ones are replacements; the JSON form has them as two actions.
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

// IsReplace reports whether the action removes one object and creates another.
func (a Action) IsReplace() bool {
	return a == DeleteThenCreate || a == CreateThenDelete || a == ForgetThenCreate
}

// Reason is why an action was chosen if that is not obvious, in the words of the plan's JSON form.
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

// Change is the planned change of one resource instance object.
type Change struct {
	Addr addr.Instance
	// Previous is the address before moves; equal to Addr if the object was not moved.
	Previous addr.Instance
	// Deposed is set when the change concerns a deposed object.
	Deposed  state.DeposedKey
	Provider addr.ProviderInstance

	Action Action
	Reason Reason
	// Kept is set if a verdict keeps the object as it is stored: its value is that of the object in Plan.Prior, and has
	// not been decoded. Before, After, the identities and the private data are not set; values.FillKept sets the first
	// two and the identities.
	Kept bool
	// Before and After have the schema's implied type, with sensitive marks; null if there is no object. After may
	// contain unknown values. Neither contains ephemeral values.
	Before, After cty.Value
	// ReplacePaths are the paths whose changes force a replacement.
	ReplacePaths []cty.Path
	// PriorPrivate and PlannedPrivate are the provider's private data.
	PriorPrivate, PlannedPrivate []byte
	// BeforeIdentity and AfterIdentity are cty.NilVal if the type has no identity.
	BeforeIdentity, AfterIdentity cty.Value
	SchemaVersion                 int64
	IdentityVersion               int64

	// CreateBeforeDestroy is the effective order, with the reason for it.
	CreateBeforeDestroy bool
	SkipDestroy         bool

	Importing       *Importing
	GeneratedConfig string
	// Legacy is set for changes of providers with the legacy type system.
	Legacy bool
	// Tainted is set if the prior object was tainted.
	Tainted bool
	// Inputs identifies the provider's input for the plan of the change, without the prior object; zero if it was not
	// recorded. An apply with the same inputs does not ask the provider for its plan again.
	Inputs Inputs
}

// Inputs is a digest of inputs of a provider's plan; see instance.Instance.Inputs.
type Inputs [16]byte

// Moved reports whether the address of the object has changed.
func (c *Change) Moved() bool { return c.Previous != c.Addr }

// Importing is the import of the object by this plan.
type Importing struct {
	ID       string
	Identity cty.Value // cty.NilVal when imported by ID
	Unknown  bool
}

// OutputChange is the planned change of one root output.
type OutputChange struct {
	Name            string
	Action          Action // no-op, create, update, delete
	Before, After   cty.Value
	Sensitive       bool // the new value; BeforeSensitive is about the old one
	BeforeSensitive bool
}

// Variable is one root input variable as given.
type Variable struct {
	// Value is the given value, before conversion to the declared type, or the default; cty.NilVal if there is
	// neither, and for a given ephemeral value.
	Value     cty.Value
	Ephemeral bool
	Sensitive bool
}

// Plan is the result of a planning run.
type Plan struct {
	Mode          Mode
	EngineVersion string
	Timestamp     time.Time
	Workspace     string

	Variables map[string]Variable
	Targets   []addr.Target
	Excludes  []addr.Target
	Replace   []addr.Instance
	// Invoke are the actions that the option -invoke names. Without Targets, the plan changes nothing else.
	Invoke []addr.Target

	Changes []*Change
	// Invocations are the planned invocations of actions, those of one object in their order.
	Invocations []*Invocation
	// Drift lists changes outside that refreshing found, and pure moves.
	Drift   []*Change
	Outputs []*OutputChange
	Checks  []state.CheckResult
	// Relevant are the attributes outside that influenced the plan.
	Relevant []Relevant

	// Prior is the state after refreshing and moves, before any change.
	Prior *state.State
	// BaseLineage and BaseSerial identify the stored state for which the plan was made.
	BaseLineage string
	BaseSerial  uint64

	// Digest identifies a saved plan: the SHA-256 of its file, as hexadecimal digits, before encryption. It is set when
	// the file is read, and empty for a plan that comes from no file.
	Digest string

	// Backend describes where the snapshot is stored: type, JSON of its configuration, workspace.
	BackendType   string
	BackendConfig []byte

	// Graph is the apply graph.
	Graph Graph
	// Dependencies is the part of the state that must be unchanged so that the plan can be applied; nil for the whole
	// state.
	Dependencies *Dependencies
	// Untouched are the configuration objects whose stored check results are kept, because the values that they
	// check have changed since the plan was made.
	Untouched []string

	// Unread describes the objects that the plan has not read because they do not change; nil for none.
	Unread *Unread

	// EndsDoubts is set if an update or a deletion in doubt is settled, because the plan has read its object: applying the
	// plan records that, even if nothing has to change.
	EndsDoubts bool

	// Defers is set if the plan was allowed to leave out what cannot be planned yet; Deferred is what it has left out,
	// sorted by address.
	Defers   bool
	Deferred []*Deferred

	// Errored is set if planning failed: the plan can be shown, but not applied.
	Errored bool
	// Circle is a dependency cycle of changes: each depends on the next one, and the last one on the first.
	// Everything was planned, but there is no order for applying it. Errored is then also set. Nil if there is an
	// order.
	Circle []string
	// Providers are the packages with which the plan was made: source, version and hashes.
	Providers []ProviderSelection
}

// ProviderSelection is a provider as selected by the dependency lock file.
type ProviderSelection struct {
	Source  addr.Provider
	Version string
	Hashes  []string
}

// Relevant is one attribute of a resource to which a changing object refers.
type Relevant struct {
	Resource  addr.Instance
	Attribute cty.Path
}

// Applyable reports whether applying the plan would change anything, including the state.
func (p *Plan) Applyable() bool {
	if p.Errored {
		return false
	}
	if p.Mode == RefreshOnly {
		return len(p.Drift) > 0 || p.outputsChange()
	}
	return p.HasChanges()
}

// Pending reports whether there is something to apply: changes, or the end of a doubt.
func (p *Plan) Pending() bool { return p.Applyable() || p.EndsDoubts && !p.Errored }

// Differs reports whether the plan contains any changes or drift, for -detailed-exitcode. Unlike for HasChanges, what
// is deferred counts, and a refresh that only finds moved addresses does not.
func (p *Plan) Differs() bool {
	if p.Mode != RefreshOnly {
		return p.HasChanges() || slices.ContainsFunc(p.Deferred, func(d *Deferred) bool { return !d.Stays() })
	}
	for _, c := range p.Drift {
		if c.Action != NoOp {
			return true
		}
	}
	return p.outputsChange()
}

// HasChanges reports whether the plan changes an object, an output, or an address, or invokes an action.
func (p *Plan) HasChanges() bool {
	if len(p.Invocations) > 0 {
		return true
	}
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

// Forgotten returns how many objects the plan takes out of the state without destroying them.
func (p *Plan) Forgotten() int {
	n := 0
	for _, c := range p.Changes {
		if c.Action == Forget {
			n++
		}
	}
	return n
}

// VertexKind is the operation of a vertex of the apply graph.
type VertexKind byte

// The kinds of vertices.
const (
	// Sync does nothing; it represents a named value, or the completion of all instances of a resource, in the
	// order.
	Sync VertexKind = iota + 1
	// ApplyObject creates or updates the object of Change, or checks its conditions again if the change is a no-op.
	ApplyObject
	// DestroyObject deletes (or deposes and deletes, or forgets) the object of Change.
	DestroyObject
	// ReadObject reads a data source whose reading was deferred.
	ReadObject
	// EvalOutput evaluates a root output and stores it, or any output's preconditions.
	EvalOutput
	// EvalCheck evaluates the assertions of a check block.
	EvalCheck
	// OpenObject opens the objects of an ephemeral resource; CloseObject closes them.
	OpenObject
	CloseObject
	// InvokeAction invokes an action.
	InvokeAction
)

// Vertex is one vertex of the apply graph.
type Vertex struct {
	Kind VertexKind
	// Change is the index into Plan.Changes for object vertices, else -1. The invocation with the index i of
	// Plan.Invocations is -2 - i; see Invocation.
	Change int
	// Node is the corresponding vertex of the plan graph; the zero value means none.
	Node Node
	// Address is the address of the object, instance or named value, as text.
	Address string
}

// Node identifies a vertex of the plan graph: a block of the configuration, or a resource without one. It contains
// everything needed to find the block again, so that a plan does not depend on how a later version orders its
// graph.
type Node struct {
	// Kind is the purpose of the vertex; package graph has the values.
	Kind   string
	Module addr.Module
	// Name is the block's name in expressions of its own module; for a provider, the whole address.
	Name string
}

// Hidden reports whether a vertex is not an operation for users: named values, unchanged objects, and forgotten
// objects.
func (p *Plan) Hidden(v int) bool {
	x := p.Graph.Vertices[v]
	if x.Change < 0 {
		return x.Kind != InvokeAction
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

// Graph is the apply graph: one vertex per instance, plain data, in the order in which it was built (not sorted).
type Graph struct {
	Vertices []Vertex
	// Edges are pairs (before, after): after depends on before.
	Edges [][2]int32
	// Values is the number of edges, from the first on, that carry a value; the others order deletions. It is 0 in
	// a plan of an earlier version, where that is unknown.
	Values int
}
