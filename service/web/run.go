package web

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/timelines"
)

// logSize is the size of a part of a log, in bytes.
const logSize = 64 << 10

// runPage shows a run.
type runPage struct {
	*service.RunView
	Address string
	Who     string
	Waits   service.Wait
	Actions []action
	History []note
	Logs    []logPage
	Changes *planPart // nil before there is a plan
	// Failures are the failed operations, with the operations that were skipped because of them. They are shown
	// first.
	Failures []timelines.Failure
	// Doubts are the operations that the run has left in doubt; nil if there are none.
	Doubts       *service.WorkspaceDoubts
	MoreFailures int
	// Picture is the phase whose operations are drawn; empty if none has started.
	Picture string
	// Live says that the run has not ended.
	Live bool
}

// action is something that the person can do with the run at present.
type action struct {
	Name, Label, Tone string
	// Explain describes its effect.
	Explain string
}

// note is an entry of the history: an event or a comment.
type note struct {
	At        time.Time
	Who, What string
	Said      bool // it is a comment
}

// logPage is the end of a log.
type logPage struct {
	Phase, Title string
	Text         string
	From, Next   int64
	Ended        bool
}

func (c *call) run() error {
	cursor := c.svc.Stream().Now()
	v, err := c.runAsked()
	if err != nil {
		return err
	}
	c.svc.Runs.Seen(v.ID)
	p := runPage{RunView: v, Address: at("app", v.Organization, v.On.Name, "runs", v.ID), Live: !v.Status.Final()}
	p.Who = c.svc.Users.NameOf(c.actor, v.CreatedBy)
	p.Actions = c.actions(v)
	if p.Waits, err = c.svc.Runs.Waits(c.r.Context(), c.actor, v.ID); err != nil {
		return err
	}
	if p.History, err = c.history(v); err != nil {
		return err
	}
	if v.Run.Plan.Status == record.PhaseFinished {
		if p.Changes, err = c.planOf(v, p.Address); err != nil {
			return err
		}
	}
	if p.Failures, p.MoreFailures, err = c.svc.Timelines.Failures(c.actor, v.ID); err != nil {
		return err
	}
	if p.Doubts, err = c.doubtsLeftBy(v); err != nil {
		return err
	}
	for _, phase := range []struct {
		name, title string
		*record.Phase
	}{{"plan", "Log of the plan", &v.Plan}, {"apply", "Log of the apply", &v.Apply}} {
		if phase.Started.IsZero() {
			continue
		}
		l, err := c.svc.Logs.Before(c.r.Context(), c.actor, phase.ID, -1, logSize)
		if err != nil {
			return err
		}
		p.Logs = append(p.Logs, logOf(phase.name, phase.title, l, true))
	}
	if p.Picture = "plan"; !v.Apply.Started.IsZero() {
		p.Picture = "apply"
	}
	if v.Run.Plan.Started.IsZero() {
		p.Picture = ""
	}
	return c.render(http.StatusOK, "run", page{
		Title: title(&v.Run) + " of " + v.On.Name, Section: "overview",
		Crumbs: []crumb{{v.Organization, at("app", v.Organization)},
			{v.On.Name, at("app", v.Organization, v.On.Name)}, {v.ID, p.Address}},
		Events: p.Address + "/events?cursor=" + cursor.String(),
	}, p)
}

func title(r *record.Run) string {
	if r.Message != "" {
		return short(80, r.Message)
	}
	return "Run " + r.ID
}

// actions returns what the person may do with a run in its present status.
func (c *call) actions(v *service.RunView) []action {
	var out []action
	applies, plans := v.Permissions.Runs >= record.Write, v.Permissions.Runs >= record.Plan
	if v.Status.Confirmable() && applies {
		out = append(out, action{"apply", "Confirm and apply", "primary", "Makes the changes of the plan."})
	}
	if v.Status.Discardable() && applies {
		out = append(out, action{"discard", "Discard", "", "The plan will not be applied. The next run can start."})
	}
	switch {
	case c.svc.Runs.ForceCancelable(&v.Run) && v.Permissions.Admin:
		out = append(out, action{"force-cancel", "Force cancel", "danger", "The run ends at once. Operations that " +
			"are in progress are abandoned: their outcomes are in doubt."})
	case v.Status.Cancelable() && plans && v.CancelAsked.IsZero():
		out = append(out, action{"cancel", "Cancel", "danger", "Interrupts running operations, and stores their results."})
	}
	return out
}

