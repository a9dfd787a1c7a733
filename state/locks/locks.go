// Package locks keeps runs that change one state at the same time apart, by the objects that they touch.
//
// Table decides who may go on: it is data and functions, without clock, I/O or goroutines. Book lets goroutines use
// such tables, and wait. A store makes durable what they hold, and refuses changes of what is not locked.
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

// All stands for everything that a state holds. Every request takes part in it.
const All Object = "*"

// The kinds of objects.
const (
	instanceKind   = 'i'
	resourceKind   = 'r'
	outputKind     = 'o'
	checkKind      = 'c'
	dependentsKind = 'd'
)

// Instance is an instance of a resource with all its objects, by its address.
func Instance(address string) Object { return object(instanceKind, address) }

// Resource is that a resource has instances at all, and whose they are: what its first instance brings and its last
// one takes away.
func Resource(address string) Object { return object(resourceKind, address) }

// Output is a root output.
func Output(name string) Object { return object(outputKind, name) }

// Check is the result of a check, by the address in the configuration.
func Check(config string) Object { return object(checkKind, config) }

// Dependents is which objects depend on a resource.
func Dependents(of addr.ConfigResource) Object { return object(dependentsKind, of.String()) }

func object(kind byte, name string) Object { return Object(string(kind) + name) }

// String is the object as people know it.
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

// Mode is how an object is locked. Several may have an object in the same mode, unless that is Write; two in different
// modes are in conflict.
type Mode byte

// The modes.
const (
	Read   Mode = 'r' // its values are gone by
	Keep   Mode = 'k' // of dependents: there must come none
	Depend Mode = 'd' // of dependents: there come some
	Write  Mode = 'w' // it is changed
)

// Set is what a run locks.
type Set map[Object]Mode

// Add adds an object. What is wanted in two modes is wanted alone.
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

// Covers reports whether what another set locks is locked by this one too.
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

// Request is a run's wish for locks, of all of which it has either all or none.
type Request struct {
	// ID names it for ever.
	ID string `json:"id"`
	// Run is the run that has it; empty before that has begun.
	Run string `json:"run,omitempty"`
	// Who wants it, and for which operation.
	Who       string    `json:"who,omitempty"`
	Operation string    `json:"operation,omitempty"`
	At        time.Time `json:"at"`
	Set       Set       `json:"set"`
}

// Blocker is why a request waits: another one was there before it that has, or wants, an object in a mode that does
// not go with its own.
type Blocker struct {
	Object Object
	// By is who was there before; Granted reports whether it has its locks, or waits itself.
	By      Request
	Granted bool
}

// String says it for people.
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

// Table has the requests of one state. Each object has a line of those that want it, in the order in which they came.
// At its front are those that can have the object together; a request is granted when it is at the front everywhere.
// So nobody overtakes somebody with whom they are in conflict, and the others pass. The zero value is an empty table.
type Table struct {
	lines    map[Object]*line
	requests map[string]*request
	order    list.List // of *request
}

// request is a request in a table.
type request struct {
	Request
	at     *list.Element
	places map[Object]*list.Element // of *place
	behind int                      // at how many objects it is not at the front
}

// line is who wants an object.
type line struct {
	places list.List // of *place
	front  int       // how many of them are at the front
}

type place struct {
	of   *request
	mode Mode
	in   bool // at the front
}

// Ask puts a request at the end of all its lines. It costs what it names. It panics when there is one with the ID.
func (t *Table) Ask(r Request) {
	if t.requests[r.ID] != nil {
		panic("locks: " + r.ID + " has asked already")
	}
	if t.lines == nil {
		t.lines, t.requests = map[Object]*line{}, map[string]*request{}
	}
	q := &request{Request: r, places: make(map[Object]*list.Element, len(r.Set)+1)}
	enter := func(o Object, m Mode) {
		l := t.lines[o]
		if l == nil {
			l = &line{}
			t.lines[o] = l
		}
		q.places[o] = l.places.PushBack(&place{of: q, mode: m})
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

// advance moves those to the front that can have the object now, and returns whose requests are granted by that.
func (l *line) advance() (granted []*request) {
	for {
		next := l.places.Front()
		for range l.front {
			next = next.Next()
		}
		if next == nil {
			return granted
		}
		p := next.Value.(*place)
		if l.front > 0 && (p.mode == Write || p.mode != l.places.Front().Value.(*place).mode) {
			return granted
		}
		l.front++
		p.in = true
		if p.of.behind--; p.of.behind == 0 {
			granted = append(granted, p.of)
		}
	}
}

// Leave takes a request back, whether it was granted or not. It returns which others are granted by that, in the order
// in which they came.
func (t *Table) Leave(id string) (granted []string) {
	q := t.requests[id]
	if q == nil {
		return nil
	}
	delete(t.requests, id)
	t.order.Remove(q.at)
	var now []*request
	for o, e := range q.places {
		l := t.lines[o]
		if l.places.Remove(e).(*place).in {
			l.front--
		}
		if l.places.Len() == 0 {
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

// Get returns a request, and whether it is granted. It returns false for one that is not there.
func (t *Table) Get(id string) (r Request, granted, ok bool) {
	q := t.requests[id]
	if q == nil {
		return Request{}, false, false
	}
	return q.Request, q.behind == 0, true
}

// Begun notes which run has a request.
func (t *Table) Begun(id, run string) {
	if q := t.requests[id]; q != nil {
		q.Run = run
	}
}

// Requests returns all requests, in the order in which they came.
func (t *Table) Requests() []Request {
	var out []Request
	for e := t.order.Front(); e != nil; e = e.Next() {
		out = append(out, e.Value.(*request).Request)
	}
	return out
}

// Blockers returns why a request waits: for each object that it cannot have yet the first request before it with which
// it is in conflict there, in the order of the objects' names, but not more than a number.
func (t *Table) Blockers(id string, most int) []Blocker {
	q := t.requests[id]
	if q == nil || q.behind == 0 {
		return nil
	}
	var objects []Object
	for o, e := range q.places {
		if !e.Value.(*place).in {
			objects = append(objects, o)
		}
	}
	slices.SortFunc(objects, func(a, b Object) int { return strings.Compare(string(a), string(b)) })
	var out []Blocker
	for _, o := range objects[:min(most, len(objects))] {
		first := t.lines[o].firstAgainst(q.places[o].Value.(*place))
		out = append(out, Blocker{Object: o, By: first.Request, Granted: first.behind == 0})
	}
	return out
}

// firstAgainst returns the first request in the line that keeps a place, which is not at the front, from getting
// there. Those at the front need not: they may want the object in the same mode, and have somebody else behind
// them.
func (l *line) firstAgainst(p *place) *request {
	for e := l.places.Front(); ; e = e.Next() {
		if other := e.Value.(*place); other.mode != p.mode || p.mode == Write {
			return other.of
		}
	}
}

// clone is a request whose set is the caller's.
func (r Request) clone() Request {
	r.Set = maps.Clone(r.Set)
	return r
}
