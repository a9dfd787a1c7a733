package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/view/outlet"
	"github.com/millipede-iac/millipede/wire"
)

// uiVersion is the version of the message format of a Stream.
const uiVersion = "1.2"

// StreamOptions are the options of a Stream.
type StreamOptions struct {
	Out io.Writer
	// Now returns the current time.
	Now func() time.Time
	// EngineVersion is reported in the first message.
	EngineVersion string
	// Sources returns the files parsed so far, by name. May be nil.
	Sources      func() map[string]*hcl.File
	Deprecations Deprecations
}

// Stream reports the progress of a command to programs: one JSON object per line, with the types and fields of
// OpenTofu. It implements coordinator.Observer; its other methods may be called from any goroutine.
type Stream struct {
	StreamOptions
	outlet *outlet.Outlet
	begun  Begun
	first  sync.Once
}

var _ coordinator.Observer = (*Stream)(nil)

// NewStream returns a Stream. Its first message contains the versions.
func NewStream(o StreamOptions) *Stream {
	return &Stream{StreamOptions: o, outlet: outlet.New(o.Out, nil), begun: Begun{}}
}

// Settle flushes the stream. It returns the first error of writing since the last call.
func (s *Stream) Settle() error {
	s.first.Do(s.version)
	return s.outlet.Settle()
}

func (s *Stream) version() {
	s.write("info", "version", "OpenTofu "+s.EngineVersion, map[string]any{"tofu": s.EngineVersion, "ui": uiVersion})
}

// message writes one message.
func (s *Stream) message(level, kind, text string, fields map[string]any) {
	s.first.Do(s.version)
	s.write(level, kind, text, fields)
}

func (s *Stream) write(level, kind, text string, fields map[string]any) {
	m := map[string]any{
		"@level": level, "@message": text, "@module": "tofu.ui",
		"@timestamp": s.Now().Format("2006-01-02T15:04:05.000000Z07:00"),
	}
	if kind != "" {
		m["type"] = kind
	}
	maps.Copy(m, fields)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		panic("view: a message has no JSON: " + err.Error())
	}
	s.outlet.Add(b.String())
}

// Info writes a message that has no type.
func (s *Stream) Info(text string) { s.message("info", "", text, nil) }

// Log writes a message of type log.
func (s *Stream) Log(text string) { s.message("info", "log", text, nil) }

// Message writes a message of another type, with its fields.
func (s *Stream) Message(kind, text string, fields map[string]any) {
	s.message("info", kind, text, fields)
}

// Pass writes a line of JSON from a service unchanged.
func (s *Stream) Pass(line []byte) {
	s.first.Do(s.version)
	s.outlet.Add(string(line) + "\n")
}

// Problems writes diagnostics, one message each.
func (s *Stream) Problems(l diag.List) { s.problems(l, nil) }

// problems writes diagnostics with additional fields.
func (s *Stream) problems(l diag.List, of map[string]any) {
	var sources map[string]*hcl.File
	if s.Sources != nil {
		sources = s.Sources()
	}
	for _, d := range s.Deprecations.Of(l) {
		level, word := "error", "Error: "
		if d.Severity == diag.Warning {
			level, word = "warn", "Warning: "
		}
		fields := map[string]any{"diagnostic": DiagnosticJSON(d, sources)}
		maps.Copy(fields, of)
		s.message(level, "diagnostic", word+d.Summary, fields)
	}
}

// Plan writes the drift and the changes of a plan, with its summary and outputs.
func (s *Stream) Plan(p *plan.Plan) {
	for _, c := range p.Drift {
		if c.Deposed == state.CurrentObject && (c.Action != plan.NoOp || p.Mode == plan.RefreshOnly) {
			change := changeMessageOf(c)
			s.message("info", "resource_drift", fmt.Sprintf("%s: Drift detected (%s)", change.Resource.Addr,
				change.Action), map[string]any{"change": change})
		}
	}
	s.Changes(p, false)
	s.invocations(p)
	s.deferred(p)
	s.Summary(PlanSummary(p))
	outputs := map[string]outputMessage{}
	for _, o := range p.Outputs {
		outputs[o.Name] = outputMessage{Sensitive: o.Sensitive || o.BeforeSensitive, Action: actionWord(o.Action)}
	}
	if len(outputs) > 0 {
		s.outputs(outputs)
	}
}

