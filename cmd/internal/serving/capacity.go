package serving

import (
	"context"
	"errors"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/wire"
)

// capacity reads and changes the workers and limits of the service's NATS server, for the pages of the service.
type capacity struct {
	*sharedConnection
	// drains tells the engines which pools are drained; nil if there are no engines.
	drains  func(ctx context.Context, pools []string) error
	regions *regionWatch
}

var _ service.Capacity = capacity{}

// Workers implements service.Capacity.
func (f capacity) Workers(ctx context.Context) ([]service.Worker, error) {
	all, err := f.Conn.Workers(ctx)
	return workers(all, f.Conn.Connected()), err
}

// workers returns each worker in each of its pools. connected is the time for which the connection has been up.
func workers(all []wire.Worker, connected time.Duration) (out []service.Worker) {
	for _, w := range all {
		for _, pool := range w.Pools {
			out = append(out, service.Worker{Name: w.Worker, Pool: pool, Host: w.Host, Version: w.Version,
				Platform: w.Platform, Slots: w.Slots, Running: w.Running, Draining: w.Draining || w.Leaving,
				Speaks: w.Versions(), Older: w.Versions().Highest < wire.Spoken().Highest,
				Unsuited: w.Unsuited(wire.Spoken()),
				Trouble:  w.Trouble, Quiet: w.Since, Silent: w.Silent(connected)})
		}
	}
	return out
}

// Limits implements service.Capacity.
func (f capacity) Limits(ctx context.Context) ([]service.Limit, error) {
	all, err := f.Conn.Limits(ctx)
	return limits(all), err
}

func limits(all []wire.LimitStatus) (out []service.Limit) {
	for _, l := range all {
		pool, sized := wire.LimitedPool(l.Name)
		if !sized {
			pool = "" // it was the name of the limit
		}
		out = append(out, service.Limit{Name: l.Name, Slots: l.Slots, Sized: sized, Pool: pool, Held: permits(l.Held),
			Waiting: permits(l.Waiting)})
	}
	return out
}

func permits(all []wire.PermitRequest) []service.Permit {
	var out []service.Permit
	for _, r := range all {
		out = append(out, service.Permit{Run: r.Run, Since: r.At})
	}
	return out
}

// Resize implements service.Capacity.
func (f capacity) Resize(ctx context.Context, limit string, slots int) error {
	return f.Conn.ResizeLimit(ctx, wire.Limit{Name: limit, Slots: slots})
}

// Drain implements service.Capacity.
func (f capacity) Drain(ctx context.Context, pools []string) error {
	err := f.Hub().Drain(ctx, pools)
	if f.drains != nil {
		err = errors.Join(err, f.drains(ctx, pools))
	}
	return err
}
