// Package renewal keeps ephemeral objects alive between opening and closing: it renews them when their provider has
// requested it. It does not open or close them.
//
// Renewals are not vertices of a run. They change nothing that a journal would have to record, hold no permit, and
// only the closing of their object waits for them. Objects that were opened in a run that was cut off are opened
// again when the run is resumed.
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
	// Pool is the pool where it was opened and is renewed.
	Pool string
	// Private is the provider's private data for renewing or closing it; RenewAt is the time of the renewal, zero
	// for never.
	Private []byte
	RenewAt time.Time
}

// Caller executes a task on a worker of a pool.
type Caller func(ctx context.Context, pool string, task *wire.Task) (*wire.Result, diag.List)

// Keeper renews open objects until they are released. Its methods may be called from any goroutine. The caller
// stops it.
type Keeper struct {
	call Caller
	ctx  context.Context // of the renewals; ends with Stop
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

// NewKeeper returns a Keeper without objects.
func NewKeeper(call Caller) *Keeper {
	ctx, stop := context.WithCancel(context.Background())
	return &Keeper{call: call, ctx: ctx, stop: stop, kept: map[string]*kept{}}
}

// Keep renews an object, if it needs renewals.
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

// renew renews until the object is released, or a renewal fails.
func (k *Keeper) renew(until context.Context, e *kept) {
	for !e.RenewAt.IsZero() {
		timer := time.NewTimer(time.Until(e.RenewAt))
		select {
		case <-until.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		// A release does not cancel a renewal in progress: the closing needs its result.
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

// bugOf reports a panic during a renewal. The object is closed with its last private data.
func bugOf(address string, err error) diag.List {
	d := diag.New(diag.Error, "The renewals have ended", err.Error(), nil)
	d.Extra = err
	return diag.List{d}.WithAddress(address)
}

// Release ends the renewals of an object that is about to be closed; it waits for one in progress. It returns the
// private data for closing (the given data, if it was never renewed) and the problems of the renewals.
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

// Stop ends all renewals and waits for them. This run will not close objects that are still open.
func (k *Keeper) Stop() {
	k.stop()
	k.all.Wait()
}
