package operation

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/internal/bug"
	"github.com/millipede-iac/millipede/wire"
)

// envelope seals the messages of a run that the server stores, with a key for each pool that the run uses. It shares
// the key of a pool with the workers of that pool: before the pool's first task, and with those that appear later. It
// implements coordinator.Envelope.
type envelope struct {
	ring *wire.Keyring
	run  string
	// outgoing returns the blob store with what the workers of a pool read.
	outgoing func(pool string) wire.Blobs
	// incoming returns the blob store with the large results of a pool.
	incoming func(pool string) wire.Blobs
	live     func(ctx context.Context) ([]wire.Worker, error)
	// vouched reports whether the operator has confirmed the identity of a worker.
	vouched func(wire.Heartbeat) bool
	fresh   bool // the run is new, so no key of it can be in the register

	mu    sync.Mutex // guards pools
	pools map[string]*poolKey
}

// maxGrants is the most workers of a pool that a run shares its key with: more than any pool has, but a bound for a
// hostile sender that invents a new worker with each heartbeat.
const maxGrants = 4096

// poolKey is the key of one pool.
type poolKey struct {
	making chan struct{} // contains a token while the key is made, found or first shared
	sealer *wire.Sealer  // guarded by the token
	// absent is set if the register cannot have a key: the run is new, and has not tried to make one. The token guards
	// it.
	absent bool

	mu      sync.Mutex      // guards the fields below
	open    bool            // the workers present at the start have the key
	granted map[string]bool // public keys that have it, or will soon
	waiting []string        // public keys that will get it
}

// envelope returns the envelope of a run, which is new or resumed. A key is made for the first task of a pool; a
// resumed run finds its keys in the register. If a key is missing there, because the run was killed before it made one
// or because the transport has lost it, the run makes another one; messages sealed with the old one can then no longer
// be read, which the run detects.
func (s *Session) envelope(run string, fresh bool) *envelope {
	return &envelope{
		ring: s.Keyring, run: run, outgoing: s.Hub.TaskBlobs, incoming: s.Hub.PoolBlobs, live: s.Hub.Workers,
		vouched: s.Rules.Vouches, fresh: fresh, pools: map[string]*poolKey{},
	}
}

func (e *envelope) pool(name string) *poolKey {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.pools[name]
	if k == nil {
		k = &poolKey{making: make(chan struct{}, 1), granted: map[string]bool{}, absent: e.fresh}
		e.pools[name] = k
	}
	return k
}

// key returns the key of a pool. For a task it makes one if there is none, and shares it with the present workers;
// otherwise it returns wire.ErrNoKey.
func (e *envelope) key(ctx context.Context, pool string, task bool) (*wire.Sealer, error) {
	k := e.pool(pool)
	select {
	case k.making <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-k.making }()
	if k.sealer == nil {
		var sealer *wire.Sealer
		err := wire.ErrNoKey
		if !k.absent {
			sealer, err = e.ring.Open(ctx, pool, e.run)
		}
		if task && errors.Is(err, wire.ErrNoKey) {
			k.absent = false // after an error it may be stored nevertheless
			sealer, err = e.create(ctx, pool, k)
		}
		if err != nil {
			return nil, err
		}
		k.sealer = sealer
	}
	k.mu.Lock()
	shared := k.open
	k.mu.Unlock()
	if shared || !task {
		return k.sealer, nil
	}
	return k.sealer, e.share(ctx, pool, k)
}

// create makes the key of a pool, and shares it with the live workers of the pool.
func (e *envelope) create(ctx context.Context, pool string, k *poolKey) (*wire.Sealer, error) {
	workers, err := e.live(ctx)
	if err != nil {
		return nil, err
	}
	var recipients []string
	for _, w := range workers {
		if len(recipients) < wire.MaxRecipients-1 && e.eligible(w.Heartbeat) && w.Pools[0] == pool &&
			k.grant(w.PublicKey) {
			recipients = append(recipients, w.PublicKey)
		}
	}
	sealer, err := e.ring.Create(ctx, pool, e.run, recipients...)
	if err != nil {
		for _, recipient := range recipients {
			k.revoke(recipient)
		}
	}
	return sealer, err
}

// reopen finds the keys of the pools to which an earlier process of the run has dispatched tasks, and shares them
// with workers that have started since: they need them to report the content of their journals.
func (e *envelope) reopen(ctx context.Context, pools []string) error {
	for _, pool := range pools {
		if _, err := e.key(ctx, pool, false); errors.Is(err, wire.ErrNoKey) {
			continue // its first task makes one
		} else if loop.Outage(err) {
			continue // its region may be cut off: the key is found with its first result
		} else if err != nil {
			return err
		}
		if err := e.share(ctx, pool, e.pool(pool)); err != nil && !loop.Outage(err) {
			return err
		}
	}
	return nil
}

