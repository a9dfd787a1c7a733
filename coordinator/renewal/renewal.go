// Package renewal keeps ephemeral objects alive between opening and closing: it renews them when their provider has
// requested it. It does not open or close them.
//
// Renewals are not vertices of a run. They change nothing that a journal would have to record, hold no permit, and
// only the closing of their object waits for them. Objects that were opened in a run that was cut off are opened
// again when the run is resumed.
package renewal

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/internal/bug"
	"github.com/millipede-iac/millipede/internal/sleep"
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

// Renewer renews open objects until they are released. Its methods may be called from any goroutine. The caller
// stops it.
type Renewer struct {
	call Caller
	ctx  context.Context // of the renewals; ends with Stop
	stop context.CancelFunc
	all  sync.WaitGroup

	mu      sync.Mutex // guards kept
	objects map[string]*renewed
}

// renewed is an object that is kept open. Its fields belong to its goroutine until that has closed done.
type renewed struct {
	Open
	release context.CancelFunc
	done    chan struct{}
	diags   diag.List
}

// NewRenewer returns a Renewer without objects.
func NewRenewer(call Caller) *Renewer {
	ctx, stop := context.WithCancel(context.Background())
	return &Renewer{call: call, ctx: ctx, stop: stop, objects: map[string]*renewed{}}
}

// Add renews an object, if it needs renewals.
func (r *Renewer) Add(o Open) {
	if r == nil || o.RenewAt.IsZero() {
		return
	}
	until, release := context.WithCancel(r.ctx)
	e := &renewed{Open: o, release: release, done: make(chan struct{})}
	r.mu.Lock()
	r.objects[o.Address] = e
	r.mu.Unlock()
	r.all.Add(1)
	go func() {
		defer r.all.Done()
		defer close(e.done)
		if err := bug.Catch(func() error { r.renew(until, e); return nil }); err != nil {
			e.diags = e.diags.Append(bugOf(e.Address, err))
		}
	}()
}

// renew renews until the object is released, or a renewal fails.
func (r *Renewer) renew(until context.Context, e *renewed) {
	for !e.RenewAt.IsZero() {
		if sleep.For(until, time.Until(e.RenewAt)) != nil {
			return
		}
		// A release does not cancel a renewal in progress: the closing needs its result.
		res, diags := r.call(r.ctx, e.Pool, &wire.Task{
			Address: e.Address, Provider: e.Provider, Ephemeral: &wire.EphemeralTask{Op: "renew", Type: e.Type,
				Private: e.Private},
		})
		if r.ctx.Err() != nil {
			return
		}
		e.say(diags.WithAddress(e.Address))
		if diags.HasErrors() || res.Ephemeral == nil {
			return
		}
		e.Private, e.RenewAt = res.Ephemeral.Private, res.Ephemeral.RenewAt
	}
}

// say adds problems of a renewal. Many renewals are likely to have the same warning, which is reported once.
func (e *renewed) say(diags diag.List) {
	for _, d := range diags {
		if !slices.ContainsFunc(e.diags, func(earlier *diag.Diagnostic) bool {
			return earlier.Severity == d.Severity && earlier.Summary == d.Summary && earlier.Detail == d.Detail
		}) {
			e.diags = e.diags.Append(d)
		}
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
func (r *Renewer) Release(address string, private []byte) ([]byte, diag.List) {
	if r == nil {
		return private, nil
	}
	r.mu.Lock()
	e := r.objects[address]
	delete(r.objects, address)
	r.mu.Unlock()
	if e == nil {
		return private, nil
	}
	e.release()
	<-e.done
	return e.Private, e.diags
}

// Stop ends all renewals and waits for them. This run will not close objects that are still open.
func (r *Renewer) Stop() {
	r.stop()
	r.all.Wait()
}
