package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/wire"
)

const (
	// keptEnvironments is how many environments of operations the worker keeps in memory.
	keptEnvironments = 64
	// keyWait is how long an operation waits for the key of its environment: a worker that has just started gets it after
	// its first heartbeat.
	keyWait = 5 * time.Second
)

// environments has the environments that operations have brought.
type environments struct {
	mu   sync.Mutex // guards the fields below
	open map[wire.Environment]*wire.Variables
}

func (e *environments) get(of wire.Environment) *wire.Variables {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.open[of]
}

func (e *environments) keep(of wire.Environment, v *wire.Variables) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open == nil || len(e.open) >= keptEnvironments { // they are opened again where they are still in use
		e.open = map[wire.Environment]*wire.Variables{}
	}
	e.open[of] = v
}

// environment returns the variables that a task brings; nil for a task that runs in the worker's own environment. again
// says that another attempt at the task may succeed: the process that has sent it is gone, with the key of the
// environment, and whoever continues the run has another one.
func (w *Worker) environment(ctx context.Context, pool string, t *wire.Task) (v *wire.Variables, why diag.List,
	again bool) {
	if t.Environment == nil {
		return nil, nil, false
	}
	if w.OwnEnvironment {
		return nil, diag.Errors("Environment refused", fmt.Sprintf(
			"Worker %s of the pool %q starts plugins in its own environment alone (-environment=own), and %s comes "+
				"with variables of its own. "+
				"Take the attribute environment out of millipede.hcl, or start the worker without that option.", w.ID,
			pool, t.Address), nil), false
	}
	if v := w.environments.get(*t.Environment); v != nil {
		return v, nil, false
	}
	v, err := w.openEnvironment(ctx, pool, t.Environment)
	if errors.Is(err, wire.ErrNoKey) {
		return nil, diag.List{diag.New(diag.Warning, "Operation not started", fmt.Sprintf("Worker %s cannot read the "+
			"environment that %s is to run in, because the process that has its key is gone.", w.ID, t.Address), nil)}, true
	}
	if err != nil {
		return nil, diag.Errors("Environment cannot be read", fmt.Sprintf(
			"Worker %s cannot read the environment that %s is to run in: %s. Nothing was done.", w.ID, t.Address, err),
			nil), false
	}
	w.environments.keep(*t.Environment, v)
	return v, nil, false
}

// openEnvironment fetches an environment. While NATS is away it waits, because the operation has done nothing yet, and
// its result could not be published either; for the key it waits up to keyWait.
func (w *Worker) openEnvironment(ctx context.Context, pool string, e *wire.Environment) (*wire.Variables, error) {
	var retry backoff
	var keyless time.Time // when the key was missing first
	for {
		v, err := w.fetchEnvironment(ctx, pool, e)
		switch {
		case errors.Is(err, wire.ErrDisconnected), errors.Is(err, wire.ErrUnanswered):
			keyless = time.Time{}
		case !errors.Is(err, wire.ErrNoKey):
			return v, err
		case keyless.IsZero():
			keyless = w.Now()
		case w.Now().Sub(keyless) >= keyWait:
			return nil, err
		}
		if !w.again(ctx, &retry) {
			return nil, err
		}
	}
}

func (w *Worker) fetchEnvironment(ctx context.Context, pool string, e *wire.Environment) (*wire.Variables, error) {
	sealer, err := w.keys.open(ctx, pool, e.Run)
	if err != nil {
		return nil, err
	}
	return wire.Packer{Run: e.Run, Sealer: sealer, Blobs: w.Blobs, Rand: w.Rand}.GetVariables(ctx, pool, e)
}
