package view

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/view/document"
	"github.com/millipede-iac/millipede/view/outlet"
)

// WatchOptions say how the run of another process is shown.
type WatchOptions struct {
	Out io.Writer
	Ink Ink
	// Width returns the current number of columns of the terminal; nil if Out is not a terminal.
	Width func() int
	Now   func() time.Time
}

// Watch shows the run of another process while it is running: a line when an operation starts and when it ends, and
// on a terminal a live line below with the running operations and their durations. Settle ends it.
type Watch struct {
	WatchOptions
	outlet *outlet.Outlet

	mu       sync.Mutex // guards the fields below; another goroutine makes the live line
	begun    bool
	head     timeline.Head
	counts   timeline.Counts
	lacks    []timeline.Shortage
	vertices map[int]*timeline.Vertex
	running  map[int]bool
	received time.Time
}

// NewWatch returns a Watch that has seen nothing yet.
func NewWatch(o WatchOptions) *Watch {
	w := &Watch{WatchOptions: o, vertices: map[int]*timeline.Vertex{}, running: map[int]bool{}}
	var live func() string
	if o.Width != nil {
		live = w.live
	}
	w.outlet = outlet.New(o.Out, live)
	w.outlet.Clean = func(text string) string { return clean(text, o.Ink) }
	return w
}

// Settle flushes the lines, and removes the live line.
func (w *Watch) Settle() error { return w.outlet.Settle() }

// Refresh redraws the live line, whose durations have changed.
func (w *Watch) Refresh() { w.outlet.Refresh() }

// Note writes a text above the live line.
func (w *Watch) Note(text string) { w.outlet.Add(text) }

// Head returns the data of the run as a whole; false before any have arrived.
func (w *Watch) Head() (timeline.Head, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.head, w.begun
}

// See processes a line of the other process: first a model, then changes.
func (w *Watch) See(line []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.received = w.Now()
	if !w.begun {
		var m timeline.Model
		if err := json.Unmarshal(line, &m); err != nil {
			return fmt.Errorf("reading the run: %w", err)
		}
		w.begun, w.head, w.counts, w.lacks = true, m.Head, m.Counts, m.Shortages
		w.opened(&m)
		return nil
	}
	var c timeline.Changes
	if err := json.Unmarshal(line, &c); err != nil {
		return fmt.Errorf("reading what the run does: %w", err)
	}
	w.change(&c)
	return nil
}

// Model shows a run as it is: a newly watched one or, with again, the one that is already watched.
func (w *Watch) Model(m *timeline.Model, again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.received = w.Now()
	if again && w.begun {
		w.change(&timeline.Changes{Head: m.Head, Counts: m.Counts, Vertices: m.Vertices, Shortages: m.Shortages})
		return
	}
	w.begun, w.head, w.counts, w.lacks = true, m.Head, m.Counts, m.Shortages
	w.vertices, w.running = map[int]*timeline.Vertex{}, map[int]bool{}
	w.opened(m)
}

// Changes shows the changes.
func (w *Watch) Changes(c *timeline.Changes) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.received = w.Now()
	w.change(c)
}

// change requires the lock.
func (w *Watch) change(c *timeline.Changes) {
	w.head, w.counts = c.Head, c.Counts
	w.lacking(c.Shortages)
	for i := range c.Vertices {
		w.changed(&c.Vertices[i])
	}
	w.outlet.Refresh()
}

// opened describes the run, and its events before the watching began.
func (w *Watch) opened(m *timeline.Model) {
	k := w.Ink
	by := ""
	if m.Head.Who != "" {
		by = ", by " + m.Head.Who
	}
	w.outlet.Add(fmt.Sprintf("%sRun %s: %s in the workspace %q%s%s\n", k.on(boldCode), m.Head.Run, m.Head.Command,
		m.Head.Workspace, by, k.off()))
	for i := range m.Vertices {
		v := &m.Vertices[i]
		w.vertices[v.Number] = v
		switch v.Status {
		case timeline.Running:
			w.running[v.Number] = true
			w.say(v, fmt.Sprintf("%s [%s so far]", document.VerbsOf[v.Action].Starts, w.since(v)))
		case timeline.Failed, timeline.Doubt:
			w.tell(v)
		}
	}
	w.lacks = nil
	w.lacking(m.Shortages)
}

// since returns how long a vertex has been running.
func (w *Watch) since(v *timeline.Vertex) string {
	now := w.head.Now
	if w.head.Outcome == "" {
		now += w.Now().Sub(w.received).Milliseconds()
	}
	return document.Seconds(time.Duration(max(0, now-v.Started)) * time.Millisecond)
}

func (w *Watch) say(v *timeline.Vertex, text string) {
	w.outlet.Add(w.Ink.on(boldCode) + titleOf(v) + ": " + text + w.Ink.off() + "\n")
}

