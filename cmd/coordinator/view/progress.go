package view

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/wire"
)

// ProgressOptions say how a run is shown.
type ProgressOptions struct {
	Out io.Writer
	Ink Ink
	// Width returns how many columns the terminal has at the moment; nil where Out is no terminal: there is no live
	// line then.
	Width func() int
	// Quiet leaves out the lines about single objects.
	Quiet bool
	// ByCommand tells that it is the import command that imports what is imported, and no plan.
	ByCommand bool
}

// Progress shows a run to people while it goes on: a line when something starts and when it ends, and on a terminal a
// live line below. It implements coordinator.Observer. Settle must be called before anybody else writes to the
// same stream.
type Progress struct {
	ProgressOptions
	outlet *outlet
	begun  begun

	mu      sync.Mutex // guards the fields below; the live line is made on another goroutine
	counts  coordinator.Counts
	counted bool
	waits   []coordinator.Wait
	told    map[string]bool // the waits that a line was written for
}

var _ coordinator.Observer = (*Progress)(nil)

// NewProgress returns a Progress that shows nothing yet.
func NewProgress(o ProgressOptions) *Progress {
	p := &Progress{ProgressOptions: o, told: map[string]bool{}, begun: begun{}}
	var live func() string
	if o.Width != nil {
		live = p.live
	}
	p.outlet = newOutlet(o.Out, live)
	p.outlet.clean = func(text string) string { return clean(text, o.Ink) }
	return p
}

// Settle writes what is left and takes the live line away. It may be called any number of times; what is told
// afterwards is shown anew. The error is that of writing since the last call.
func (p *Progress) Settle() error {
	err := p.outlet.settle()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counted, p.waits = false, nil
	clear(p.told)
	return err
}

// begun are the vertices of a run whose operations went out: only of those there is an end to tell. It belongs to the
// run's loop, which calls the observer.
type begun map[int]bool

// end tells whether the vertex had begun, and forgets it.
func (b begun) end(vertex int) bool {
	yes := b[vertex]
	delete(b, vertex)
	return yes
}

// verbs are the words for what is done to an object.
type verbs struct{ starts, goesOn, ended string }

var verbsOf = map[string]verbs{
	"create":  {"Creating...", "Still creating...", "Creation complete"},
	"update":  {"Modifying...", "Still modifying...", "Modifications complete"},
	"delete":  {"Destroying...", "Still destroying...", "Destruction complete"},
	"read":    {"Reading...", "Still reading...", "Read complete"},
	"refresh": {starts: "Refreshing state..."},
	"open":    {"Opening...", "Still opening...", "Open complete"},
	"close":   {"Closing...", "Still closing...", "Close complete"},
}

// say writes a line in bold.
func (p *Progress) say(text string) {
	if !p.Quiet {
		k := p.Ink
		p.outlet.add(k.off() + k.on(boldCode) + text + k.off() + "\n")
	}
}

// called returns " [id=...]" of an object, or nothing.
func called(key, id string) string {
	if key == "" || id == "" {
		return ""
	}
	return fmt.Sprintf(" [%s=%s]", key, id)
}

// idOf returns what an object was called before the operation.
func idOf(d program.Description) (key, id string) {
	if d.Called == nil {
		return "", ""
	}
	return d.Called()
}

// Started implements coordinator.Observer.
func (p *Progress) Started(vertex int, d program.Description, _ string, _ time.Time) {
	p.begun[vertex] = true
	if d.Action == "import" {
		p.importing(d)
		return
	}
	v, ok := verbsOf[d.Action]
	if !ok {
		return
	}
	suffix := ""
	switch d.Action {
	case "refresh", "update", "delete":
		suffix = called(idOf(d))
	}
	p.say(d.Address + ": " + v.starts + suffix + p.Ink.off())
}

// importing tells that an object is looked up, to be imported.
func (p *Progress) importing(d program.Description) {
	key, id := idOf(d)
	if p.ByCommand {
		p.say(fmt.Sprintf("%s: Importing from ID %q...", d.Address, id) + p.Ink.off())
		return
	}
	p.say(d.Address + ": Preparing import..." + called(key, id) + p.Ink.off())
}

// imported tells that an object was found. The task has read it, too; what it is called is known only now.
func (p *Progress) imported(d program.Description, n program.Notes) {
	if k := p.Ink; p.ByCommand {
		p.say(k.on(greenCode) + d.Address + ": Import prepared!" + k.off())
		p.say(k.on(greenCode) + "  Prepared " + d.Class + " for import" + k.off())
	}
	p.say(d.Address + ": " + verbsOf["refresh"].starts + called(n.IDKey, n.ID) + p.Ink.off())
}

// Imports tells what a plan imports that is about to be carried out. Planning did the work.
func (p *Progress) Imports(of *plan.Plan) {
	for _, c := range of.Changes {
		if c.Importing != nil {
			suffix := called(values.IDOfImport(c.Importing))
			p.say(c.Addr.String() + ": Importing..." + suffix + p.Ink.off())
			p.say(c.Addr.String() + ": Import complete" + suffix + p.Ink.off())
		}
	}
}

