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
)

// logSize is how much of a log is sent at a time.
const logSize = 64 << 10

// runPage is what the page of a run shows.
type runPage struct {
	*service.RunView
	Address string
	Who     string
	Waits   service.Wait
	Actions []action
	History []note
	Logs    []logPage
	Changes *planPart // nil before there is a plan
	// Failures are first: what failed, and what was not begun because of it.
	Failures     []service.Failure
	MoreFailures int
	// Picture is the phase whose operations are drawn; empty before there is one.
	Picture string
	// Live tells that the run has not ended.
	Live bool
}

// action is something that the person can do with the run now.
type action struct {
	Name, Label, Tone string
	// Explain says what comes of it.
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
	cursor := c.Stream().Now()
	v, err := c.runAsked()
	if err != nil {
		return err
	}
	c.Seen(v.ID)
	p := runPage{RunView: v, Address: at("app", v.Organization, v.On.Name, "runs", v.ID), Live: !v.Status.Final()}
	p.Who = c.Person(c.actor, v.CreatedBy)
	p.Actions = c.actions(v)
	if p.Waits, err = c.Waits(c.actor, v.ID); err != nil {
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
	if p.Failures, p.MoreFailures, err = c.Failures(c.actor, v.ID); err != nil {
		return err
	}
	for _, phase := range []struct {
		name, title string
		*record.Phase
	}{{"plan", "Log of the plan", &v.Plan}, {"apply", "Log of the apply", &v.Apply}} {
		if phase.Started.IsZero() {
			continue
		}
		l, err := c.LogBefore(c.r.Context(), c.actor, phase.ID, -1, logSize)
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
			{v.On.Name, at("app", v.Organization, v.On.Name)}, {"Run " + v.ID, p.Address}},
		Events: p.Address + "/events?cursor=" + cursor.String(),
	}, p)
}

func title(r *record.Run) string {
	if r.Message != "" {
		return short(80, r.Message)
	}
	return "Run " + r.ID
}

// actions are what the person may do with a run as it is.
func (c *call) actions(v *service.RunView) []action {
	var out []action
	applies, plans := v.Permissions.Runs >= record.Write, v.Permissions.Runs >= record.Plan
	if v.Status.Confirmable() && applies {
		out = append(out, action{"apply", "Confirm and apply", "primary", "The changes of the plan are made."})
	}
	if v.Status.Discardable() && applies {
		out = append(out, action{"discard", "Discard", "", "The plan is not applied. The next run can go on."})
	}
	switch {
	case c.ForceCancelable(&v.Run) && v.Permissions.Admin:
		out = append(out, action{"force-cancel", "Leave it in its midst", "danger", "The run ends at once. Operations " +
			"that are under way go on unwatched: what becomes of them is in doubt."})
	case v.Status.Cancelable() && plans && v.CancelAsked.IsZero():
		out = append(out, action{"cancel", "Cancel", "danger", "Nothing new is begun. What is under way is ended and kept."})
	}
	return out
}

// history is what happened to a run and what was said of it, in the order of time.
func (c *call) history(v *service.RunView) ([]note, error) {
	events, err := c.RunHistory(c.actor, v.ID)
	if err != nil {
		return nil, err
	}
	said, err := c.Comments(c.actor, v.ID)
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
		out = append(out, note{At: e.CreatedAt, Who: c.Person(c.actor, e.Actor), What: what})
	}
	for _, s := range said {
		n := note{At: s.CreatedAt, Who: c.Person(c.actor, s.Actor), What: s.Body, Said: true}
		i := len(out)
		for i > 0 && out[i-1].At.After(n.At) {
			i--
		}
		out = append(out[:i], append([]note{n}, out[i:]...)...)
	}
	return out, nil
}

