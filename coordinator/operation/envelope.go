package operation

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"

	"github.com/millipede-iac/millipede/wire"
)

// envelope seals what a run persists on the way, with the run's own key, which it shares with the workers of a pool
// before the pool's first task and with those that appear later. It implements coordinator.Envelope.
type envelope struct {
	ring   *wire.Keyring
	run    string
	packer wire.Packer
	// incoming is where the large results of a pool are.
	incoming func(pool string) wire.Blobs
	live     func(ctx context.Context) ([]wire.Worker, error)

	mu     sync.Mutex // guards shared
	shared map[string]bool
}

// envelope returns the envelope of a run: a new key when the run begins, the one in the register when it is resumed. A run that
// has none, because it died before it made one or because the transport lost it, gets another one: what was sealed with the
// old one cannot be read any more then, which the run finds out by itself.
func (s *Session) envelope(ctx context.Context, run string, create bool) (*envelope, error) {
	get := s.Keyring.Open
	if create {
		get = s.Keyring.Create
	}
	sealer, err := get(ctx, run)
	if errors.Is(err, wire.ErrNoKey) {
		sealer, err = s.Keyring.Create(ctx, run)
	}
	if err != nil {
		return nil, err
	}
	return &envelope{
		ring: s.Keyring, run: run, live: s.Transport.Workers, shared: map[string]bool{},
		packer:   wire.Packer{Run: run, Sealer: sealer, Blobs: s.Transport, Rand: rand.Reader},
		incoming: s.Transport.PoolBlobs,
	}, nil
}

// Wrap implements coordinator.Envelope for tasks.
func (e *envelope) Wrap(ctx context.Context, ref wire.TaskRef, data []byte) ([]byte, error) {
	if err := e.share(ctx); err != nil {
		return nil, err
	}
	return e.packer.Pack(ctx, wire.TaskSubject(ref), data)
}

// Unwrap implements coordinator.Envelope for results.
func (e *envelope) Unwrap(ctx context.Context, ref wire.TaskRef, data []byte) ([]byte, error) {
	packer := e.packer
	packer.Incoming = e.incoming(ref.Pool)
	return packer.Unpack(ctx, wire.ResultSubject(ref), data)
}

// share gives the run's key to every live worker that does not have it.
func (e *envelope) share(ctx context.Context) error {
	workers, err := e.live(ctx)
	if err != nil {
		return err
	}
	for _, w := range workers {
		if w.PublicKey == "" {
			continue
		}
		e.mu.Lock()
		done := e.shared[w.PublicKey]
		e.mu.Unlock()
		if done {
			continue
		}
		if err := e.ring.Share(ctx, e.run, w.PublicKey); err != nil {
			return err
		}
		e.mu.Lock()
		e.shared[w.PublicKey] = true
		e.mu.Unlock()
	}
	return nil
}

// keepSharing gives the key to workers as they appear, until ctx ends.
func (e *envelope) keepSharing(ctx context.Context, watch func(context.Context, func(wire.Heartbeat)) error) error {
	return watch(ctx, func(h wire.Heartbeat) {
		if h.PublicKey == "" {
			return
		}
		e.mu.Lock()
		done := e.shared[h.PublicKey]
		e.mu.Unlock()
		if done || e.ring.Share(ctx, e.run, h.PublicKey) != nil {
			return // a failure is tried again at the next heartbeat
		}
		e.mu.Lock()
		e.shared[h.PublicKey] = true
		e.mu.Unlock()
	})
}
