package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// failingKeys returns an error for each key until a certain time.
type failingKeys struct {
	keys
	until time.Time
	err   error
}

func (k failingKeys) Open(ctx context.Context, pool, run string) (*wire.Sealer, error) {
	if time.Now().Before(k.until) {
		return nil, k.err
	}
	return k.keys.Open(ctx, pool, run)
}

// If a worker lost its connection before it had fetched the key for the environment of an operation, the operation
// failed, and the run ended with an error, although the operation had not begun.
func TestAnEnvironmentIsAwaitedWhileNATSIsAway(t *testing.T) {
	for what, c := range map[string]struct {
		err  error
		away time.Duration
		want error
	}{
		"a server that restarts":    {wire.ErrDisconnected, time.Minute, nil},
		"an election":               {wire.ErrUnanswered, time.Minute, nil},
		"a worker that has started": {wire.ErrNoKey, keyWait / 2, nil},
		"a key that does not come":  {wire.ErrNoKey, time.Hour, wire.ErrNoKey},
		"what is not permitted":     {wire.ErrDenied, time.Hour, wire.ErrDenied},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, func(o *Options) {
					o.Keys = failingKeys{o.Keys.(keys), time.Now().Add(c.away), c.err}
				})
				e, err := wire.Packer{Run: "r", Sealer: b.sealer, Blobs: b.bus, Rand: rand.Reader}.PutVariables(t.Context(), "eu",
					wire.Variables{Entries: []string{"A=1"}})
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				v, err := New(b.opts).openEnvironment(t.Context(), "eu", e)
				if !errors.Is(err, c.want) || c.want == nil && (err != nil || len(v.Entries) != 1) {
					t.Errorf("%+v, %v", v, err)
				}
				if took := time.Since(began); c.want != nil && took > 2*keyWait {
					t.Errorf("getting the environment took %s", took)
				}
			})
		})
	}
}

// The key of an environment is in the process that has begun the operation. If that died, and a worker that had just
// started got the task, the operation counted as failed, and its run with it, although nothing had been done.
func TestAnOperationWithoutTheKeyOfItsEnvironmentCountsAsNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(o *Options) {
			o.Keys = failingKeys{o.Keys.(keys), time.Now().Add(time.Hour), wire.ErrNoKey}
		})
		e, err := wire.Packer{Run: "r", Sealer: b.sealer, Blobs: b.bus, Rand: rand.Reader}.PutVariables(t.Context(), "eu",
			wire.Variables{Entries: []string{"A=1"}})
		if err != nil {
			t.Fatal(err)
		}
		r := New(b.opts).operate(t.Context(), wire.TaskRef{Pool: "eu", Run: "r"}, &wire.Task{Address: "a.b", Environment: e},
			func(string) {})
		why := wire.DiagsFromWire(r.Diagnostics)
		if !r.NotStarted || r.Doubt != "" || why.HasErrors() || len(why) != 1 {
			t.Errorf("the result is %+v, %v", r, why)
		}
	})
}
