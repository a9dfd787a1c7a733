package wire

import (
	"context"
	"fmt"
)

// Pages takes the pages of one call that lists objects: start, call with the task of For, end.
type Pages struct {
	Pool string
	// Address is a name that is used for this call only.
	Address string
	// Packer reads the pages. Its Held is not used: each page is reserved memory of Budget until it was processed.
	Packer Packer
	Budget *MemoryBudget
	// Take processes a page. Each page is passed once, in order. After an error no further page is passed.
	Take func(*ListPage) error

	stop func()
	// Not used at the same time by several goroutines: take is called until Stop returns, and the others afterwards.
	taken int
	err   error
}

// PartTaker is a part of Parts.
type PartTaker interface {
	TakeParts(ctx context.Context, pool, address string, take func(data []byte)) (stop func(), err error)
}

// Start begins to take pages. The caller calls Stop. ctx ends the reading of pages.
func (p *Pages) Start(ctx context.Context, from PartTaker) error {
	var err error
	p.stop, err = from.TakeParts(ctx, p.Pool, p.Address, func(data []byte) { p.take(ctx, data) })
	return err
}

// Stop waits for the page that is being processed; no other one follows. It may be called more than once.
func (p *Pages) Stop() { p.stop() }

// For returns a task to list objects, with the address for their pages.
func (p *Pages) For(t *Task) *Task {
	sent, list := *t, *t.List
	list.Address = p.Address
	sent.List = &list
	return &sent
}

// End stops, and returns an error unless all pages of the result have arrived and were processed.
func (p *Pages) End(r *Result) error {
	p.Stop()
	if p.err == nil && r.List != nil && r.List.Pages != p.taken {
		return fmt.Errorf("of %d pages of a list, %d have arrived", r.List.Pages, p.taken)
	}
	return p.err
}

func (p *Pages) take(ctx context.Context, data []byte) {
	if p.err != nil {
		return
	}
	held := p.Budget.For(p.Pool)
	defer held.Release()
	packer := p.Packer
	packer.Held = held
	plain, err := packer.Unpack(ctx, PartSubject(p.Pool, p.Address), data)
	var page *ListPage
	if err == nil {
		page, err = DecodePage(plain)
	}
	if err == nil && page.Number == p.taken { // otherwise it has arrived before
		p.taken++
		err = p.Take(page)
	}
	if err != nil {
		p.err = fmt.Errorf("page %d of a list: %w", p.taken, err)
	}
}
