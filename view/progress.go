package view

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/view/document"
	"github.com/millipede-iac/millipede/view/outlet"
	"github.com/millipede-iac/millipede/wire"
)

// ProgressOptions say how a run is shown.
type ProgressOptions struct {
	Out io.Writer
	Ink Ink
	// Width returns the current number of columns of the terminal. It is nil if Out is not a terminal: then there
	// is no live line.
	Width func() int
	// Quiet leaves out the lines about individual objects.
	Quiet bool
	// ByCommand is set if objects are imported by the import command, not by a plan.
	ByCommand bool
}

// Progress shows a run to people while it is running: a line when something starts and when it ends, and on a
// terminal a live line below. It implements coordinator.Observer. Settle must be called before anything else is
// written to the same stream.
type Progress struct {
	ProgressOptions
	outlet *outlet.Outlet
	begun  document.Begun

	mu      sync.Mutex // guards the fields below; another goroutine makes the live line
	counts  coordinator.Counts
	counted bool
	waits   []coordinator.Wait
	told    map[string]bool // the waits for which a line was written
}

var _ coordinator.Observer = (*Progress)(nil)

// NewProgress returns a Progress that shows nothing yet.
func NewProgress(o ProgressOptions) *Progress {
	p := &Progress{ProgressOptions: o, told: map[string]bool{}, begun: document.Begun{}}
	var live func() string
	if o.Width != nil {
		live = p.live
	}
	p.outlet = outlet.New(o.Out, live)
	p.outlet.Clean = func(text string) string { return clean(text, o.Ink) }
	return p
}

// Settle flushes the lines and removes the live line. It may be called any number of times; later events start it
// again. It returns the first error of writing since the last call.
func (p *Progress) Settle() error {
	err := p.outlet.Settle()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counted, p.waits = false, nil
	clear(p.told)
	return err
}

// named returns the name of an object in a line: for a deposed one with its key, to distinguish it from its
// replacement.
func named(d program.Description) string {
	if d.Deposed != "" {
		return fmt.Sprintf("%s (deposed object %s)", d.Address, d.Deposed)
	}
	return d.Address
}

// say writes a line in bold.
func (p *Progress) say(text string) {
	if !p.Quiet {
		k := p.Ink
		p.outlet.Add(k.off() + k.on(boldCode) + text + k.off() + "\n")
	}
}

// Started implements coordinator.Observer.
func (p *Progress) Started(vertex int, d program.Description, _ string, _ time.Time) {
	if p.begun.Begin(vertex, d) {
		p.started(d)
	}
}

func (p *Progress) started(d program.Description) {
	if d.Action == "import" {
		p.importing(d)
		return
	}
	v, ok := document.VerbsOf[d.Action]
	if !ok {
		return
	}
	suffix := ""
	switch d.Action {
	case "refresh", "update", "delete":
		suffix = document.Called(document.IDOf(d))
	}
	p.say(named(d) + ": " + v.Starts + suffix + p.Ink.off())
}

// importing writes that an object is looked up for import.
func (p *Progress) importing(d program.Description) {
	key, id := document.IDOf(d)
	if p.ByCommand {
		p.say(fmt.Sprintf("%s: Importing from ID %q...", d.Address, id) + p.Ink.off())
		return
	}
	p.say(d.Address + ": Preparing import..." + document.Called(key, id) + p.Ink.off())
}

// imported writes that an object was found. The same task has read it, so its ID is known only now.
func (p *Progress) imported(d program.Description, n program.Notes) {
	if k := p.Ink; p.ByCommand {
		p.say(k.on(greenCode) + d.Address + ": Import prepared!" + k.off())
		p.say(k.on(greenCode) + "  Prepared " + d.Class + " for import" + k.off())
	}
	p.say(d.Address + ": " + document.VerbsOf["refresh"].Starts + document.Called(n.IDKey, n.ID) + p.Ink.off())
}

// Imports writes the imports of a plan that is about to be applied. They were done while planning.
func (p *Progress) Imports(of *plan.Plan) {
	for _, c := range of.Changes {
		if c.Importing != nil {
			suffix := document.Called(values.IDOfImport(c.Importing))
			p.say(c.Addr.String() + ": Importing..." + suffix + p.Ink.off())
			p.say(c.Addr.String() + ": Import complete" + suffix + p.Ink.off())
		}
	}
}

