package jet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/wire"
)

// purger removes what runs have left in the streams.
type purger struct {
	c       *Conn
	emptied atomic.Int64 // when the registers of old runs were last emptied; Unix nanoseconds, 0 for never
}

// PurgeRun implements wire.WorkQueue. It only marks the run's registers as done. A later PurgeRun empties them, when no
// worker can be left that has fetched one of the run's tasks and not claimed it. (Embedded servers empty them when they
// close, because no worker outlives them.)
func (c *Conn) PurgeRun(ctx context.Context, run string, used []string) error {
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.dropSpilled(gctx, run, used) })
	group.Go(func() error { return c.purger.dropAdmissions(gctx, run) })
	pools, err := c.purger.streamsOf(ctx, used)
	if err != nil {
		return fmt.Errorf("removing what run %s left: %w", run, errors.Join(err, group.Wait()))
	}
	hubs := slices.DeleteFunc(pools, func(name string) bool { return c.regions.of(name) != "" })
	group.Go(func() error { return c.purger.purgeStreams(gctx, hubs, run) })
	for pool := range c.regions.own() {
		if used == nil || slices.Contains(used, pool) {
			group.Go(func() error { return c.purger.cleanRegion(gctx, pool, run) })
		}
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("removing what run %s left: %w", run, err)
	}
	if err := c.purger.markAllDone(ctx, hubs, run); err != nil {
		return err
	}
	if !c.purger.emptyNow(time.Now()) {
		return nil
	}
	if err := c.purger.emptyRegisters(ctx, hubs, purgeGrace); err != nil {
		return fmt.Errorf("emptying the registers of old runs: %w", err)
	}
	return nil
}

// purgeStreams removes the tasks, keys and results of a run.
func (p *purger) purgeStreams(ctx context.Context, streams []string, run string) error {
	token := wire.Token(run)
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range streams {
		switch pool, kind := poolOf(name); kind {
		case tasksOfPool:
			group.Go(func() error { return p.c.topology.purge(ctx, name, "task."+pool+".*."+token+".*") })
		case keysOfPool:
			group.Go(func() error { return p.c.topology.purge(ctx, name, "key."+pool+"."+token+".*") })
		case resultsOfPool:
			group.Go(func() error { return p.c.topology.purge(ctx, name, "result."+pool+".*."+token+".*") })
		}
	}
	return group.Wait()
}

// markAllDone marks a run as done in the registers among some streams.
func (p *purger) markAllDone(ctx context.Context, streams []string, run string) error {
	for _, name := range streams {
		if _, kind := poolOf(name); kind != registersOfPool {
			continue
		}
		if err := p.markDone(ctx, name, wire.Token(run)); err != nil {
			return fmt.Errorf("marking run %s as done: %w", run, err)
		}
	}
	return nil
}

// emptyEvery is how often a connection empties the registers of old runs. It is short in comparison to purgeGrace.
const emptyEvery = time.Minute

// emptyNow reports whether it is time to empty the registers of old runs, and if so, records that they are.
func (p *purger) emptyNow(now time.Time) bool {
	was := p.emptied.Load()
	return (was == 0 || now.UnixNano()-was >= int64(emptyEvery)) && p.emptied.CompareAndSwap(was, now.UnixNano())
}

// streamsOf returns the names of the streams with tasks, registers, keys and results of some pools; of all for nil.
func (p *purger) streamsOf(ctx context.Context, pools []string) (names []string, err error) {
	if pools == nil {
		return p.poolStreams(ctx)
	}
	for _, pool := range pools {
		names = append(names, tasksStream(pool), claimsStream(pool), keysStream(pool), resultsStream(pool))
	}
	return names, nil
}

// poolStreams returns the names of the streams with tasks, registers, keys and results, of all pools.
func (p *purger) poolStreams(ctx context.Context) ([]string, error) {
	names, err := p.c.topology.list(ctx)
	return slices.DeleteFunc(names, func(name string) bool {
		_, kind := poolOf(name)
		return kind == ofNoPool || kind == blobsOfPool
	}), err
}

