package view

import (
	"fmt"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/view/document"
)

// comment returns the comment above a change: the object, the action, and its reason.
func (t *planText) comment(c *plan.Change, drift bool) string {
	k := t.Ink
	name := c.Addr.String()
	if c.Deposed != state.CurrentObject {
		name += fmt.Sprintf(" (deposed object %s)", c.Deposed)
	}
	bold := func(s string) string { return k.on(boldCode) + s + k.off() }
	loud := func(s string) string { return k.on(boldCode+redCode) + s + k.off() }
	title := func(text string) string { return k.on(boldCode) + "  # " + name + k.off() + text }
	var b strings.Builder
	moved := c.Moved()
	switch c.Action {
	case plan.Create:
		b.WriteString(title(" will be created"))
	case plan.Read:
		b.WriteString(title(" will be read during apply") + t.reason(c))
	case plan.Update:
		if drift {
			b.WriteString(title(" has changed"))
		} else {
			b.WriteString(title(" will be updated in-place"))
		}
	case plan.DeleteThenCreate, plan.CreateThenDelete, plan.ForgetThenCreate:
		switch c.Reason {
		case plan.ReplaceBecauseTainted:
			b.WriteString(title(" is tainted, so it must be " + loud("replaced")))
		case plan.ReplaceByRequest:
			b.WriteString(title(" will be " + loud("replaced") + ", as requested"))
		case plan.ReplaceByTriggers:
			b.WriteString(title(" will be " + loud("replaced") + " due to changes in replace_triggered_by"))
		default:
			b.WriteString(title(" must be " + loud("replaced")))
		}
		if c.Action == plan.ForgetThenCreate {
			b.WriteString("; the old object " + bold("is not destroyed") + " (" + bold("lifecycle.destroy = false") +
				")" + t.leftOver(c))
		}
	case plan.Delete:
		if drift {
			b.WriteString(title(" has been deleted"))
		} else {
			b.WriteString(title(" will be " + loud("destroyed")))
		}
		b.WriteString(t.reason(c) + t.leftOver(c))
	case plan.Forget:
		b.WriteString(title(" will be removed from the OpenTofu state " + loud("but will not be destroyed")))
		switch {
		case c.Reason == plan.ForgotBecauseRemembered:
			b.WriteString("\n  # (because " + bold("lifecycle.destroy = false") + " was configured when it was made)")
		case c.SkipDestroy || c.Reason == plan.ForgotBecauseLifecycle:
			b.WriteString("\n  # (because of " + bold("lifecycle.destroy = false") + ")")
		}
		b.WriteString(t.leftOver(c))
	case plan.NoOp:
		if moved {
			b.WriteString(bold("  # "+c.Previous.String()) + " has moved to " + bold(name))
			moved = false
		} else {
			b.WriteString(title(" will be imported"))
			if c.GeneratedConfig != "" {
				b.WriteString("\n  #" + k.off() + " (config will be generated)")
			}
		}
	}
	b.WriteString("\n")
	if moved {
		fmt.Fprintf(&b, "  # %s(moved from %s)\n", k.off(), c.Previous)
	}
	if c.Importing != nil {
		b.WriteString("  # " + k.off() + importText(c.Importing) + "\n")
		if c.Action == plan.DeleteThenCreate || c.Action == plan.CreateThenDelete {
			b.WriteString("  # " + k.off() + k.on(yellowCode) + "Warning: this will destroy the imported resource" +
				k.off() + "\n")
		}
	}
	b.WriteString(k.off())
	return b.String()
}

func importText(i *plan.Importing) string {
	switch {
	case i.ID != "":
		return fmt.Sprintf("(imported from \"%s\")", i.ID)
	case i.Identity != cty.NilVal && i.Identity.IsWhollyKnown() && !i.Identity.IsNull():
		return "imported using resource identity: " + identityText(document.Raw(i.Identity))
	default:
		return "(will be imported first)"
	}
}

