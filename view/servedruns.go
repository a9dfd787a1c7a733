package view

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/internal/cloud/tfc"
)

// ServedRunsText lists runs of a service, in the order in which they are given.
func ServedRunsText(w io.Writer, runs []*tfc.Run) error {
	if len(runs) == 0 {
		_, err := fmt.Fprintln(w, "The workspace has no runs yet.")
		return err
	}
	rows := [][]string{{"RUN", "KIND", "STATUS", "CREATED", "MESSAGE"}}
	for _, r := range runs {
		rows = append(rows, []string{r.ID, servedKind(r), servedStatus(r.Status), createdAt(r), oneLine(r.Message)})
	}
	if err := table(w, rows); err != nil {
		return err
	}
	said := false
	for _, r := range runs {
		if r.Waits == "" || r.Status.Final() {
			continue
		}
		if !said {
			said = true
			if _, err := fmt.Fprint(w, "\nWaiting:\n"); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(w, "  %s: %s\n", r.ID, r.Waits); err != nil {
			return err
		}
	}
	return nil
}

// ServedRunText shows one run of a service. url is the address of its page, empty if it is unknown. m has its
// operations; nil if the service does not report any.
func ServedRunText(w io.Writer, r *tfc.Run, url string, m *timeline.Model) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Run %s: %s", r.ID, servedKind(r))
	if r.Message != "" {
		fmt.Fprintf(&b, ", %s", oneLine(r.Message))
	}
	fmt.Fprintf(&b, "\nStatus: %s\n", servedStatus(r.Status))
	if r.Waits != "" && !r.Status.Final() {
		fmt.Fprintf(&b, "Waits: %s\n", r.Waits)
	}
	if at := createdAt(r); at != "" {
		fmt.Fprintf(&b, "Created: %s\n", at)
	}
	if url != "" {
		fmt.Fprintf(&b, "Page: %s\n", url)
	}
	if m == nil {
		b.WriteString("\nThe service reports no operations of this run.\n")
	} else if err := servedOperations(&b, m); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// servedOperations lists the operations of the last phase of a run.
func servedOperations(b *strings.Builder, m *timeline.Model) error {
	c := m.Counts
	var parts []string
	for _, of := range []struct {
		n    int
		word string
	}{{c.Waiting + c.Queued, "waiting"}, {c.Running, "running"}, {c.Done, "done"}, {c.Failed, "failed"},
		{c.Skipped, "skipped"}, {c.Doubt, "in doubt"}} {
		if of.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", of.n, of.word))
		}
	}
	fmt.Fprintf(b, "Steps of the %s: %d (%s)\n", m.Head.Command, c.Total, strings.Join(parts, ", "))
	rows := [][]string{{"  ADDRESS", "OPERATION", "STATUS", "POOL", "WORKER", "WAITED", "TOOK"}}
	for i := range m.Vertices {
		v := &m.Vertices[i]
		if v.Address == "" || v.Started <= timeline.None { // it was never sent to a worker
			continue
		}
		took := ""
		if v.Took > 0 {
			took = milliseconds(v.Took)
		}
		rows = append(rows, []string{"  " + titleOf(v), v.Action, vertexWords[v.Status], v.Pool, v.Worker,
			milliseconds(v.Started - v.Ready), took})
	}
	if len(rows) > 1 {
		b.WriteString("\nOperations:\n")
		if err := table(b, rows); err != nil {
			return err
		}
	}
	for _, of := range []struct {
		status timeline.Status
		title  string
		why    func(*timeline.Vertex) string
	}{
		{timeline.Failed, "Failed", func(v *timeline.Vertex) string { return v.Failure }},
		{timeline.Doubt, "In doubt (it is unknown whether the operation took effect)",
			func(v *timeline.Vertex) string { return v.Doubtful }},
	} {
		said := false
		for i := range m.Vertices {
			v := &m.Vertices[i]
			if v.Status != of.status {
				continue
			}
			if !said {
				said = true
				fmt.Fprintf(b, "\n%s:\n", of.title)
			}
			fmt.Fprintf(b, "  %s: %s\n", titleOf(v), strings.ReplaceAll(of.why(v), "\n", "\n    "))
		}
	}
	for _, text := range m.Head.Errors {
		fmt.Fprintf(b, "\n%s\n", text)
	}
	return nil
}

// vertexWords are the statuses of operations for people.
var vertexWords = map[timeline.Status]string{timeline.Waiting: "waiting", timeline.Queued: "queued",
	timeline.Running: "running", timeline.Done: "done", timeline.Failed: "failed", timeline.Skipped: "skipped",
	timeline.Doubt: "in doubt"}

func milliseconds(n int64) string { return (time.Duration(max(n, 0)) * time.Millisecond).String() }

// servedKind describes the kind of a run.
func servedKind(r *tfc.Run) string {
	kind := "apply"
	switch {
	case r.PlanOnly:
		kind = "plan"
	case r.Status == tfc.PlannedAndSaved:
		kind = "saved plan"
	}
	switch {
	case r.Destroy:
		kind += " (destroy)"
	case r.RefreshOnly:
		kind += " (refresh only)"
	}
	return kind
}

func servedStatus(s tfc.Status) string { return strings.ReplaceAll(string(s), "_", " ") }

// createdAt returns when a run was created, in the time zone of the reader.
func createdAt(r *tfc.Run) string {
	at, err := time.Parse(time.RFC3339, r.Created)
	if err != nil {
		return r.Created
	}
	return at.Local().Format(timeFormat)
}

// oneLine returns the first line of a text, shortened.
func oneLine(text string) string {
	line, _, more := strings.Cut(strings.TrimSpace(text), "\n")
	const most = 60
	if runes := []rune(line); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	if more {
		return line + " …"
	}
	return line
}