// historyWords are the entries of a run's history as people read them, behind the name of who did it.
var historyWords = map[string]string{
	"created":                "created the run",
	"plan_queued":            "queued the plan",
	"plan_started":           "began to plan",
	"plan_ended":             "finished the plan",
	"plan_again":             "began to plan again: the service had ended meanwhile",
	"confirmed":              "confirmed the plan",
	"apply_queued":           "queued the apply",
	"apply_started":          "began to apply",
	"applied":                "finished the apply",
	"failed":                 "ended the run: it failed",
	"discarded":              "discarded the plan",
	"canceled":               "ended the run: it was canceled",
	"cancel_requested":       "asked for the run to be canceled",
	"force_canceled":         "left the run in its midst",
	"force_cancel_requested": "asked for the run to be left",
	"doubt_resolving":        "began to resolve a doubt",
	"doubt_resolved":         "resolved a doubt",
	"doubt_kept":             "could not resolve a doubt",
}

// actOnRun does what a form asks for.
func (c *call) actOnRun() error {
	v, err := c.runAsked()
	if err != nil {
		return err
	}
	comment := strings.TrimSpace(c.r.PostForm.Get("comment"))
	done := ""
	switch c.r.PostForm.Get("action") {
	case "apply":
		err, done = c.Confirm(c.actor, v.ID, comment), "You have confirmed the plan."
	case "discard":
		err, done = c.Discard(c.actor, v.ID, comment), "You have discarded the plan."
	case "cancel":
		err, done = c.Cancel(c.actor, v.ID, comment), "You have asked for the run to be canceled."
	case "force-cancel":
		err, done = c.ForceCancel(c.actor, v.ID, comment), "You have asked for the run to be left."
	case "comment":
		_, err = c.Comment(c.actor, v.ID, comment)
		done = "You have commented on the run."
	default:
		return &failure{http.StatusBadRequest, "The form asks for nothing that can be done with a run."}
	}
	if err != nil {
		return err
	}
	return c.back(at("app", v.Organization, v.On.Name, "runs", v.ID), done)
}

// logPart sends a part of a log as text: with "from" what comes behind that offset, waiting for it; with "before" what
// comes before. The headers From and Next say which bytes of the log it is made from.
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
			return &failure{http.StatusBadRequest, "The place in the log is no number."}
		}
		if p, err = c.LogBefore(c.r.Context(), c.actor, phase.ID, end, logSize); err != nil {
			return err
		}
	} else {
		from, err := strconv.ParseInt(q.Get("from"), 10, 64)
		if err != nil || from < 0 {
			return &failure{http.StatusBadRequest, "The place in the log is no number."}
		}
		ctx, cancel := context.WithTimeout(c.r.Context(), c.o.Poll)
		defer cancel()
		c.rest(pause) // what is written meanwhile goes out together
		p.From = from
		if p.Text, err = c.Log(ctx, c.LogAddress(phase), from, logSize); err != nil {
			return err
		}
	}
	l := logOf("", "", p, q.Has("before"))
	h := c.w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-From", strconv.FormatInt(l.From, 10))
	h.Set("X-Next", strconv.FormatInt(l.Next, 10))
	h.Set("X-Ended", strconv.FormatBool(l.Ended))
	_, _ = c.w.Write([]byte(l.Text)) // who asked has gone away otherwise
	return nil
}

// maxLines is how many lines of a log are shown of one object.
const maxLines = 20

// linesAbout sends the last lines of a log that begin with an address.
func (c *call) linesAbout(phase, address string) error {
	p, err := c.LogBefore(c.r.Context(), c.actor, phase, -1, 8*logSize)
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
	_, _ = io.WriteString(c.w, strings.Join(found[max(0, len(found)-maxLines):], "")) // who asked has gone away otherwise
	return nil
}

// The marks at the ends of a log.
const (
	markBegin = "\x02"
	markEnd   = "\x03"
)

// logOf makes a part of a log readable: whole lines, without marks, with lines of JSON as the text that they stand for.
// The part may begin within a line, when it was read backward; what it has of that line is left to the part before.
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

// logLine is a line as people read it.
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
