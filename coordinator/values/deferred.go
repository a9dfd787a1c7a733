package values

import (
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
)

// Unexpanded returns, of the instances of a static module, those that stand for unknown ones: their addresses have
// addr.WildcardKey for each call whose instances are not known yet. Like Instances, it expands every call on the path.
func (s *Store) Unexpanded(m addr.Module) []addr.ModuleInstance {
	type partial struct {
		addr addr.ModuleInstance
		node *config.Node
	}
	known, partly := []*Module{s.root}, []partial(nil)
	for _, name := range m.Path() {
		var more []*Module
		var next []partial
		for _, parent := range known {
			c := parent.Call(name)
			if c.Expansion.Unknown {
				next = append(next, partial{parent.Addr.Child(name, keyOf(c.Expansion.Mode)), parent.Node.Children[name]})
			}
			for _, k := range c.Expansion.Keys {
				more = append(more, c.children[k])
			}
		}
		for _, p := range partly {
			call := p.node.Module.Calls[name]
			mode := modeOf(call.Count, call.ForEach, call.Enabled)
			next = append(next, partial{p.addr.Child(name, keyOf(mode)), p.node.Children[name]})
		}
		known, partly = more, next
	}
	var out []addr.ModuleInstance
	for _, p := range partly {
		out = append(out, p.addr)
	}
	return out
}

// keyOf returns the key of the instances of a block that are not known.
func keyOf(m Mode) addr.Key {
	if m == Count || m == ForEach {
		return addr.WildcardKey
	}
	return addr.NoKey
}

// UnknownKey returns the key that stands for the instances of a resource block as long as they are unknown.
func (rc *ResourceCode) UnknownKey() addr.Key {
	return keyOf(modeOf(rc.Config.Count, rc.Config.ForEach, rc.Config.Enabled))
}

// MayExist reports whether a module instance belongs to the configuration, or may do so: a call on its path is expanded
// to instances that are not known yet.
func (s *Store) MayExist(m addr.ModuleInstance) (exists, maybe bool) {
	if s.Module(m) != nil {
		return true, false
	}
	if m.IsRoot() {
		return true, false
	}
	at, step := m.Parent()
	parent := s.Module(at)
	if parent == nil {
		_, maybe = s.MayExist(at)
		node := s.Code.Tree.Modules[m.Module()]
		return false, maybe && node != nil
	}
	return false, parent.calls[step.Name] != nil && parent.Call(step.Name).Expansion.Unknown
}
