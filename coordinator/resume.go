package coordinator

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/test/failpoint"
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
	if p, ok := o.Program.(Restorer); ok && len(r.loop.past) > 0 {
		done := make([]bool, len(r.loop.vertices))
		for v, p := range r.loop.past {
			done[v] = p.status == journal.Done
		}
		p.Restore(done)
	}
	return r, nil
}

// open makes durable what comes before the first vertex, and compares the transport with what the run remembers of it.
func (r *Runner) open(ctx context.Context) error {
	if r.Store == nil {
		return nil
	}
	if f, ok := r.Program.(Framed); ok && len(r.loop.past) == 0 {
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
	now, err := r.Transport.HighWater(ctx)
	if err != nil {
		return fmt.Errorf("asking NATS for its streams: %w", err)
	}
	if regressed(*mark, now) {
		r.inbox.put(lostData{})
	}
	return nil
}

// close makes the end of the run durable, and removes what it left in the streams if nothing of it is needed again.
func (r *Runner) close(ctx context.Context, out *Outcome) error {
	if r.Store == nil {
		return nil
	}
	tx := journal.Tx{EndVersion: true}
	if f, ok := r.Program.(Framed); ok {
		tx.Changes = f.End()
	}
	if out.Status != "interrupted" {
		tx.Run = r.RunID
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
	if err := r.Transport.PurgeRun(ctx, r.RunID); err != nil {
		return fmt.Errorf("removing what the run left in the streams: %w", err)
	}
	failpoint.Hit(failpoint.RunPurged)
	return nil
}

const marksBucket = "highwater"

// regressed tells whether the transport holds less than it did.
func regressed(was, now wire.HighWater) bool {
	return was.Incarnation != now.Incarnation || now.Tasks < was.Tasks || now.Results < was.Results || now.Claims < was.Claims
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
	mark := new(wire.HighWater)
	if err := json.Unmarshal(data, mark); err != nil {
		return nil, fmt.Errorf("reading what is remembered of the streams: %w", err)
	}
	return mark, nil
}

func saveMark(ctx context.Context, v Values, run string, mark wire.HighWater) error {
	data, err := json.Marshal(mark)
	if err != nil {
		panic("coordinator: a mark does not encode: " + err.Error())
	}
	return v.PutValue(ctx, marksBucket, run, data)
}
