package jet

import (
	"slices"
	"sync"

	"github.com/millipede-iac/millipede/wire"
)

// permitUses has the functions that say what the permits of this connection are held for. The answer to the question
// whether a coordinator is there contains what they say.
type permitUses struct {
	mu  sync.Mutex // guards fns
	fns []*func() []wire.PermitUse
}

// OnPermitUses implements wire.PermitTeller.
func (s *semaphore) OnPermitUses(fn func() []wire.PermitUse) (remove func()) {
	u, entry := &s.uses, &fn
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fns = append(u.fns, entry)
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if i := slices.Index(u.fns, entry); i >= 0 {
			u.fns = slices.Delete(u.fns, i, i+1)
		}
	}
}

// all returns what all permits are held for.
func (u *permitUses) all() (list []wire.PermitUse) {
	u.mu.Lock()
	fns := slices.Clone(u.fns)
	u.mu.Unlock()
	for _, fn := range fns {
		list = append(list, (*fn)()...)
	}
	return list
}
