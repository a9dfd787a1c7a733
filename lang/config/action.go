package config

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/millipede-iac/millipede/lang/addr"
)

// ActionEvent is an event of a resource instance that can trigger actions.
type ActionEvent string

// The events. A replacement destroys and creates.
const (
	BeforeCreate  ActionEvent = "before_create"
	AfterCreate   ActionEvent = "after_create"
	BeforeUpdate  ActionEvent = "before_update"
	AfterUpdate   ActionEvent = "after_update"
	BeforeDestroy ActionEvent = "before_destroy"
	AfterDestroy  ActionEvent = "after_destroy"
)

var actionEvents = []ActionEvent{BeforeCreate, AfterCreate, BeforeUpdate, AfterUpdate, BeforeDestroy, AfterDestroy}

// Before reports whether the event comes before the operation on the object.
func (e ActionEvent) Before() bool {
	return e == BeforeCreate || e == BeforeUpdate || e == BeforeDestroy
}

// FailureMode says what a failed invocation of an action means for the resource that triggered it.
type FailureMode string

// The modes. Halt, the default, fails the operation: what depends on it does not happen. Continue reports the failure
// as a warning. Taint is Halt, and marks the object as tainted, so that the next plan replaces it.
const (
	Halt     FailureMode = "halt"
	Continue FailureMode = "continue"
	Taint    FailureMode = "taint"
)

// ActionTrigger is an action_trigger block.
type ActionTrigger struct {
	Events []ActionEvent
	// Condition is nil without one.
	Condition hcl.Expression
	// Actions are references to actions of the module, whose keys may be count.index or each.key.
	Actions   []hcl.Expression
	OnFailure FailureMode
	Range     hcl.Range
}

var (
	actionSchema = &hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{{Name: "count"}, {Name: "for_each"}, {Name: "provider"}},
		Blocks:     []hcl.BlockHeaderSchema{{Type: "config"}},
	}
	actionTriggerSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{
		{Name: "events", Required: true}, {Name: "condition"}, {Name: "actions", Required: true}, {Name: "on_failure"},
	}}
)

// action decodes an action block.
func (d *decoder) action(b *hcl.Block) *Resource {
	r := newResource(addr.Action, b)
	c := d.content(b.Body, actionSchema)
	d.label(b, 0, "Invalid action type name")
	d.label(b, 1, "Invalid action name")
	times := d.header(r, c)
	d.configBlock(r, c.Blocks)
	times.check(d, "instances of the action")
	return r
}

// actionTriggers decodes the action_trigger blocks in the lifecycle block of a managed resource.
func (d *decoder) actionTriggers(of addr.Resource, lifecycle *hcl.BodyContent) []*ActionTrigger {
	var out []*ActionTrigger
	for _, b := range lifecycle.Blocks {
		if b.Type != "action_trigger" {
			continue
		}
		c := d.content(b.Body, actionTriggerSchema)
		t := &ActionTrigger{Condition: expr(c, "condition"), OnFailure: Halt, Range: b.DefRange}
		if attr, ok := c.Attributes["events"]; ok {
			t.Events = d.actionEvents(attr.Expr)
		}
		if attr, ok := c.Attributes["actions"]; ok {
			t.Actions = d.triggeredActions(attr.Expr)
		}
		if attr, ok := c.Attributes["on_failure"]; ok {
			t.OnFailure = d.actionFailure(attr.Expr, t)
		}
		if t.Condition != nil && refersTo(t.Condition, of) && slices.ContainsFunc(t.Events, ActionEvent.Before) {
			d.err(t.Condition.Range(), "Invalid action trigger condition", "The condition refers to %s, which triggers "+
				"the actions, and an event of the block comes before its change. Use a block of its own for the events "+
				"after it.", of)
		}
		out = append(out, t)
	}
	return out
}

func (d *decoder) noActionTriggers(lifecycle *hcl.BodyContent) {
	for _, b := range lifecycle.Blocks {
		if b.Type == "action_trigger" {
			d.err(b.DefRange, "Invalid action_trigger block", "Only managed resources trigger actions.")
		}
	}
}

// actionEvents decodes a list of events, which are keywords.
func (d *decoder) actionEvents(e hcl.Expression) []ActionEvent {
	list, more := hcl.ExprList(e)
	if d.add(more) {
		return nil
	}
	var out []ActionEvent
	for _, item := range list {
		event := ActionEvent(hcl.ExprAsKeyword(d.unquoteKeyword(item)))
		switch {
		case !slices.Contains(actionEvents, event):
			d.err(item.Range(), "Invalid action trigger event", "An event is one of before_create, after_create, "+
				"before_update, after_update, before_destroy and after_destroy.")
		case slices.Contains(out, event):
			d.err(item.Range(), "Duplicate action trigger event", "The list has %s already.", event)
		default:
			out = append(out, event)
		}
	}
	if len(list) == 0 {
		d.err(e.Range(), "No action trigger events", "An action_trigger block has at least one event.")
	}
	return out
}

// triggeredActions decodes a list of references to actions.
func (d *decoder) triggeredActions(e hcl.Expression) []hcl.Expression {
	list, more := hcl.ExprList(e)
	if d.add(more) {
		return nil
	}
	var out []hcl.Expression
	for _, item := range list {
		item, ok := d.native(item)
		if !ok || !d.triggeredAction(item) {
			continue
		}
		out = append(out, item)
	}
	if len(list) == 0 {
		d.err(e.Range(), "No actions to trigger", "An action_trigger block names at least one action.")
	}
	return out
}

// triggeredAction checks one reference, as far as its keys need not be evaluated.
func (d *decoder) triggeredAction(e hcl.Expression) bool {
	actions := 0
	for _, trav := range e.Variables() {
		ref, diags := addr.ParseReference(trav)
		if diags.HasErrors() {
			for _, p := range diags {
				d.err(e.Range(), p.Summary, "%s", p.Detail)
			}
			return false
		}
		switch s := ref.Subject.(type) {
		case addr.Resource:
			if s.Mode == addr.Action && len(ref.Remaining) == 0 {
				actions++
			}
		case addr.ResourceRef:
			if s.Resource.Mode == addr.Action && len(ref.Remaining) == 0 {
				actions++
			}
		}
	}
	if actions != 1 || !isAddress(e) {
		d.err(e.Range(), "Invalid action reference", "Each element names one action of the module, as "+
			"action.TYPE.NAME, with a key if it has count or for_each.")
		return false
	}
	return true
}

// isAddress reports whether an expression is an address, whose keys may be expressions.
func isAddress(e hcl.Expression) bool {
	switch e := e.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		return true
	case *hclsyntax.RelativeTraversalExpr:
		return isAddress(e.Source)
	case *hclsyntax.IndexExpr:
		return isAddress(e.Collection)
	}
	return false
}

// actionFailure decodes on_failure.
func (d *decoder) actionFailure(e hcl.Expression, t *ActionTrigger) FailureMode {
	mode := FailureMode(hcl.ExprAsKeyword(d.unquoteKeyword(e)))
	switch mode {
	case Halt, Continue:
	case Taint:
		if slices.ContainsFunc(t.Events, func(v ActionEvent) bool { return v != AfterCreate && v != AfterUpdate }) {
			d.err(e.Range(), "Invalid on_failure", "Only an object that exists after the event can be tainted: use taint "+
				"with after_create and after_update alone.")
		}
	default:
		d.err(e.Range(), "Invalid on_failure", "on_failure is halt, continue or taint.")
		return Halt
	}
	return mode
}
