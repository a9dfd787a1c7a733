package operation

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

// While a pool has no worker, a call is retried after a pause that doubles between these bounds: an embedded worker
// is ready within a millisecond or two, one that is started by hand is not.
const (
	firstPause = time.Millisecond
	lastPause  = 200 * time.Millisecond
)

// A lost call is retried this often, after a pause that doubles each time.
const (
	lostCalls      = 7
	firstLostPause = 20 * time.Millisecond
)

// maxPassedOver is how often a call may meet a worker of another version: about a minute.
const maxPassedOver = 300

// call makes one call on the fast lane outside of a run, to one of the pools that may be asked. A stop of the session
// ends it, because nothing is lost.
func (s *Session) call(ctx context.Context, pools []string, task *wire.Task) (*wire.Result, diag.List) {
	ctx, release := s.unlessStopped(ctx)
	defer release()
	return s.callWith(ctx, ctx, task, s.first(pools))
}

// callWith calls once until it reaches a worker, or waiting for one is pointless. It ends with ctx, and does not
// retry after again has ended. The call itself may have crashed the worker of a lost call, so a lost call is
// retried only lostCalls times, after pauses. A worker of another version is passed over.
func (s *Session) callWith(ctx, again context.Context, task *wire.Task,
	once func(context.Context, *wire.Task) (*wire.Result, error)) (*wire.Result, diag.List) {
	began := time.Now()
	deadline := began.Add(s.WorkerWait)
	absent, lost := firstPause, firstLostPause
	told := s.waits(task)
	defer told.end()
	for losses, passed := 0, 0; ; {
		res, err := once(ctx, task)
		if err == nil && res.NotStarted {
			err = wire.ErrLostCall // the worker is stopping; another one may accept it
		}
		var pause time.Duration
		other, none := (*wire.VersionError)(nil), (*absentError)(nil)
		switch {
		case err == nil:
			return res, wire.DiagsFromWire(res.Diagnostics)
		case ctx.Err() != nil:
			return nil, diag.Errors("Operation interrupted", sentence(context.Cause(ctx)), nil)
		case errors.Is(err, wire.ErrLostCall) && losses < lostCalls:
			losses++
			pause, lost = lost, 2*lost
		case errors.Is(err, wire.ErrLostCall):
			return nil, diag.Errors("No worker has answered",
				fmt.Sprintf("No worker answered about %s, in %d attempts: the worker, or the provider's plugin with it, may "+
					"end whenever it is asked. The log of the worker has details.", task.Address, losses+1), nil)
		case errors.Is(err, wire.ErrOverdue):
			return nil, diag.Errors("No worker has answered", fmt.Sprintf("The workers that were asked about %s do not "+
				"answer: %s. The log of the workers has details.", task.Address, err), nil)
		case loop.Outage(err) && time.Since(began) < loop.OutageTimeout: // servers that elect a leader, for instance
			pause, absent = absent, min(2*absent, lastPause)
		case errors.As(err, &other) && passed < maxPassedOver:
			passed++
			pause, absent = absent, min(2*absent, lastPause)
		case other != nil:
			return nil, diag.Errors("Workers of another version", fmt.Sprintf("The workers that were asked about %s "+
				"are of another version than this coordinator: %s. Install the same version on both sides.",
				task.Address, err), nil)
		case errors.As(err, &none) && time.Now().Before(deadline):
			told.absent(none)
			pause, absent = absent, min(2*absent, lastPause)
		case none != nil:
			return nil, diag.Errors("No worker may answer", fmt.Sprintf("%s, and no other pool is asked about %s, "+
				"because none of its objects is placed elsewhere. Start a worker of this version: worker -nats URL -pool %s "+
				"-slots 10. "+
				"The argument schemas in %s names the pool that is asked about providers whose objects have no known "+
				"place yet.", upper(none.Error()), task.Address, none.pools[0], placement.FileName), nil)
		case errors.Is(err, wire.ErrNoWorker) && time.Now().Before(deadline):
			pause, absent = absent, min(2*absent, lastPause)
		default:
			return nil, diag.Errors("Failed to reach a worker", err.Error()+".", nil)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-again.Done():
		case <-timer.C:
		}
		timer.Stop()
		if err := cmp.Or(context.Cause(ctx), context.Cause(again)); err != nil {
			return nil, diag.Errors("Operation interrupted", sentence(err), nil)
		}
	}
}