func titleOf(v *timeline.Vertex) string {
	if v.Deposed != "" {
		return fmt.Sprintf("%s (deposed object %s)", v.Address, v.Deposed)
	}
	return v.Address
}

// changed processes the new state of a vertex.
func (w *Watch) changed(v *timeline.Vertex) {
	had := w.vertices[v.Number]
	was := timeline.Waiting
	if had != nil {
		was = had.Status
		if v.Address == "" { // later states omit fields that never change
			v.Address, v.Module, v.Type, v.Deposed, v.After = had.Address, had.Module, had.Type, had.Deposed, had.After
		}
	}
	w.vertices[v.Number] = v
	delete(w.running, v.Number)
	if v.Status == timeline.Running {
		w.running[v.Number] = true
	}
	if v.Status != was {
		w.tell(v)
	}
}

// tell writes a line about the new status of a vertex.
func (w *Watch) tell(v *timeline.Vertex) {
	k := w.Ink
	verbs := document.VerbsOf[v.Action]
	switch v.Status {
	case timeline.Running:
		w.say(v, verbs.Starts)
	case timeline.Done:
		if verbs.Ended != "" {
			w.say(v, fmt.Sprintf("%s after %s", verbs.Ended, document.Seconds(time.Duration(v.Took)*time.Millisecond)))
		}
	case timeline.Failed:
		text := v.Failure
		if text == "" {
			text = "it failed"
		}
		w.outlet.Add(k.on(redCode) + titleOf(v) + ": Error: " + text + k.off() + "\n")
	case timeline.Skipped:
		w.outlet.Add(k.on(grayCode) + titleOf(v) + ": Skipped, because " + v.Because + " failed" + k.off() + "\n")
	case timeline.Doubt:
		w.outlet.Add(k.on(redCode) + titleOf(v) + ": The outcome is not known: " + v.Doubtful + k.off() + "\n")
	}
}

// lacking reports each thing that the run waits for once.
func (w *Watch) lacking(lacks []timeline.Shortage) {
	for _, s := range lacks {
		told := slices.ContainsFunc(w.lacks, func(o timeline.Shortage) bool { return o.Kind == s.Kind && o.Name == s.Name })
		if !told {
			w.outlet.Add(w.Ink.on(yellowCode) + lackText(s) + w.Ink.off() + "\n")
		}
	}
	w.lacks = lacks
}

func lackText(s timeline.Shortage) string {
	switch s.Kind {
	case "worker":
		return fmt.Sprintf("Waiting for a worker of the pool %s (%s)", s.Name, s.Example)
	case "region":
		return fmt.Sprintf("Waiting for the region of the pool %s, which is cut off (%s)", s.Name, s.Example)
	case "place":
		return fmt.Sprintf("Waiting for a free slot in the pool %s (%s)", s.Name, s.Example)
	}
	return fmt.Sprintf("Waiting for a permit of the limit %s (%s)", s.Name, s.Example)
}

// live returns the live line.
func (w *Watch) live() string {
	width := w.Width()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.begun || width < 10 {
		return ""
	}
	c := w.counts
	parts := []string{fmt.Sprintf("%d/%d done", c.Done, c.Total), fmt.Sprintf("%d running", c.Running)}
	for _, e := range []struct {
		n    int
		word string
	}{{c.Failed, "failed"}, {c.Skipped, "skipped"}, {c.Doubt, "in doubt"}} {
		if e.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", e.n, e.word))
		}
	}
	if c.Left > 0 {
		parts = append(parts, "about "+roughly(time.Duration(c.Left)*time.Millisecond)+" left")
	}
	numbers := make([]int, 0, len(w.running))
	for n := range w.running {
		numbers = append(numbers, n)
	}
	slices.SortFunc(numbers, func(a, b int) int { // longest running first
		if d := w.vertices[a].Started - w.vertices[b].Started; d != 0 {
			return int(d)
		}
		return a - b
	})
	for _, n := range numbers {
		parts = append(parts, titleOf(w.vertices[n])+" "+w.since(w.vertices[n]))
	}
	return w.Ink.on(grayCode) + fitting(parts, " · ", width-1) + w.Ink.off()
}

// End writes the outcome of the run.
func (w *Watch) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.counts
	var parts []string
	for _, e := range []struct {
		n    int
		word string
	}{{c.Done, "done"}, {c.Failed, "failed"}, {c.Skipped, "skipped"}, {c.Doubt, "in doubt"},
		{c.Total - c.Done - c.Failed - c.Skipped - c.Doubt, "not begun"}} {
		if e.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", e.n, e.word))
		}
	}
	if len(parts) == 0 {
		parts = []string{"nothing had to be done"}
	}
	took := document.Seconds(time.Duration(max(0, w.head.Ended)) * time.Millisecond)
	w.outlet.Add(fmt.Sprintf("%sThe run is %s after %s: %s.%s\n", w.Ink.on(boldCode), w.head.Outcome, took,
		strings.Join(parts, ", "), w.Ink.off()))
}
