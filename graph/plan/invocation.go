package plan

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
)

// Invocation is the planned invocation of an action.
type Invocation struct {
	// Addr is an instance of an action block.
	Addr     addr.Instance
	Provider addr.ProviderInstance
	// Config is the evaluated config block, of the type of the action's schema, with sensitive marks. It may contain
	// unknown values. Write-only attributes are null.
	Config cty.Value
	// Trigger is why the action is invoked; nil if the option -invoke asked for it.
	Trigger *Trigger
}

// Trigger is an event of an object for which an action is invoked.
type Trigger struct {
	// Resource is the object.
	Resource addr.Instance
	// Event is a config.ActionEvent.
	Event string
	// Block and Index are the position of the action_trigger block in its lifecycle block, and that of the action in the
	// block's list.
	Block, Index int
	// Conditional says that the condition of the block depends on values that are not known yet: it is decided when its
	// turn has come.
	Conditional bool
}

// Before reports whether the invocation comes before the operation on its object.
func (t *Trigger) Before() bool { return len(t.Event) > 7 && t.Event[:7] == "before_" }

// Ends reports whether the invocation belongs to the destruction of its object.
func (t *Trigger) Ends() bool { return t.Event == "before_destroy" || t.Event == "after_destroy" }

// Invocation returns the index of the invocation of an InvokeAction vertex.
func (v Vertex) Invocation() int { return -2 - v.Change }

// InvocationVertex returns the vertex of an invocation.
func InvocationVertex(index int, i *Invocation) Vertex {
	return Vertex{Kind: InvokeAction, Change: -2 - index, Address: i.Addr.String()}
}
