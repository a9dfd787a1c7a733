package serving

import (
	"context"
	"time"

	"github.com/millipede-iac/millipede/cmd/adapters"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/seal"
)

// works is what all runs of the service are carried out with.
type works = adapters.Shared

// openWorks connects, or starts the embedded default in the directory. slots is how many operations the embedded worker
// carries out at a time at most. The caller calls Close when no run is left.
func (s *serving) openWorks(ctx context.Context, dir string, key *seal.Key, slots int) (*works, error) {
	return adapters.OpenShared(ctx, adapters.SharedOptions{
		Dir: dir, Seal: keyWrapper{key}, Name: "millipede-service", Connector: s.Connector, Slots: slots,
		Environ: s.serviceEnviron(), Done: s.numbers.done(),
	})
}

// awayFor is how long a phase waits for a NATS server that is away before it goes on, and fails.
const awayFor = time.Minute

// phaseWorks are the works for one phase of a run.
type phaseWorks struct {
	*works
	stopping context.Context //nolint:containedctx // of the phase; that of Connect ends when it is left
}

// Connect implements estate.Connector. A server that is started again is waited for.
func (p phaseWorks) Connect(ctx context.Context, o estate.ConnectOptions) (estate.Connection, diag.List) {
	p.awaitServer(p.stopping)
	return p.works.Connect(ctx, o)
}

// awaitServer returns when the server is connected, ctx ends, or the server is away for too long.
func (p phaseWorks) awaitServer(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, awayFor)
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for p.Conn.Connected() == 0 {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}
