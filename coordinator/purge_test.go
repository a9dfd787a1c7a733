package coordinator

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/mem"
)

// If the server was unreachable when the streams were cleaned after the end of a run, the run was reported as failed,
// although it was done and its end was recorded.
func TestAServerThatIsAwayAtTheEndOfARunIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended time.Duration
		out, took, _, err := refusingRun(t, func(after time.Duration, op mem.Op) error {
			if op.Name != "PurgeRun" {
				return nil
			}
			if ended == 0 {
				ended = after
			}
			if after-ended < 10*time.Second {
				return fmt.Errorf("%w: the server is being started", wire.ErrDisconnected)
			}
			return nil
		})
		if err != nil || out.Status != "done" || took < ended+10*time.Second {
			t.Errorf("%s after %s, %v", out.Status, took, err)
		}
	})
}

// A run that is done has not failed if its streams could not be cleaned.
func TestAServerThatDoesNotLetTheStreamsBeCleanedIsToldOf(t *testing.T) {
	for claim, c := range map[string]struct {
		refusal error
		least   time.Duration
	}{
		"what is not permitted is not repeated": {errors.New("not permitted"), 0},
		"a full disk is waited for":             {wire.ErrStore, loop.StoreTimeout},
	} {
		t.Run(claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ended time.Duration
				out, took, _, err := refusingRun(t, func(after time.Duration, op mem.Op) error {
					if op.Name != "PurgeRun" {
						return nil
					}
					if ended == 0 {
						ended = after
					}
					return c.refusal
				})
				if waited := took - ended; err != nil || out.Status != "done" || out.Diags.HasErrors() || waited < c.least ||
					waited > c.least+2*time.Second {
					t.Errorf("%s, %v, after %s", out.Status, err, waited)
				}
				if n := len(out.Diags); n != 1 || out.Diags[0].Summary != "The streams were not cleaned" {
					t.Errorf("%d problems: %v", n, out.Diags)
				}
			})
		})
	}
}
