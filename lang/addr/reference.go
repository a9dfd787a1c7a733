package addr

import "github.com/hashicorp/hcl/v2"

// Reference is one use of a named object in an expression.
type Reference struct {
	// Subject is the referenced object, as far as the traversal determines it statically: a ResourceRef for
	// aws_x.y[0], a Resource for aws_x.y or aws_x.y[expr], a ModuleOutput, ModuleCallInstance or ModuleCall.
	Subject Named
	// Range covers the part of the traversal that refers to Subject; Remaining is the rest.
	Range     hcl.Range
	Remaining hcl.Traversal
}

// Target is the address of -target, -exclude or -replace: a module instance (including everything in it and below),
// a resource, or an instance. A module target may be static (every instance of the call): then Module is set
// instead of ModuleInstance.
type Target struct {
	// Kind determines which of the fields below are set.
	Kind     TargetKind
	Module   Module         // TargetModule: module.a.module.b without keys (matches every instance)
	Instance ModuleInstance // TargetModuleInstance, TargetResource, TargetInstance: where
	Resource Resource       // TargetResource, TargetInstance, TargetConfigResource
	Key      Key            // TargetInstance
}

// TargetKind is the kind of object to which a target refers.
type TargetKind byte

// The kinds of targets.
const (
	TargetModule         TargetKind = iota + 1 // every instance of a module path
	TargetModuleInstance                       // one module instance, or all of the call when the last step has no key
	TargetConfigResource                       // a resource in every instance of a module path
	TargetResource                             // a resource in one module instance
	TargetInstance                             // one resource instance
)

// MoveEndpoint is one side of a moved block, relative to the module that declares it: a module call (with or
// without key) or a resource (with or without key) below a relative module path.
type MoveEndpoint struct {
	// Steps are the module calls. NoKey is the instance without a key, except at the end of a module endpoint,
	// where it means the whole call if the other side has no key there either.
	Steps []Step
	// IsModule is true if the endpoint is the module at the end of Steps itself.
	IsModule bool
	Resource Resource
	// Key is the resource's key. NoKey means the whole resource if the other side has no key either.
	Key   Key
	Range hcl.Range
}

// RemoveTarget is the from of a removed block: a static module or resource address.
type RemoveTarget struct {
	Module   Module
	IsModule bool
	Resource Resource
	Range    hcl.Range
}
