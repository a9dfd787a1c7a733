package coordinator

import (
	"time"

	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// permitUse is what a permit of the run is held for.
type permitUse struct {
	pool, address string
	since         time.Time
	attempt       wire.AttemptID // empty for a call of the fast lane
	doubt         bool
}

// use notes what permits are held for from now on.
func (x *executor) use(keys []loop.PermitKey, u permitUse) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, k := range keys {
		x.uses[k] = u
	}
}

// useFormer notes what the permits of earlier processes of the run are held for.
func (x *executor) useFormer(past loop.Past) {
	for o := range past.Opens() {
		for _, name := range o.Dispatch.Permits {
			if limit, id, ok := journal.ParsePermit(name); ok {
				x.use([]loop.PermitKey{{Limit: limit, ID: id}}, permitUse{o.Dispatch.Pool, o.Dispatch.Address,
					o.Dispatch.At, wire.AttemptID(o.Dispatch.Attempt), false})
			}
		}
		x.doubt(wire.AttemptID(o.Dispatch.Attempt), o.Doubtful && !o.Over)
	}
}

// useRecorded notes whether the operations of records are in doubt.
func (x *executor) useRecorded(records []loop.Record) {
	for _, r := range records {
		switch r.Kind {
		case loop.Suspected, loop.Concluded, loop.Advanced, loop.Retracted:
		default:
			continue
		}
		for _, e := range r.Events {
			x.doubt(wire.AttemptID(e.Attempt), r.Kind == loop.Suspected && !e.Over)
		}
	}
}

func (x *executor) doubt(attempt wire.AttemptID, yes bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.anyDoubt = x.anyDoubt || yes; attempt == "" || !x.anyDoubt {
		return
	}
	for k, u := range x.uses {
		if u.attempt == attempt && u.doubt != yes {
			u.doubt = yes
			x.uses[k] = u
		}
	}
}

// permitUses says what the permits of the run are held for.
func (x *executor) permitUses() []wire.PermitUse {
	x.mu.Lock()
	defer x.mu.Unlock()
	list := make([]wire.PermitUse, 0, len(x.permits))
	for k := range x.permits {
		u := x.uses[k]
		list = append(list, wire.PermitUse{Limit: k.Limit, ID: k.ID, By: x.Who, Pool: u.pool, Address: u.address,
			Since: u.since, InDoubt: u.doubt})
	}
	return list
}
