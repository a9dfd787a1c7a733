package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/view/document"
)

// TextOptions say how text for people is written.
type TextOptions struct {
	Ink Ink
	// Width is the number of columns; 0 means DefaultWidth.
	Width int
	// Reveal shows sensitive values.
	Reveal bool
	// Automated leaves out suggestions of commands, for programs that drive the command line.
	Automated bool
}

func (o TextOptions) width() int {
	if o.Width == 0 {
		return DefaultWidth
	}
	return o.Width
}

func (o TextOptions) wrap(text string) string { return wrapped(text, o.width()-1) }

// rule returns a horizontal line, with an empty line above it.
func (o TextOptions) rule() string {
	if o.width() <= 1 {
		return "\n"
	}
	return o.Ink.on(grayCode) + "\n" + strings.Repeat("─", o.width()-1) + o.Ink.off()
}

// PlanText writes a plan for people. It returns the error of writing.
func PlanText(w io.Writer, p *plan.Plan, schemas *values.Schemas, o TextOptions) error {
	t := planText{TextOptions: o, plan: p, schemas: schemas, w: w}
	t.write()
	t.deferred()
	if text := document.UnreadSentence(p.Unread); text != "" {
		t.line("\n" + o.wrap(text))
	}
	t.flush()
	return t.err
}

type planText struct {
	TextOptions
	plan    *plan.Plan
	schemas *values.Schemas
	w       io.Writer
	b       bytes.Buffer // the text that is not written yet
	err     error        // of writing

	counts map[plan.Action]int // of the shown changes, without no-ops
	// referred are the attributes that the plan refers to, computed at first use.
	referred map[addr.Instance][]cty.Path
}

// enough is the size of the text, in bytes, that is written at once.
const enough = 32 << 10

func (t *planText) line(text string) {
	t.b.WriteString(text)
	t.b.WriteByte('\n')
	if t.b.Len() >= enough {
		t.flush()
	}
}

// flush writes whole lines: the writer may clean each part of the text separately.
func (t *planText) flush() {
	if t.err == nil {
		_, t.err = t.w.Write(t.b.Bytes())
	}
	t.b.Reset()
}

func (t *planText) write() {
	t.counts = map[plan.Action]int{}
	shown := t.shown()
	outputs := t.outputs()
	quiet := len(shown)+len(t.plan.Invocations) == 0 && outputs == ""
	drifted := t.drift(quiet)
	if quiet {
		t.nothing(drifted)
		return
	}
	if drifted {
		t.line(t.rule())
	}
	t.legend()
	if len(shown) > 0 {
		if t.plan.Errored {
			t.line("\nOpenTofu planned the following actions, but then encountered a problem:")
		} else {
			t.line("\nOpenTofu will perform the following actions:")
		}
		for _, c := range shown {
			t.line("")
			t.line(t.change(c, false))
		}
	}
	t.invocations()
	if len(shown)+len(t.plan.Invocations) > 0 {
		text := document.PlanSummary(t.plan).String()
		head, rest, _ := strings.Cut(text, ":")
		t.b.WriteString("\n" + t.Ink.on(boldCode) + head + ":" + t.Ink.off() + rest + "\n" + t.Ink.off())
	}
	if outputs != "" {
		t.line("\nChanges to Outputs:\n" + outputs)
		if len(t.counts)+len(t.plan.Invocations) == 0 {
			t.line(t.wrap("\nOnly these output values would change: applying the plan saves them to the state and " +
				"does not change the infrastructure."))
		}
	}
}

// shown returns the changes to show: all but those that do nothing, and those that read objects that are no longer
// in the configuration.
func (t *planText) shown() []*plan.Change {
	var out []*plan.Change
	for _, c := range t.plan.Changes {
		if !document.Shown(c) {
			continue
		}
		out = append(out, c)
		if c.Action != plan.NoOp {
			t.counts[c.Action]++
		}
	}
	return out
}

func (t *planText) legend() {
	if len(t.counts) == 0 {
		return
	}
	// Programs find the beginning of the plan by the first words.
	t.line(t.wrap("\nOpenTofu used the selected providers to make this execution plan. Resource actions are indicated " +
		"with the following symbols:"))
	for _, e := range []struct {
		action plan.Action
		text   string
	}{
		{plan.Create, "create"},
		{plan.Update, "update in-place (current -> planned)"},
		{plan.Delete, "destroy"},
		{plan.DeleteThenCreate, "destroy and then create replacement"},
		{plan.CreateThenDelete, "create replacement and then destroy"},
		{plan.Read, "read (data resources)"},
		{plan.ForgetThenCreate, "forget and then create replacement"},
		{plan.Forget, "forget"},
	} {
		if t.counts[e.action] == 0 {
			continue
		}
		sign := t.Ink.sign(e.action)
		if e.action == plan.ForgetThenCreate {
			sign = strings.TrimSpace(sign)
		}
		t.line(sign + " " + e.text + t.Ink.off())
	}
}

