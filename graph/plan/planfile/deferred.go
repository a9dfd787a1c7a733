package planfile

import (
	"errors"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
)

// codedDeferred is something that the plan has left to a later round. Its address, unlike any other in a plan, has
// wildcards, so it is coded step by step. Change has the address with NoKey in place of the wildcards.
type codedDeferred struct {
	Steps    []codedStep  `msgpack:"s"` // of the module, then the resource with its key
	Reason   string       `msgpack:"r"`
	Detail   string       `msgpack:"d,omitempty"`
	On       []string     `msgpack:"o,omitempty"`
	Change   *codedChange `msgpack:"c,omitempty"`
	Changing bool         `msgpack:"cp,omitempty"` // Change has another previous address
}

// codedStep is a step of an address. Kind is 0 for no key, i for a number, s for a text, and * for a wildcard.
type codedStep struct {
	Name string `msgpack:"n"`
	Kind byte   `msgpack:"k,omitempty"`
	Int  int    `msgpack:"i,omitempty"`
	Text string `msgpack:"t,omitempty"`
}

var errKey = errors.New("it has an invalid key of an instance")

func (e *encoder) deferred(d *plan.Deferred) codedDeferred {
	out := codedDeferred{Reason: string(d.Reason), Detail: d.Detail, On: d.On}
	for _, s := range d.Addr.Module.Steps() {
		out.Steps = append(out.Steps, stepOf(s.Name, s.Key))
	}
	out.Steps = append(out.Steps, stepOf(d.Addr.Resource.String(), d.Addr.Key))
	if d.Change != nil {
		c := *d.Change
		out.Changing = c.Moved()
		c.Addr = plain(c.Addr)
		if !out.Changing {
			c.Previous = c.Addr
		}
		coded := e.change(&c)
		out.Change = &coded
	}
	return out
}

// plain returns an address with NoKey in place of its wildcards.
func plain(a addr.Instance) addr.Instance {
	m := addr.RootInstance
	for _, s := range a.Module.Steps() {
		m = m.Child(s.Name, unwild(s.Key))
	}
	return a.Resource.Absolute(m).Instance(unwild(a.Key))
}

func unwild(k addr.Key) addr.Key {
	if k == addr.WildcardKey {
		return addr.NoKey
	}
	return k
}

func stepOf(name string, k addr.Key) codedStep {
	if k == addr.WildcardKey {
		return codedStep{Name: name, Kind: '*'}
	}
	if n, ok := k.Int(); ok {
		return codedStep{Name: name, Kind: 'i', Int: n}
	}
	if s, ok := k.Str(); ok {
		return codedStep{Name: name, Kind: 's', Text: s}
	}
	return codedStep{Name: name}
}

func (d *decoder) key(s codedStep) addr.Key {
	switch s.Kind {
	case 0:
		return addr.NoKey
	case 'i':
		return addr.IntKey(s.Int)
	case 's':
		return addr.StringKey(s.Text)
	case '*':
		return addr.WildcardKey
	default:
		d.fail(errKey)
		return addr.NoKey
	}
}

func (d *decoder) deferred(c *codedDeferred) *plan.Deferred {
	out := &plan.Deferred{Reason: plan.DeferReason(c.Reason), Detail: c.Detail, On: c.On}
	if len(c.Steps) == 0 {
		d.fail(errReference)
		return out
	}
	m, last := addr.RootInstance, len(c.Steps)-1
	for _, s := range c.Steps[:last] {
		if one, diags := addr.ParseModuleInstance("module." + s.Name); diags.HasErrors() || len(one.Steps()) != 1 {
			d.fail(errReference)
			return out
		}
		m = m.Child(s.Name, d.key(s))
	}
	r, diags := addr.ParseAbsResource(c.Steps[last].Name)
	if d.fail(diags.Err()); diags.HasErrors() {
		return out
	}
	out.Addr = r.Resource.Absolute(m).Instance(d.key(c.Steps[last]))
	if c.Change != nil {
		out.Change = d.change(c.Change)
		out.Change.Addr = out.Addr
		if !c.Changing {
			out.Change.Previous = out.Addr
		}
	}
	return out
}