// leftOver explains deposed objects.
func (t *planText) leftOver(c *plan.Change) string {
	if c.Deposed == state.CurrentObject {
		return ""
	}
	return "\n  # (left over from a partially-failed replacement of this instance)"
}

// reason returns a line that says why an object is deleted or read.
func (t *planText) reason(c *plan.Change) string {
	var text string
	switch c.Reason {
	case plan.ReadBecauseConfigUnknown:
		text = "config refers to values not yet known"
	case plan.ReadBecauseDependencyPending:
		text = "depends on a resource or a module with changes pending"
	case plan.ReadBecauseCheckNested:
		text = "config will be reloaded to verify a check block"
	case plan.DeleteBecauseNoResourceConfig:
		text = fmt.Sprintf("because %s.%s is not in configuration", c.Addr.Resource.Type, c.Addr.Resource.Name)
	case plan.DeleteBecauseNoMoveTarget:
		text = fmt.Sprintf("because %s was moved to %s, which is not in configuration", c.Previous, c.Addr)
	case plan.DeleteBecauseNoModule:
		text = fmt.Sprintf("because %s is not in configuration", c.Addr.Module)
	case plan.DeleteBecauseWrongRepetition:
		switch _, number := c.Addr.Key.Int(); {
		case number:
			text = "because resource does not use count"
		case c.Addr.Key.String() != "":
			text = "because resource does not use for_each"
		default:
			text = "because resource uses count or for_each"
		}
	case plan.DeleteBecauseCountIndex:
		text = fmt.Sprintf("because index %s is out of range for count", c.Addr.Key)
	case plan.DeleteBecauseEachKey:
		text = fmt.Sprintf("because key %s is not in for_each map", c.Addr.Key)
	case plan.DeleteBecauseEnabledFalse:
		text = "because enabled is false"
	default:
		return ""
	}
	return "\n  # (" + text + ")"
}

// drift writes the changes made outside, and reports whether there were any. If the plan does nothing, they are
// shown only for a refresh-only plan.
func (t *planText) drift(idle bool) bool {
	refreshing := t.plan.Mode == plan.RefreshOnly
	if idle && !refreshing {
		return false
	}
	var texts []string
	for _, c := range t.plan.Drift {
		switch {
		case refreshing:
			if document.Shown(c) || c.Action == plan.Delete {
				texts = append(texts, t.change(c, true))
			}
		case t.relevant(c).any() && t.difference(c, t.relevant(c)).action != plan.NoOp && c.Action != plan.NoOp:
			texts = append(texts, t.change(c, true))
		}
	}
	if len(texts) == 0 {
		return false
	}
	k := t.Ink
	t.b.WriteString("\n" + k.on(boldCode+cyanCode) + "Note:" + k.off() + k.on(boldCode) + " Objects have changed " +
		"outside of OpenTofu\n" + k.off())
	t.line("")
	t.line(t.wrap("The following objects differ from the result of the last apply, which may be the reason for " +
		"changes in this plan:"))
	for _, text := range texts {
		t.line("")
		t.line(text)
	}
	if refreshing {
		t.line(t.wrap("\n\nThis is a refresh-only plan: it does not revert these changes. Applying it records these values " +
			"in the state, and changes no real object."))
	} else {
		// Programs find the end of this section by the first words.
		t.line(t.wrap("\n\nUnless you have made equivalent changes to your configuration, or it ignores these with " +
			"ignore_changes, the plan below may revert them."))
	}
	return true
}

// relevant returns the attributes of an object that something in the plan refers to; all of them in a refresh-only
// plan.
func (t *planText) relevant(c *plan.Change) pathSet {
	if t.plan.Mode == plan.RefreshOnly {
		return everywhere
	}
	if t.referred == nil {
		t.referred = map[addr.Instance][]cty.Path{}
		for _, r := range t.plan.Relevant {
			t.referred[r.Resource] = append(t.referred[r.Resource], r.Attribute)
		}
	}
	return pathSet{paths: t.referred[c.Addr], deep: true}
}
