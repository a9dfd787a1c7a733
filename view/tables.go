package view

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/millipede-iac/millipede/coordinator/history"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/view/document"
	"github.com/millipede-iac/millipede/wire"
)

// timeFormat is the format of times: to the second, in the time zone of the value.
const timeFormat = "2006-01-02 15:04:05"

// table writes rows in columns; the first row is the heading. oneCell replaces characters that would begin another cell
// or row.
var oneCell = strings.NewReplacer("\t", "␉", "\n", "␊", "\v", "␋", "\f", "␌", "\r", "␍")

func table(w io.Writer, rows [][]string) error {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = oneCell.Replace(cell)
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// RunsText lists runs, in the order in which they are given.
func RunsText(w io.Writer, runs []journal.Run, now time.Time) error {
	if len(runs) == 0 {
		_, err := fmt.Fprintln(w, "No runs are recorded.")
		return err
	}
	rows := [][]string{{"RUN", "WORKSPACE", "COMMAND", "STATUS", "STARTED", "TOOK", "BY"}}
	for _, r := range runs {
		rows = append(rows, []string{r.ID, r.Workspace, r.Command, r.Status, r.Started.Format(timeFormat),
			runTook(r, now), r.Who})
	}
	return table(w, rows)
}

func runTook(r journal.Run, now time.Time) string {
	switch {
	case r.Ended.IsZero() && r.Status == history.CutOff:
		return "?" // it is unknown when it was cut off
	case r.Ended.IsZero():
		return document.Seconds(max(now.Sub(r.Started), 0)) + " so far"
	}
	return document.Seconds(max(r.Ended.Sub(r.Started), 0)) // it may have begun on a machine with another clock
}

// RunText shows one run: its progress, the finished operations with their places, failures, running operations, and
// everything known about operations of unknown outcome. p is its plan, s the state of its workspace. It returns an
// error if the journal's events are invalid.
func RunText(w io.Writer, r journal.Run, p *plan.Plan, events []journal.Event, s *state.State, now time.Time) error {
	statuses, open, err := journal.Fold(r.Vertices, events)
	if err != nil {
		return fmt.Errorf("reading the journal of the run %s: %w", r.ID, err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Run %s: %s in the workspace %q", r.ID, r.Command, r.Workspace)
	if r.Who != "" {
		fmt.Fprintf(&b, ", by %s", r.Who)
	}
	fmt.Fprintf(&b, "\nStatus: %s\nStarted: %s (%s)\n", r.Status, r.Started.Format(timeFormat), runTook(r, now))
	b.WriteString(roundText(r, p))
	counts := map[journal.Status]int{}
	steps := 0
	for v, st := range statuses {
		if !p.Hidden(v) {
			counts[st]++
			steps++
		}
	}
	var parts []string
	for st := journal.Waiting; st <= journal.Doubt; st++ {
		if counts[st] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[st], st))
		}
	}
	fmt.Fprintf(&b, "Steps: %d (%s)\n", steps, strings.Join(parts, ", "))
	b.WriteString(restsText(p))
	if err := doneTable(&b, events); err != nil {
		return err
	}
	b.WriteString(underWayText(open, statuses, now))
	b.WriteString(failuresText(events, statuses))
	b.WriteString(DoubtsText(s, r.ID))
	_, err = io.WriteString(w, b.String())
	return err
}

// doneTable lists the finished operations in the order in which they ended, with the place where each ran.
func doneTable(w io.Writer, events []journal.Event) error {
	rows := [][]string{{"  ADDRESS", "OPERATION", "POOL", "WORKER", "WAITED", "TOOK"}}
	for _, e := range events {
		if e.Kind == journal.Finish && e.Address != "" {
			rows = append(rows, []string{"  " + e.Address, e.Action, e.Pool, e.Worker,
				e.Waited.Round(time.Millisecond).String(), e.Took.Round(time.Millisecond).String()})
		}
	}
	if len(rows) == 1 {
		return nil
	}
	if _, err := io.WriteString(w, "\nDone:\n"); err != nil {
		return err
	}
	return table(w, rows)
}

