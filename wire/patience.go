package wire

import (
	"context"
	"errors"
	"time"

	"github.com/millipede-iac/millipede/internal/sleep"
)

// The waits of Patiently before another try: together 22 s.
const (
	firstWait = 250 * time.Millisecond
	mostWait  = 4 * time.Second
	mostTries = 9
)

// Patiently repeats a request while the transport is away or does not answer, for 22 seconds and what the requests
// take: the servers of a cluster elect a leader within some of them. A repetition of do must have no further effect.
// It returns the last error.
func Patiently(ctx context.Context, do func() error) error {
	wait, err := firstWait, error(nil)
	for range mostTries {
		err = do()
		if !errors.Is(err, ErrUnanswered) && !errors.Is(err, ErrDisconnected) || sleep.For(ctx, wait) != nil {
			return err
		}
		wait = min(2*wait, mostWait)
	}
	return err
}