// history returns the events of a run and the comments on it, in the order of time.
func (c *call) history(v *service.RunView) ([]note, error) {
	events, err := c.svc.Runs.History(c.actor, v.ID)
	if err != nil {
		return nil, err
	}
	said, err := c.svc.Runs.Comments(c.actor, v.ID)
	if err != nil {
		return nil, err
	}
	var out []note
	for _, e := range events {
		what := historyWords[e.Action]
		if what == "" {
			what = strings.ReplaceAll(e.Action, "_", " ")
		}
		if e.Description != "" {
			what += ": " + e.Description
		}
		out = append(out, note{At: e.CreatedAt, Who: c.svc.Users.NameOf(c.actor, e.Actor), What: what})
	}
	for _, s := range said {
		n := note{At: s.CreatedAt, Who: c.svc.Users.NameOf(c.actor, s.Actor), What: s.Body, Said: true}
		i := len(out)
		for i > 0 && out[i-1].At.After(n.At) {
			i--
		}
		out = append(out[:i], append([]note{n}, out[i:]...)...)
	}
	return out, nil
}

// historyWords are the entries of a run's history for people; each follows the name of the person.
var historyWords = map[string]string{
	"created":                "created the run",
	"plan_queued":            "queued the plan",
	"plan_started":           "began to plan",
	"plan_ended":             "finished the plan",
	"plan_again":             "restarted the plan, because the service was restarted",
	"confirmed":              "confirmed the plan",
	"apply_queued":           "queued the apply",
	"apply_started":          "began to apply",
	"applied":                "finished the apply",
	"failed":                 "ended the run: it failed",
	"discarded":              "discarded the plan",
	"canceled":               "ended the run: it was canceled",
	"cancel_requested":       "requested the cancellation of the run",
	"force_canceled":         "force-canceled the run",
	"force_cancel_requested": "requested the forced cancellation of the run",
	"doubt_resolving":        "began to resolve a doubt",
	"doubt_resolved":         "resolved a doubt",
	"doubt_kept":             "could not resolve a doubt",
}

// actOnRun performs the action of a form.
func (c *call) actOnRun() error {
	v, err := c.runAsked()
	if err != nil {
		return err
	}
	comment := strings.TrimSpace(c.r.PostForm.Get("comment"))
	var done string
	switch c.r.PostForm.Get("action") {
	case "apply":
		err, done = c.svc.Runs.Confirm(c.actor, v.ID, comment), "You have confirmed the plan."
	case "discard":
		err, done = c.svc.Runs.Discard(c.actor, v.ID, comment), "You have discarded the plan."
	case "cancel":
		err, done = c.svc.Runs.Cancel(c.actor, v.ID, comment), "You have canceled the run."
	case "force-cancel":
		err, done = c.svc.Runs.ForceCancel(c.actor, v.ID, comment), "You have force-canceled the run."
	case "comment":
		_, err = c.svc.Runs.Comment(c.actor, v.ID, comment)
		done = "You have commented on the run."
	default:
		return &failure{http.StatusBadRequest, "The form has no valid action for a run."}
	}
	if err != nil {
		return err
	}
	return c.back(at("app", v.Organization, v.On.Name, "runs", v.ID), done)
}