// Changes writes the changes of a plan, one message for each object. For a saved plan only objects with an
// operation are listed.
func (s *Stream) Changes(p *plan.Plan, saved bool) {
	for _, c := range p.Changes {
		if Shown(c) && (!saved || c.Action != plan.NoOp) {
			change := changeMessageOf(c)
			s.message("info", "planned_change", fmt.Sprintf("%s: Plan to %s", change.Resource.Addr, change.Action),
				map[string]any{"change": change})
		}
	}
}

// Summary writes the counts of a plan or an apply.
func (s *Stream) Summary(sum Summary) {
	s.message("info", "change_summary", sum.String(), map[string]any{"changes": sum})
}

// Unread writes which objects a plan has not read; nothing if it has read all.
func (s *Stream) Unread(p *plan.Plan) {
	if p.Unread != nil {
		s.message("info", "millipede_unread", UnreadSentence(p.Unread), map[string]any{"unread": unreadOf(p)})
	}
}

// Outputs writes the root outputs after an apply. Sensitive values are left out.
func (s *Stream) Outputs(st *state.State) {
	outputs := map[string]outputMessage{}
	for name, o := range st.Outputs {
		m := outputMessage{Sensitive: o.Sensitive, Deprecated: o.Deprecated, Type: typeForm(o.Value.Type())}
		if !o.Sensitive {
			m.Value = Raw(o.Value)
		}
		outputs[name] = m
	}
	s.outputs(outputs)
}

func (s *Stream) outputs(outputs map[string]outputMessage) {
	s.message("info", "outputs", fmt.Sprintf("Outputs: %d", len(outputs)), map[string]any{"outputs": outputs})
}

// hook writes a message about an operation on an object.
func (s *Stream) hook(kind, text string, h hookMessage) {
	s.message("info", kind, h.Resource.Addr+": "+text, map[string]any{"hook": h})
}

// Started implements coordinator.Observer.
func (s *Stream) Started(vertex int, d program.Description, _ string, _ time.Time) {
	if s.begun.Begin(vertex, d) {
		s.started(d)
	}
}

func (s *Stream) started(d program.Description) {
	h := hookMessage{Resource: resourceMessageOf(d.Address)}
	switch d.Action {
	case "refresh":
		h.IDKey, h.IDValue = IDOf(d)
		s.hook("refresh_start", "Refreshing state..."+Called(h.IDKey, h.IDValue), h)
	case "invoke":
		s.action("action_start", VerbsOf[d.Action].Starts, d.Address, nil)
	case "open", "close":
		text := VerbsOf[d.Action].Starts
		h.Msg = &text
		s.hook("ephemeral_action_started", text, h)
	case "create", "update", "delete", "read":
		h.Action = d.Action
		if d.Action != "create" && d.Action != "read" {
			h.IDKey, h.IDValue = IDOf(d)
		}
		s.hook("apply_start", hookWords[d.Action].Starts+"..."+Called(h.IDKey, h.IDValue), h)
	}
}

// hookWords has the words of the messages, which differ from VerbsOf for reading.
var hookWords = map[string]Verbs{
	"create": {"Creating", "creating", "Creation"},
	"update": {"Modifying", "modifying", "Modifications"},
	"delete": {"Destroying", "destroying", "Destruction"},
	"read":   {"Refreshing", "refreshing", "Refresh"},
}

// Progress implements coordinator.Observer.
func (s *Stream) Progress(vertex int, d program.Description, elapsed time.Duration) {
	if s.begun.Release(vertex) {
		s.started(d)
	}
	if w, ok := hookWords[d.Action]; ok {
		h := hookMessage{Resource: resourceMessageOf(d.Address), Action: d.Action, Elapsed: wholeSeconds(elapsed)}
		s.hook("apply_progress", fmt.Sprintf("Still %s... [%s elapsed]", w.Continues, Seconds(elapsed)), h)
	}
}

func wholeSeconds(d time.Duration) *float64 {
	n := d.Round(time.Second).Seconds()
	return &n
}

