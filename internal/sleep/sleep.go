// Package sleep waits for a time, or until a context ends. It schedules nothing.
package sleep

import (
	"context"
	"time"
)

// For waits for d. If the context has ended by then it returns the context's cause, without waiting any longer.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}
