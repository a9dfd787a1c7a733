package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/internal/failpoint"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// Resume returns a run that continues where an earlier process stopped. Vertices that are done stay done. For tasks
// that were dispatched it waits, or publishes them again if no worker has them. All other vertices are started. The
// program must be made from the plan and the state in the store, and the hub must have the coordinator of the run. The
// error is about the journal.
func Resume(ctx context.Context, o Options) (*Runner, error) {
	events, err := o.Store.Events(ctx, o.RunID)
	if err != nil {
		return nil, fmt.Errorf("reading the journal of run %s: %w", o.RunID, err)
	}
	r, err := newRunner(ctx, o, true, events)
	if err != nil {
		return nil, fmt.Errorf("reading the journal of run %s: %w", o.RunID, err)
	}
	if p, ok := o.Program.(program.Restorer); ok && len(r.past) > 0 {
		p.Restore(r.past.Done(o.Program.Graph().Len()))
	}
	r.acts.useFormer(r.past)
	for m := range r.past.Attempts() {
		r.acts.remember(m.ID, known{m.Pool, m.Address})
	}
	return r, nil
}

// open commits the changes that come before the first vertex, and checks whether the transport has lost data since the
// run used it last. stop ends the wait for a server that does not answer the check.
func (r *Runner) open(ctx, stop context.Context) error {
	if r.Store == nil {
		return nil
	}
	if f, ok := r.Program.(program.Framed); ok && len(r.past) == 0 {
		if changes := f.Begin(); len(changes) > 0 {
			if err := r.Store.Commit(ctx, journal.Commit{Workspace: r.Workspace, Fence: r.LockID,
				Changes: changes}); err != nil {
				return fmt.Errorf("recording what the plan found: %w", err)
			}
		}
	}
	mark, err := loadMark(ctx, r.Store, r.RunID)
	if err != nil || mark == nil {
		return err
	}
	if mark == olderMark {
		r.inbox.put(loop.LostData{Older: true})
		return nil
	}
	return r.compare(stop, *mark)
}

// compare checks whether the transport has lost data since a mark. If servers of a cluster seem to, it asks again until
// the time has passed that confirms it: nothing is dispatched before.
func (r *Runner) compare(stop context.Context, mark wire.HighWater) error {
	again := time.NewTicker(loop.TickEvery)
	defer again.Stop()
	var loss suspicion
	for {
		var now wire.HighWater
		err := repeat(stop, func(ctx context.Context) (err error) {
			now, err = r.Hub.HighWater(ctx, slices.Sorted(maps.Keys(mark.Claims)))
			return err
		})
		if err != nil {
			return fmt.Errorf("asking NATS for its streams: %w", err)
		}
		lost, suspected := loss.judge(mark, now, r.Now())
		if lost {
			r.inbox.put(loop.LostData{Detail: mark.Difference(now)})
		}
		if lost || !suspected {
			return nil
		}
		select {
		case <-again.C:
		case <-stop.Done():
			return context.Cause(stop)
		}
	}
}

// confirmAfter is how much later a second answer must confirm that servers of a cluster have lost data. A server that
// is cut off from the others counts itself as the leader for up to 17 seconds.
const confirmAfter = 25 * time.Second

// suspicion is the time since which answers seem to show that the transport has lost data; zero while they do not.
type suspicion struct{ since time.Time }

// judge compares a mark with a later answer. A single server is believed at once.
func (s *suspicion) judge(mark, now wire.HighWater, at time.Time) (lost, suspected bool) {
	switch {
	case !mark.Lost(now):
		s.since = time.Time{}
		return false, false
	case !now.Replicated:
		return true, true
	case s.since.IsZero():
		s.since = at
	}
	return at.Sub(s.since) >= confirmAfter, true
}

