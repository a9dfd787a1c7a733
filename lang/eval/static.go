package eval

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
)

// Static describes the declarations of a module, without values. Methods are called concurrently.
type Static interface {
	// Module returns the declaring module, for messages.
	Module() addr.Module
	// Declares reports whether there is such a Variable, Local, ModuleCall or Output.
	Declares(addr.Named) bool
	// Names returns the names of all objects of the same kind as like, in any order, for suggestions.
	Names(like addr.Named) []string
	// Resource returns the static properties of a resource. ok is false if it is not declared.
	Resource(addr.Resource) (r StaticResource, ok bool)
}

// StaticResource has the properties of a resource that are known before any value.
type StaticResource struct {
	// HasCount and HasForEach are set if the block has that argument.
	HasCount, HasForEach bool
	// Block is the schema of the resource's type. If it is nil (unknown), attributes are not checked.
	Block *schema.Block
	// Check is the check block in which the resource is declared, or empty.
	Check string
}

// CheckReferences reports references to undeclared objects, to attributes that do not exist, and those with a
// missing or superfluous instance key. inCheck is the check block that contains the references, or empty.
func CheckReferences(refs []Reference, s Static, inCheck string) diag.List {
	var diags diag.List
	for _, r := range refs {
		switch subject := r.Subject.(type) {
		case addr.Variable:
			if !s.Declares(subject) {
				hint := didYouMean(subject.Name, s.Names(subject))
				if hint == "" {
					hint = fmt.Sprintf(" A block variable %q {} would declare it.", subject.Name)
				}
				diags = append(diags, undeclared(r, "Reference to undeclared input variable",
					fmt.Sprintf("There is no input variable %q in this module.%s", subject.Name, hint)))
			}
		case addr.Local:
			if !s.Declares(subject) {
				diags = append(diags, undeclared(r, "Reference to undeclared local value",
					fmt.Sprintf("There is no local value %q in this module.%s", subject.Name,
						didYouMean(subject.Name, s.Names(subject)))))
			}
		case addr.Output:
			if !s.Declares(subject) {
				diags = append(diags, undeclared(r, "Reference to undeclared output value",
					fmt.Sprintf("There is no output value %q in this module.%s", subject.Name,
						didYouMean(subject.Name, s.Names(subject)))))
			}
		case addr.ModuleCall:
			diags = diags.Append(checkModule(r, subject, s))
		case addr.ModuleCallInstance:
			diags = diags.Append(checkModule(r, addr.ModuleCall{Name: subject.Name}, s))
		case addr.ModuleOutput:
			diags = diags.Append(checkModule(r, addr.ModuleCall{Name: subject.Call.Name}, s))
		case addr.Resource:
			diags = append(diags, checkResource(r, subject, addr.NoKey, s, inCheck)...)
		case addr.ResourceRef:
			diags = append(diags, checkResource(r, subject.Resource, subject.Key, s, inCheck)...)
		}
	}
	return diags
}

// CheckOrder is CheckReferences for elements of depends_on: they are the same for all instances of a block, so
// count and each are not available.
func CheckOrder(r Reference, s Static) diag.List {
	switch r.Subject.(type) {
	case addr.CountAttr:
		return diag.List{noCount(r.Range)}
	case addr.ForEachAttr:
		return diag.List{noEach(r.Range)}
	}
	return CheckReferences([]Reference{r}, s, "")
}

func undeclared(r Reference, summary, detail string) *diag.Diagnostic {
	return diag.New(diag.Error, summary, detail, &r.Range)
}

func checkModule(r Reference, call addr.ModuleCall, s Static) *diag.Diagnostic {
	if s.Declares(call) {
		return nil
	}
	return undeclared(r, "Reference to undeclared module",
		fmt.Sprintf("There is no module call %q in %s.%s", call.Name, moduleText(s.Module()),
			didYouMean(call.Name, s.Names(call))))
}

func moduleText(m addr.Module) string {
	if m.IsRoot() {
		return "the root module"
	}
	return m.String()
}

