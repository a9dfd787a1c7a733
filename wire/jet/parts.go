package jet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/wire"
)

const (
	// partAgain is how long a sender waits for the confirmation of a part before it sends the part again.
	partAgain = 4 * time.Second
	// partAbsent is how long a sender looks for somebody who takes parts at an address: a subscription needs time to
	// become known in a cluster. It asks again every partPause.
	partAbsent = 4 * time.Second
	partPause  = 100 * time.Millisecond
	// The parts that may wait at one address. A sender sends one at a time, so more come only from elsewhere.
	partsWaiting, partBytes = 64, 64 << 20
)

// TakeParts implements wire.Parts.
func (c *Conn) TakeParts(ctx context.Context, pool, address string, take func([]byte)) (stop func(), err error) {
	var mu sync.Mutex // held while take runs; guards closed
	closed := false
	sub, err := c.nc.Subscribe(wire.PartSubject(pool, address), func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		if closed {
			return
		}
		take(m.Data)
		if err := c.nc.Publish(m.Reply, nil); err != nil {
			c.opts.Log("confirming a part of an answer: " + err.Error())
		}
	})
	if err != nil {
		return nil, fmt.Errorf("taking the parts of an answer: %w", problem(err))
	}
	stop = func() {
		if err := c.unsubscribe(sub); err != nil {
			c.opts.Log("no longer taking the parts of an answer: " + err.Error())
		}
		mu.Lock()
		defer mu.Unlock()
		closed = true
	}
	err = sub.SetPendingLimits(partsWaiting, partBytes)
	if err == nil {
		err = c.flush(ctx) // the call that follows on another connection must not be faster
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("taking the parts of an answer: %w", problem(err))
	}
	return stop, nil
}

// SendPart implements wire.Parts.
func (c *Conn) SendPart(ctx context.Context, pool, address string, data []byte) error {
	subject := wire.PartSubject(pool, address)
	var absent time.Time
	for {
		waiting, enough := context.WithTimeout(ctx, partAgain)
		_, err := c.nc.RequestWithContext(waiting, subject, data)
		enough()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, nats.ErrNoResponders):
			if absent.IsZero() {
				absent = time.Now()
			}
			if time.Since(absent) > partAbsent {
				return fmt.Errorf("sending a part of an answer: %w", wire.ErrNotFound)
			}
			if sleep.For(ctx, partPause) != nil {
				return ctx.Err()
			}
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
			absent = time.Time{} // somebody is there and has not taken it yet, or the confirmation was lost
		default:
			return fmt.Errorf("sending a part of an answer: %w", problem(err))
		}
	}
}
