package timeline

import (
	"context"
	"slices"
	"sync"
)

// Book is the timeline of a run in progress: it has one writer and any number of concurrent readers, each with its
// own cursor.
//
// It keeps only the current state of each vertex, in the order of the last changes. So a reader that was
// disconnected for long gets each vertex once, no reader misses anything, and the cost does not depend on the
// number of readers.
type Book struct {
	mu       sync.Mutex // guards the fields below
	head     Head
	counts   Counts
	pages    []page
	at       map[int]int // the index in pages, by vertex number
	newest   int         // the index of the page that changed last; -1: none
	cursor   uint64
	shorts   []Shortage
	waiters  chan struct{} // closed and replaced at each change
	listened bool          // a reader waits for waiters
	clean    func(string) string
	lacking  func() // see OnShortage
}

// page is an entry in the list of vertices by their last change, newest first.
type page struct {
	Vertex
	added, changed uint64 // the cursors of these events
	older, newer   int    // -1: none
}

// NewBook returns a book of a run without vertices.
func NewBook(head Head) *Book {
	return &Book{head: head, at: map[int]int{}, newest: -1, waiters: make(chan struct{})}
}

// Clean sets a function that removes secrets from texts that providers and programs can influence: failures,
// doubts, and errors of the run. Call it before any are added.
func (b *Book) Clean(fn func(string) string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clean = fn
}

// cleaned requires the lock.
func (b *Book) cleaned(texts ...*string) {
	if b.clean == nil {
		return
	}
	for _, t := range texts {
		if *t != "" {
			*t = b.clean(*t)
		}
	}
}

// Add adds vertices. The book takes ownership of their slices, and replaces them as a whole when they change.
func (b *Book) Add(list ...Vertex) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pages) == 0 {
		b.pages, b.at = make([]page, 0, len(list)), make(map[int]int, len(list))
	}
	for _, v := range list {
		b.cleaned(&v.Failure, &v.Doubtful)
		b.at[v.Number] = len(b.pages)
		b.cursor++
		b.pages = append(b.pages, page{Vertex: v, added: b.cursor, changed: b.cursor, older: -1, newer: -1})
		b.counts.add(v.Status, 1)
		b.front(len(b.pages) - 1)
	}
	b.wake()
}

// Update changes a vertex. Unknown numbers are ignored. change must not call the book, keep its argument, or modify
// elements of the vertex's slices; it may replace the slices.
func (b *Book) Update(number int, change func(*Vertex)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i, ok := b.at[number]
	if !ok {
		return
	}
	p := &b.pages[i]
	was, failure, doubtful := p.Status, p.Failure, p.Doubtful
	change(&p.Vertex)
	if p.Failure != failure {
		b.cleaned(&p.Failure)
	}
	if p.Doubtful != doubtful {
		b.cleaned(&p.Doubtful)
	}
	b.counts.add(was, -1)
	b.counts.add(p.Status, 1)
	b.cursor++
	p.changed = b.cursor
	b.unlink(i)
	b.front(i)
	b.wake()
}

// Lookup returns a vertex, whose slices must not be modified. It returns false for an unknown number.
func (b *Book) Lookup(number int) (Vertex, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i, ok := b.at[number]
	if !ok {
		return Vertex{}, false
	}
	return b.pages[i].Vertex, true
}

// Note changes the data of the run as a whole. The pointers are valid until change returns. change replaces the
// list of shortages, and does not modify it.
func (b *Book) Note(change func(head *Head, left *int64, shortages *[]Shortage)) {
	if lacking := b.note(change); lacking != nil {
		lacking()
	}
}

// note is Note. It returns the function to call if other things are lacking than before.
func (b *Book) note(change func(head *Head, left *int64, shortages *[]Shortage)) (lacking func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	errors, shorts := len(b.head.Errors), b.shorts
	change(&b.head, &b.counts.Left, &b.shorts)
	for i := errors; i < len(b.head.Errors); i++ {
		b.cleaned(&b.head.Errors[i])
	}
	b.cursor++
	b.wake()
	if slices.EqualFunc(shorts, b.shorts, Shortage.same) {
		return nil
	}
	return b.lacking
}

