package hub

import (
	"context"
	"slices"
	"sync"

	"github.com/millipede-iac/millipede/internal/bug"
	"github.com/millipede-iac/millipede/wire"
)

// orphans has the functions that decide about orphaned permits.
type orphans struct {
	mu      sync.Mutex // guards decides
	set     bool       // the transport asks this one
	decides []*wire.Orphan
}

func (o *orphans) add(fn wire.Orphan, listen func(wire.Orphan)) (remove func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.set {
		o.set = true
		listen(o.decide)
	}
	entry := &fn
	o.decides = append(o.decides, entry)
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if i := slices.Index(o.decides, entry); i >= 0 {
			o.decides = slices.Delete(o.decides, i, i+1)
		}
	}
}

// decide implements wire.Orphan. The transport calls it, so a panic of one of the functions must not get there: then
// the permit stays held.
func (o *orphans) decide(ctx context.Context, limit string, r wire.PermitRequest) (free bool) {
	o.mu.Lock()
	all := slices.Clone(o.decides)
	o.mu.Unlock()
	for _, fn := range slices.Backward(all) { // who was added last knows best, and at once
		_ = bug.Catch(func() error { free = (*fn)(ctx, limit, r); return nil })
		if free {
			return true
		}
	}
	return false
}
