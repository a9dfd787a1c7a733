package jet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/wire"
)

// PurgeRun implements wire.Queue. The run's registers are only marked as done: they are emptied by a later PurgeRun, when
// no worker can be left that fetched one of the run's tasks and has not claimed it. (Embedded servers empty them when
// they close, because no worker outlives them.)
func (c *Conn) PurgeRun(ctx context.Context, run string) error {
	token := wire.Token(run)
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.purge(gctx, tasksStream, "task.*.*."+token+".*") })
	group.Go(func() error { return c.purge(gctx, resultsStream, "result.*.*."+token+".*") })
	group.Go(func() error { return c.purge(gctx, keysStream, "key."+token+".*") })
	group.Go(func() error { return c.dropSpilled(gctx, run) })
	group.Go(func() error { return c.dropAdmissions(gctx, run) })
	if err := group.Wait(); err != nil {
		return fmt.Errorf("removing what run %s left: %w", run, err)
	}
	if err := c.markDone(ctx, run); err != nil {
		return fmt.Errorf("marking run %s as done: %w", run, err)
	}
	if err := c.emptyRegisters(ctx, purgeGrace); err != nil {
		return fmt.Errorf("emptying the registers of old runs: %w", err)
	}
	return nil
}

// dropAdmissions frees what earlier processes asked for, or held, in the name of a run. Other coordinators cannot tell
// that it is free, so they would leave it to take its slot.
func (c *Conn) dropAdmissions(ctx context.Context, run string) error {
	if s, err := c.existing(ctx, admitStream); err != nil || s == nil {
		return err
	}
	subject := "admit.>"
	c.semaphore.mu.Lock()
	if owner := c.semaphore.owner; owner != "" {
		subject = "admit.*." + wire.Token(owner) + ".*"
	}
	c.semaphore.mu.Unlock()
	return c.eachAdmission(ctx, subject, func(m *storedMessage, r wire.PermitRequest) error {
		if r.Run != run {
			return nil
		}
		return c.deleteAdmission(ctx, m.Sequence)
	})
}

// purge empties a subject of a stream, unless nobody has made the stream yet.
func (c *Conn) purge(ctx context.Context, stream, subject string) error {
	s, err := c.existing(ctx, stream)
	if err != nil || s == nil {
		return err
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	if err := s.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return problem(err)
	}
	return nil
}

// existing returns a stream that is there already, or nil.
func (c *Conn) existing(ctx context.Context, name string) (jetstream.Stream, error) {
	s, err := c.topology.streams[name].get(func() (jetstream.Stream, error) {
		ctx, cancel := c.bounded(ctx)
		defer cancel()
		return c.js.Stream(ctx, name)
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	return s, problem(err)
}

// A run is marked as done by a message whose time, by the server's clock, begins the grace.
func (c *Conn) markDone(ctx context.Context, run string) error {
	s, err := c.existing(ctx, claimsStream)
	if err != nil || s == nil {
		return err
	}
	err = c.store(ctx, &nats.Msg{Subject: "done." + wire.Token(run)}, jetstream.WithExpectLastSequencePerSubject(0))
	if err != nil && !conflict(err) {
		return err
	}
	return nil
}

// emptyRegisters empties the registers of the runs that were done before the grace began.
func (c *Conn) emptyRegisters(ctx context.Context, grace time.Duration) error {
	s, err := c.existing(ctx, claimsStream)
	if err != nil || s == nil {
		return err
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	info, err := s.Info(ctx, jetstream.WithSubjectFilter("done.*"))
	if err != nil {
		return problem(err)
	}
	for subject := range info.State.Subjects {
		mark, err := c.lastMessage(ctx, claimsStream, subject)
		if errors.Is(err, wire.ErrNotFound) {
			continue // another coordinator was faster
		}
		if err != nil {
			return err
		}
		if info.TimeStamp.Sub(mark.Time) < grace {
			continue
		}
		// The mark goes last, so that a crash in between leaves the rest to the next one.
		if err := c.purge(ctx, claimsStream, "claim.*."+strings.TrimPrefix(subject, "done.")+".*"); err != nil {
			return err
		}
		if err := c.purge(ctx, claimsStream, subject); err != nil {
			return err
		}
	}
	return nil
}