// logPart sends a part of a log as text: with "from" the text after that offset, for which it waits; with
// "before" the text before it. The headers From and Next give the offsets of the text in the log.
func (c *call) logPart() error {
	v, err := c.runAsked()
	if err != nil {
		return err
	}
	phase := &v.Plan
	if c.arg("phase") == "apply" {
		phase = &v.Apply
	}
	q := c.r.URL.Query()
	if about := q.Get("about"); about != "" {
		return c.linesAbout(phase.ID, about)
	}
	var p service.LogPart
	if before := q.Get("before"); before != "" {
		end, err := strconv.ParseInt(before, 10, 64)
		if err != nil || end < 0 {
			return &failure{http.StatusBadRequest, "The offset in the log must be a number."}
		}
		if p, err = c.svc.Logs.Before(c.r.Context(), c.actor, phase.ID, end, logSize); err != nil {
			return err
		}
	} else {
		from, err := strconv.ParseInt(q.Get("from"), 10, 64)
		if err != nil || from < 0 {
			return &failure{http.StatusBadRequest, "The offset in the log must be a number."}
		}
		ctx, cancel := context.WithTimeout(c.r.Context(), c.o.Poll)
		defer cancel()
		c.rest(pause) // text that is written meanwhile is sent together
		p.From = from
		if p.Text, err = c.svc.Logs.Read(ctx, c.svc.Logs.Address(phase), from, logSize); err != nil {
			return err
		}
	}
	l := logOf("", "", p, q.Has("before"))
	h := c.w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-From", strconv.FormatInt(l.From, 10))
	h.Set("X-Next", strconv.FormatInt(l.Next, 10))
	h.Set("X-Ended", strconv.FormatBool(l.Ended))
	_, _ = c.w.Write([]byte(l.Text)) // an error means that the client has disconnected
	return nil
}

// maxLines is how many lines of a log are shown for one object.
const maxLines = 20

// linesAbout sends the last lines of a log that begin with an address.
func (c *call) linesAbout(phase, address string) error {
	p, err := c.svc.Logs.Before(c.r.Context(), c.actor, phase, -1, 8*logSize)
	if err != nil {
		return err
	}
	var found []string
	for line := range strings.Lines(logOf("", "", p, true).Text) {
		if strings.HasPrefix(line, address+":") {
			found = append(found, line)
		}
	}
	c.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	// An error means that the client has disconnected.
	_, _ = io.WriteString(c.w, strings.Join(found[max(0, len(found)-maxLines):], ""))
	return nil
}

// The markers at the ends of a log.
const (
	markBegin = "\x02"
	markEnd   = "\x03"
)

// logOf makes a part of a log readable: it has whole lines, no markers, and text in place of JSON. The part may
// begin within a line if it was read backward; the rest of that line then belongs to the part before.
func logOf(phase, title string, p service.LogPart, backward bool) logPage {
	text := p.Text
	l := logPage{Phase: phase, Title: title, From: p.From, Next: p.From + int64(len(text)),
		Ended: bytes.Contains(text, []byte(markEnd))}
	if i := bytes.IndexByte(text, '\n'); backward && p.From > 0 && i >= 0 {
		text = text[i+1:]
		l.From += int64(i + 1)
	}
	if i := bytes.LastIndexByte(text, '\n'); !l.Ended && (i >= 0 || len(text) < logSize/2) {
		l.Next -= int64(len(text) - i - 1)
		text = text[:i+1]
	}
	var b strings.Builder
	for line := range strings.Lines(strings.NewReplacer(markBegin, "", markEnd, "").Replace(string(text))) {
		b.WriteString(logLine(line))
	}
	l.Text = strings.ToValidUTF8(b.String(), "\uFFFD")
	return l
}

// logLine returns a line as text.
func logLine(line string) string {
	if !strings.HasPrefix(line, `{"@`) {
		return line
	}
	var m struct {
		Message    string `json:"@message"`
		Diagnostic struct {
			Detail  string `json:"detail"`
			Address string `json:"address"`
			Range   struct {
				File  string `json:"filename"`
				Start struct {
					Line int `json:"line"`
				} `json:"start"`
			} `json:"range"`
			Snippet struct {
				Code string `json:"code"`
			} `json:"snippet"`
		} `json:"diagnostic"`
	}
	if json.Unmarshal([]byte(line), &m) != nil || m.Message == "" {
		return line
	}
	text := m.Message + "\n"
	d := &m.Diagnostic
	if d.Range.File != "" {
		text += "  on " + d.Range.File + " line " + strconv.Itoa(d.Range.Start.Line)
		if d.Snippet.Code != "" {
			text += ": " + strings.TrimSpace(d.Snippet.Code)
		}
		text += "\n"
	}
	if d.Detail != "" {
		text += "  " + strings.ReplaceAll(d.Detail, "\n", "\n  ") + "\n"
	}
	return text
}