// close records the end of the run. If the run cannot be resumed, it also removes its messages from the streams.
func (r *Runner) close(ctx context.Context, out *loop.Outcome) error {
	if r.Store == nil {
		return nil
	}
	tx := journal.Commit{Workspace: r.Workspace, Fence: r.LockID, EndVersion: true, Run: r.RunID,
		End: &journal.Ending{Status: out.Status, At: r.Now()}}
	if f, ok := r.Program.(program.Framed); ok {
		tx.Changes = f.End()
	}
	if out.Status != "interrupted" {
		tx.Events = []journal.Event{{Kind: journal.RunEnd, At: r.Now(), Detail: out.Status}}
	}
	failpoint.Hit(failpoint.EndUnsaved)
	if err := r.Store.Commit(ctx, tx); err != nil {
		return fmt.Errorf("recording the end of the run: %w", err)
	}
	failpoint.Hit(failpoint.RunEnded)
	if out.Status == "interrupted" {
		return nil
	}
	if err := r.purge(ctx); err != nil { // the run has ended, and its end is recorded: this changes neither
		out.Diags = out.Diags.Append(diag.New(diag.Warning, "The streams were not cleaned",
			fmt.Sprintf("The run has ended. Its messages could not be removed from the streams of NATS; they stay there, "+
				"and do no harm: %s.", err), nil))
		return nil
	}
	failpoint.Hit(failpoint.RunPurged)
	return nil
}

// purge removes the messages of the run from the streams.
func (r *Runner) purge(ctx context.Context) error {
	return repeat(ctx, func(ctx context.Context) error { return r.Hub.PurgeRun(ctx, r.RunID, r.pools()) })
}

// pools returns the pools whose workers this run has used, and those to which earlier processes of it have dispatched
// tasks.
func (r *Runner) pools() []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(r.acts.asked(), r.earlier))))
}

// PoolsOf returns the pools to which the events say that tasks were dispatched, sorted. It is not nil.
func PoolsOf(events []journal.Event) []string {
	pools := map[string]bool{}
	for _, e := range events {
		if e.Kind == journal.Dispatch {
			pools[e.Pool] = true
		}
	}
	return append([]string{}, slices.Sorted(maps.Keys(pools))...)
}

// repeat makes a call again while the server is away or has no room, for up to loop.StoreTimeout.
func repeat(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, loop.StoreTimeout)
	defer cancel()
	again := time.NewTicker(loop.TickEvery)
	defer again.Stop()
	for {
		err := call(ctx)
		if err == nil || !loop.Outage(err) && !errors.Is(err, wire.ErrStore) {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return err
		}
	}
}

const marksBucket = "highwater"

// olderMark is the mark of a run that a version of Millipede with another protocol has begun.
var olderMark = new(wire.HighWater)

// markForm is the form of the marks that this version stores. A mark of an earlier form is about streams with the tasks
// or the results of all pools, which are no more: nothing can be compared with it.
const markForm = 2

// registersSince is the version of the protocol since which registers are in the streams in which this program looks
// for them. It is stored with a mark, so that the version before can continue a run, too.
const registersSince = 5

// storedMark is a mark as it is stored. Protocol version 1 stored none with the mark.
type storedMark struct {
	Protocol, Form int
	Mark           json.RawMessage
}

// OlderStreams reports whether a run has dispatched tasks with registers in streams that this version does not use.
func OlderStreams(ctx context.Context, v Values, run string) (bool, error) {
	mark, err := loadMark(ctx, v, run)
	return mark == olderMark, err
}

// loadMark returns the high-water mark that the run saw last in the transport; nil if it has seen none.
func loadMark(ctx context.Context, v Values, run string) (*wire.HighWater, error) {
	data, err := v.GetValue(ctx, marksBucket, run)
	if err != nil {
		return nil, fmt.Errorf("reading what is remembered of the streams: %w", err)
	}
	if data == nil {
		return nil, nil
	}
	var stored storedMark
	mark := new(wire.HighWater)
	err = json.Unmarshal(data, &stored)
	if err == nil && (stored.Protocol < registersSince || stored.Protocol > wire.ProtocolVersion) {
		return olderMark, nil
	}
	if err == nil && stored.Form != markForm {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(stored.Mark, mark)
	}
	if err != nil {
		return nil, fmt.Errorf("reading what is remembered of the streams: %w", err)
	}
	return mark, nil
}

func saveMark(ctx context.Context, v Values, run string, mark wire.HighWater) error {
	text, err := json.Marshal(mark)
	if err != nil {
		panic("coordinator: a mark does not encode: " + err.Error())
	}
	data, err := json.Marshal(storedMark{registersSince, markForm, text})
	if err != nil {
		panic("coordinator: a mark does not encode: " + err.Error())
	}
	return v.PutValue(ctx, marksBucket, run, data)
}
