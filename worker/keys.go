package worker

import (
	"context"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// keyMemory is how long the key of a run is kept after its last use. After that it is opened again when it is needed.
// keySweep is how often unused keys are looked for.
const (
	keyMemory = 2 * time.Minute
	keySweep  = time.Minute
)

// runKeys opens the keys of runs, and forgets those that are no longer used: a key that is not in memory cannot be
// stolen from it.
type runKeys struct {
	keys Keys
	now  func() time.Time

	mu    sync.Mutex // guards the fields below
	used  map[string]time.Time
	swept time.Time // when unused keys were last looked for
}

func newRunKeys(keys Keys, now func() time.Time) *runKeys {
	return &runKeys{keys: keys, now: now, used: map[string]time.Time{}, swept: now()}
}

// open returns the key of a run for a pool, or wire.ErrNoKey.
func (k *runKeys) open(ctx context.Context, pool, run string) (*wire.Sealer, error) {
	sealer, err := k.keys.Open(ctx, pool, run)
	if err == nil {
		k.use(run)
	}
	return sealer, err
}

func (k *runKeys) use(run string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	k.used[run] = now
	if now.Sub(k.swept) < keySweep {
		return
	}
	k.swept = now
	for run, at := range k.used {
		if now.Sub(at) >= keyMemory {
			delete(k.used, run)
			k.keys.Forget(run)
		}
	}
}
