package planfile

import (
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// codedDependencies is the encoded form of plan.Dependencies. Most instances belong to changes, and are stored as their
// indexes; others as addresses.
type codedDependencies struct {
	Writes  codedInstances `msgpack:"w"`
	Reads   codedInstances `msgpack:"r"`
	Outputs []string       `msgpack:"o,omitempty"`
	Keeps   []string       `msgpack:"k,omitempty"`
	Found   []codedFound   `msgpack:"f,omitempty"`
}

type codedInstances struct {
	Changes []int32  `msgpack:"c,omitempty"`
	Others  []string `msgpack:"a,omitempty"`
}

type codedFound struct {
	Addr   string `msgpack:"a"`
	Stored []byte `msgpack:"d"`
}

func encodeDependencies(p *plan.Plan) *codedDependencies {
	r := p.Dependencies
	if r == nil {
		return nil
	}
	index := make(map[addr.Instance]int32, len(p.Changes))
	for i, c := range p.Changes {
		index[c.Addr] = int32(i)
	}
	instances := func(list []addr.Instance) (out codedInstances) {
		for _, a := range list {
			if i, ok := index[a]; ok {
				out.Changes = append(out.Changes, i)
			} else {
				out.Others = append(out.Others, a.String())
			}
		}
		return out
	}
	out := &codedDependencies{Writes: instances(r.Writes), Reads: instances(r.Reads), Outputs: r.Outputs}
	for _, k := range r.Keeps {
		out.Keeps = append(out.Keeps, k.Resource.Absolute(k.Module.Unkeyed()).String())
	}
	for _, f := range r.Found {
		out.Found = append(out.Found, codedFound{f.Addr.String(), f.Stored[:]})
	}
	return out
}

// dependencies decodes the plan's Dependencies after the changes.
func (d *decoder) dependencies(p *plan.Plan, c *codedDependencies) *plan.Dependencies {
	if c == nil {
		return nil
	}
	instances := func(c codedInstances) (out []addr.Instance) {
		for _, i := range c.Changes {
			if i < 0 || int(i) >= len(p.Changes) {
				d.fail(errReference)
				return nil
			}
			out = append(out, p.Changes[i].Addr)
		}
		for _, text := range c.Others {
			out = append(out, d.instance(text))
		}
		return addr.SortedInstances(out)
	}
	out := &plan.Dependencies{Writes: instances(c.Writes), Reads: instances(c.Reads), Outputs: c.Outputs}
	for _, k := range c.Keeps {
		out.Keeps = append(out.Keeps, d.instance(k).Config())
	}
	for _, f := range c.Found {
		if len(f.Stored) != len(state.Digest{}) {
			d.fail(errReference)
			return nil
		}
		out.Found = append(out.Found, plan.Found{Addr: d.instance(f.Addr), Stored: state.Digest(f.Stored)})
	}
	return out
}