// change returns a change, or drift, with the comments above it.
func (t *planText) change(c *plan.Change, drift bool) string {
	m := deltaFormat{ink: t.Ink, reveal: t.Reveal, whole: c.Importing != nil}
	if c.Action == plan.Forget {
		m.bare, m.noNull = true, true
	}
	kind := "resource"
	if c.Addr.Resource.Mode == addr.Data {
		kind = "data"
	}
	d := t.difference(c, everywhere)
	if drift {
		d = t.difference(c, t.relevant(c))
	}
	return fmt.Sprintf("%s%s %s %q %q %s", t.comment(c, drift), t.Ink.symbol(c.Action), kind, c.Addr.Resource.Type,
		c.Addr.Resource.Name, d.text(0, m))
}

// difference returns the difference of the shown attributes.
func (t *planText) difference(c *plan.Change, shown pathSet) *delta {
	p := pair{before: datumOf(c.Before), after: datumOf(c.After), forces: pathSet{paths: c.ReplacePaths}, shown: shown}
	s := t.schemas.Resource(c.Provider.Provider, c.Addr.Resource.Mode, c.Addr.Resource.Type)
	return diffBody(p, blockOf(s))
}

// blockOf returns the block of a schema. The provider may no longer have the type of an object that is to be
// forgotten.
func blockOf(s *schema.Schema) *schema.Block {
	if s == nil || s.Block == nil {
		return &schema.Block{}
	}
	return s.Block
}

// outputs returns the changes of root outputs; empty if there are none.
func (t *planText) outputs() string {
	width := 0
	for _, o := range t.plan.Outputs {
		width = max(width, len(attributeName(o.Name)))
	}
	var lines []string
	byName := make(map[string]*plan.OutputChange, len(t.plan.Outputs))
	for _, o := range t.plan.Outputs {
		byName[o.Name] = o
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		o := byName[name]
		p := pair{before: datumOf(o.Before).open(), after: datumOf(o.After).open(), shown: everywhere}
		if o.Sensitive || o.BeforeSensitive {
			p.before, p.after = p.before.hidden(), p.after.hidden()
		}
		d := diffDynamic(p)
		if d.action == plan.NoOp {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s %-*s = %s", t.Ink.symbol(d.action), width, attributeName(name),
			d.text(0, deltaFormat{ink: t.Ink, reveal: t.Reveal})))
	}
	return strings.Join(lines, "\n")
}

// nothing writes that there is nothing to do.
func (t *planText) nothing(drifted bool) {
	k := t.Ink
	headline := func(color, head, rest string) {
		t.b.WriteString("\n" + k.off() + k.on(boldCode+color) + head + k.on(resetCode+boldCode) + " " + rest + k.off() +
			"\n\n" + k.off())
	}
	green := func(rest string) { headline(greenCode, "No changes.", rest) }
	if drifted && (t.plan.Mode != plan.RefreshOnly || t.plan.Errored) {
		t.line(t.rule())
	}
	switch {
	case t.plan.Errored:
		headline(redCode, "Planning failed.", "There was an error before the plan was complete.")
	case t.plan.Mode == plan.RefreshOnly && drifted:
		// Applying the plan records the drift that is shown above.
	case t.plan.Mode == plan.RefreshOnly:
		green("Your infrastructure still matches the configuration.")
		t.line(t.wrap("The real objects were compared with the result of the last changes, and there is no " +
			"difference."))
	case t.plan.Mode == plan.Destroy:
		green("No objects need to be destroyed.")
		t.line(t.wrap("Nothing was created so far, or all of it was deleted already."))
	case len(deferredOf(t.plan)) > 0:
		headline("", "Nothing to change yet.", "The rest of the configuration is deferred.")
	default:
		green("Your infrastructure matches the configuration.")
		switch {
		case drifted && t.plan.Applyable():
			t.line(t.wrap("The changes above match the configuration, so applying this plan only records " +
				"them in the state."))
		case drifted && t.Automated:
			t.line(t.wrap("The changes above match the configuration. A refresh-only plan records them " +
				"in the state."))
		case drifted:
			t.line(t.wrap("The changes above match the configuration. To record them in the state, apply " +
				"a refresh-only plan:\n  " + diag.Program() + " apply -refresh-only"))
		case t.plan.Unread != nil:
			t.line(t.wrap("The stored state was compared with the configuration, and there is no difference: nothing " +
				"needs to be done."))
		default:
			t.line(t.wrap("The real infrastructure was compared with the configuration, and there is no difference: " +
				"nothing needs to be done."))
		}
	}
}

// NextStepText writes the possible next steps after a plan that was not applied. saved is the name of the plan
// file, generated that of the configuration file that the plan has written; each may be empty.
func NextStepText(w io.Writer, saved, generated string, o TextOptions) error {
	if o.Automated {
		return nil
	}
	var b strings.Builder
	b.WriteString(o.rule() + "\n")
	if generated != "" {
		b.WriteString(o.wrap(fmt.Sprintf("\nThe configuration of the imported objects was written to %s. Review it "+
			"before you keep it.", generated)) + "\n")
	}
	text := "\nNote: The plan was not saved with the option -out, so a later \"" + diag.Program() +
		" apply\" makes a new plan, which may differ."
	if saved != "" {
		text = fmt.Sprintf("\nSaved the plan to: %s\n\nTo perform exactly these actions, run the following command "+
			"to apply:\n    "+diag.Program()+" apply %q", saved, saved)
	}
	b.WriteString(o.wrap(text) + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// identityText returns an identity as indented JSON within a comment.
func identityText(form json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Indent(&b, form, "  # ", "  "); err != nil {
		return string(form)
	}
	return b.String()
}
