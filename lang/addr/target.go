package addr

import "slices"

// AsInstance returns the instance of a target of kind TargetResource (the instance without a key) or
// TargetInstance. Other kinds give the zero value.
func (t Target) AsInstance() Instance {
	switch t.Kind {
	case TargetResource, TargetInstance:
		return Instance{t.Instance, t.Resource, t.Key}
	default:
		return Instance{}
	}
}

// String returns the address as users write it.
func (t Target) String() string {
	switch t.Kind {
	case TargetModule:
		return t.Module.String()
	case TargetModuleInstance:
		return t.Instance.String()
	case TargetConfigResource:
		return t.Resource.In(t.Module).String()
	default:
		return t.AsInstance().String()
	}
}

// Contains reports whether the instance is the target or in it. As in OpenTofu, a module target whose last step
// has no key means every instance of that call, and a resource target without a key every instance of the
// resource; a step without a key anywhere else means the instance without a key.
func (t Target) Contains(i Instance) bool {
	switch t.Kind {
	case TargetModule:
		return t.Module.Contains(i.Module.Module())
	case TargetModuleInstance:
		return t.ContainsModule(i.Module)
	case TargetConfigResource:
		return i.Resource == t.Resource && i.Module.Module() == t.Module
	case TargetResource:
		return i.Resource == t.Resource && i.Module == t.Instance
	default:
		return i.Resource == t.Resource && i.Module == t.Instance && i.Key == t.Key
	}
}

// ContainsModule reports whether all that is in the module instance, and below it, is in the target.
func (t Target) ContainsModule(m ModuleInstance) bool {
	switch t.Kind {
	case TargetModule:
		return t.Module.Contains(m.Module())
	case TargetModuleInstance:
		if t.Instance.Contains(m) {
			return true
		}
		// The last step without a key matches any key.
		n := len(t.Instance.text)
		return n > 0 && t.Instance.text[n-1] != ']' &&
			len(m.text) > n && m.text[:n] == t.Instance.text && m.text[n] == '['
	default:
		return false
	}
}

// MayContain reports whether some instance of the resource could be in the target, before the instances are known.
func (t Target) MayContain(r ConfigResource) bool {
	switch t.Kind {
	case TargetModule:
		return t.Module.Contains(r.Module)
	case TargetModuleInstance:
		return t.Instance.Module().Contains(r.Module)
	case TargetConfigResource:
		return r.Resource == t.Resource && r.Module == t.Module
	default:
		return r.Resource == t.Resource && r.Module == t.Instance.Module()
	}
}

// TouchesResource reports whether any instance of a resource block can be in the target.
func (t Target) TouchesResource(r ConfigResource) bool {
	switch t.Kind {
	case TargetModule:
		return t.Module.Contains(r.Module)
	case TargetModuleInstance:
		return t.Instance.Module().Contains(r.Module)
	case TargetConfigResource:
		return t.Resource.In(t.Module) == r
	default:
		return t.Resource == r.Resource && t.Instance.Module() == r.Module
	}
}

// CoversResource reports whether all possible instances of a resource block are in the target.
func (t Target) CoversResource(r ConfigResource) bool {
	if !t.TouchesResource(r) || t.Kind == TargetInstance {
		return false
	}
	if t.Kind == TargetModule || t.Kind == TargetConfigResource {
		return true
	}
	return !slices.ContainsFunc(t.Instance.Steps(), func(s Step) bool { return s.Key != NoKey })
}

// ConfigResource returns the resource block of a target without keys; the zero value for other targets.
func (t Target) ConfigResource() ConfigResource {
	switch t.Kind {
	case TargetConfigResource:
		return t.Resource.In(t.Module)
	case TargetResource, TargetInstance:
		return t.Resource.In(t.Instance.Module())
	default:
		return ConfigResource{}
	}
}
