package planning

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

// createsFirst reports whether a replacement creates the new object first.
func (p *Planner) createsFirst(o *object) bool { return p.first[o.addr.Config()] }

// skipsDestroy reports whether lifecycle.destroy = false keeps the object from being destroyed. A non-constant
// value was rejected before.
func (p *Planner) skipsDestroy(o *object) bool {
	block := p.block(o)
	if block == nil {
		return false
	}
	destroys, _ := block.Destroys()
	return !destroys
}

// forgets reports whether an orphan is to be forgotten instead of destroyed. A removed block decides, since it is the
// user's latest statement; else lifecycle.destroy = false, in the configuration or, as recorded in the state, when the
// object was created. For an instance that is configured by a block, refreshing updates the recorded value, so a
// destroy that refreshes uses only the block.
func (p *Planner) forgets(o *object) bool {
	if removed := p.removed(o); removed != nil {
		return !removed.Destroy
	}
	if p.skipsDestroy(o) {
		return true
	}
	if p.Mode == plan.Destroy && !p.SkipRefresh && o.configured() {
		return false
	}
	return o.work.prior != nil && o.work.prior.SkipDestroy
}

// removed returns the removed block that applies to an object. A destroy plan ignores them.
func (p *Planner) removed(o *object) *config.Removed {
	if p.Mode == plan.Destroy {
		return nil
	}
	return p.Removed(o.addr)
}

// configured reports whether the configuration has an instance for the current object.
func (o *object) configured() bool {
	if o.resource == nil || o.deposed != state.CurrentObject {
		return false
	}
	e, diags := o.resource.Expansion()
	return !diags.HasErrors() && !e.Unknown && e.Has(o.addr.Key)
}

// triggered reports whether an object in an element of replace_triggered_by will change. A resource without instances
// triggers nothing.
func (p *Planner) triggered(o *object, e hcl.Expression) (bool, diag.List) {
	ref, diags := o.resource.Module().CheckTrigger(e, o.work.Rep)
	if diags.HasErrors() {
		return false, diags
	}
	var resource addr.Resource
	var key *addr.Key
	switch s := ref.Subject.(type) {
	case addr.Resource:
		resource = s
		if len(ref.Remaining) > 0 {
			key = &addr.NoKey // an attribute belongs to a single instance
		}
	case addr.ResourceRef:
		resource, key = s.Resource, &s.Key
	default:
		return false, diags
	}
	r := o.resource.Module().ResourceBlock(resource)
	if r == nil {
		return false, diags
	}
	expansion, _ := r.Expansion()
	keys := expansion.Keys
	if len(keys) == 0 && !expansion.Unknown {
		return false, diags
	}
	if key != nil {
		keys = []addr.Key{*key}
	}
	if p.deferral != nil && !p.anyPlanned(r, keys) {
		return p.changedBefore(r, keys, ref.Remaining), diags
	}
	if !p.anyPlanned(r, keys) {
		return false, diags.Append(diag.New(diag.Error, fmt.Sprintf("no change found for %s in %s", ref.Subject,
			o.addr.Module.Display()),
			fmt.Sprintf("The lifecycle argument replace_triggered_by of %s names an object that the plan has nothing "+
				"to say about: it does not exist, is left out of the plan, or is this one itself.", o.addr),
			e.Range().Ptr()))
	}
	if key == nil && len(ref.Remaining) == 0 {
		return p.anyChanges(r, expansion), diags
	}
	return p.instanceChanges(r, keys, ref.Remaining), diags
}

// anyPlanned reports whether one of some instances of a resource is planned already.
func (p *Planner) anyPlanned(r *values.Resource, keys []addr.Key) bool {
	return slices.ContainsFunc(keys, func(k addr.Key) bool { return p.change(r.Addr().Instance(k)) != nil })
}

// anyChanges reports whether an instance of a resource will change. All of them are planned by then, so the answer is
// computed once, and not for each instance that they trigger.
func (p *Planner) anyChanges(r *values.Resource, e *values.Expansion) bool {
	p.triggerMu.Lock()
	defer p.triggerMu.Unlock()
	changes, known := p.triggers[r]
	if !known {
		changes = p.instanceChanges(r, e.Keys, nil)
		p.triggers[r] = changes
	}
	return changes
}

// changedBefore reports whether an earlier round has changed one of some instances of a resource, or its value at a
// traversal.
func (p *Planner) changedBefore(r *values.Resource, keys []addr.Key, at hcl.Traversal) bool {
	if p.After == nil {
		return false
	}
	return slices.ContainsFunc(p.After.Changed, func(c *plan.Change) bool {
		return c.Addr.Abs() == r.Addr() && slices.Contains(keys, c.Addr.Key) && triggers(c, at)
	})
}

// instanceChanges reports whether one of some instances of a resource will change, or its value at a traversal. The end
// of an object is no such change, as in OpenTofu.
func (p *Planner) instanceChanges(r *values.Resource, keys []addr.Key, at hcl.Traversal) bool {
	for _, k := range keys {
		c := p.change(r.Addr().Instance(k))
		if c != nil && triggers(c, at) {
			return true
		}
	}
	return false
}

// triggers reports whether a change makes or updates its object, and changes the value at a traversal.
func triggers(c *plan.Change, at hcl.Traversal) bool {
	if c.Action != plan.Create && c.Action != plan.Update && !c.Action.IsReplace() {
		return false
	}
	return len(at) == 0 || attributeChanges(c, at)
}

// attributeChanges reports whether the value at a traversal differs before and after a change. An attribute that
// exists on one side only differs.
func attributeChanges(c *plan.Change, at hcl.Traversal) bool {
	path := make(cty.Path, len(at))
	for i, step := range at {
		switch s := step.(type) {
		case hcl.TraverseAttr:
			path[i] = cty.GetAttrStep{Name: s.Name}
		case hcl.TraverseIndex:
			path[i] = cty.IndexStep{Key: s.Key}
		}
	}
	before, err1 := path.Apply(unmarked(c.Before))
	after, err2 := path.Apply(unmarked(c.After))
	if err1 != nil || err2 != nil {
		return (err1 != nil) != (err2 != nil)
	}
	return !before.RawEquals(after)
}

func unmarked(v cty.Value) cty.Value {
	v, _ = v.UnmarkDeep()
	return v
}
