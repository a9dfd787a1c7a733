// Package renewal keeps ephemeral objects alive between their opening and their closing: it has them renewed when
// their provider said that it must be done. It opens and closes nothing.
//
// Renewals are no vertices of a run. They change nothing that a journal would have to know of, they hold no permit,
// and nothing waits for them but the closing of their object: what was opened in a run that was cut off is opened
// anew when the run is resumed.
package renewal

import (
	"context"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/bug"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/wire"
)

// Open is an ephemeral object that a provider has opened.
type Open struct {
	// Address, Type and Provider are those of the task that opened it.
	Address  string
	Type     string
	Provider wire.Provider
	// Pool is where it was opened, and is renewed.
	Pool string
	// Private is what the provider gave to renew or close it with; RenewAt is when it must be renewed, zero for never.
	Private []byte
	RenewAt time.Time
}

// Caller has a task carried out by a worker of a pool.
type Caller func(ctx context.Context, pool string, task *wire.Task) (*wire.Result, diag.List)

// Keeper has open objects renewed until they are released. Its methods may be called from any goroutine. Stop it.
type Keeper struct {
	call Caller
	ctx  context.Context // ends with Stop; the renewals' own, not a caller's
	stop context.CancelFunc
	all  sync.WaitGroup

	mu   sync.Mutex // guards kept
	kept map[string]*kept
}

// kept is one object. Its fields belong to its goroutine until that has closed done.
type kept struct {
	Open
	release context.CancelFunc
	done    chan struct{}
	diags   diag.List
}

// NewKeeper returns a Keeper of nothing.
func NewKeeper(call Caller) *Keeper {
	ctx, stop := context.WithCancel(context.Background())
	return &Keeper{call: call, ctx: ctx, stop: stop, kept: map[string]*kept{}}
}

// Keep has an object renewed, if it ever needs to be.
func (k *Keeper) Keep(o Open) {
	if k == nil || o.RenewAt.IsZero() {
		return
	}
	until, release := context.WithCancel(k.ctx)
	e := &kept{Open: o, release: release, done: make(chan struct{})}
	k.mu.Lock()
	k.kept[o.Address] = e
	k.mu.Unlock()
	k.all.Add(1)
	go func() {
		defer k.all.Done()
		defer close(e.done)
		if err := bug.Catch(func() error { k.renew(until, e); return nil }); err != nil {
			e.diags = e.diags.Append(bugOf(e.Address, err))
		}
	}()
}

// renew renews until the object is released, or cannot be renewed any more.
func (k *Keeper) renew(until context.Context, e *kept) {
	for !e.RenewAt.IsZero() {
		timer := time.NewTimer(time.Until(e.RenewAt))
		select {
		case <-until.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		// A renewal that has begun is not cut off by the release: the closing needs what comes back.
		res, diags := k.call(k.ctx, e.Pool, &wire.Task{
			Address: e.Address, Provider: e.Provider, Ephemeral: &wire.EphemeralTask{Op: "renew", Type: e.Type,
				Private: e.Private},
		})
		if k.ctx.Err() != nil {
			return
		}
		if e.diags = e.diags.Append(diags.WithAddress(e.Address)); diags.HasErrors() || res.Ephemeral == nil {
			return
		}
		e.Private, e.RenewAt = res.Ephemeral.Private, res.Ephemeral.RenewAt
	}
}

// bugOf tells of a panic while an object was renewed. The object is closed with what is known of it.
func bugOf(address string, err error) diag.List {
	d := diag.New(diag.Error, "The renewals have ended", err.Error(), nil)
	d.Extra = err
	return diag.List{d}.WithAddress(address)
}

// Release ends the renewals of an object that is about to be closed; it waits for one that is in progress. It returns
// what to close the object with (the given private data, when it was never renewed) and what went wrong meanwhile.
func (k *Keeper) Release(address string, private []byte) ([]byte, diag.List) {
	if k == nil {
		return private, nil
	}
	k.mu.Lock()
	e := k.kept[address]
	delete(k.kept, address)
	k.mu.Unlock()
	if e == nil {
		return private, nil
	}
	e.release()
	<-e.done
	return e.Private, e.diags
}

// Stop ends all renewals and waits for them. What is still open will not be closed by this run.
func (k *Keeper) Stop() {
	k.stop()
	k.all.Wait()
}
