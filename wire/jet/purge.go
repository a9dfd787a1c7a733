package jet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/wire"
)

// PurgeRun implements wire.WorkQueue. It only marks the run's registers as done. A later PurgeRun empties them, when no
// worker can be left that has fetched one of the run's tasks and not claimed it. (Embedded servers empty them when they
// close, because no worker outlives them.)
func (c *Conn) PurgeRun(ctx context.Context, run string, used []string) error {
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.dropSpilled(gctx, run, used) })
	group.Go(func() error { return c.dropAdmissions(gctx, run) })
	pools, err := c.streamsOf(ctx, used)
	if err != nil {
		return fmt.Errorf("removing what run %s left: %w", run, errors.Join(err, group.Wait()))
	}
	hubs := slices.DeleteFunc(pools, func(name string) bool { return c.regions.of(name) != "" })
	group.Go(func() error { return c.purgeStreams(gctx, hubs, run) })
	for pool := range c.regions.own() {
		if used == nil || slices.Contains(used, pool) {
			group.Go(func() error { return c.cleanRegion(gctx, pool, run) })
		}
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("removing what run %s left: %w", run, err)
	}
	if err := c.markAllDone(ctx, hubs, run); err != nil {
		return err
	}
	if !c.emptyNow(time.Now()) {
		return nil
	}
	if err := c.emptyRegisters(ctx, hubs, purgeGrace); err != nil {
		return fmt.Errorf("emptying the registers of old runs: %w", err)
	}
	return nil
}

// purgeStreams removes the tasks, keys and results of a run.
func (c *Conn) purgeStreams(ctx context.Context, streams []string, run string) error {
	token := wire.Token(run)
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range streams {
		switch pool, kind := poolOf(name); kind {
		case tasksOfPool:
			group.Go(func() error { return c.purge(ctx, name, "task."+pool+".*."+token+".*") })
		case keysOfPool:
			group.Go(func() error { return c.purge(ctx, name, "key."+pool+"."+token+".*") })
		case resultsOfPool:
			group.Go(func() error { return c.purge(ctx, name, "result."+pool+".*."+token+".*") })
		}
	}
	return group.Wait()
}

// markAllDone marks a run as done in the registers among some streams.
func (c *Conn) markAllDone(ctx context.Context, streams []string, run string) error {
	for _, name := range streams {
		if _, kind := poolOf(name); kind != registersOfPool {
			continue
		}
		if err := c.markDone(ctx, name, wire.Token(run)); err != nil {
			return fmt.Errorf("marking run %s as done: %w", run, err)
		}
	}
	return nil
}

// emptyEvery is how often a connection empties the registers of old runs. It is short in comparison to purgeGrace.
const emptyEvery = time.Minute

// emptyNow reports whether it is time to empty the registers of old runs, and if so, records that they are.
func (c *Conn) emptyNow(now time.Time) bool {
	was := c.emptied.Load()
	return (was == 0 || now.UnixNano()-was >= int64(emptyEvery)) && c.emptied.CompareAndSwap(was, now.UnixNano())
}

// streamsOf returns the names of the streams with tasks, registers, keys and results of some pools; of all for nil.
func (c *Conn) streamsOf(ctx context.Context, pools []string) (names []string, err error) {
	if pools == nil {
		return c.poolStreams(ctx)
	}
	for _, pool := range pools {
		names = append(names, tasksStream(pool), claimsStream(pool), keysStream(pool), resultsStream(pool))
	}
	return names, nil
}

// poolStreams returns the names of the streams with tasks, registers, keys and results, of all pools.
func (c *Conn) poolStreams(ctx context.Context) ([]string, error) {
	names, err := c.topology.list(ctx)
	return slices.DeleteFunc(names, func(name string) bool {
		_, kind := poolOf(name)
		return kind == ofNoPool || kind == blobsOfPool
	}), err
}

// dropAdmissions frees the permits and requests of earlier processes of a run. Other coordinators cannot tell that the
// run is over, so the permits would stay held.
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

