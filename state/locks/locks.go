// Package locks implements object locks: they separate runs that change one state at the same time, by the objects
// that they use.
//
// Table decides which requests are granted: it is data and functions, without clock, I/O or goroutines. Tables makes
// such tables usable by several goroutines, which can wait. A store makes the requests durable, and rejects changes
// of objects that are not locked.
package locks

import (
	"container/list"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/lang/addr"
)

// Object is something that can be locked: a byte for its kind, then its name.
type Object string

// All is the whole state. Every request locks it in some mode.
const All Object = "*"

// The kinds of objects.
const (
	instanceKind   = 'i'
	resourceKind   = 'r'
	outputKind     = 'o'
	checkKind      = 'c'
	dependentsKind = 'd'
)

// Instance returns an instance of a resource with all its objects, by its address.
func Instance(address string) Object { return object(instanceKind, address) }

// Resource returns the existence and the provider of a resource: its first instance creates it, and its last one
// removes it.
func Resource(address string) Object { return object(resourceKind, address) }

// Output returns a root output.
func Output(name string) Object { return object(outputKind, name) }

// Check returns the result of a check, by its static address.
func Check(config string) Object { return object(checkKind, config) }

// Dependents returns the set of objects that depend on a resource.
func Dependents(of addr.ConfigResource) Object { return object(dependentsKind, of.String()) }

func object(kind byte, name string) Object { return Object(string(kind) + name) }

// String returns the object for messages.
func (o Object) String() string {
	if o == All || o == "" {
		return "the whole state"
	}
	switch name := string(o[1:]); o[0] {
	case resourceKind:
		return "the instances of " + name
	case outputKind:
		return "output." + name
	case checkKind:
		return "the check results of " + name
	case dependentsKind:
		return "what depends on " + name
	default:
		return name
	}
}

// Mode is how an object is locked. Several requests may have an object in the same mode, except for Write;
// different modes conflict.
type Mode byte

// The modes.
const (
	Read   Mode = 'r' // its values are used
	Keep   Mode = 'k' // of Dependents: none may be added
	Depend Mode = 'd' // of Dependents: some are added
	Write  Mode = 'w' // it is modified
)

// Set contains the objects that a run locks, with their modes.
type Set map[Object]Mode

// Add adds an object. An object that is added in two modes is locked for writing.
func (s Set) Add(o Object, m Mode) {
	if has, ok := s[o]; ok && has != m {
		m = Write
	}
	s[o] = m
}

// Whole reports whether everything may be changed.
func (s Set) Whole() bool { return s[All] == Write }

// Writes reports whether an object may be changed.
func (s Set) Writes(o Object) bool { return s.Whole() || s[o] == Write }

// Covers reports whether this set includes all locks of another set.
func (s Set) Covers(other Set) bool {
	if s.Whole() {
		return true
	}
	for o, m := range other {
		if has, ok := s[o]; !ok || has != m && has != Write {
			return false
		}
	}
	return true
}

// Request is a run's request for locks, which are granted all together or not at all.
type Request struct {
	// ID is its unique ID.
	ID string `json:"id"`
	// Run is the run of the request; empty before it has begun.
	Run string `json:"run,omitempty"`
	// Who is the user who made the request, and Operation the operation that needs it.
	Who       string    `json:"who,omitempty"`
	Operation string    `json:"operation,omitempty"`
	At        time.Time `json:"at"`
	Set       Set       `json:"set"`
}

// Blocker is a reason why a request waits: an earlier request has, or waits for, an object in a conflicting mode.
type Blocker struct {
	Object Object
	// By is the earlier request; Granted reports whether it has its locks, or waits itself.
	By      Request
	Granted bool
}

// String returns the blocker for messages.
func (b Blocker) String() string {
	who := b.By.Who
	if who == "" {
		who = b.By.ID
	}
	text := fmt.Sprintf("%s, which %s has", b.Object, who)
	if !b.Granted {
		text = fmt.Sprintf("%s, which %s waits for", b.Object, who)
	}
	if !b.By.At.IsZero() {
		text += " since " + b.By.At.UTC().Format(time.DateTime) + " UTC"
	}
	return text
}

// Table has the requests of one state. Each object has a queue of its requests, in the order of their arrival.
// Those that can have the object together are at its front; a request is granted when it is at the front of all its
// queues. So no request overtakes another one with which it conflicts, and other requests are not delayed. The zero
// value is an empty table.
type Table struct {
	lines    map[Object]*line
	requests map[string]*request
	order    list.List // of *request
}

// request is a request in a table.
type request struct {
	Request
	at        *list.Element
	positions map[Object]*list.Element // of *position
	behind    int                      // the number of objects where it is not at the front
}

