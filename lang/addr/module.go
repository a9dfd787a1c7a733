// Package addr defines the addresses of objects in configurations and states: modules, resources, instances,
// providers, named values, references.
//
// Addresses are small comparable values: they are map keys, and two of them identify the same object exactly if
// they are ==. The package parses and prints them; it does not know whether the objects exist.
package addr

import (
	"strconv"
	"strings"
)

// Key is the key of one instance of a repeated object. The zero value is NoKey.
type Key struct {
	kind byte // 0 none, 'i' number, 's' string, '*' unknown
	n    int
	s    string
}

// NoKey is the key of the single instance of an object that does not repeat.
var NoKey = Key{}

// WildcardKey stands for all the instances whose keys are not known yet, in partially expanded addresses.
var WildcardKey = Key{kind: '*'}

// IntKey returns the key of an instance of an object with count.
func IntKey(n int) Key { return Key{kind: 'i', n: n} }

// StringKey returns the key of an instance of an object with for_each.
func StringKey(s string) Key { return Key{kind: 's', s: s} }

// Int returns the number of a count key.
func (k Key) Int() (int, bool) { return k.n, k.kind == 'i' }

// Str returns the string of a for_each key.
func (k Key) Str() (string, bool) { return k.s, k.kind == 's' }

// String returns the key in brackets as in an address: "", [0], ["name"], [*].
func (k Key) String() string {
	var buffer [32]byte
	return string(k.append(buffer[:0]))
}

func (k Key) append(b []byte) []byte {
	switch k.kind {
	case 'i':
		return append(strconv.AppendInt(append(b, '['), int64(k.n), 10), ']')
	case 's':
		return append(append(append(b, '['), quote(k.s)...), ']')
	case '*':
		return append(b, "[*]"...)
	default:
		return b
	}
}

// Less orders keys as OpenTofu lists them: none, then numbers by value, then strings.
func (k Key) Less(o Key) bool {
	if k.kind != o.kind {
		return k.rank() < o.rank()
	}
	if k.kind == 'i' {
		return k.n < o.n
	}
	return k.s < o.s
}

func (k Key) rank() int {
	switch k.kind {
	case 0:
		return 0
	case 'i':
		return 1
	case 's':
		return 2
	default:
		return 3
	}
}

