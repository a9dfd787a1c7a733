package hub

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/millipede-iac/millipede/wire"
)

// Domains returns the name of the message store of each pool that has one of its own. See wire.Regions.
func (h *Hub) Domains(ctx context.Context) (map[string]string, error) {
	r, ok := h.transport.(wire.Regions)
	if !ok {
		return nil, nil
	}
	return r.Domains(ctx)
}

// TaskBlobs returns where to put what the workers of a pool read.
func (h *Hub) TaskBlobs(pool string) wire.Blobs {
	if r, ok := h.transport.(wire.Regions); ok {
		blobs, _ := r.TaskBlobs(pool)
		return blobs
	}
	return h.Blobs
}

// supplied has the packages that are in the stores of pools. Hubs over one connection share it.
type supplied struct {
	mu sync.Mutex // guards done
	// done has a token while nobody supplies a package, and is closed when it is there; by pool and name of the package.
	done map[string]chan struct{}
}

// turn returns the channel of a package for a pool.
func (s *supplied) turn(pool, name string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done == nil {
		s.done = map[string]chan struct{}{}
	}
	key := pool + "\x00" + name
	if s.done[key] == nil {
		s.done[key] = make(chan struct{}, 1)
		s.done[key] <- struct{}{}
	}
	return s.done[key]
}

// Supply copies the package of a provider into the store of a pool that has one of its own, once, for the platforms of
// its workers. Workers of other pools read the packages where they are. A package that nobody has uploaded is left out:
// the worker that needs it reports that.
func (h *Hub) Supply(ctx context.Context, pool string, p wire.Package) error {
	r, ok := h.transport.(wire.Regions)
	if !ok {
		return nil
	}
	to, own := r.TaskBlobs(pool)
	if !own {
		return nil
	}
	workers, err := h.transport.Workers(ctx)
	if err != nil {
		return err
	}
	for _, w := range workers {
		if w.Pools[0] != pool {
			continue
		}
		if err := h.supply(ctx, to, pool, wire.PackageName(p, w.Platform)); err != nil {
			return fmt.Errorf("copying a provider package to the message store of the pool %s: %w", pool, err)
		}
	}
	return nil
}

func (h *Hub) supply(ctx context.Context, to wire.Blobs, pool, name string) error {
	turn := h.packages.turn(pool, name)
	select {
	case _, first := <-turn:
		if !first {
			return nil // it is there
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := h.copyBlob(ctx, to, name)
	if err != nil && !errors.Is(err, wire.ErrNotFound) {
		turn <- struct{}{}
		return err
	}
	close(turn)
	return nil
}

func (h *Hub) copyBlob(ctx context.Context, to wire.Blobs, name string) error {
	sum, err := h.LookupBlob(ctx, name)
	if err != nil {
		return err
	}
	there, err := to.HasBlob(ctx, sum)
	if err != nil {
		return err
	}
	if !there {
		data, err := h.GetBlob(ctx, sum)
		if err != nil {
			return err
		}
		if err := to.PutBlob(ctx, sum, data); err != nil {
			return err
		}
	}
	return to.NameBlob(ctx, name, sum)
}
