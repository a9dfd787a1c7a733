package addr

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/lang/diag"
)

// ParseReference returns the object to which an absolute traversal of an expression refers, whether or not it
// exists. On errors the reference is nil.
func ParseReference(trav hcl.Traversal) (*Reference, diag.List) {
	rootRange := trav[0].SourceRange()
	switch root := trav.RootName(); root {
	case "var":
		return attrReference(trav, func(name string) Named { return Variable{name} })
	case "local":
		return attrReference(trav, func(name string) Named { return Local{name} })
	case "count":
		return attrReference(trav, func(name string) Named { return CountAttr{name} })
	case "each":
		return attrReference(trav, func(name string) Named { return ForEachAttr{name} })
	case "path":
		return attrReference(trav, func(name string) Named { return PathAttr{name} })
	case "terraform", "tofu":
		return attrReference(trav, func(name string) Named { return EngineAttr{root, name} })
	case "self":
		return &Reference{Subject: Self{}, Range: rootRange, Remaining: remaining(trav[1:])}, nil
	case "module":
		return moduleReference(trav)
	case "data":
		return resourceReference(Data, "a data source type", trav)
	case "ephemeral":
		return resourceReference(Ephemeral, "an ephemeral resource type", trav)
	case "list":
		return resourceReference(List, "a resource type", trav)
	case "action":
		return resourceReference(Action, "an action type", trav)
	case "resource":
		return resourceReference(Managed, "a resource type", trav)
	case "template", "lazy", "arg":
		return nil, diag.Errors("Reserved symbol name", fmt.Sprintf(
			"The name %q is kept free for later versions of the language. Where it is the resource type of a "+
				"provider, write resource.%s instead.",
			root, root), &rootRange)
	default:
		return typeReference(Managed, "a resource type", rootRange, trav)
	}
}

// ParseTestReference is ParseReference in the scope of test assertions, which also contains the outputs and checks
// of the root module.
func ParseTestReference(trav hcl.Traversal) (*Reference, diag.List) {
	switch trav.RootName() {
	case "output":
		return attrReference(trav, func(name string) Named { return Output{name} })
	case "check":
		return attrReference(trav, func(name string) Named { return Check{name} })
	default:
		return ParseReference(trav)
	}
}

// ParseActionReference is ParseReference in the config block of an action, where caller is the object that triggers
// it, as self is in other blocks.
func ParseActionReference(trav hcl.Traversal) (*Reference, diag.List) {
	rng := trav[0].SourceRange()
	switch trav.RootName() {
	case "caller":
		return &Reference{Subject: Self{}, Range: rng, Remaining: remaining(trav[1:])}, nil
	case "self":
		return nil, diag.Errors(`Invalid "self" reference`, `There is no "self" in an action, because it is not an `+
			`object. The object that triggers it is "caller".`, &rng)
	}
	return ParseReference(trav)
}

// attrReference parses ROOT.NAME.
func attrReference(trav hcl.Traversal, subject func(name string) Named) (*Reference, diag.List) {
	rootRange := trav[0].SourceRange()
	if len(trav) < 2 {
		return nil, invalidReference(fmt.Sprintf(
			"%q is not a value by itself; add a dot and the name of one of its attributes.", trav.RootName()), rootRange)
	}
	attr, ok := trav[1].(hcl.TraverseAttr)
	if !ok {
		return nil, invalidReference(fmt.Sprintf(
			"%q has attributes only; what follows it has to be a dot with a name.", trav.RootName()),
			trav[1].SourceRange())
	}
	return &Reference{
		Subject:   subject(attr.Name),
		Range:     hcl.RangeBetween(rootRange, attr.SrcRange),
		Remaining: remaining(trav[2:]),
	}, nil
}

// resourceReference parses data.TYPE.NAME and similar references.
func resourceReference(mode Mode, what string, trav hcl.Traversal) (*Reference, diag.List) {
	if len(trav) < 3 {
		return nil, invalidReference(fmt.Sprintf(
			"Two names have to follow %q, each after a dot: %s, then the name given in the configuration.",
			trav.RootName(), what), trav.SourceRange())
	}
	return typeReference(mode, what, trav[0].SourceRange(), trav[1:])
}

// typeReference parses TYPE.NAME[KEY]. start is the beginning of the whole reference.
func typeReference(mode Mode, what string, start hcl.Range, trav hcl.Traversal) (*Reference, diag.List) {
	if len(trav) < 2 {
		return nil, invalidReference(
			"The name of a resource has to follow its type, after a dot.", trav.SourceRange())
	}
	r := Resource{Mode: mode}
	var ok bool
	if r.Type, ok = stepName(trav[0]); !ok {
		return nil, invalidReference(what+" has to follow, after a dot.", trav[0].SourceRange())
	}
	attr, ok := trav[1].(hcl.TraverseAttr)
	if !ok {
		return nil, invalidReference(fmt.Sprintf("A name, after a dot, has to follow %s.", what), trav[1].SourceRange())
	}
	r.Name = attr.Name
	ref := &Reference{Subject: r, Range: hcl.RangeBetween(start, attr.SrcRange)}
	rest := trav[2:]
	if len(rest) == 0 {
		return ref, nil
	}
	inst := ResourceRef{Resource: r}
	if idx, ok := rest[0].(hcl.TraverseIndex); ok {
		key, err := ParseKey(idx.Key)
		if err != nil {
			return nil, invalidIndex("a resource", err, idx)
		}
		inst.Key = key
		ref.Range = hcl.RangeBetween(ref.Range, idx.SrcRange)
		rest = rest[1:]
	}
	ref.Subject, ref.Remaining = inst, remaining(rest)
	return ref, nil
}

// moduleReference parses module.NAME[KEY].OUTPUT.
func moduleReference(trav hcl.Traversal) (*Reference, diag.List) {
	ref, diags := attrReference(trav, func(name string) Named { return ModuleCall{name} })
	if diags.HasErrors() || len(ref.Remaining) == 0 {
		return ref, diags
	}
	inst := ModuleCallInstance{Name: ref.Subject.(ModuleCall).Name}
	rest := ref.Remaining
	if idx, ok := rest[0].(hcl.TraverseIndex); ok {
		key, err := ParseKey(idx.Key)
		if err != nil {
			return nil, invalidIndex("a module", err, idx)
		}
		inst.Key = key
		rest = rest[1:]
		if len(rest) == 0 {
			return &Reference{Subject: inst, Range: hcl.RangeBetween(ref.Range, idx.SrcRange)}, nil
		}
	}
	attr, ok := rest[0].(hcl.TraverseAttr)
	if !ok {
		return nil, invalidReference("Only an output's name can follow an instance of a module.", rest[0].SourceRange())
	}
	return &Reference{
		Subject:   ModuleOutput{inst, attr.Name},
		Range:     hcl.RangeBetween(ref.Range, attr.SrcRange),
		Remaining: remaining(rest[1:]),
	}, nil
}

func remaining(trav hcl.Traversal) hcl.Traversal {
	if len(trav) == 0 {
		return nil
	}
	return trav
}

func invalidReference(detail string, subject hcl.Range) diag.List {
	return diag.Errors("Invalid reference", detail, &subject)
}

func invalidIndex(of string, err error, idx hcl.TraverseIndex) diag.List {
	return diag.Errors("Invalid index key", fmt.Sprintf("This cannot be the key of an instance of %s: %s.", of, err),
		&idx.SrcRange)
}
