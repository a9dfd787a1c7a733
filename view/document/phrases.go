package document

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/lang/diag"
)

// Begun has the vertices whose operations have started: an end is reported only for these. The value says that the
// start is held back: the operation may turn out to have nothing to do, and then nothing of it is reported. It belongs
// to the run's loop, which calls the observer.
type Begun map[int]bool

// Begin adds a vertex, and reports whether its start is to be reported now.
func (b Begun) Begin(vertex int, d program.Description) bool {
	b[vertex] = d.Unsettled
	return !d.Unsettled
}

// Release reports whether the start of a vertex was held back, and is to be reported now.
func (b Begun) Release(vertex int) bool {
	held := b[vertex]
	if held {
		b[vertex] = false
	}
	return held
}

// End removes a vertex and reports whether it had started.
func (b Begun) End(vertex int) bool {
	_, yes := b[vertex]
	delete(b, vertex)
	return yes
}

// Verbs are the words for an operation on an object.
type Verbs struct{ Starts, Continues, Ended string }

// WasDone reports whether the operation of a failed vertex was executed: only a postcondition on its result does
// not hold. As in OpenTofu, such an operation is reported as complete.
func WasDone(n program.Notes) bool { return n.Action != "" }

// VerbsOf has the words for each action of a vertex.
var VerbsOf = map[string]Verbs{
	"create":  {"Creating...", "Still creating...", "Creation complete"},
	"update":  {"Modifying...", "Still modifying...", "Modifications complete"},
	"delete":  {"Destroying...", "Still destroying...", "Destruction complete"},
	"read":    {"Reading...", "Still reading...", "Read complete"},
	"refresh": {Starts: "Refreshing state..."},
	"open":    {"Opening...", "Still opening...", "Open complete"},
	"invoke":  {"Invoking...", "Still invoking...", "Action complete"},
	"close":   {"Closing...", "Still closing...", "Close complete"},
}

// Called returns " [id=...]" for an object; empty if it has no id.
func Called(key, id string) string {
	if key == "" || id == "" {
		return ""
	}
	return fmt.Sprintf(" [%s=%s]", key, id)
}

// IDOf returns the identifying attribute of an object before the operation.
func IDOf(d program.Description) (key, id string) {
	if d.Called == nil {
		return "", ""
	}
	return d.Called()
}

// Seconds formats a duration in whole seconds: 0s, 1m4s.
func Seconds(d time.Duration) string { return d.Round(time.Second).String() }

// WaitText describes the limits or workers that vertices wait for, and the holders of these limits.
func WaitText(w coordinator.Wait) string {
	what := fmt.Sprintf("a worker of the pool %q", w.Pool)
	switch {
	case w.Limit != "":
		what = fmt.Sprintf("a permit of the limit %q", w.Limit)
	case !w.Away.IsZero():
		what = fmt.Sprintf("the region of the pool %q, which has been cut off since %s", w.Pool,
			w.Away.Format("15:04:05"))
	}
	who := w.Address
	if w.Vertices > 1 {
		who = fmt.Sprintf("%s and %d more", w.Address, w.Vertices-1)
	}
	text := fmt.Sprintf("%s: Waiting for %s", who, what)
	for _, why := range w.Unsuited {
		text += "\n  " + why
	}
	text += holders(w.Holders)
	if len(w.InDoubt) == 0 {
		return text
	}
	text += fmt.Sprintf("\n  %d of its %d are held by operations whose outcome is not known. When this command has "+
		"ended, record their outcomes,\n  with -created=ID or -not-created:", len(w.InDoubt), w.Slots)
	for i, address := range w.InDoubt {
		if i == shownDoubts {
			text += fmt.Sprintf("\n  and %d more", len(w.InDoubt)-i)
			break
		}
		text += "\n    " + diag.Program() + " runs resolve " + ShellWord(address) + " ..."
	}
	return text
}

// shownHolders is the maximum number of runs that are listed as holders of permits.
const shownHolders = 5

// holders names the other runs that hold permits. If no process will release some of them, it says how a user can free
// them.
func holders(list []coordinator.Holder) string {
	text := ""
	for i, h := range list {
		if i == shownHolders {
			return text + fmt.Sprintf("\n  and %d more runs", len(list)-i)
		}
		text += "\n  " + HolderText(h)
	}
	return text
}

// HolderText describes a run that holds permits of a limit.
func HolderText(h coordinator.Holder) string {
	text := fmt.Sprintf("%d held by the run %s of the coordinator %s", h.Permits, h.Run, h.Coordinator)
	if h.By != "" {
		text += ", begun by " + h.By
	}
	if h.Pool != "" {
		text += fmt.Sprintf(", in the pool %q", h.Pool)
	}
	text += ", since " + h.Since.Local().Format("2006-01-02 15:04:05")
	if h.InDoubt > 0 {
		text += fmt.Sprintf(". %d of them are for operations in doubt, and free when these are resolved, or when their "+
			"worker reports their end", h.InDoubt)
	}
	resume := fmt.Sprintf("%s runs resume %s", diag.Program(), h.Run)
	switch h.State {
	case loop.HolderMute:
		text += ". Its process does not answer: it may be stopped. Let it continue, or end it and resume the run: " + resume
	case loop.HolderGone:
		text += ". Its process has ended, and what it began may still be running. They are free when the run is resumed " +
			"in its directory (" + resume + "), when its operations in doubt are resolved, or a day after they were asked for"
	case loop.HolderEnded:
		text += ". The run has ended; they are free when its operations in doubt are resolved (" + diag.Program() +
			" runs show " + h.Run + ")"
	}
	return text
}

// shownDoubts is the maximum number of operations in doubt that are listed as holders of permits.
const shownDoubts = 10

// ShellWord quotes a word for a shell if necessary.
func ShellWord(s string) string {
	if !strings.ContainsAny(s, "\"[]() *?$'") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// OutputLines returns the non-empty lines of a provisioner's output.
func OutputLines(text string) []string {
	var out []string
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if line = strings.TrimRightFunc(line, unicode.IsSpace); line != "" {
			out = append(out, line)
		}
	}
	return out
}