// purge empties a subject of a stream, if the stream exists.
func (c *Conn) purge(ctx context.Context, stream, subject string) error {
	s, err := c.existing(ctx, stream)
	if err != nil || s == nil {
		return err
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	if err := s.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil &&
		!errors.Is(err, jetstream.ErrStreamNotFound) {
		return problem(err)
	}
	return nil
}

// existing returns a stream that is there already, or nil.
func (c *Conn) existing(ctx context.Context, name string) (jetstream.Stream, error) {
	s, err := c.topology.streamSlot(name).get(func() (jetstream.Stream, error) {
		ctx, cancel := c.bounded(ctx)
		defer cancel()
		return c.at(name).Stream(ctx, name)
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	return s, problem(err)
}

// markDone marks a run as done in a pool that it used. The grace begins at the time of the mark, by the server's clock.
func (c *Conn) markDone(ctx context.Context, stream, run string) error {
	s, err := c.existing(ctx, stream)
	if err != nil || s == nil {
		return err
	}
	pool, _ := poolOf(stream)
	used, err := c.lastMessage(ctx, stream, "claim."+pool+"."+run+".*")
	if used == nil {
		return ignore(err, wire.ErrNotFound)
	}
	err = c.store(ctx, &nats.Msg{Subject: "done." + pool + "." + run}, jetstream.WithExpectLastSequencePerSubject(0))
	if err != nil && !conflict(err) {
		return err
	}
	return nil
}

func ignore(err, condition error) error {
	if errors.Is(err, condition) {
		return nil
	}
	return err
}

// emptyAllRegisters empties the registers of all pools; see emptyRegisters.
func (c *Conn) emptyAllRegisters(ctx context.Context, grace time.Duration) error {
	names, err := c.poolStreams(ctx)
	if err != nil {
		return err
	}
	return c.emptyRegisters(ctx, names, grace)
}

// emptyRegisters empties the registers of the runs that were done before the grace began, in the given streams; those
// that are not registers are left out.
func (c *Conn) emptyRegisters(ctx context.Context, streams []string, grace time.Duration) error {
	for _, name := range streams {
		if pool, kind := poolOf(name); kind == registersOfPool {
			if err := c.emptyPool(ctx, name, pool, grace); err != nil {
				return err
			}
		}
	}
	return nil
}

// emptyPool begins with the run that has been done for longest, and ends with the first one that is within the grace.
// So the end of a run costs the same however many others have ended a short time before.
func (c *Conn) emptyPool(ctx context.Context, stream, pool string, grace time.Duration) error {
	s, err := c.existing(ctx, stream)
	if err != nil || s == nil {
		return err
	}
	done := "done." + pool + "."
	var now time.Time // by the server's clock, as the times of the marks are
	for {
		mark, err := c.getMessage(ctx, stream, map[string]any{"next_by_subj": done + "*"})
		if err != nil {
			return ignore(err, wire.ErrNotFound)
		}
		if now.IsZero() {
			if now, err = c.clock(ctx, s); err != nil {
				return err
			}
		}
		if now.Sub(mark.Time) < grace {
			return nil
		}
		// This also removes messages that the end of the run could not remove. The mark is removed last, so that a crash in
		// between leaves the rest to the next purge.
		token := strings.TrimPrefix(mark.Subject, done)
		for of, subject := range map[string]string{tasksPrefix: "task." + pool + ".*." + token + ".*",
			keysPrefix: "key." + pool + "." + token + ".*", resultsPrefix: "result." + pool + ".*." + token + ".*"} {
			if err := c.purge(ctx, of+pool, subject); err != nil {
				return err
			}
		}
		if err := c.purge(ctx, stream, "claim."+pool+"."+strings.TrimPrefix(mark.Subject, done)+".*"); err != nil {
			return err
		}
		if err := c.purge(ctx, stream, mark.Subject); err != nil {
			return err
		}
	}
}

// clock returns the time of the server that leads a stream.
func (c *Conn) clock(ctx context.Context, s jetstream.Stream) (time.Time, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	info, err := s.Info(ctx)
	if err != nil {
		return time.Time{}, problem(err)
	}
	return info.TimeStamp, nil
}