// line is the queue of an object.
type line struct {
	positions list.List // of *position
	front     int       // the number of them at the front
}

type position struct {
	of   *request
	mode Mode
	in   bool // at the front
}

// Ask appends a request to all its queues. The cost is proportional to its set. It panics if there is a request
// with this ID.
func (t *Table) Ask(r Request) {
	if t.requests[r.ID] != nil {
		panic("locks: " + r.ID + " has asked already")
	}
	if t.lines == nil {
		t.lines, t.requests = map[Object]*line{}, map[string]*request{}
	}
	q := &request{Request: r, positions: make(map[Object]*list.Element, len(r.Set)+1)}
	enter := func(o Object, m Mode) {
		l := t.lines[o]
		if l == nil {
			l = &line{}
			t.lines[o] = l
		}
		q.positions[o] = l.positions.PushBack(&position{of: q, mode: m})
		q.behind++
		l.advance()
	}
	if _, ok := r.Set[All]; !ok {
		enter(All, Read)
	}
	for o, m := range r.Set {
		enter(o, m)
	}
	t.requests[r.ID] = q
	q.at = t.order.PushBack(q)
}

// advance moves those to the front that can have the object now, and returns the requests that this grants.
func (l *line) advance() (granted []*request) {
	for {
		next := l.positions.Front()
		for range l.front {
			next = next.Next()
		}
		if next == nil {
			return granted
		}
		p := next.Value.(*position)
		if l.front > 0 && (p.mode == Write || p.mode != l.positions.Front().Value.(*position).mode) {
			return granted
		}
		l.front++
		p.in = true
		if p.of.behind--; p.of.behind == 0 {
			granted = append(granted, p.of)
		}
	}
}

// Leave withdraws a request, granted or not. It returns the other requests that this grants, in the order of their
// arrival.
func (t *Table) Leave(id string) (granted []string) {
	q := t.requests[id]
	if q == nil {
		return nil
	}
	delete(t.requests, id)
	t.order.Remove(q.at)
	var now []*request
	for o, e := range q.positions {
		l := t.lines[o]
		if l.positions.Remove(e).(*position).in {
			l.front--
		}
		if l.positions.Len() == 0 {
			delete(t.lines, o)
			continue
		}
		now = append(now, l.advance()...)
	}
	for e := t.order.Front(); e != nil && len(now) > 0; e = e.Next() {
		if slices.Contains(now, e.Value.(*request)) {
			granted = append(granted, e.Value.(*request).ID)
		}
	}
	return granted
}

// Get returns a request, and whether it is granted. It returns false if there is no such request.
func (t *Table) Get(id string) (r Request, granted, ok bool) {
	q := t.requests[id]
	if q == nil {
		return Request{}, false, false
	}
	return q.Request, q.behind == 0, true
}

// Begun records the run of a request.
func (t *Table) Begun(id, run string) {
	if q := t.requests[id]; q != nil {
		q.Run = run
	}
}

// Requests returns all requests, in the order of their arrival.
func (t *Table) Requests() []Request {
	var out []Request
	for e := t.order.Front(); e != nil; e = e.Next() {
		out = append(out, e.Value.(*request).Request)
	}
	return out
}

// Blockers returns why a request waits: for each object that it cannot have yet, the first earlier request with
// which it conflicts there, sorted by the objects' names, and at most the given number.
func (t *Table) Blockers(id string, most int) []Blocker {
	q := t.requests[id]
	if q == nil || q.behind == 0 {
		return nil
	}
	var objects []Object
	for o, e := range q.positions {
		if !e.Value.(*position).in {
			objects = append(objects, o)
		}
	}
	slices.SortFunc(objects, func(a, b Object) int { return strings.Compare(string(a), string(b)) })
	var out []Blocker
	for _, o := range objects[:min(most, len(objects))] {
		first := t.lines[o].firstAgainst(q.positions[o].Value.(*position))
		out = append(out, Blocker{Object: o, By: first.Request, Granted: first.behind == 0})
	}
	return out
}

// firstAgainst returns the first request in the queue that prevents p, which is not at the front, from getting
// there. That need not be one at the front: those may want the object in the same mode, with another request
// between.
func (l *line) firstAgainst(p *position) *request {
	for e := l.positions.Front(); ; e = e.Next() {
		if other := e.Value.(*position); other.mode != p.mode || p.mode == Write {
			return other.of
		}
	}
}

// clone returns a request with a copy of its set, which the caller owns.
func (r Request) clone() Request {
	r.Set = maps.Clone(r.Set)
	return r
}
