package planfile

import "github.com/millipede-iac/millipede/graph/plan"

type codedInvocation struct {
	Addr     string        `msgpack:"a"`
	Provider codedProvider `msgpack:"p"`
	Config   *codedValue   `msgpack:"c"`
	Trigger  *codedTrigger `msgpack:"t,omitempty"`
}

type codedTrigger struct {
	Resource    string `msgpack:"r"`
	Event       string `msgpack:"e"`
	Block       int    `msgpack:"b"`
	Index       int    `msgpack:"i"`
	Conditional bool   `msgpack:"c,omitempty"`
}

func (e *encoder) invocations(list []*plan.Invocation) []codedInvocation {
	var out []codedInvocation
	for _, i := range list {
		c := codedInvocation{Addr: i.Addr.String(), Provider: encodeProvider(i.Provider), Config: e.value(i.Config)}
		if t := i.Trigger; t != nil {
			c.Trigger = &codedTrigger{t.Resource.String(), t.Event, t.Block, t.Index, t.Conditional}
		}
		out = append(out, c)
	}
	return out
}

func (d *decoder) invocations(list []codedInvocation) []*plan.Invocation {
	var out []*plan.Invocation
	for _, c := range list {
		i := &plan.Invocation{Addr: d.instance(c.Addr), Provider: d.provider(c.Provider), Config: d.value(c.Config)}
		if t := c.Trigger; t != nil {
			i.Trigger = &plan.Trigger{Resource: d.instance(t.Resource), Event: t.Event, Block: t.Block, Index: t.Index,
				Conditional: t.Conditional}
		}
		out = append(out, i)
	}
	return out
}