// quote writes s as an HCL quoted string.
func quote(s string) string {
	var b strings.Builder
	b.Grow(len(s) + 2)
	b.WriteByte('"')
	for i, r := range s {
		switch r {
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case '\t':
			b.WriteString(`\t`)
		case '"':
			b.WriteString(`\"`)
		case '\\':
			b.WriteString(`\\`)
		case '$', '%':
			b.WriteRune(r)
			if i+1 < len(s) && s[i+1] == '{' {
				b.WriteRune(r)
			}
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// Module is the path of a module in the static tree: the names of the module calls from the root, joined by
// dots. The zero value is the root module.
type Module string

// RootModule is the root of the static tree.
const RootModule Module = ""

// ModuleOf returns the module at a path of call names.
func ModuleOf(path ...string) Module { return Module(strings.Join(path, ".")) }

// Path returns the names of the calls from the root.
func (m Module) Path() []string {
	if m == "" {
		return nil
	}
	return strings.Split(string(m), ".")
}

// Child returns the module that is called by this name in m.
func (m Module) Child(name string) Module {
	if m == "" {
		return Module(name)
	}
	return m + "." + Module(name)
}

// Parent returns the module that holds the call of m, and the call's name. The root has none ("", "").
func (m Module) Parent() (Module, string) {
	i := strings.LastIndexByte(string(m), '.')
	if i < 0 {
		return "", string(m)
	}
	return m[:i], string(m[i+1:])
}

// IsRoot reports whether m is the root module.
func (m Module) IsRoot() bool { return m == "" }

// Contains reports whether o is m or below it.
func (m Module) Contains(o Module) bool {
	return m == "" || m == o || (strings.HasPrefix(string(o), string(m)) && o[len(m)] == '.')
}

// String returns the address as users write it: module.a.module.b; empty for the root.
func (m Module) String() string {
	if m == "" {
		return ""
	}
	return "module." + strings.ReplaceAll(string(m), ".", ".module.")
}

// Unkeyed returns the instance of m in which no step has a key.
func (m Module) Unkeyed() ModuleInstance {
	if m == "" {
		return ModuleInstance{}
	}
	return ModuleInstance{text: m.String()}
}

// ModuleInstance is one instance of a module in the expanded tree. The zero value is the root. It keeps its
// canonical text, so it is comparable and prints without work.
type ModuleInstance struct{ text string }

// RootInstance is the root module's only instance.
var RootInstance = ModuleInstance{}

// Step is one module call in the path from the root.
type Step struct {
	Name string
	Key  Key
}

// ModuleInstanceOf returns the instance at the end of the steps.
func ModuleInstanceOf(steps ...Step) ModuleInstance {
	m := RootInstance
	for _, s := range steps {
		m = m.Child(s.Name, s.Key)
	}
	return m
}

// IsRoot reports whether m is the root module's instance.
func (m ModuleInstance) IsRoot() bool { return m.text == "" }

// String returns the address as users write it; empty for the root.
func (m ModuleInstance) String() string { return m.text }

// Display returns the module instance for a message; the root module in words.
func (m ModuleInstance) Display() string {
	if m.IsRoot() {
		return "the root module"
	}
	return m.text
}

// Child returns the instance with this key of the call of this name in m.
func (m ModuleInstance) Child(name string, key Key) ModuleInstance {
	step := "module." + name + key.String()
	if m.text == "" {
		return ModuleInstance{step}
	}
	return ModuleInstance{m.text + "." + step}
}

// Steps returns the calls from the root.
func (m ModuleInstance) Steps() []Step {
	var out []Step
	rest := m.text
	for rest != "" {
		var s Step
		s, rest = cutStep(rest)
		out = append(out, s)
	}
	return out
}

// cutStep removes the first step from canonical text.
func cutStep(text string) (Step, string) {
	text = strings.TrimPrefix(text, "module.")
	end := strings.IndexAny(text, ".[")
	if end < 0 {
		return Step{Name: text}, ""
	}
	s := Step{Name: text[:end]}
	text = text[end:]
	if text[0] == '[' {
		s.Key, text = cutKey(text)
	}
	return s, strings.TrimPrefix(text, ".")
}

// cutKey removes a bracketed key from canonical text.
func cutKey(text string) (Key, string) {
	if text[1] == '*' {
		return WildcardKey, text[3:]
	}
	if text[1] != '"' {
		end := strings.IndexByte(text, ']')
		n, err := strconv.Atoi(text[1:end])
		if err != nil {
			panic("addr: broken canonical module address")
		}
		return IntKey(n), text[end+1:]
	}
	var b strings.Builder
	for i := 2; ; i++ {
		switch c := text[i]; {
		case c == '"':
			return StringKey(b.String()), text[i+2:]
		case c == '\\':
			i++
			switch text[i] {
			case 'n':
				b.WriteByte('\n')
			case 'r':
				b.WriteByte('\r')
			case 't':
				b.WriteByte('\t')
			default:
				b.WriteByte(text[i])
			}
		case (c == '$' || c == '%') && text[i+1] == c && text[i+2] == '{':
			b.WriteByte(c)
			i++
		default:
			b.WriteByte(c)
		}
	}
}

// Parent returns the instance that holds the call of m, and the call. The root panics.
func (m ModuleInstance) Parent() (ModuleInstance, Step) {
	steps := m.Steps()
	last := steps[len(steps)-1]
	return ModuleInstanceOf(steps[:len(steps)-1]...), last
}

// Module returns the static module that m is an instance of.
func (m ModuleInstance) Module() Module {
	if m.text == "" {
		return RootModule
	}
	if strings.IndexByte(m.text, '[') < 0 {
		return Module(strings.ReplaceAll(strings.TrimPrefix(m.text, "module."), ".module.", "."))
	}
	steps := m.Steps()
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = s.Name
	}
	return ModuleOf(names...)
}

// Contains reports whether o is m or below it.
func (m ModuleInstance) Contains(o ModuleInstance) bool {
	return m.text == "" || m.text == o.text || (strings.HasPrefix(o.text, m.text) && o.text[len(m.text)] == '.')
}

// Less orders instances as OpenTofu lists them: by depth, the root first, then step by step.
func (m ModuleInstance) Less(o ModuleInstance) bool {
	if m == o {
		return false
	}
	a, b := m.Steps(), o.Steps()
	if len(a) != len(b) {
		return len(a) < len(b)
	}
	for i := range a {
		if a[i].Name != b[i].Name {
			return a[i].Name < b[i].Name
		}
		if a[i].Key != b[i].Key {
			return a[i].Key.Less(b[i].Key)
		}
	}
	return false
}
