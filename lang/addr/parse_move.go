package addr

import (
	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/lang/diag"
)

// ParseMoveEndpoint parses one side of a moved block.
func ParseMoveEndpoint(trav hcl.Traversal) (*MoveEndpoint, diag.List) {
	steps, rest, diags := modulePrefix(trav)
	if diags.HasErrors() {
		return nil, diags
	}
	e := &MoveEndpoint{Steps: steps, IsModule: len(rest) == 0, Range: trav.SourceRange()}
	if e.IsModule {
		return e, diags
	}
	var more diag.List
	e.Resource, e.Key, more = resourceInstance(rest)
	if more.HasErrors() {
		return nil, diags.Append(more)
	}
	return e, diags
}

// ParseRemoveTarget parses the from of a removed block.
func ParseRemoveTarget(trav hcl.Traversal) (*RemoveTarget, diag.List) {
	module, r, isModule, diags := parseStatic(trav)
	if diags.HasErrors() {
		return nil, diags
	}
	t := &RemoveTarget{Module: module, IsModule: isModule, Resource: r, Range: trav.SourceRange()}
	if isModule {
		return t, diags
	}
	switch r.Mode {
	case Data:
		return nil, diags.Append(diag.Errors("Data source address is not allowed",
			"Nothing is destroyed when a data source goes, so a removed block has nothing to say about one. Delete "+
				"its data block, that is enough.", &t.Range))
	case Ephemeral:
		return nil, diags.Append(diag.Errors("Ephemeral resource address is not allowed",
			"Nothing of an ephemeral resource is stored, so a removed block has nothing to say about one. Delete its "+
				"block, that is enough.", &t.Range))
	}
	return t, diags
}

// ParseConfigResource parses the address of a resource block: no step of it has a key.
func ParseConfigResource(trav hcl.Traversal) (ConfigResource, diag.List) {
	module, r, isModule, diags := parseStatic(trav)
	if isModule && !diags.HasErrors() {
		diags = diag.Errors("Module address is not allowed", "A resource or data block has to be named here, and "+
			"this is a module.", trav.SourceRange().Ptr())
	}
	return r.In(module), diags
}

// ParseModule parses the address of a module in the static tree: no step of it has a key.
func ParseModule(trav hcl.Traversal) (Module, diag.List) {
	module, _, isModule, diags := parseStatic(trav)
	if !isModule && !diags.HasErrors() {
		diags = diag.Errors("Module address expected", "A module has to be named here, and this is something else.",
			trav.SourceRange().Ptr())
	}
	return module, diags
}

// parseStatic parses an address in the static tree, of a module or of a resource.
func parseStatic(trav hcl.Traversal) (module Module, r Resource, isModule bool, diags diag.List) {
	steps, rest, diags := modulePrefix(trav)
	if diags.HasErrors() {
		return module, r, false, diags
	}
	for i, s := range steps {
		if s.Key != NoKey { // no step before this one has a key, so each took two places
			return module, r, false, diags.Append(diag.Errors("Module instance address with keys is not allowed",
				"The block covers every instance of a module: leave out the key.", trav[2*i+2].SourceRange().Ptr()))
		}
		module = module.Child(s.Name)
	}
	if len(rest) == 0 {
		return module, r, true, diags
	}
	r, rest, more := resourceName(rest)
	diags = diags.Append(more)
	if diags.HasErrors() {
		return module, r, false, diags
	}
	switch len(rest) {
	case 0:
	case 1:
		diags = diags.Append(diag.Errors("Resource instance address with keys is not allowed",
			"The block covers every instance of a resource: leave out the key.", rest[0].SourceRange().Ptr()))
	default:
		diags = diags.Append(extraAddress(rest))
	}
	return module, r, false, diags
}

// String returns the endpoint as users write it.
func (e *MoveEndpoint) String() string {
	m := ModuleInstanceOf(e.Steps...)
	if e.IsModule {
		return m.String()
	}
	return Instance{m, e.Resource, e.Key}.String()
}

// String returns the target as users write it.
func (t *RemoveTarget) String() string {
	if t.IsModule {
		return t.Module.String()
	}
	return t.Resource.In(t.Module).String()
}

// ModuleFrom returns the module that t names or that contains the resource t names. t is relative to in.
func (t *RemoveTarget) ModuleFrom(in Module) Module {
	for _, name := range t.Module.Path() {
		in = in.Child(name)
	}
	return in
}