// OnShortage sets a function that is called, without the lock, when the run lacks other limits, pools or workers
// than before. It must not block, because the run waits for it.
func (b *Book) OnShortage(fn func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lacking = fn
}

// Shortages returns what the run lacks at the moment, and Head.Begun, to which their times refer. The list must not
// be modified.
func (b *Book) Shortages() (begun int64, list []Shortage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.head.Begun, b.shorts
}

// unlink removes a page from the list; the caller moves it to the front.
func (b *Book) unlink(i int) {
	p := &b.pages[i]
	if p.newer >= 0 {
		b.pages[p.newer].older = p.older
	} else if b.newest == i {
		b.newest = p.older
	}
	if p.older >= 0 {
		b.pages[p.older].newer = p.newer
	}
}

func (b *Book) front(i int) {
	p := &b.pages[i]
	p.older, p.newer = b.newest, -1
	if b.newest >= 0 {
		b.pages[b.newest].newer = i
	}
	b.newest = i
}

// wake requires the lock.
func (b *Book) wake() {
	if b.listened {
		close(b.waiters)
		b.waiters, b.listened = make(chan struct{}), false
	}
}

// Begun returns Head.Begun.
func (b *Book) Begun() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.head.Begun
}

// Counts returns the progress of the run.
func (b *Book) Counts() Counts {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts
}

// Each calls see with each vertex, in the order in which they were added. see must not modify it, keep it, or call
// the book.
func (b *Book) Each(see func(*Vertex)) {
	for from := 0; ; from += chunk {
		b.mu.Lock()
		to := min(len(b.pages), from+chunk)
		for i := from; i < to; i++ {
			see(&b.pages[i].Vertex)
		}
		ended := to == len(b.pages)
		b.mu.Unlock()
		if ended {
			return
		}
	}
}

// Model returns the run as it is. now is the time since its start, in milliseconds.
func (b *Book) Model(now int64) *Model {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := &Model{Cursor: b.cursor, Head: b.headAt(now), Counts: b.counts, Vertices: make([]Vertex, len(b.pages)),
		Shortages: b.shorts}
	for i := range b.pages {
		m.Vertices[i] = b.pages[i].Vertex
	}
	slices.SortFunc(m.Vertices, func(x, y Vertex) int { return x.Number - y.Number })
	return m
}

func (b *Book) headAt(now int64) Head {
	h := b.head
	if h.Now = now; h.Ended != None {
		h.Now = h.Ended
	}
	return h
}

// Since returns the changes since a cursor, oldest first. now is as with Model. For a cursor that this book has not
// issued, because it belongs to another process of the run, it returns everything.
func (b *Book) Since(cursor uint64, now int64) *Changes {
	b.mu.Lock()
	defer b.mu.Unlock()
	if cursor > b.cursor {
		cursor = 0
	}
	c := &Changes{Cursor: b.cursor, Head: b.headAt(now), Counts: b.counts, Shortages: b.shorts}
	for i := b.newest; i >= 0 && b.pages[i].changed > cursor; i = b.pages[i].older {
		v := b.pages[i].Vertex
		if b.pages[i].added <= cursor {
			v.Module, v.Address, v.Deposed, v.Type, v.After = "", "", "", "", nil
		}
		c.Vertices = append(c.Vertices, v)
	}
	slices.Reverse(c.Vertices)
	return c
}

// Wait blocks until there is a change after the cursor, or returns the error of ctx.
func (b *Book) Wait(ctx context.Context, cursor uint64) error {
	b.mu.Lock()
	if b.cursor > cursor {
		b.mu.Unlock()
		return nil
	}
	b.listened = true
	changed := b.waiters
	b.mu.Unlock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
