package coordinator

import (
	"crypto/rand"
	"fmt"

	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/wire"
)

// pages takes the pages of one call, and passes them to the program.
type pages struct {
	x       *executor
	vertex  int
	pool    string
	address string
	stop    func() // waits for take; may be called more than once

	// Not used at the same time by several goroutines: take is called until stop returns, and the others afterwards.
	taken int
	err   error // of the first page that could not be read
}

// takePages prepares a call whose result comes in pages. It returns the task with the address that the worker sends
// them to. Other tasks are returned as they are, with nil. The caller calls stop.
func (x *executor) takePages(a loop.Call) (*wire.Task, *pages, error) {
	if a.Task.List == nil {
		return a.Task, nil, nil
	}
	p := &pages{x: x, vertex: a.Vertex, pool: a.Pool, address: x.NewID()}
	sent, list := *a.Task, *a.Task.List
	sent.List, list.Address = &list, p.address
	var err error
	p.stop, err = x.Hub.TakeParts(x.ctx, p.pool, p.address, p.take)
	return &sent, p, err
}

// take processes one page. A page occupies memory until it was processed.
func (p *pages) take(data []byte) {
	if p.err != nil {
		return
	}
	held := p.x.Hub.Budget.For(p.pool)
	defer held.Release()
	packer := wire.Packer{Run: p.x.RunID, Incoming: p.x.Hub.PoolBlobs(p.pool), Blobs: p.x.Hub, Rand: rand.Reader,
		Held: held}
	plain, err := packer.Unpack(p.x.ctx, wire.PartSubject(p.pool, p.address), data)
	var page *wire.ListPage
	if err == nil {
		page, err = wire.DecodePage(plain)
	}
	if err != nil {
		p.err = fmt.Errorf("reading page %d of a list: %w", p.taken, err)
		return
	}
	if page.Number == p.taken { // otherwise it has arrived before
		p.taken++
		p.x.guard(func() { p.x.Program.(program.Pager).Page(p.vertex, page) })
	}
}

// end stops taking pages, and returns an error unless all of the result have arrived.
func (p *pages) end(r *wire.Result) error {
	if p == nil {
		return nil
	}
	p.stop()
	if p.err == nil && r.List != nil && r.List.Pages != p.taken {
		return fmt.Errorf("of %d pages of a list, %d have arrived", r.List.Pages, p.taken)
	}
	return p.err
}
