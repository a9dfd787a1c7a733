package addr

// Named is a named value or another object within a module that expressions can refer to. The implementations are
// comparable structs of this package: Variable, Local, Output, ModuleCall, ModuleOutput, Resource, ResourceRef,
// CountAttr, ForEachAttr, PathAttr, EngineAttr, Self, Check, and, for vertices, ProviderConfig.
type Named interface {
	String() string
	named()
}

// Variable is var.NAME.
type Variable struct{ Name string }

// Local is local.NAME.
type Local struct{ Name string }

// Output is the output NAME of a module (in vertices; expressions use ModuleOutput).
type Output struct{ Name string }

// ModuleCall is module.NAME: all the instances of the call.
type ModuleCall struct{ Name string }

// ModuleCallInstance is module.NAME[KEY].
type ModuleCallInstance struct {
	Name string
	Key  Key
}

// ModuleOutput is module.NAME[KEY].OUTPUT.
type ModuleOutput struct {
	Call   ModuleCallInstance
	Output string
}

// ResourceRef is one instance of a resource, TYPE.NAME[KEY], relative to its module.
type ResourceRef struct {
	Resource Resource
	Key      Key
}

// CountAttr is count.NAME; ForEachAttr each.NAME; PathAttr path.NAME; EngineAttr terraform.NAME or tofu.NAME.
type (
	CountAttr   struct{ Name string }
	ForEachAttr struct{ Name string }
	PathAttr    struct{ Name string }
	EngineAttr  struct{ Prefix, Name string }
)

// Self is self, in blocks that have it.
type Self struct{}

// Check is a check block.
type Check struct{ Name string }

func (v Variable) String() string           { return "var." + v.Name }
func (l Local) String() string              { return "local." + l.Name }
func (o Output) String() string             { return "output." + o.Name }
func (m ModuleCall) String() string         { return "module." + m.Name }
func (m ModuleCallInstance) String() string { return "module." + m.Name + m.Key.String() }
func (m ModuleOutput) String() string       { return m.Call.String() + "." + m.Output }
func (r ResourceRef) String() string        { return r.Resource.String() + r.Key.String() }
func (c CountAttr) String() string          { return "count." + c.Name }
func (e ForEachAttr) String() string        { return "each." + e.Name }
func (p PathAttr) String() string           { return "path." + p.Name }
func (e EngineAttr) String() string         { return e.Prefix + "." + e.Name }
func (Self) String() string                 { return "self" }
func (c Check) String() string              { return "check." + c.Name }

func (Variable) named()           {}
func (Local) named()              {}
func (Output) named()             {}
func (ModuleCall) named()         {}
func (ModuleCallInstance) named() {}
func (ModuleOutput) named()       {}
func (Resource) named()           {}
func (ResourceRef) named()        {}
func (CountAttr) named()          {}
func (ForEachAttr) named()        {}
func (PathAttr) named()           {}
func (EngineAttr) named()         {}
func (Self) named()               {}
func (Check) named()              {}
func (ProviderConfig) named()     {}
