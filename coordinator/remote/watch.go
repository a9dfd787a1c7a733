package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/millipede-iac/millipede/cloud/tfc"
	"github.com/millipede-iac/millipede/view/timeline"
)

// Seen is a line of what a run does. Again tells that the model is one of a phase that is watched already.
type Seen struct {
	Phase   string            `json:"phase"`
	Model   *timeline.Model   `json:"model"`
	Changes *timeline.Changes `json:"changes"`
	Status  tfc.Status        `json:"status"`
	Over    bool              `json:"over"`
	Again   bool              `json:"-"`
}

// longestRest is the longest pause before the service is asked again, and lostAfter how long nothing may be heard: the
// service sends something every two seconds.
const (
	longestRest = 10 * time.Second
	lostAfter   = 15 * time.Second
)

// errEnded says that the service has ended the answer before the run was over.
var errEnded = errors.New("the service has ended the answer")

// errSilent says that nothing was heard for too long.
var errSilent = fmt.Errorf("nothing was heard for %s", lostAfter)

// Watch calls see with what a run does until it is over. When the connection is lost it goes on where it was, for as
// long as it takes; tell, which may be nil, is told once each time. It returns when the run is over, see returns an
// error, the service refuses, or ctx ends, which is heard at once.
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
					return fmt.Errorf("what the service tells of the run cannot be read: %w", err)
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
			tell(fmt.Sprintf("The service is not heard of: %s. It is asked again.\n", err))
			told = true
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, longestRest)
	}
}

// attached calls fn with a context that ends when heard is not called for too long.
func attached(ctx context.Context, fn func(ctx context.Context, heard func()) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(lostAfter, func() { cancel(errSilent) })
	defer timer.Stop()
	return fn(ctx, func() { timer.Reset(lostAfter) })
}
