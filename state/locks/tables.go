package locks

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrUnknown means that there is no request with an ID.
var ErrUnknown = errors.New("there is no such request for locks")

// Tables contains the tables of several states, by name. The zero value is empty. Safe for concurrent use.
type Tables struct {
	mu     sync.Mutex // guards the fields below
	tables map[string]*Table
	news   chan struct{} // closed when a request is withdrawn
}

// Ask adds a request.
func (a *Tables) Ask(of string, r Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tables == nil {
		a.tables = map[string]*Table{}
	}
	if a.tables[of] == nil {
		a.tables[of] = &Table{}
	}
	a.tables[of].Ask(r.clone())
}

// Leave withdraws a request.
func (a *Tables) Leave(of, id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.tables[of]; t != nil {
		t.Leave(id)
	}
	if a.news != nil {
		close(a.news)
		a.news = nil
	}
}

// Forget removes all requests for a state that was deleted.
func (a *Tables) Forget(of string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.tables, of)
}

// Begun records the run of a request.
func (a *Tables) Begun(of, id, run string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.tables[of]; t != nil {
		t.Begun(id, run)
	}
}

// Get returns a request, and whether it is granted. Its set must not be modified.
func (a *Tables) Get(of, id string) (r Request, granted, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.tables[of]; t != nil {
		return t.Get(id)
	}
	return Request{}, false, false
}

// Requests returns all requests for a state, in the order of their arrival. Their sets must not be modified.
func (a *Tables) Requests(of string) []Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.tables[of]; t != nil {
		return t.Requests()
	}
	return nil
}

// Blockers returns why a request waits, as Table does.
func (a *Tables) Blockers(of, id string, most int) []Blocker {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.tables[of]; t != nil {
		return t.Blockers(id, most)
	}
	return nil
}

// Await blocks until a request is granted, or ctx ends. The error is ErrUnknown if the request was withdrawn.
func (a *Tables) Await(ctx context.Context, of, id string) error {
	for {
		a.mu.Lock()
		granted, known := false, false
		if t := a.tables[of]; t != nil {
			_, granted, known = t.Get(id)
		}
		if a.news == nil {
			a.news = make(chan struct{})
		}
		news := a.news
		a.mu.Unlock()
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
