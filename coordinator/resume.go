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
	"github.com/millipede-iac/millipede/failpoint"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// Resume returns a run that goes on where an earlier process left it: what is done is not done again, what was
// dispatched is awaited or, where nobody has it, published again; the rest is started. The program must have been made
// from the plan and the state that the store holds, the coordinator's name must be that of the run.
func Resume(ctx context.Context, o Options) (*Runner, error) {
	events, err := o.Store.Events(ctx, o.RunID)
	if err != nil {
		return nil, fmt.Errorf("reading the journal of run %s: %w", o.RunID, err)
	}
	r, err := newRunner(ctx, o, events)
	if err != nil {
		return nil, fmt.Errorf("reading the journal of run %s: %w", o.RunID, err)
	}
	if p, ok := o.Program.(program.Restorer); ok && len(r.memory) > 0 {
		p.Restore(r.memory.Done(o.Program.Graph().Len()))
	}
	for m := range r.memory.Attempts() {
		r.acts.remember(m.ID, known{m.Pool, m.Address})
	}
	return r, nil
}

// open makes durable what comes before the first vertex, and compares the transport with what the run remembers of it.
func (r *Runner) open(ctx context.Context) error {
	if r.Store == nil {
		return nil
	}
	if f, ok := r.Program.(program.Framed); ok && len(r.memory) == 0 {
		if changes := f.Begin(); len(changes) > 0 {
			if err := r.Store.Commit(ctx, r.Workspace, r.LockID, journal.Tx{Changes: changes}); err != nil {
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
	now, err := r.Hub.HighWater(ctx, slices.Sorted(maps.Keys(mark.Claims)))
	if err != nil {
		return fmt.Errorf("asking NATS for its streams: %w", err)
	}
	if mark.Lost(now) {
		r.inbox.put(loop.LostData{})
	}
	return nil
}

// close makes the end of the run durable, and removes what it left in the streams if nothing of it is needed again.
func (r *Runner) close(ctx context.Context, out *loop.Outcome) error {
	if r.Store == nil {
		return nil
	}
	tx := journal.Tx{EndVersion: true, Run: r.RunID}
	if f, ok := r.Program.(program.Framed); ok {
		tx.Changes = f.End()
	}
	if out.Status != "interrupted" {
		tx.Events = []journal.Event{{Kind: journal.RunEnd, At: r.Now(), Detail: out.Status}}
	}
	failpoint.Hit(failpoint.EndUnsaved)
	if err := r.Store.Commit(ctx, r.Workspace, r.LockID, tx); err != nil {
		return fmt.Errorf("recording the end of the run: %w", err)
	}
	failpoint.Hit(failpoint.EndSaved)
	if err := r.Store.EndRun(ctx, r.LockID, r.RunID, out.Status, r.Now()); err != nil {
		return fmt.Errorf("recording the end of the run: %w", err)
	}
	failpoint.Hit(failpoint.RunEnded)
	if out.Status == "interrupted" {
		return nil
	}
	if err := r.purge(ctx); err != nil { // the run has ended, and its end is recorded: this changes neither
		out.Diags = out.Diags.Append(diag.New(diag.Warning, "The streams were not cleaned",
			fmt.Sprintf("The run has ended. What it left in the streams of NATS could not be removed; it stays there, and "+
				"does no harm: %s.", err), nil))
		return nil
	}
	failpoint.Hit(failpoint.RunPurged)
	return nil
}

// purge removes what the run left in the streams. A server that is away at that moment, or has no room, is waited for,
// for a while.
func (r *Runner) purge(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, loop.StorePatience)
	defer cancel()
	again := time.NewTicker(loop.TickEvery)
	defer again.Stop()
	for {
		err := r.Hub.PurgeRun(ctx, r.RunID)
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

// olderMark is the mark of a run that a version of the program with another protocol has begun.
var olderMark = new(wire.HighWater)

// storedMark is a mark as the store keeps it. Marks of protocol version 1 named no version.
type storedMark struct {
	Protocol int
	Mark     json.RawMessage
}

// loadMark returns what the run last saw in the transport; nil when it has seen nothing yet.
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
	if err == nil && stored.Protocol != wire.ProtocolVersion {
		return olderMark, nil
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
	data, err := json.Marshal(storedMark{wire.ProtocolVersion, text})
	if err != nil {
		panic("coordinator: a mark does not encode: " + err.Error())
	}
	return v.PutValue(ctx, marksBucket, run, data)
}
