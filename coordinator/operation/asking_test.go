package operation

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// A worker of another version that took a call made the command fail, although others in its pool could answer.
func TestACallPassesOverWorkersOfAnotherVersion(t *testing.T) {
	older := &wire.VersionError{}
	for _, c := range []struct {
		name   string
		errs   []error // of the calls, one after the other; the last one repeats
		want   string  // the summary of the diagnostic; empty for an answer
		within time.Duration
	}{
		{"at once", []error{nil}, "", 0},
		{"after ten of another version", append(repeated(older, 10), nil), "", 5 * time.Second},
		{"only workers of another version", []error{older}, "Workers of another version", 2 * time.Minute},
		{"lost once", []error{wire.ErrLostCall, nil}, "", time.Second},
		{"always lost", []error{wire.ErrLostCall}, "No worker has answered", time.Minute},
		{"no worker", []error{wire.ErrNoWorker}, "Failed to reach a worker", time.Minute},
		{"signs of life alone", []error{wire.ErrOverdue}, "No worker has answered", 0},
		{"refused", []error{errors.New("not permitted")}, "Failed to reach a worker", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, calls, began := &Session{WorkerWait: 30 * time.Second}, 0, time.Now()
			res, diags := s.callWith(t.Context(), t.Context(), &wire.Task{Address: "a.b"},
				func(context.Context, *wire.Task) (*wire.Result, error) {
					err := c.errs[min(calls, len(c.errs)-1)]
					calls++
					if err != nil {
						return nil, err
					}
					return &wire.Result{}, nil
				})
			var summaries []string
			for _, d := range diags {
				summaries = append(summaries, d.Summary)
			}
			if got := strings.Join(summaries, ", "); got != c.want || (res == nil) == (c.want == "") {
				t.Errorf("%s: %q after %d calls, want %q", c.name, got, calls, c.want)
			}
			if took := time.Since(began); took > c.within {
				t.Errorf("%s: it took %s, want at most %s", c.name, took, c.within)
			}
		})
	}
}

// A command that is interrupted while it waits for a worker ends at once.
func TestACallThatWaitsForAWorkerHearsAnInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { stop(errors.New("interrupted")) })
		s, began := &Session{WorkerWait: time.Hour}, time.Now()
		_, diags := s.callWith(ctx, t.Context(), &wire.Task{Address: "a.b"},
			func(context.Context, *wire.Task) (*wire.Result, error) { return nil, wire.ErrNoWorker })
		if len(diags) != 1 || diags[0].Summary != "Operation interrupted" || time.Since(began) != time.Second {
			t.Errorf("%v after %s", diags, time.Since(began))
		}
	})
}

func repeated(err error, n int) []error {
	list := make([]error, n)
	for i := range list {
		list[i] = err
	}
	return list
}
