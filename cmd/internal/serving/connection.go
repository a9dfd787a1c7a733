package serving

import (
	"context"
	"time"

	"github.com/millipede-iac/millipede/cmd/internal/adapters"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/seal"
)

// sharedConnection is the connection to NATS, with the embedded worker, that all runs of the service share.
type sharedConnection = adapters.Shared

// openConnection connects to NATS, or starts the embedded server and worker in the directory. slots is the number of
// operations that the embedded worker carries out at a time at most. The caller closes the connection when no run uses
// it any more.
func (s *serving) openConnection(ctx context.Context, dir string, key *seal.Key, slots int) (*sharedConnection, error) {
	return adapters.OpenShared(ctx, adapters.SharedOptions{
		Dir: dir, Seal: keyWrapper{key}, Name: "millipede-service", Connector: s.Connector, Slots: slots,
		Environ: s.runEnviron(), Done: s.instruments.countTask(), Serves: s.apart(),
	})
}

// awayFor is how long a phase waits for an unreachable NATS server. Then the phase begins anyway, and fails.
const awayFor = time.Minute

// phaseConnector connects one phase of a run to the shared connection.
type phaseConnector struct {
	*sharedConnection
	stopping context.Context //nolint:containedctx // of the phase; that of Connect ends when it is left
}

// Connect implements estate.Connector. It waits for a server that restarts.
func (p phaseConnector) Connect(ctx context.Context, o estate.ConnectOptions) (estate.Connection, diag.List) {
	p.awaitServer(p.stopping)
	return p.sharedConnection.Connect(ctx, o)
}

// awaitServer returns when the server is connected, ctx has ended, or awayFor has passed.
func (p phaseConnector) awaitServer(ctx context.Context) {
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