// Finished implements coordinator.Observer.
func (s *Stream) Finished(vertex int, d program.Description, n program.Notes, took time.Duration) {
	if !n.None && s.begun.Release(vertex) {
		s.started(d)
	}
	if !s.begun.End(vertex) || n.None {
		return
	}
	h := hookMessage{Resource: resourceMessageOf(d.Address), IDKey: n.IDKey, IDValue: n.ID}
	if h.IDKey == "" || h.IDValue == "" {
		h.IDKey, h.IDValue = "", ""
	}
	switch d.Action {
	case "import":
		// The same task finds and reads the object, so its id is known only now.
		s.hook("refresh_start", VerbsOf["refresh"].Starts+Called(h.IDKey, h.IDValue), h)
		s.hook("refresh_complete", "Refresh complete"+Called(h.IDKey, h.IDValue), h)
	case "refresh":
		if h.IDKey == "" && n.Action == "" {
			h.IDKey, h.IDValue = IDOf(d) // the id before the operation
		}
		s.hook("refresh_complete", "Refresh complete"+Called(h.IDKey, h.IDValue), h)
	case "invoke":
		if n.Action != "" {
			s.action("action_complete", fmt.Sprintf("%s after %s", VerbsOf[d.Action].Ended, Seconds(took)), d.Address,
				map[string]any{"elapsed_seconds": wholeSeconds(took)})
		}
	case "open", "close":
		text := VerbsOf[d.Action].Ended
		s.hook("ephemeral_action_complete", text, hookMessage{Resource: h.Resource, Msg: &text})
	case "create", "update", "delete", "read":
		if n.Quiet {
			return
		}
		if d.Action == "delete" {
			h.IDKey, h.IDValue = "", ""
		}
		h.Action, h.Elapsed = d.Action, wholeSeconds(took)
		s.hook("apply_complete", fmt.Sprintf("%s complete after %s%s", hookWords[d.Action].Ended, Seconds(took),
			Called(h.IDKey, h.IDValue)), h)
	}
}

// Failed implements coordinator.Observer. As in OpenTofu, the failure of a deposed object or a data source is
// reported only by its diagnostics.
func (s *Stream) Failed(vertex int, d program.Description, n program.Notes, took time.Duration) {
	if WasDone(n) {
		s.Finished(vertex, d, n, took)
		return
	}
	if s.begun.Release(vertex) {
		s.started(d)
	}
	if w, ok := hookWords[d.Action]; ok && s.begun.End(vertex) && d.Deposed == "" && d.Action != "read" {
		h := hookMessage{Resource: resourceMessageOf(d.Address), Action: d.Action, Elapsed: wholeSeconds(took)}
		s.hook("apply_errored", fmt.Sprintf("%s errored after %s", w.Ended, Seconds(took)), h)
	}
}

// Skipped implements coordinator.Observer.
func (s *Stream) Skipped(int, program.Description, string) {}

// Doubtful implements coordinator.Observer.
func (s *Stream) Doubtful(_ int, d program.Description, reason string) {
	s.Log(fmt.Sprintf("%s: The outcome is not known: %s", d.Address, reason))
}

// Waiting implements coordinator.Observer.
func (s *Stream) Waiting(waits []coordinator.Wait) {
	for _, w := range waits {
		s.Log(WaitText(w))
	}
}

// Counts implements coordinator.Observer.
func (s *Stream) Counts(coordinator.Counts) {}

// Diagnostics implements coordinator.Observer. Problems are written when the run has ended, by Problems.
func (s *Stream) Diagnostics(diag.List) {}

// Event writes the output of a provisioner.
func (s *Stream) Event(e wire.Event) {
	h := hookMessage{Resource: resourceMessageOf(e.Address), Provisioner: e.Name}
	switch {
	case e.Kind == "progress":
		s.action("action_progress", e.Text, e.Address, map[string]any{"message": e.Text})
	case e.Kind == "provision_start":
		s.hook("provision_start", fmt.Sprintf("Provisioning with '%s'...", e.Name), h)
	case e.Kind == "provision_end" && e.Failed:
		s.hook("provision_errored", fmt.Sprintf("(%s) Provisioning errored", e.Name), h)
	case e.Kind == "provision_end":
		s.hook("provision_complete", fmt.Sprintf("(%s) Provisioning complete", e.Name), h)
	case e.Kind == "output":
		for _, line := range OutputLines(e.Text) {
			h.Output = &line
			s.hook("provision_progress", fmt.Sprintf("(%s): %s", e.Name, line), h)
		}
	}
}
