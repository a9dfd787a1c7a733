package locks

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrUnknown means that there is no request with an ID.
var ErrUnknown = errors.New("there is no such request for locks")

// Book contains the tables of several states, by name. The zero value is empty. Safe for concurrent use.
type Book struct {
	mu     sync.Mutex // guards the fields below
	tables map[string]*Table
	news   chan struct{} // closed when a request is withdrawn
}

// Ask adds a request.
func (b *Book) Ask(of string, r Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tables == nil {
		b.tables = map[string]*Table{}
	}
	if b.tables[of] == nil {
		b.tables[of] = &Table{}
	}
	b.tables[of].Ask(r.clone())
}

// Leave withdraws a request.
func (b *Book) Leave(of, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.tables[of]; t != nil {
		t.Leave(id)
	}
	if b.news != nil {
		close(b.news)
		b.news = nil
	}
}

// Forget removes all requests for a state that was deleted.
func (b *Book) Forget(of string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.tables, of)
}

// Begun records the run of a request.
func (b *Book) Begun(of, id, run string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.tables[of]; t != nil {
		t.Begun(id, run)
	}
}

// Get returns a request, and whether it is granted. Its set must not be modified.
func (b *Book) Get(of, id string) (r Request, granted, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.tables[of]; t != nil {
		return t.Get(id)
	}
	return Request{}, false, false
}

// Requests returns all requests for a state, in the order of their arrival. Their sets must not be modified.
func (b *Book) Requests(of string) []Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.tables[of]; t != nil {
		return t.Requests()
	}
	return nil
}

// Blockers returns why a request waits, as Table does.
func (b *Book) Blockers(of, id string, most int) []Blocker {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.tables[of]; t != nil {
		return t.Blockers(id, most)
	}
	return nil
}

// Await blocks until a request is granted, or ctx ends. The error is ErrUnknown if the request was withdrawn.
func (b *Book) Await(ctx context.Context, of, id string) error {
	for {
		b.mu.Lock()
		granted, known := false, false
		if t := b.tables[of]; t != nil {
			_, granted, known = t.Get(id)
		}
		if b.news == nil {
			b.news = make(chan struct{})
		}
		news := b.news
		b.mu.Unlock()
		switch {
		case !known:
			return fmt.Errorf("%w: %s", ErrUnknown, id)
		case granted:
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
