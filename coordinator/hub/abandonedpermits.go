package hub

import (
	"context"
	"slices"
	"sync"

	"github.com/millipede-iac/millipede/internal/bug"
	"github.com/millipede-iac/millipede/wire"
)

// abandonedPermits has the functions that decide about abandoned permits.
type abandonedPermits struct {
	mu      sync.Mutex // guards decides
	set     bool       // the transport asks this one
	decides []*wire.AbandonedFunc
}

func (p *abandonedPermits) add(fn wire.AbandonedFunc, listen func(wire.AbandonedFunc)) (remove func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.set {
		p.set = true
		listen(p.decide)
	}
	entry := &fn
	p.decides = append(p.decides, entry)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if i := slices.Index(p.decides, entry); i >= 0 {
			p.decides = slices.Delete(p.decides, i, i+1)
		}
	}
}

// decide implements wire.AbandonedFunc. The transport calls it, so a panic of one of the functions must not get there:
// then the permit stays held.
func (p *abandonedPermits) decide(ctx context.Context, limit string, r wire.PermitRequest) (free bool) {
	p.mu.Lock()
	all := slices.Clone(p.decides)
	p.mu.Unlock()
	for _, fn := range slices.Backward(all) { // who was added last knows best, and at once
		_ = bug.Catch(func() error { free = (*fn)(ctx, limit, r); return nil })
		if free {
			return true
		}
	}
	return false
}
