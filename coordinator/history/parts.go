package history

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
)

// maxParts is the maximum number of attributes that are listed.
const maxParts = 40

// Parts describes what a plan does to the object of each visible vertex: the action, why, and the names of the
// changed attributes. It never contains values, because some are secret only by their schema.
func Parts(p *plan.Plan) map[int]string {
	parts := map[int]string{}
	for v, x := range p.Graph.Vertices {
		if p.Hidden(v) {
			continue
		}
		if x.Kind == plan.InvokeAction {
			parts[v] = invocationPart(p.Invocations[x.Invocation()])
			continue
		}
		c := p.Changes[x.Change]
		var b strings.Builder
		fmt.Fprintf(&b, "action: %s\n", c.Action)
		if c.Reason != plan.NoReason {
			fmt.Fprintf(&b, "reason: %s\n", c.Reason)
		}
		if c.Moved() {
			fmt.Fprintf(&b, "moved from: %s\n", c.Previous)
		}
		if c.Importing != nil {
			b.WriteString("imported\n")
		}
		if forced := attributesOf(c.ReplacePaths); len(forced) > 0 {
			fmt.Fprintf(&b, "replaced because of: %s\n", strings.Join(forced, ", "))
		}
		changed, unknown := changedAttributes(c)
		list := func(title string, names []string) {
			if len(names) == 0 {
				return
			}
			rest := ""
			if len(names) > maxParts {
				rest = fmt.Sprintf(" and %d more", len(names)-maxParts)
				names = names[:maxParts]
			}
			fmt.Fprintf(&b, "%s: %s%s\n", title, strings.Join(names, ", "), rest)
		}
		list("set or changed", changed)
		list("known after apply", unknown)
		parts[v] = b.String()
	}
	return parts
}

// invocationPart describes an invocation of an action.
func invocationPart(i *plan.Invocation) string {
	if i.Trigger == nil {
		return "action: invoke\ninvoked by: the option -invoke\n"
	}
	return fmt.Sprintf("action: invoke\ninvoked by: %s of %s\n", i.Trigger.Event, i.Trigger.Resource)
}

// attributesOf returns the attributes at the beginning of paths, without duplicates.
func attributesOf(paths []cty.Path) []string {
	var names []string
	for _, path := range paths {
		if len(path) == 0 {
			continue
		}
		if step, ok := path[0].(cty.GetAttrStep); ok {
			names = append(names, step.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// changedAttributes returns the names of the attributes that a change sets to another value, and of those whose new
// values are unknown.
func changedAttributes(c *plan.Change) (changed, unknown []string) {
	before, after := attributes(c.Before), attributes(c.After)
	for name, a := range after {
		b, had := before[name]
		switch {
		case !a.IsKnown():
			unknown = append(unknown, name)
		case !had && a.IsNull(), had && b.RawEquals(a):
		default:
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	slices.Sort(unknown)
	return changed, unknown
}

func attributes(v cty.Value) map[string]cty.Value {
	if v == cty.NilVal {
		return nil
	}
	v, _ = v.UnmarkDeep()
	if v.IsNull() || !v.IsKnown() || !v.Type().IsObjectType() {
		return nil
	}
	return v.AsValueMap()
}
