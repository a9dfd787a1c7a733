package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/internal/bug"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/worker/change"
)

const (
	// pageAfter is how long a page waits for further objects, so that the first ones are seen while a slow provider
	// looks for the others.
	pageAfter = 300 * time.Millisecond
	// objectsAhead is how many objects a provider may list while a page is on its way.
	objectsAhead = 256
)

// list lists objects, and sends them in pages while the provider goes on. It holds as much as two pages in memory,
// however many objects there are.
func (w *Worker) list(ctx context.Context, ref wire.TaskRef, host change.Host, t *wire.ListTask) *wire.Result {
	out := &wire.Result{Protocol: wire.ProtocolVersion}
	p := &pager{w: w, ref: ref, address: t.Address}
	objects := make(chan wire.ListedObject, objectsAhead)
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error { return bug.Catch(func() error { return p.run(gctx, objects) }) })
	diags, err := change.List(gctx, host, t, func(o wire.ListedObject) error {
		select {
		case objects <- o:
			return nil
		case <-gctx.Done():
			return context.Cause(gctx)
		}
	})
	close(objects)
	if sent := group.Wait(); sent != nil {
		err = sent
	}
	switch {
	case errors.Is(err, errAskedToStop), errors.Is(context.Cause(ctx), errAskedToStop):
		diags = diag.Errors("Operation interrupted", "The objects were not listed to the end.", nil)
	case err != nil:
		diags = append(diags, diag.New(diag.Error, "Failed to send listed objects", fmt.Sprintf("Worker %s listed "+
			"objects for %s that did not arrive: %s.", w.ID, host.Address, err), nil))
	default:
		out.List = &wire.ListResult{Pages: p.next.Number, Objects: p.sent}
	}
	out.Diagnostics = wire.DiagsToWire(diags)
	return out
}

// pager collects objects in pages.
type pager struct {
	w       *Worker
	ref     wire.TaskRef
	address string

	next wire.ListPage
	size int // in bytes, of the objects in next
	sent int64
}

// run sends the objects until there are no more.
func (p *pager) run(ctx context.Context, objects <-chan wire.ListedObject) error {
	tick := time.NewTicker(pageAfter)
	defer tick.Stop()
	for {
		var full bool
		select {
		case o, more := <-objects:
			if !more {
				return p.send(ctx)
			}
			p.next.Objects = append(p.next.Objects, o)
			p.size += o.Size()
			full = len(p.next.Objects) >= wire.MaxPageObjects || p.size >= wire.MaxPageBytes
		case <-tick.C:
			full = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if full {
			if err := p.send(ctx); err != nil {
				return err
			}
		}
	}
}

// send sends the page, unless it is empty, and returns when it was taken.
func (p *pager) send(ctx context.Context) error {
	if len(p.next.Objects) == 0 {
		return nil
	}
	packer := wire.Packer{Run: p.ref.Run, Blobs: p.w.Blobs.PoolBlobs(p.ref.Pool), Rand: p.w.Rand}
	data, err := packer.Pack(ctx, wire.PartSubject(p.ref.Pool, p.address), wire.EncodePage(&p.next))
	if err != nil {
		return err
	}
	if err := p.w.Parts.SendPart(ctx, p.ref.Pool, p.address, data); err != nil {
		return err
	}
	p.sent += int64(len(p.next.Objects))
	p.next.Number++
	clear(p.next.Objects)
	p.next.Objects, p.size = p.next.Objects[:0], 0
	return nil
}
