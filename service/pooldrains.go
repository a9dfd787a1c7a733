package service

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/turn"
)

// poolPrefix begins the keys of the halts of pools in the store.
const poolPrefix = "pool:"

// maxPoolName bounds the name of a pool, in bytes.
const maxPoolName = 200

// Drain stops the dispatch of operations to a pool until Lift is called. Operations that run there continue;
// runs that need the pool wait. The pool need not have workers. A new drain replaces the previous one.
func (s *Pools) Drain(ctx context.Context, a *rights.Actor, pool, reason string) error {
	err := s.audit.Change(a, "halt.drain", poolPrefix+pool, func(tx *store.Tx) error {
		if err := a.MayDrainPools(); err != nil {
			return err
		}
		if pool == "" || len(pool) > maxPoolName || strings.ContainsFunc(pool, func(r rune) bool { return r <= ' ' }) {
			return tables.Invalid("The name of a pool has between 1 and %d bytes, without spaces", maxPoolName)
		}
		h := &record.Halt{On: poolPrefix + pool, By: a.Name(), At: s.now().UTC()}
		var err error
		if h.Reason, err = haltReason(reason); err != nil {
			return err
		}
		return tables.Halts.Put(tx, h)
	})
	if err == nil {
		s.applyDrains(ctx)
	}
	return err
}

// Lift ends the drain of a pool. The error is ErrNotFound if there is none.
func (s *Pools) Lift(ctx context.Context, a *rights.Actor, pool string) error {
	err := s.audit.Change(a, "halt.lift", poolPrefix+pool, func(tx *store.Tx) error {
		if err := a.MayDrainPools(); err != nil {
			return err
		}
		if _, err := tables.Halts.Get(tx, poolPrefix+pool); err != nil {
			return tables.NotFound("the pool is not drained")
		}
		return tables.Halts.Delete(tx, poolPrefix+pool)
	})
	if err == nil {
		s.applyDrains(ctx)
	}
	return err
}

// Drained returns the drains of pools by the name of the pool. Every user may see them, like the workers.
func (s *Pools) Drained(a *rights.Actor) (map[string]*record.Halt, error) {
	if a.User == nil {
		return nil, tables.Forbidden("only users may list pools")
	}
	return s.drains()
}

func (s *Pools) drains() (map[string]*record.Halt, error) {
	out := map[string]*record.Halt{}
	err := s.store.View(func(tx *store.Tx) error {
		for h, err := range tables.Halts.All(tx) {
			if err != nil {
				return err
			}
			if pool, ok := strings.CutPrefix(h.On, poolPrefix); ok {
				out[pool] = h
			}
		}
		return nil
	})
	return out, tables.Translated(err)
}

// applyDrains tells the engine which pools are drained, according to the store. Calls take turns, so that the last
// one applies the latest change.
func (s *Pools) applyDrains(ctx context.Context) {
	if s.capacity == nil {
		return
	}
	s.draining.Lock()
	defer s.draining.Unlock()
	all, err := s.drains()
	if err == nil {
		pools := make([]string, 0, len(all))
		for pool := range all {
			pools = append(pools, pool)
		}
		slices.Sort(pools)
		err = s.capacity.Drain(ctx, pools)
	}
	if err != nil {
		s.log.Warn("a change of the drained pools takes effect with a delay", "error", err)
	}
}

// drainedText describes a drain for a run that waits for the pool.
func drainedText(pool string, h *record.Halt) string {
	return fmt.Sprintf("the pool %s, which was drained by %s: %s", pool, h.By, h.Reason)
}

// sayDrained completes the wait for a worker of a pool that is drained.
func (s *Pools) sayDrained(w *turn.Wait) error {
	drains, err := s.drains()
	if h := drains[w.On]; h != nil {
		w.Text = "a question about a provider waits for " + drainedText(w.On, h)
	}
	return err
}
