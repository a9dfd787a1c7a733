package addr

import "strings"

// Mode is the kind of a resource.
type Mode byte

const (
	// Managed resources are created, updated and deleted.
	Managed Mode = 'M'
	// Data resources are only read.
	Data Mode = 'D'
	// Ephemeral resources are opened and closed again, and never stored.
	Ephemeral Mode = 'E'
	// List resources are the results of list blocks, in queries.
	List Mode = 'L'
	// Action is the mode of action blocks: what providers do without leaving an object. They are never in a state.
	Action Mode = 'A'
)

// String returns the word in the JSON forms: managed, data, ephemeral, list, action.
func (m Mode) String() string {
	switch m {
	case Managed:
		return "managed"
	case Data:
		return "data"
	case Ephemeral:
		return "ephemeral"
	case List:
		return "list"
	case Action:
		return "action"
	default:
		return "invalid"
	}
}

// Resource is the address of a resource block within its module.
type Resource struct {
	Mode Mode
	Type string
	Name string
}

// String returns type.name, with the prefix data., ephemeral., list. or action. in these modes.
func (r Resource) String() string {
	var buffer [96]byte
	return string(r.append(buffer[:0]))
}

func (r Resource) append(b []byte) []byte {
	switch r.Mode {
	case Data:
		b = append(b, "data."...)
	case Ephemeral:
		b = append(b, "ephemeral."...)
	case List:
		b = append(b, "list."...)
	case Action:
		b = append(b, "action."...)
	}
	return append(append(append(b, r.Type...), '.'), r.Name...)
}

// Less orders managed resources after data and ephemeral ones, as OpenTofu lists them; then by type and name.
func (r Resource) Less(o Resource) bool {
	if r.Mode != o.Mode {
		return r.Mode < o.Mode
	}
	if r.Type != o.Type {
		return r.Type < o.Type
	}
	return r.Name < o.Name
}

// In returns the static address of r in a module.
func (r Resource) In(m Module) ConfigResource { return ConfigResource{m, r} }

// Absolute returns the address of r in a module instance.
func (r Resource) Absolute(m ModuleInstance) AbsResource { return AbsResource{m, r} }

// ImpliedProvider returns the local name of the provider that the type's prefix implies.
func (r Resource) ImpliedProvider() string {
	if i := strings.IndexByte(r.Type, '_'); i > 0 {
		return r.Type[:i]
	}
	return r.Type
}

// ConfigResource is the address of a resource block in the static tree: all its instances in all instances of its
// module.
type ConfigResource struct {
	Module   Module
	Resource Resource
}

func (r ConfigResource) String() string { return join(r.Module.String(), r.Resource.String()) }

// Less orders by module, then as Resource.Less.
func (r ConfigResource) Less(o ConfigResource) bool {
	if r.Module != o.Module {
		return r.Module < o.Module
	}
	return r.Resource.Less(o.Resource)
}

// AbsResource is the address of a resource in one instance of its module: all its instances there.
type AbsResource struct {
	Module   ModuleInstance
	Resource Resource
}

func (r AbsResource) String() string { return join(r.Module.text, r.Resource.String()) }

// Instance returns the address of the instance with this key.
func (r AbsResource) Instance(k Key) Instance { return Instance{r.Module, r.Resource, k} }

// Config returns the static address.
func (r AbsResource) Config() ConfigResource { return ConfigResource{r.Module.Module(), r.Resource} }

// Less orders the root before modules, then as Resource.Less.
func (r AbsResource) Less(o AbsResource) bool {
	if r.Module != o.Module {
		return r.Module.Less(o.Module)
	}
	return r.Resource.Less(o.Resource)
}

// Instance is the absolute address of one instance of a resource: the unit that is planned, applied and stored.
type Instance struct {
	Module   ModuleInstance
	Resource Resource
	Key      Key
}

func (i Instance) String() string {
	var buffer [96]byte // most addresses fit, and take one allocation
	b := buffer[:0]
	if i.Module.text != "" {
		b = append(append(b, i.Module.text...), '.')
	}
	return string(i.Key.append(i.Resource.append(b)))
}

// Abs returns the resource that i is an instance of.
func (i Instance) Abs() AbsResource { return AbsResource{i.Module, i.Resource} }

// Config returns the static address.
func (i Instance) Config() ConfigResource { return ConfigResource{i.Module.Module(), i.Resource} }

// Less orders as AbsResource.Less, then by key.
func (i Instance) Less(o Instance) bool {
	if i.Abs() != o.Abs() {
		return i.Abs().Less(o.Abs())
	}
	return i.Key.Less(o.Key)
}

func join(module, rest string) string {
	if module == "" {
		return rest
	}
	return module + "." + rest
}