// Progress implements coordinator.Observer.
func (p *Progress) Progress(vertex int, d program.Description, elapsed time.Duration) {
	if p.begun.Release(vertex) {
		p.started(d)
	}
	v := document.VerbsOf[d.Action]
	if v.Continues == "" {
		return
	}
	id := ""
	if d.Action == "update" || d.Action == "delete" {
		if key, value := document.IDOf(d); key != "" && value != "" {
			id = key + "=" + shortened(value) + ", "
		}
	}
	p.say(fmt.Sprintf("%s: %s [%s%s elapsed]", named(d), v.Continues, id, document.Seconds(elapsed)) + p.Ink.off())
}

// shortened omits the middle of a long id.
func shortened(id string) string {
	const most = 80
	r := []rune(id)
	if len(r) <= most {
		return id
	}
	const half = most / 2
	return string(r[:half-1]) + "..." + string(r[len(r)-half+2:])
}

// Finished implements coordinator.Observer.
func (p *Progress) Finished(vertex int, d program.Description, n program.Notes, took time.Duration) {
	v := document.VerbsOf[d.Action]
	if !n.None && p.begun.Release(vertex) {
		p.started(d)
	}
	ended := p.begun.End(vertex)
	if ended && d.Action == "import" {
		p.imported(d, n)
	}
	if !ended || v.Ended == "" || n.Quiet || n.None {
		return
	}
	suffix := ""
	switch d.Action {
	case "create", "update", "read":
		suffix = document.Called(n.IDKey, n.ID)
	}
	p.say(fmt.Sprintf("%s: %s after %s%s", named(d), v.Ended, document.Seconds(took), suffix))
}

// Failed implements coordinator.Observer. The problem itself is shown when the run has ended.
func (p *Progress) Failed(vertex int, d program.Description, n program.Notes, took time.Duration) {
	if document.WasDone(n) {
		p.Finished(vertex, d, n, took)
		return
	}
	if p.begun.Release(vertex) {
		p.started(d)
	}
	p.begun.End(vertex)
}

// Skipped implements coordinator.Observer.
func (p *Progress) Skipped(int, program.Description, string) {}

// Doubtful implements coordinator.Observer.
func (p *Progress) Doubtful(_ int, d program.Description, reason string) {
	p.say(fmt.Sprintf("%s: The outcome is not known: %s", named(d), reason))
}

// Diagnostics implements coordinator.Observer. Problems are shown when the run has ended.
func (p *Progress) Diagnostics(diag.List) {}

// Waiting implements coordinator.Observer: each wait is reported once.
func (p *Progress) Waiting(waits []coordinator.Wait) {
	p.mu.Lock()
	p.waits = waits
	now := map[string]bool{}
	var lines []string
	for _, w := range waits {
		key := fmt.Sprintf("%s\x00%s\x00%d\x00%q\x00%d", w.Pool, w.Limit, len(w.InDoubt), w.Unsuited, w.Away.UnixNano())
		now[key] = true
		if !p.told[key] {
			lines = append(lines, document.WaitText(w))
		}
	}
	p.told = now
	p.mu.Unlock()
	for _, l := range lines {
		k := p.Ink
		p.outlet.Add(k.on(yellowCode) + l + k.off() + "\n")
	}
	p.outlet.Refresh()
}

// Counts implements coordinator.Observer.
func (p *Progress) Counts(c coordinator.Counts) {
	p.mu.Lock()
	p.counts, p.counted = c, true
	p.mu.Unlock()
	p.outlet.Refresh()
}

// Note writes text for people between the lines about objects. It may be called from any goroutine.
func (p *Progress) Note(text string) { p.outlet.Add(text) }

// Event shows the output of a provisioner. It may be called from any goroutine.
func (p *Progress) Event(e wire.Event) {
	k := p.Ink
	switch e.Kind {
	case "provision_start":
		p.say(fmt.Sprintf("%s: Provisioning with '%s'...", e.Address, e.Name) + k.off())
	case "progress":
		if !p.Quiet {
			for _, line := range document.OutputLines(e.Text) {
				p.outlet.Add(fmt.Sprintf("%s%s%s:%s %s%s\n", k.off(), k.on(boldCode), e.Address, k.off(), k.off(), line))
			}
		}
	case "output":
		for _, line := range document.OutputLines(e.Text) {
			if !p.Quiet {
				p.outlet.Add(fmt.Sprintf("%s%s%s (%s):%s %s%s\n", k.off(), k.on(boldCode), e.Address, e.Name, k.off(),
					k.off(), line))
			}
		}
	}
}