// Progress implements coordinator.Observer.
func (p *Progress) Progress(_ int, d program.Description, elapsed time.Duration) {
	v := verbsOf[d.Action]
	if v.goesOn == "" {
		return
	}
	id := ""
	if d.Action == "update" || d.Action == "delete" {
		if key, value := idOf(d); key != "" && value != "" {
			id = key + "=" + shortened(value) + ", "
		}
	}
	p.say(fmt.Sprintf("%s: %s [%s%s elapsed]", d.Address, v.goesOn, id, seconds(elapsed)) + p.Ink.off())
}

// shortened leaves out the middle of a long id.
func shortened(id string) string {
	const most = 80
	r := []rune(id)
	if len(r) <= most {
		return id
	}
	const half = most / 2
	return string(r[:half-1]) + "..." + string(r[len(r)-half+2:])
}

// seconds writes a duration in whole seconds: 0s, 1m4s.
func seconds(d time.Duration) string { return d.Round(time.Second).String() }

// Finished implements coordinator.Observer.
func (p *Progress) Finished(vertex int, d program.Description, n program.Notes, took time.Duration) {
	v := verbsOf[d.Action]
	ended := p.begun.end(vertex)
	if ended && d.Action == "import" {
		p.imported(d, n)
	}
	if !ended || v.ended == "" || n.Quiet {
		return
	}
	suffix := ""
	switch d.Action {
	case "create", "update", "read":
		suffix = called(n.IDKey, n.ID)
	}
	p.say(fmt.Sprintf("%s: %s after %s%s", d.Address, v.ended, seconds(took), suffix))
}

// Failed implements coordinator.Observer. The problem itself is shown when the run has ended.
func (p *Progress) Failed(vertex int, _ program.Description, _ time.Duration) { p.begun.end(vertex) }

// Skipped implements coordinator.Observer.
func (p *Progress) Skipped(int, program.Description, string) {}

// Doubtful implements coordinator.Observer.
func (p *Progress) Doubtful(_ int, d program.Description, reason string) {
	p.say(fmt.Sprintf("%s: The outcome is not known: %s", d.Address, reason))
}

// Diagnostics implements coordinator.Observer. Problems are shown when the run has ended.
func (p *Progress) Diagnostics(diag.List) {}

// Waiting implements coordinator.Observer: a line tells once what is waited for.
func (p *Progress) Waiting(waits []coordinator.Wait) {
	p.mu.Lock()
	p.waits = waits
	now := map[string]bool{}
	var lines []string
	for _, w := range waits {
		key := fmt.Sprintf("%s\x00%s\x00%d", w.Pool, w.Limit, len(w.InDoubt))
		now[key] = true
		if !p.told[key] {
			lines = append(lines, waitText(w))
		}
	}
	p.told = now
	p.mu.Unlock()
	for _, l := range lines {
		k := p.Ink
		p.outlet.add(k.on(yellowCode) + l + k.off() + "\n")
	}
	p.outlet.refresh()
}

func waitText(w coordinator.Wait) string {
	what := fmt.Sprintf("a worker of the pool %q", w.Pool)
	if w.Limit != "" {
		what = fmt.Sprintf("a permit of the limit %q", w.Limit)
	}
	who := w.Address
	if w.Vertices > 1 {
		who = fmt.Sprintf("%s and %d more", w.Address, w.Vertices-1)
	}
	text := fmt.Sprintf("%s: Waiting for %s", who, what)
	if len(w.InDoubt) == 0 {
		return text
	}
	text += fmt.Sprintf("\n  %d of its %d are held by operations whose outcome is not known. When this command has ended, say what became of them,\n  with -created=ID or -not-created:", len(w.InDoubt), w.Slots)
	for i, address := range w.InDoubt {
		if i == shownDoubts {
			text += fmt.Sprintf("\n  and %d more", len(w.InDoubt)-i)
			break
		}
		text += "\n    " + diag.Program() + " runs resolve " + shellWord(address) + " ..."
	}
	return text
}

// shownDoubts is how many of the operations in doubt that hold permits are named.
const shownDoubts = 10

// Counts implements coordinator.Observer.
func (p *Progress) Counts(c coordinator.Counts) {
	p.mu.Lock()
	p.counts, p.counted = c, true
	p.mu.Unlock()
	p.outlet.refresh()
}

// Note writes text for people between the lines about objects; it may be called from any goroutine.
func (p *Progress) Note(text string) { p.outlet.add(text) }

// Event shows what a provisioner says. It may be called from any goroutine.
func (p *Progress) Event(e wire.Event) {
	k := p.Ink
	switch e.Kind {
	case "provision_start":
		p.say(fmt.Sprintf("%s: Provisioning with '%s'...", e.Address, e.Name) + k.off())
	case "output":
		for _, line := range outputLines(e.Text) {
			if !p.Quiet {
				p.outlet.add(fmt.Sprintf("%s%s%s (%s):%s %s%s\n", k.off(), k.on(boldCode), e.Address, e.Name, k.off(), k.off(), line))
			}
		}
	}
}

// outputLines are the lines of a provisioner's output that hold something.
func outputLines(text string) []string {
	var out []string
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if line = strings.TrimRightFunc(line, unicode.IsSpace); line != "" {
			out = append(out, line)
		}
	}
	return out
}
