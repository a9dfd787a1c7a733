package operation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/internal/bug"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/wire"
)

// Environment is the environment of an operation's plugins and provisioners, on any worker. It is sent sealed, once to
// each pool that the operation uses; see docs/format/wire.md. A nil Environment means the workers' own. Make one with
// NewEnvironment for each Session, and close it when the session has ended.
type Environment struct {
	variables wire.Variables

	turn chan struct{} // contains a token while the fields below are used
	id   string        // names the keys, as a run does; empty until the first send
	keys *envelope
	sent map[string]*wire.Environment // by pool

	transport *hub.Hub
	ring      *wire.Keyring
	end       context.CancelFunc // ends the sharing of keys
	sharing   sync.WaitGroup
}

// NewEnvironment returns an environment. With whole, plugins get only these variables, and none of their worker's
// own.
func NewEnvironment(variables environ.Variables, whole bool) *Environment {
	return &Environment{
		variables: wire.Variables{Whole: whole, Entries: variables.Settled()},
		turn:      make(chan struct{}, 1), sent: map[string]*wire.Environment{},
	}
}

// in returns the reference to the environment for tasks of a pool. It sends the variables with the first task for a
// pool.
func (e *Environment) in(ctx context.Context, s *Session, pool string) (*wire.Environment, error) {
	if e == nil {
		return nil, nil
	}
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-e.turn }()
	if sent := e.sent[pool]; sent != nil {
		return sent, nil
	}
	if e.keys == nil {
		e.begin(ctx, s)
	}
	sealer, err := e.keys.key(ctx, pool, true)
	if err != nil {
		return nil, err
	}
	sent, err := e.keys.packer(pool, sealer).PutVariables(ctx, pool, e.variables)
	if err != nil {
		return nil, fmt.Errorf("sending the environment to the pool %s: %w", pool, err)
	}
	e.sent[pool] = sent
	return sent, nil
}

// begin names the environment, and starts to share its keys with workers that appear.
func (e *Environment) begin(ctx context.Context, s *Session) {
	e.id, e.transport, e.ring = s.NewID(), s.Hub, s.Keyring
	e.keys = s.envelope(e.id, true)
	// A worker that only accepts its own environment refuses the tasks, and needs no keys.
	e.keys.vouched = func(h wire.Heartbeat) bool { return !h.OwnEnvironment && s.Rules.Vouches(h) }
	sharing, end := context.WithCancel(context.WithoutCancel(ctx))
	e.end = end
	e.sharing.Go(func() {
		// A worker without the key reports that with each of its tasks.
		_ = bug.Catch(func() error { return e.keys.keepSharing(sharing, e.transport.SubscribeHeartbeats) })
	})
}

// purgeTimeout bounds the time for removing sent messages.
const purgeTimeout = 10 * time.Second

// Close removes the sent keys and variables. Tasks that no worker has started by then can no longer start.
func (e *Environment) Close(ctx context.Context) error {
	if e == nil || e.keys == nil {
		return nil
	}
	e.end()
	e.sharing.Wait()
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), purgeTimeout, errors.New("the message store "+
		"did not answer"))
	defer cancel()
	err := e.purge(ctx)
	e.ring.Forget(e.id)
	if err != nil {
		return fmt.Errorf("removing the environment of the operation: %w", err)
	}
	return nil
}

// purge removes the messages of the operation. Usually these are only the keys, because short variables are in the
// tasks.
func (e *Environment) purge(ctx context.Context) error {
	pools := e.keys.names()
	for _, pool := range pools {
		if sent := e.sent[pool]; sent == nil || sent.Blob != "" { // nil: a part of it may have been sent
			return e.transport.PurgeRun(ctx, e.id, pools)
		}
	}
	for _, pool := range pools {
		if err := e.ring.Purge(ctx, pool, e.id); err != nil {
			return err
		}
	}
	return nil
}
