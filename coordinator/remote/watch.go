package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/internal/cloud/tfc"
	"github.com/millipede-iac/millipede/internal/sleep"
)

// Seen is a line of the progress of a run. Again says that the model is of a phase that is already being
// watched.
type Seen struct {
	Phase   string            `json:"phase"`
	Model   *timeline.Model   `json:"model"`
	Changes *timeline.Changes `json:"changes"`
	Status  tfc.Status        `json:"status"`
	Waits   string            `json:"waits"` // why the run waits, between its phases
	Over    bool              `json:"over"`
	Again   bool              `json:"-"`
}

// longestRest is the longest pause before reconnecting. lostAfter is the time without data after which a
// connection counts as lost: the service sends something every two seconds.
const (
	longestRest = 10 * time.Second
	lostAfter   = 15 * time.Second
)

// errEnded means that the service has closed the stream before the run ended.
var errEnded = errors.New("the service has closed the stream")

// errSilent means that nothing was received for too long.
var errSilent = fmt.Errorf("nothing was received for %s", lostAfter)

// Watch calls see with the progress of a run until the run has ended. If the connection is lost, Watch
// reconnects and continues at the same position, without a time limit; tell, which may be nil, is called once
// each time. It returns when the run has ended, see returns an error, the service refuses the request, or ctx
// ends, which takes effect at once.
func Watch(ctx context.Context, c *tfc.Client, run string, tell func(string), see func(*Seen) error) error {
	phase, cursor := "", uint64(0)
	over, stopped := false, false
	pause := 250 * time.Millisecond
	told := false
	for {
		err := attached(ctx, func(ctx context.Context, heard func()) error {
			return c.Watch(ctx, run, phase, cursor, func(line []byte) error {
				heard()
				var s Seen
				if err := json.Unmarshal(line, &s); err != nil {
					return fmt.Errorf("reading the progress of the run: %w", err)
				}
				pause, told = 250*time.Millisecond, false
				switch {
				case s.Model != nil:
					s.Again = s.Phase == phase
					phase, cursor = s.Phase, s.Model.Cursor
				case s.Changes != nil:
					cursor = s.Changes.Cursor
				}
				over = s.Over
				err := see(&s)
				stopped = err != nil
				return err
			})
		})
		var refused *tfc.Refusal
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case over, stopped:
			return err
		case errors.As(err, &refused) && refused.Code < 500 && refused.Code != http.StatusTooManyRequests:
			return err
		case err == nil:
			err = errEnded
		}
		if tell != nil && !told {
			tell(fmt.Sprintf("The connection to the service is lost: %s. Reconnecting.\n", err))
			told = true
		}
		if err := sleep.For(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, longestRest)
	}
}

// attached calls fn with a context that ends if heard is not called for too long.
func attached(ctx context.Context, fn func(ctx context.Context, heard func()) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(lostAfter, func() { cancel(errSilent) })
	defer timer.Stop()
	return fn(ctx, func() { timer.Reset(lostAfter) })
}