func checkResource(r Reference, resource addr.Resource, key addr.Key, s Static, inCheck string) diag.List {
	if resource.Mode == addr.Action {
		return diag.List{undeclared(r, "Invalid reference to an action", "An action has no value. It can be named only in "+
			"the actions argument of an action_trigger block.")}
	}
	known, ok := s.Resource(resource)
	if !ok {
		return diag.List{undeclared(r, "Reference to undeclared resource", fmt.Sprintf("There is no %s resource %q "+
			"%q in %s.%s",
			resource.Mode, resource.Type, resource.Name, moduleText(s.Module()), otherMode(resource, s)))}
	}
	var diags diag.List
	switch {
	case key != addr.NoKey && !known.HasCount && !known.HasForEach:
		diags = append(diags, diag.New(diag.Error, "Unexpected resource instance key", fmt.Sprintf(
			"%s has neither count nor for_each, so there is just one of it. Leave out the key in brackets.", resource),
			&r.Range))
	case key == addr.NoKey && len(r.Remaining) > 0 && known.HasCount:
		diags = append(diags, missingKey(r, resource, "count", "count.index"))
	case key == addr.NoKey && len(r.Remaining) > 0 && known.HasForEach:
		diags = append(diags, missingKey(r, resource, "for_each", "each.key"))
	}
	if known.Check != "" && known.Check != inCheck {
		diags = append(diags, diag.New(diag.Error, "Reference to scoped resource", fmt.Sprintf(
			"%s is declared inside of a check block, and can be referred to only there.", resource), &r.Range))
	}
	if len(r.Remaining) == 0 || known.Block == nil {
		return diags
	}
	if step, ok := r.Remaining[0].(hcl.TraverseAttr); ok && step.Name == "count" {
		return append(diags, diag.New(diag.Error, "Invalid resource count attribute", fmt.Sprintf(
			"Resources have had no attribute \"count\" since version 0.12. The number of instances is length(%s).",
			resource), &r.Range))
	}
	return append(diags, CheckTraversal(r.Remaining, known.Block)...)
}

func missingKey(r Reference, resource addr.Resource, argument, index string) *diag.Diagnostic {
	return diag.New(diag.Error, "Missing resource instance key", fmt.Sprintf(
		"%s has %s set, so an attribute can be taken only from one of its instances. In a block that repeats "+
			"likewise, that is:\n    %s[%s]",
		resource, argument, resource, index), &r.Range)
}

// otherMode suggests the resource of the same name in another mode: the prefix data. or ephemeral. may be missing.
func otherMode(r addr.Resource, s Static) string {
	for _, mode := range []addr.Mode{addr.Managed, addr.Data, addr.Ephemeral} {
		other := r
		other.Mode = mode
		if _, ok := s.Resource(other); mode != r.Mode && ok {
			return fmt.Sprintf("\n\nDid you mean the %s resource %s?", mode, other)
		}
	}
	return ""
}

// CheckTraversal checks the steps after a reference against a schema, as far as that is possible without values.
func CheckTraversal(steps hcl.Traversal, block *schema.Block) diag.List {
	if len(steps) == 0 {
		return nil
	}
	attr, ok := steps[0].(hcl.TraverseAttr)
	if !ok {
		return diag.List{badStep(steps[0])}
	}
	if a := block.Attributes[attr.Name]; a != nil {
		_, diags := steps[1:].TraverseRel(cty.UnknownVal(a.ImpliedType()))
		return diag.List(nil).Append(diags)
	}
	if nb := block.Blocks[attr.Name]; nb != nil {
		return checkBlockTraversal(attr.Name, steps[1:], nb)
	}
	names := make([]string, 0, len(block.Attributes)+len(block.Blocks))
	for name := range block.Attributes {
		names = append(names, name)
	}
	for name := range block.Blocks {
		names = append(names, name)
	}
	return diag.Errors("Unsupported attribute", fmt.Sprintf(
		"There is no argument, attribute or nested block %q in this object.%s", attr.Name,
		didYouMean(attr.Name, names)), &attr.SrcRange)
}

// badStep returns the error for an index in place of an attribute.
func badStep(step hcl.Traverser) *diag.Diagnostic {
	index, ok := step.(hcl.TraverseIndex)
	if !ok {
		return diag.New(diag.Error, "Invalid operation", "Only an attribute can follow here, after a dot.",
			step.SourceRange().Ptr())
	}
	detail := "Only an attribute can follow here, after a dot."
	if k := index.Key; k.Type() == cty.String && k.IsKnown() && !k.IsNull() && hclsyntax.ValidIdentifier(k.AsString()) {
		detail += fmt.Sprintf(" Did you mean .%s?", k.AsString())
	}
	return diag.New(diag.Error, "Invalid index operation", detail, &index.SrcRange)
}

func checkBlockTraversal(name string, steps hcl.Traversal, nb *schema.NestedBlock) diag.List {
	switch {
	case nb.Nesting == schema.NestingSingle || nb.Nesting == schema.NestingGroup:
		return CheckTraversal(steps, &nb.Block)
	case len(steps) == 0:
		return nil
	case nb.Nesting == schema.NestingSet:
		return diag.Errors("Cannot index a set value", fmt.Sprintf(
			"The blocks %q are a set, whose elements have no keys. A for expression with an if clause finds those "+
				"with certain properties.", name),
			steps[0].SourceRange().Ptr())
	case nb.Nesting == schema.NestingMap:
		return CheckTraversal(steps[1:], &nb.Block)
	}
	if _, ok := steps[0].(hcl.TraverseIndex); !ok {
		return diag.Errors("Invalid operation", fmt.Sprintf(
			"The blocks %q are a list, so a number in brackets has to follow: .%[1]s[0].", name),
			steps[0].SourceRange().Ptr())
	}
	return CheckTraversal(steps[1:], &nb.Block)
}