func underWayText(open map[int]journal.Event, statuses []journal.Status, now time.Time) string {
	vertices := make([]int, 0, len(open))
	for v := range open {
		if statuses[v] == journal.Dispatched {
			vertices = append(vertices, v)
		}
	}
	if len(vertices) == 0 {
		return ""
	}
	slices.Sort(vertices)
	var b strings.Builder
	b.WriteString("\nUnder way:\n")
	for _, v := range vertices {
		e := open[v]
		fmt.Fprintf(&b, "  %s: %s, sent to the pool %s %s ago (attempt %s)\n", e.Address, e.Action, e.Pool,
			document.Seconds(now.Sub(e.At)), e.Attempt)
	}
	return b.String()
}

func failuresText(events []journal.Event, statuses []journal.Status) string {
	var b strings.Builder
	for _, e := range events {
		if e.Kind != journal.Fail || statuses[e.Vertex] != journal.Failed {
			continue
		}
		if b.Len() == 0 {
			b.WriteString("\nFailed:\n")
		}
		fmt.Fprintf(&b, "  %s: %s\n", e.Address, strings.ReplaceAll(e.Detail, "\n", "\n    "))
	}
	return b.String()
}

// DoubtsText describes the objects in doubt: those of one run, or all if run is empty. It is empty if there are
// none.
func DoubtsText(s *state.State, run string) string {
	if s == nil {
		return ""
	}
	var b strings.Builder
	for _, a := range s.Addrs() {
		i := s.Instance(a)
		if i.Current != nil {
			doubtText(&b, a, state.CurrentObject, i.Current, run)
		}
		for _, key := range i.DeposedKeys() {
			doubtText(&b, a, key, i.Deposed[key], run)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "\nIn doubt (it is unknown whether the operation took effect):\n" + b.String()
}

func doubtText(b *strings.Builder, a addr.Instance, key state.DeposedKey, o *state.Object, run string) {
	d := o.Doubt
	if o.Status != state.InDoubt || d == nil || run != "" && d.Run != run {
		return
	}
	name := a.String()
	if key != state.CurrentObject && a.Resource.Mode != addr.Action {
		name += fmt.Sprintf(" (deposed object %s)", key)
	}
	fmt.Fprintf(b, "  %s\n    operation: %s, started %s\n    attempt:   %s of the run %s\n", name, d.Operation,
		d.Started.Format(timeFormat), d.Attempt, d.Run)
	if d.Worker != "" {
		fmt.Fprintf(b, "    worker:    %s in the pool %s\n", d.Worker, d.Pool)
	}
	if d.Reason != "" {
		fmt.Fprintf(b, "    reason:    %s\n", d.Reason)
	}
	if len(d.Sent) > 0 {
		fmt.Fprintf(b, "    sent:      %s\n", d.Sent)
	}
	if d.Answer != nil && len(d.Answer.Known) > 0 {
		fmt.Fprintf(b, "    answered:  %s\n", d.Answer.Known)
	}
	resolve := fmt.Sprintf(diag.Program()+" runs resolve %s -created=ID, or with -not-created",
		document.ShellWord(a.String()))
	switch d.Operation {
	case "create":
	case "invoke":
		resolve = fmt.Sprintf(diag.Program()+" runs resolve %s -invoked, or with -not-invoked",
			document.ShellWord(a.String()))
	default:
		resolve = "the next plan, by reading it; without one: " + resolve
	}
	fmt.Fprintf(b, "    resolve:   %s\n", resolve)
}

// WorkersText lists workers, in the order of their names.
func WorkersText(w io.Writer, workers []wire.Worker) error {
	if len(workers) == 0 {
		_, err := fmt.Fprintln(w, "No worker is alive.")
		return err
	}
	workers = slices.Clone(workers)
	slices.SortFunc(workers, func(a, b wire.Worker) int {
		return cmp.Or(strings.Compare(a.Worker, b.Worker), strings.Compare(a.PublicKey, b.PublicKey),
			slices.Compare(a.Pools, b.Pools))
	})
	// A worker is listed once for each of its pools; two workers that only share a name have different keys.
	for i := len(workers) - 1; i > 0; i-- {
		if one, more := &workers[i-1], workers[i]; one.Worker == more.Worker && one.PublicKey == more.PublicKey {
			one.Pools = slices.Concat(one.Pools, more.Pools)
			workers = slices.Delete(workers, i, i+1)
		}
	}
	rows := [][]string{{"WORKER", "POOLS", "BUSY", "STATUS", "SEEN", "VERSION", "PROTOCOL", "PLATFORM", "HOST"}}
	var unsuited []string
	for _, x := range workers {
		status := "ready"
		why := x.Unsuited(wire.Spoken())
		if why != "" {
			unsuited = append(unsuited, why)
		}
		switch {
		case why != "":
			status = "is given nothing"
		case x.Leaving:
			status = "leaving"
		case x.Draining:
			status = "draining"
		case x.Trouble != "":
			status = "takes nothing: " + x.Trouble
		}
		rows = append(rows, []string{
			x.Worker, strings.Join(x.Pools, ","), fmt.Sprintf("%d/%d", x.Running, x.Slots), status,
			x.Since.Round(100*time.Millisecond).String() + " ago", x.Version,
			x.Versions().String(), x.Platform, x.Host,
		})
	}
	if err := table(w, rows); err != nil || len(unsuited) == 0 {
		return err
	}
	_, err := fmt.Fprintf(w, "\nNothing is given to:\n  %s\n", strings.Join(unsuited, "\n  "))
	return err
}

// LimitsText lists limits, each with the holders of its permits and those waiting for one.
func LimitsText(w io.Writer, limits []wire.LimitStatus, now time.Time) error {
	if len(limits) == 0 {
		_, err := fmt.Fprintln(w, "No limit is declared.")
		return err
	}
	limits = slices.Clone(limits)
	slices.SortFunc(limits, func(a, b wire.LimitStatus) int { return strings.Compare(a.Name, b.Name) })
	rows := [][]string{{"LIMIT", "SLOTS", "HELD", "WAITING"}}
	for _, l := range limits {
		rows = append(rows, []string{l.Name, fmt.Sprint(l.Slots), fmt.Sprint(len(l.Held)), fmt.Sprint(len(l.Waiting))})
	}
	if err := table(w, rows); err != nil {
		return err
	}
	for _, l := range limits {
		if len(l.Held)+len(l.Waiting) == 0 {
			continue
		}
		if _, err := fmt.Fprintf(w, "\n%s\n", l.Name); err != nil {
			return err
		}
		rows := [][]string{{"  ", "RUN", "COORDINATOR", "BY", "POOL", "FOR", "PERMIT"}}
		for _, r := range l.Held {
			what := "held"
			switch l.Silent[r.Coordinator] {
			case wire.Gone:
				what = "held, its process has ended"
			case wire.Mute:
				what = "held, its process does not answer"
			}
			use := l.Uses[r.ID]
			if use.InDoubt {
				what = "held, in doubt: " + use.Address
			}
			rows = append(rows, permitRow(what, r, use, now))
		}
		for _, r := range l.Waiting {
			rows = append(rows, permitRow("waiting", r, wire.PermitUse{}, now))
		}
		if err := table(w, rows); err != nil {
			return err
		}
	}
	return whatFrees(w, limits)
}

// whatFrees says how permits become free whose processes do not answer.
func whatFrees(w io.Writer, limits []wire.LimitStatus) error {
	found, doubt := map[wire.Silence]bool{}, false
	for _, l := range limits {
		for _, use := range l.Uses {
			doubt = doubt || use.InDoubt
		}
		for _, why := range l.Silent {
			found[why] = true
		}
	}
	text := ""
	if doubt {
		text += "\nThe permits of operations in doubt are free when these are resolved (runs resolve ADDRESS), when their " +
			"worker\nreports their end, or, for a limit that pools share, after their term (doubt_term in millipede.hcl).\n"
	}
	if found[wire.Mute] {
		text += "\nA process that does not answer may be stopped. Let it continue, or end it and resume its run.\n"
	}
	if found[wire.Gone] {
		text += "\nThe permits of a process that has ended are held as long as what it began may be running. They are free " +
			"when its\nrun is resumed in its directory (runs resume RUN), when its operations in doubt are resolved (runs " +
			"resolve ADDRESS),\nor a day after they were asked for. Those of a run that only reads are free as soon as they " +
			"are needed.\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

func permitRow(what string, r wire.PermitRequest, use wire.PermitUse, now time.Time) []string {
	return []string{"  " + what, r.Run, r.Coordinator, use.By, use.Pool, document.Seconds(now.Sub(r.At)), r.ID}
}
