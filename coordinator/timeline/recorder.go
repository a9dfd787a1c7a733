package timeline

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Recorder is the timeline of a run in progress: it has one writer and any number of concurrent readers, each with its
// own cursor.
//
// It keeps only the current state of each vertex, in the order of the last changes. So a reader that was
// disconnected for long gets each vertex once, no reader misses anything, and the cost does not depend on the
// number of readers.
type Recorder struct {
	mu       sync.Mutex // guards the fields below
	head     Head
	counts   Counts
	entries  []entry
	at       map[int]int // the index in entries, by vertex number
	newest   int         // the index of the entry that changed last; -1: none
	cursor   uint64
	shorts   []Shortage
	waiters  chan struct{} // closed and replaced at each change
	listened bool          // a reader waits for waiters
	clean    func(string) string
	lacking  func() // see OnShortage
	// most bounds the memory of the vertices, in bytes; 0 for no bound. size is what they need, and full says that it
	// was too much, so that there are no vertices any more.
	most, size int
	full       bool
}

// entry is one in the list of vertices by their last change, newest first.
type entry struct {
	Vertex
	added, changed uint64 // the cursors of these events
	older, newer   int    // -1: none
	size           int    // see Recorder.most
}

// NewRecorder returns a recorder of a run without vertices.
func NewRecorder(head Head) *Recorder {
	return &Recorder{head: head, at: map[int]int{}, newest: -1, waiters: make(chan struct{})}
}

// NewBounded returns a recorder for changes of another process (Apply), whose vertices need about most bytes of memory
// at most. If they need more, the recorder drops all of them, and says so among the errors of the run.
func NewBounded(head Head, most int) *Recorder {
	r := NewRecorder(head)
	r.most = most
	return r
}

// weight returns about how much memory a vertex needs, in bytes.
func weight(v *Vertex) int {
	n := 400 + len(v.Module) + len(v.Address) + len(v.Deposed) + len(v.Type) + len(v.Action) + 8*len(v.After) +
		len(v.Pool) + len(v.Worker) + len(v.Attempt) + len(v.Failure) + len(v.Because) + len(v.Doubtful)
	for _, w := range v.Waits {
		n += 48 + len(w.Name)
	}
	for _, name := range v.Holds {
		n += 16 + len(name)
	}
	return n
}

// measure updates the size of an entry; it requires the lock.
func (r *Recorder) measure(e *entry) {
	if r.most == 0 {
		return
	}
	now := weight(&e.Vertex)
	r.size += now - e.size
	e.size = now
}

// trim drops all vertices if they need too much memory. It reports whether they do, now or before.
func (r *Recorder) trim() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.most > 0 && r.size > r.most && !r.full {
		r.full, r.entries, r.at, r.newest, r.counts = true, nil, map[int]int{}, -1, Counts{}
		r.cursor++
		r.wake()
	}
	return r.full
}

// maxErrors and maxErrorText bound the errors of a run as a whole that a bounded recorder keeps: their number, and the
// bytes of each.
const (
	maxErrors    = 50
	maxErrorText = 64 << 10
)

// bounded returns what a bounded recorder keeps of the errors of a run.
func (r *Recorder) bounded(errors []string) []string {
	if r.most == 0 {
		return errors
	}
	errors = errors[:min(len(errors), maxErrors)]
	for i, text := range errors {
		if len(text) > maxErrorText {
			errors[i] = strings.ToValidUTF8(text[:maxErrorText], "") + "... (cut off)"
		}
	}
	return errors
}

// Clean sets a function that removes secrets from texts that providers and programs can influence: failures,
// doubts, and errors of the run. Call it before any are added.
func (r *Recorder) Clean(fn func(string) string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clean = fn
}

// cleaned requires the lock.
func (r *Recorder) cleaned(texts ...*string) {
	if r.clean == nil {
		return
	}
	for _, t := range texts {
		if *t != "" {
			*t = r.clean(*t)
		}
	}
}

// Add adds vertices. The recorder takes ownership of their slices, and replaces them as a whole when they change.
func (r *Recorder) Add(list ...Vertex) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.entries) == 0 {
		r.entries, r.at = make([]entry, 0, len(list)), make(map[int]int, len(list))
	}
	for _, v := range list {
		r.cleaned(&v.Failure, &v.Doubtful)
		r.at[v.Number] = len(r.entries)
		r.cursor++
		r.entries = append(r.entries, entry{Vertex: v, added: r.cursor, changed: r.cursor, older: -1, newer: -1})
		r.counts.add(v.Status, 1)
		r.measure(&r.entries[len(r.entries)-1])
		r.front(len(r.entries) - 1)
	}
	r.wake()
}

// Update changes a vertex. Unknown numbers are ignored. change must not call the recorder, keep its argument, or modify
// elements of the vertex's slices; it may replace the slices.
func (r *Recorder) Update(number int, change func(*Vertex)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, ok := r.at[number]
	if !ok {
		return
	}
	p := &r.entries[i]
	was, failure, doubtful := p.Status, p.Failure, p.Doubtful
	change(&p.Vertex)
	if p.Failure != failure {
		r.cleaned(&p.Failure)
	}
	if p.Doubtful != doubtful {
		r.cleaned(&p.Doubtful)
	}
	r.counts.add(was, -1)
	r.counts.add(p.Status, 1)
	r.measure(p)
	r.cursor++
	p.changed = r.cursor
	r.unlink(i)
	r.front(i)
	r.wake()
}

