package jet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millipede-iac/millipede/wire"
)

// A durable consumer is made at its first use. Two things can happen to it while this connection uses it. Somebody may
// delete it; then the messages that it would have delivered do not arrive. Or the clock of its server may be set back.
// The server compares the times of deliveries with its wall clock, so messages that a dead process has fetched are
// delivered again only when the clock has caught up.
//
// So a connection that may make consumers checks those that it uses from time to time, and makes them anew.
// Unacknowledged messages are then delivered again, in their order: first those that were fetched already, since they
// are the oldest. A message that is delivered twice is harmless; see docs/format/wire.md.

// checkEvery is the interval at which a consumer in use is looked at.
const checkEvery = 10 * time.Second

// checkConsumer opens a consumer, and makes it anew if that is needed. It asks the server at most every watchEvery.
func (c *Conn) checkConsumer(ctx context.Context, stream string, cfg jetstream.ConsumerConfig) error {
	consumer, err := c.topology.consumer(ctx, stream, cfg)
	if err != nil {
		return err
	}
	if !c.topology.due(stream+"/"+cfg.Durable, time.Now(), checkEvery) {
		return nil
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	info, err := consumer.Info(ctx)
	switch {
	case gone(err):
		c.opts.Log(fmt.Sprintf("the consumer %s of stream %s was deleted: it is made again", cfg.Durable, stream))
		c.topology.slot(stream, cfg.Durable).forget()
		_, err = c.topology.consumer(ctx, stream, cfg)
		return err
	case err == nil && clockWentBack(info):
		cfg.MaxAckPending = info.Config.MaxAckPending // as somebody may have set it since
		return c.remake(ctx, stream, cfg)
	case err != nil && temporary(problem(err)):
		return nil // the next request will show it
	}
	return problem(err)
}

// clockWentBack reports whether the server's clock is behind its own last delivery, of a message that is not
// acknowledged.
func clockWentBack(info *jetstream.ConsumerInfo) bool {
	last := info.Delivered.Last
	return last != nil && info.NumAckPending > 0 && last.Sub(info.TimeStamp) > info.Config.AckWait
}

// remake deletes a consumer and makes it again.
func (c *Conn) remake(ctx context.Context, stream string, cfg jetstream.ConsumerConfig) error {
	c.opts.Log(fmt.Sprintf("the clock of the NATS server was set back: the consumer %s of stream %s is created again, "+
		"so that messages which dead processes have fetched are delivered again", cfg.Durable, stream))
	if err := c.regions.at(stream).DeleteConsumer(ctx, stream, cfg.Durable); err != nil && !errors.Is(err,
		jetstream.ErrConsumerNotFound) {
		return fmt.Errorf("deleting consumer %s of stream %s: %w", cfg.Durable, stream, problem(err))
	}
	c.topology.slot(stream, cfg.Durable).forget()
	_, err := c.topology.consumer(ctx, stream, cfg)
	return err
}

// due reports whether something was last done longer ago than an interval, and if so, records that it is done now.
func (t *topology) due(key string, now time.Time, every time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, known := t.looked[key]
	if known && now.Sub(last) < every {
		return false
	}
	t.looked[key] = now
	return known // it was just opened
}

// declared returns the size of a limit that this connection has declared, or seen.
func (s *semaphore) declared(name string) (wire.Limit, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slots, ok := s.sizes[name]
	return wire.Limit{Name: name, Slots: slots}, ok
}

func (s *semaphore) declare(l wire.Limit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sizes[l.Name] = l.Slots
}

// checkConsumer looks at the consumer of a limit that this connection has declared.
func (s *semaphore) checkConsumer(ctx context.Context, name string) error {
	l, ok := s.declared(name)
	if !ok || !s.c.opts.Provision {
		return nil
	}
	return s.c.checkConsumer(ctx, admitStream, limitConsumer(l, s.wait))
}
