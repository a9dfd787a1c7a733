package jet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millipede-iac/millipede/internal/trace"
	"github.com/millipede-iac/millipede/wire"
)

// The streams of protocol version 1, which held the registers and the keys of all pools. Their subjects are those of
// the streams of pools, so both cannot be there.
var olderStreams = []string{"CLAIMS", "KEYS"}

// OlderRunsError tells that the server holds the registers of runs that programs of an earlier version have not ended.
type OlderRunsError struct{ Runs []string }

func (e *OlderRunsError) Error() string {
	return fmt.Sprintf("the NATS server holds operations of runs that an earlier version of Millipede began, and has "+
		"not ended: %s. This version keeps registers and keys in other streams, and cannot determine the outcomes of "+
		"those operations. Complete these runs with the version that began them (coordinator runs resume)",
		strings.Join(e.Runs, ", "))
}

// older moves what an earlier version of Millipede has left in its streams.
type older struct{ c *Conn }

// retire removes the streams of protocol version 1 when nothing in them is needed any more. It returns an
// *OlderRunsError when runs are left that were not ended.
func (o older) retire(ctx context.Context) error {
	if err := o.splitTasks(ctx); err != nil {
		return fmt.Errorf("moving the tasks of all pools to streams of each pool: %w", err)
	}
	if err := o.splitResults(ctx); err != nil {
		return fmt.Errorf("moving the results of all pools to streams of each pool: %w", err)
	}
	ctx, cancel := o.c.bounded(ctx)
	defer cancel()
	s, err := o.c.js.Stream(ctx, olderStreams[0])
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return problem(err)
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(">"))
	if err != nil {
		return problem(err)
	}
	left := map[string]bool{}
	for subject := range info.State.Subjects {
		t := strings.Split(subject, ".")
		if t[0] != "claim" || len(t) != 4 || info.State.Subjects["done."+t[2]] > 0 {
			continue
		}
		run, err := wire.Untoken(t[2])
		if err != nil {
			run = t[2]
		}
		left[run] = true
	}
	if len(left) > 0 {
		e := new(OlderRunsError)
		for run := range left {
			e.Runs = append(e.Runs, run)
		}
		slices.Sort(e.Runs)
		return e
	}
	// A worker of that version may still hold a task which it fetched before the end of its run; in an empty register
	// it would win. No worker outlives an embedded server.
	if age := info.TimeStamp.Sub(info.State.LastTime); o.c.opts.inProcess == nil && info.State.Msgs > 0 &&
		age < claimWindow {
		return fmt.Errorf("the last run of an earlier version of Millipede ended %s ago: this version takes its "+
			"streams over %s after that", age.Round(time.Second), claimWindow)
	}
	for _, name := range olderStreams {
		if err := o.c.js.DeleteStream(ctx, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("removing stream %s of an earlier version: %w", name, problem(err))
		}
	}
	return nil
}

// Earlier versions had one stream with the tasks of all pools, and one with their results. moved is the subject that
// such a stream gets while its messages move, because the streams of pools need its own.
var (
	sharedTasks   = shared{stream: "TASKS", moved: "moved-tasks", prefix: tasksPrefix}
	sharedResults = shared{stream: "RESULTS", moved: "moved-results", prefix: resultsPrefix}
)

// shared is a stream that had the messages of all pools.
type shared struct{ stream, moved, prefix string }

// split moves the messages of all pools to streams of each pool. It may be repeated at any point, by several processes
// at once: a message is removed only after it is stored again. A result that is stored twice is recognized by its
// attempt. A task that is stored twice, or that a worker of the earlier version has fetched already, is executed once,
// because only one claim wins.
func (o older) split(ctx context.Context, from shared, publish func(*storedMessage) error) error {
	asking, cancel := o.c.bounded(ctx)
	defer cancel()
	s, err := o.c.js.Stream(asking, from.stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return problem(err)
	}
	cfg := s.CachedInfo().Config
	if !slices.Equal(cfg.Subjects, []string{from.moved}) {
		cfg.Subjects = []string{from.moved}
		if _, err := o.c.js.UpdateStream(asking, cfg); err != nil {
			return problem(err)
		}
	}
	names, err := o.c.purger.poolStreams(ctx)
	if err != nil {
		return err
	}
	for _, name := range names { // so that messages that programs of runs in progress publish are stored again
		if pool, kind := poolOf(name); kind == registersOfPool {
			if err := o.c.topology.ensure(ctx, from.prefix+pool); err != nil {
				return err
			}
		}
	}
	for next := uint64(1); ; {
		m, err := o.c.getMessage(ctx, from.stream, map[string]any{"seq": next, "next_by_subj": ">"})
		if errors.Is(err, wire.ErrNotFound) {
			break
		}
		if err != nil {
			return err
		}
		if err := publish(m); err != nil {
			return err
		}
		next = m.Sequence + 1
	}
	removing, cancel := o.c.bounded(ctx)
	defer cancel()
	if err := o.c.js.DeleteStream(removing, from.stream); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return problem(err)
	}
	return nil
}

// splitResults moves the results.
func (o older) splitResults(ctx context.Context) error {
	return o.split(ctx, sharedResults, func(m *storedMessage) error {
		ref, err := wire.ParseRef(m.Subject)
		if err != nil {
			return nil //nolint:nilerr // no worker has published it
		}
		return o.c.PublishResult(ctx, ref, m.Data)
	})
}

// splitTasks moves the tasks, with the spans that they were sent under.
func (o older) splitTasks(ctx context.Context) error {
	return o.split(ctx, sharedTasks, func(m *storedMessage) error {
		ref, err := wire.ParseRef(m.Subject)
		if err != nil {
			return nil //nolint:nilerr // no coordinator has published it
		}
		header, err := m.header()
		if err != nil {
			return fmt.Errorf("reading the header of task %s: %w", ref.Attempt, err)
		}
		return o.c.PublishTask(trace.Under(ctx, traceOf(header)), ref, m.Data)
	})
}