// share shares the key of a pool with all its live workers, and from then on with new ones.
func (e *envelope) share(ctx context.Context, pool string, k *poolKey) error {
	workers, err := e.live(ctx)
	if err != nil {
		return err
	}
	for _, w := range workers {
		if !e.eligible(w.Heartbeat) || w.Pools[0] != pool || !k.grant(w.PublicKey) {
			continue
		}
		if err := e.ring.Share(ctx, pool, e.run, w.PublicKey); err != nil {
			k.revoke(w.PublicKey)
			return err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open = true
	return nil
}

// eligible reports whether a worker may get the key of its pool. The subject of its heartbeat proves that it belongs to
// the pool; see docs/format/wire.md.
func (e *envelope) eligible(h wire.Heartbeat) bool {
	return h.PublicKey != "" && len(h.Pools) == 1 && e.vouched(h)
}

// grant records that a recipient gets the key. It returns false if it has the key, or is getting it already.
func (k *poolKey) grant(recipient string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.granted[recipient] || len(k.granted) >= maxGrants {
		return false
	}
	k.granted[recipient] = true
	return true
}

func (k *poolKey) revoke(recipient string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.granted, recipient)
}

func (e *envelope) packer(pool string, sealer *wire.Sealer) wire.Packer {
	return wire.Packer{Run: e.run, Sealer: sealer, Blobs: e.outgoing(pool), Rand: rand.Reader}
}

// Wrap implements coordinator.Envelope for tasks.
func (e *envelope) Wrap(ctx context.Context, ref wire.TaskRef, data []byte) ([]byte, error) {
	sealer, err := e.key(ctx, ref.Pool, true)
	if err != nil {
		return nil, err
	}
	packer := e.packer(ref.Pool, sealer)
	packer.Version = wire.MessageVersion(data)
	return packer.Pack(ctx, wire.TaskSubject(ref), data)
}

// Unwrap implements coordinator.Envelope for results.
func (e *envelope) Unwrap(ctx context.Context, ref wire.TaskRef, data []byte, held *wire.Reservation) ([]byte, error) {
	sealer, err := e.key(ctx, ref.Pool, false)
	if err != nil {
		return nil, err
	}
	packer := e.packer(ref.Pool, sealer)
	packer.Incoming, packer.Held = e.incoming(ref.Pool), held
	return packer.Unpack(ctx, wire.ResultSubject(ref), data)
}

// keepSharing shares keys with workers as they appear, until ctx ends. Heartbeats only queue the requests, and the keys
// of the pools are shared in turn, so that no pool delays the others.
func (e *envelope) keepSharing(ctx context.Context, subscribe func(context.Context, func(wire.Heartbeat)) error) error {
	wake := make(chan struct{}, 1)
	var group errgroup.Group
	group.Go(func() error {
		return subscribe(ctx, func(h wire.Heartbeat) {
			if e.want(h) {
				select {
				case wake <- struct{}{}:
				default:
				}
			}
		})
	})
	group.Go(func() error {
		return bug.Catch(func() error {
			for {
				select {
				case <-wake:
				case <-ctx.Done():
					return nil
				}
				for e.shareNext(ctx) {
				}
			}
		})
	})
	return group.Wait()
}

// want records that a worker needs the key of its pool, and reports whether the run uses that pool.
func (e *envelope) want(h wire.Heartbeat) bool {
	if len(h.Pools) != 1 {
		return false
	}
	e.mu.Lock()
	k := e.pools[h.Pools[0]]
	e.mu.Unlock()
	if k == nil {
		return false
	}
	k.mu.Lock()
	had := !k.open || k.granted[h.PublicKey]
	k.mu.Unlock()
	if had || !e.eligible(h) || !k.grant(h.PublicKey) {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.waiting = append(k.waiting, h.PublicKey)
	return true
}

// shareNext shares one key for each pool with waiting workers. It returns false if there were none.
func (e *envelope) shareNext(ctx context.Context) (any bool) {
	for _, pool := range e.names() {
		k := e.pool(pool)
		k.mu.Lock()
		var recipient string
		if len(k.waiting) > 0 {
			recipient, k.waiting = k.waiting[0], k.waiting[1:]
		}
		k.mu.Unlock()
		if recipient == "" {
			continue
		}
		any = true
		if err := e.ring.Share(ctx, pool, e.run, recipient); err != nil {
			k.revoke(recipient) // it is tried again at the next heartbeat
		}
	}
	return any && ctx.Err() == nil
}

func (e *envelope) names() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Sorted(maps.Keys(e.pools))
}