// Apply makes the changes that another recorder has returned since the changes that were applied before.
func (r *Recorder) Apply(c *Changes) {
	for i := range c.Vertices {
		if r.trim() {
			break
		}
		v := c.Vertices[i]
		if _, known := r.Lookup(v.Number); !known {
			r.Add(v)
			continue
		}
		r.Update(v.Number, func(p *Vertex) {
			v.Module, v.Address, v.Deposed, v.Type, v.After = p.Module, p.Address, p.Deposed, p.Type, p.After
			*p = v
		})
	}
	r.Note(func(head *Head, left *int64, shortages *[]Shortage) {
		errors := head.Errors
		*head, *left, *shortages = c.Head, c.Counts.Left, c.Shortages
		head.Errors = r.bounded(head.Errors)
		if len(errors) <= len(head.Errors) { // they are cleaned already
			head.Errors = append(errors[:len(errors):len(errors)], head.Errors[len(errors):]...)
		}
	})
	r.trim()
}

// Lookup returns a vertex, whose slices must not be modified. It returns false for an unknown number.
func (r *Recorder) Lookup(number int) (Vertex, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, ok := r.at[number]
	if !ok {
		return Vertex{}, false
	}
	return r.entries[i].Vertex, true
}

// Note changes the data of the run as a whole. The pointers are valid until change returns. change replaces the
// list of shortages, and does not modify it.
func (r *Recorder) Note(change func(head *Head, left *int64, shortages *[]Shortage)) {
	if lacking := r.note(change); lacking != nil {
		lacking()
	}
}

// note is Note. It returns the function to call if other things are lacking than before.
func (r *Recorder) note(change func(head *Head, left *int64, shortages *[]Shortage)) (lacking func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	errors, shorts := len(r.head.Errors), r.shorts
	change(&r.head, &r.counts.Left, &r.shorts)
	for i := errors; i < len(r.head.Errors); i++ {
		r.cleaned(&r.head.Errors[i])
	}
	r.cursor++
	r.wake()
	if slices.EqualFunc(shorts, r.shorts, Shortage.same) {
		return nil
	}
	return r.lacking
}

// OnShortage sets a function that is called, without the lock, when the run lacks other limits, pools or workers
// than before. It must not block, because the run waits for it.
func (r *Recorder) OnShortage(fn func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lacking = fn
}

// Shortages returns the present shortages of the run, and Head.Begun, to which their times are relative. The list must
// not be modified.
func (r *Recorder) Shortages() (begun int64, list []Shortage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.head.Begun, r.shorts
}

// unlink removes an entry from the list; the caller moves it to the front.
func (r *Recorder) unlink(i int) {
	p := &r.entries[i]
	if p.newer >= 0 {
		r.entries[p.newer].older = p.older
	} else if r.newest == i {
		r.newest = p.older
	}
	if p.older >= 0 {
		r.entries[p.older].newer = p.newer
	}
}

func (r *Recorder) front(i int) {
	p := &r.entries[i]
	p.older, p.newer = r.newest, -1
	if r.newest >= 0 {
		r.entries[r.newest].newer = i
	}
	r.newest = i
}

// wake requires the lock.
func (r *Recorder) wake() {
	if r.listened {
		close(r.waiters)
		r.waiters, r.listened = make(chan struct{}), false
	}
}

// Begun returns Head.Begun.
func (r *Recorder) Begun() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.head.Begun
}

// Counts returns the progress of the run.
func (r *Recorder) Counts() Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

// Each calls see with each vertex, in the order in which they were added. see must not modify it, keep it, or call
// the recorder.
func (r *Recorder) Each(see func(*Vertex)) {
	for from := 0; ; from += chunk {
		r.mu.Lock()
		to := min(len(r.entries), from+chunk)
		for i := from; i < to; i++ {
			see(&r.entries[i].Vertex)
		}
		ended := to == len(r.entries)
		r.mu.Unlock()
		if ended {
			return
		}
	}
}

// Model returns the run as it is. now is the time since its start, in milliseconds.
func (r *Recorder) Model(now int64) *Model {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := &Model{Cursor: r.cursor, Head: r.headAt(now), Counts: r.counts, Vertices: make([]Vertex, len(r.entries)),
		Shortages: r.shorts}
	for i := range r.entries {
		m.Vertices[i] = r.entries[i].Vertex
	}
	slices.SortFunc(m.Vertices, func(x, y Vertex) int { return x.Number - y.Number })
	return m
}

func (r *Recorder) headAt(now int64) Head {
	h := r.head
	if h.Now = now; h.Ended != None {
		h.Now = h.Ended
	}
	if r.full {
		h.Errors = append([]string{fmt.Sprintf("The operations of the run are not shown: they need more than %d MiB of "+
			"memory.", r.most>>20)}, h.Errors...)
	}
	return h
}

// Since returns the changes since a cursor, oldest first. now is as with Model. For a cursor that this recorder has not
// issued, because it belongs to another process of the run, it returns everything.
func (r *Recorder) Since(cursor uint64, now int64) *Changes {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cursor > r.cursor {
		cursor = 0
	}
	c := &Changes{Cursor: r.cursor, Head: r.headAt(now), Counts: r.counts, Shortages: r.shorts}
	for i := r.newest; i >= 0 && r.entries[i].changed > cursor; i = r.entries[i].older {
		v := r.entries[i].Vertex
		if r.entries[i].added <= cursor {
			v.Module, v.Address, v.Deposed, v.Type, v.After = "", "", "", "", nil
		}
		c.Vertices = append(c.Vertices, v)
	}
	slices.Reverse(c.Vertices)
	return c
}

// Wait blocks until there is a change after the cursor, or returns the error of ctx.
func (r *Recorder) Wait(ctx context.Context, cursor uint64) error {
	r.mu.Lock()
	if r.cursor > cursor {
		r.mu.Unlock()
		return nil
	}
	r.listened = true
	changed := r.waiters
	r.mu.Unlock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