// dropAdmissions frees the permits and requests of earlier processes of a run. Other coordinators cannot tell that the
// run is over, so the permits would stay held.
func (p *purger) dropAdmissions(ctx context.Context, run string) error {
	if s, err := p.c.topology.existing(ctx, admitStream); err != nil || s == nil {
		return err
	}
	subject := "admit.>"
	p.c.semaphore.mu.Lock()
	if owner := p.c.semaphore.owner; owner != "" {
		subject = "admit.*." + wire.Token(owner) + ".*"
	}
	p.c.semaphore.mu.Unlock()
	return p.c.semaphore.eachAdmission(ctx, subject, func(m *storedMessage, r wire.PermitRequest) error {
		if r.Run != run {
			return nil
		}
		return p.c.semaphore.deleteAdmission(ctx, m.Sequence)
	})
}

// purge empties a subject of a stream, if the stream exists.
func (t *topology) purge(ctx context.Context, stream, subject string) error {
	s, err := t.existing(ctx, stream)
	if err != nil || s == nil {
		return err
	}
	ctx, cancel := t.c.bounded(ctx)
	defer cancel()
	if err := s.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil &&
		!errors.Is(err, jetstream.ErrStreamNotFound) {
		return problem(err)
	}
	return nil
}

// existing returns a stream that is there already, or nil.
func (t *topology) existing(ctx context.Context, name string) (jetstream.Stream, error) {
	s, err := t.streamSlot(name).get(func() (jetstream.Stream, error) {
		ctx, cancel := t.c.bounded(ctx)
		defer cancel()
		return t.c.regions.at(name).Stream(ctx, name)
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	return s, problem(err)
}

// markDone marks a run as done in a pool that it used. The grace begins at the time of the mark, by the server's clock.
func (p *purger) markDone(ctx context.Context, stream, run string) error {
	s, err := p.c.topology.existing(ctx, stream)
	if err != nil || s == nil {
		return err
	}
	pool, _ := poolOf(stream)
	used, err := p.c.lastMessage(ctx, stream, "claim."+pool+"."+run+".*")
	if used == nil {
		return ignore(err, wire.ErrNotFound)
	}
	err = p.c.store(ctx, &nats.Msg{Subject: "done." + pool + "." + run}, jetstream.WithExpectLastSequencePerSubject(0))
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
func (p *purger) emptyAllRegisters(ctx context.Context, grace time.Duration) error {
	names, err := p.poolStreams(ctx)
	if err != nil {
		return err
	}
	return p.emptyRegisters(ctx, names, grace)
}

// emptyRegisters empties the registers of the runs that were done before the grace began, in the given streams; those
// that are not registers are left out.
func (p *purger) emptyRegisters(ctx context.Context, streams []string, grace time.Duration) error {
	for _, name := range streams {
		if pool, kind := poolOf(name); kind == registersOfPool {
			if err := p.emptyPool(ctx, name, pool, grace); err != nil {
				return err
			}
		}
	}
	return nil
}

// emptyPool begins with the run that has been done for longest, and ends with the first one that is within the grace.
// So the end of a run costs the same however many others have ended a short time before.
func (p *purger) emptyPool(ctx context.Context, stream, pool string, grace time.Duration) error {
	s, err := p.c.topology.existing(ctx, stream)
	if err != nil || s == nil {
		return err
	}
	done := "done." + pool + "."
	var now time.Time // by the server's clock, as the times of the marks are
	for {
		mark, err := p.c.getMessage(ctx, stream, map[string]any{"next_by_subj": done + "*"})
		if err != nil {
			return ignore(err, wire.ErrNotFound)
		}
		if now.IsZero() {
			if now, err = p.clock(ctx, s); err != nil {
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
			if err := p.c.topology.purge(ctx, of+pool, subject); err != nil {
				return err
			}
		}
		if err := p.c.topology.purge(ctx, stream, "claim."+pool+"."+strings.TrimPrefix(mark.Subject, done)+".*"); err != nil {
			return err
		}
		if err := p.c.topology.purge(ctx, stream, mark.Subject); err != nil {
			return err
		}
	}
}

// clock returns the time of the server that leads a stream.
func (p *purger) clock(ctx context.Context, s jetstream.Stream) (time.Time, error) {
	ctx, cancel := p.c.bounded(ctx)
	defer cancel()
	info, err := s.Info(ctx)
	if err != nil {
		return time.Time{}, problem(err)
	}
	return info.TimeStamp, nil
}
