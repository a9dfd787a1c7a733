package view

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/view/document"
)

// ServiceLog shows the log of a run that a service executes. JSON lines are shown like a local run; other lines
// unchanged.
type ServiceLog struct {
	Out     io.Writer
	Options TextOptions
	// Applying is set for the log of an apply; otherwise it is that of a plan.
	Applying bool
	// Problems shows problems.
	Problems func(diag.List)

	plain   int    // number of lines so far that are not JSON
	summary string // the summary of a plan
	failed  error  // the first error of writing
}

// preamble is the number of lines at the beginning of an apply's log that name the program. They repeat those of the
// plan.
const preamble = 3

// serviceMessage is a line of JSON.
type serviceMessage struct {
	Type       string               `json:"type"`
	Message    string               `json:"@message"`
	Diagnostic *document.Diagnostic `json:"diagnostic"`
	Outputs    map[string]struct {
		Sensitive bool            `json:"sensitive"`
		Type      json.RawMessage `json:"type"`
		Value     json.RawMessage `json:"value"`
	} `json:"outputs"`
}

// Line shows one line.
func (l *ServiceLog) Line(line []byte) {
	var m serviceMessage
	if !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, &m) != nil || m.Type == "" && m.Message == "" {
		l.plain++
		if !l.Applying || l.plain > preamble {
			l.print(string(line) + "\n")
		}
		return
	}
	switch m.Type {
	case "version", "refresh_complete", "provision_complete", "provision_errored", "apply_errored", "planned_change",
		"resource_drift":
	case "diagnostic":
		if m.Diagnostic != nil {
			l.Problems(diag.List{problemOf(m.Diagnostic)})
		}
	case "change_summary":
		if l.Applying {
			l.print(l.Options.Ink.on(boldCode+greenCode) + "\n" + m.Message + "\n" + l.Options.Ink.off())
		} else {
			l.summary = m.Message
		}
	case "outputs":
		if l.Applying {
			l.outputs(m)
		}
	default:
		l.print(m.Message + "\n")
	}
}

// Summary returns the summary of changes in a plan's log; empty if it has none.
func (l *ServiceLog) Summary() string { return l.summary }

// Err returns the first error of writing.
func (l *ServiceLog) Err() error { return l.failed }

func (l *ServiceLog) print(text string) {
	if _, err := io.WriteString(l.Out, text); l.failed == nil {
		l.failed = err
	}
}

func (l *ServiceLog) outputs(m serviceMessage) {
	s := state.Empty()
	s.Outputs = map[string]*state.Output{}
	for name, o := range m.Outputs {
		ty, err := ctyjson.UnmarshalType(o.Type)
		v := cty.NullVal(cty.DynamicPseudoType)
		if err == nil && len(o.Value) > 0 {
			v, err = ctyjson.Unmarshal(o.Value, ty)
		}
		if err != nil && !o.Sensitive {
			continue
		}
		if err != nil {
			v = cty.StringVal("")
		}
		s.Outputs[name] = &state.Output{Value: v, Sensitive: o.Sensitive}
	}
	l.print(AppliedOutputsText(s, l.Options))
}

// problemOf converts a diagnostic from a service. Its source lines are taken from the local files.
func problemOf(d *document.Diagnostic) *diag.Diagnostic {
	severity := diag.Error
	if d.Severity == "warning" {
		severity = diag.Warning
	}
	out := diag.New(severity, d.Summary, strings.TrimSpace(d.Detail), nil)
	out.Address = d.Address
	if r := d.Range; r != nil {
		out.Subject = &hcl.Range{
			Filename: r.Filename, Start: hcl.Pos{Line: r.Start.Line, Column: r.Start.Column, Byte: r.Start.Byte},
			End: hcl.Pos{Line: r.End.Line, Column: r.End.Column, Byte: r.End.Byte},
		}
	}
	return out
}