// sentence returns the text of an error as a sentence.
func sentence(err error) string {
	return upper(err.Error()) + "."
}

// upper begins a text with a capital letter.
func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// firstAsked is first for the pools that may be asked about a provider. While none has a worker, they are computed
// again: a worker that has just announced itself may be that of a region.
func (s *Session) firstAsked(p addr.Provider, prior *state.State, by *string) func(context.Context, *wire.Task) (
	*wire.Result, error) {
	return func(ctx context.Context, task *wire.Task) (*wire.Result, error) {
		pools, err := s.asked(ctx, p, prior)
		if err != nil {
			return nil, err
		}
		absent := &absentError{pools: pools}
		for _, pool := range pools {
			res, err := s.callPool(ctx, pool, task)
			if !errors.Is(err, wire.ErrNoWorker) {
				*by = pool
				return res, err
			}
			absent.note(err)
		}
		return nil, absent
	}
}

// first calls one of the pools: the first that has workers.
func (s *Session) first(pools []string) func(context.Context, *wire.Task) (*wire.Result, error) {
	return func(ctx context.Context, task *wire.Task) (*wire.Result, error) {
		absent := &absentError{pools: pools}
		for _, pool := range pools {
			res, err := s.callPool(ctx, pool, task)
			if !errors.Is(err, wire.ErrNoWorker) {
				return res, err
			}
			absent.note(err)
		}
		return nil, absent
	}
}

func (s *Session) callPool(ctx context.Context, pool string, task *wire.Task) (*wire.Result, error) {
	held := s.Hub.Budget.For(pool)
	defer held.Release()
	sent := *task
	var err error
	if sent.Protocol, err = s.version(ctx, pool); err != nil {
		return nil, err
	}
	packer := wire.Packer{Run: task.Run, Blobs: s.Hub.TaskBlobs(pool), Incoming: s.Hub.PoolBlobs(pool),
		Rand: rand.Reader, Held: held, Version: sent.Protocol}
	if sent.Environment, err = s.Environment.in(ctx, s, pool); err != nil {
		return nil, err
	}
	if err := s.Hub.Supply(ctx, pool, task.Provider.Package); err != nil {
		return nil, err
	}
	about := wire.CallSubject(pool, sent.Protocol)
	data, err := packer.Pack(ctx, about, wire.EncodeTask(&sent))
	if err != nil {
		return nil, err
	}
	answer, err := wire.Timed(ctx, task, func(ctx context.Context) ([]byte, error) { return s.Hub.Call(ctx, pool, data) })
	if err != nil {
		return nil, err
	}
	if answer, err = packer.Unpack(ctx, about, answer); err != nil {
		return nil, err
	}
	return wire.DecodeResult(answer)
}

// waitTold is how long a call waits for a worker before the user is told.
const waitTold = time.Second

// waiting tells the observer which pools a call waits for.
type waiting struct {
	s     *Session
	task  *wire.Task
	since time.Time
	told  bool
}

func (s *Session) waits(task *wire.Task) *waiting { return &waiting{s: s, task: task} }

func (w *waiting) absent(none *absentError) {
	now := time.Now()
	if w.since.IsZero() {
		w.since = now
	}
	if w.told || w.s.Observer == nil || now.Sub(w.since) < waitTold {
		return
	}
	w.told = true
	w.s.Observer.Waiting([]coordinator.Wait{{Pool: strings.Join(none.pools, ", "), Vertices: 1,
		Address: w.task.Address, Call: true, Unsuited: none.unsuited}})
}

func (w *waiting) end() {
	if w.told {
		w.s.Observer.Waiting(nil)
	}
}
