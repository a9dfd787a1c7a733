package coordinator

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/test/stage/numbers"

	statemem "github.com/millipede-iac/millipede/state/mem"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/mem"
)

// behind is a connection to a cluster. From one moment to another, the server that answers has heard of nothing since
// the run began.
type behind struct {
	*mem.Conn
	from, until time.Duration
	began       time.Time
	asked       atomic.Int64 // how many of its answers were behind
}

func (b *behind) HighWater(ctx context.Context, pools []string) (wire.HighWater, error) {
	mark, err := b.Conn.HighWater(ctx, pools)
	mark.Replicated, mark.Servers = true, map[string]string{"TASKS": "nats-2"}
	if at := time.Since(b.began); at >= b.from && at < b.until {
		mark.Tasks = 0
		b.asked.Add(1)
	}
	return mark, err
}

// suspects applies 40 numbers, each two seconds long, ten at a time, over a connection that is behind for a time.
func suspects(t *testing.T, from, until time.Duration) (out loop.Outcome, began []time.Duration, warnings int64) {
	t.Helper()
	system, store := mem.New(mem.Options{}), statemem.New(statemem.Options{})
	w, stop := serveTasks(t, system, "default", 10, 2*time.Second)
	defer stop()
	p := numbers.New(t, 40)
	p.Lane, p.Stored = program.Safe, true
	beginRun(t, store, 40)
	conn := &behind{Conn: system.Connect("coordinator"), from: from, until: until, began: time.Now()}
	defer func() { _ = conn.Close() }()
	view := &warned{summary: "NATS seems to have lost data"}
	o := applyOptions(conn.Conn, store, p, "a")
	o.Hub, o.Observer = hub.New(conn, "c1"), view
	out, err := New(o).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if conn.asked.Load() == 0 {
		t.Fatal("no answer was behind")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, at := range w.times {
		began = append(began, at.Sub(conn.began))
	}
	slices.Sort(began)
	return out, began, view.n.Load()
}

// One answer of a server that was cut off from the others of its cluster ended the run for good, with all that was
// under way in doubt.
func TestALossThatNoSecondAnswerConfirmsOnlyPausesTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, began, warnings := suspects(t, 3*time.Second, 15*time.Second)
		if out.Status != "done" || len(out.InDoubt) != 0 {
			t.Errorf("the run ended as %q, with %d in doubt", out.Status, len(out.InDoubt))
		}
		if warnings != 1 {
			t.Errorf("%d warnings", warnings)
		}
		for _, at := range began {
			if at > 6*time.Second && at < 15*time.Second { // it asks every few seconds
				t.Errorf("an operation began after %s, while the run was to pause", at)
			}
		}
		if len(began) != 40 {
			t.Errorf("%d operations began", len(began))
		}
	})
}

func TestALossThatASecondAnswerConfirmsEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		out, began, _ := suspects(t, 3*time.Second, time.Hour)
		if out.Status != "interrupted" {
			t.Errorf("the run ended as %q", out.Status)
		}
		if took := time.Since(start); took < confirmAfter || took > 2*confirmAfter {
			t.Errorf("the run ended after %s", took)
		}
		if n := len(began); n == 0 || n == 40 || began[n-1] > 6*time.Second {
			t.Errorf("%d operations began, the last after %s", n, began[n-1])
		}
		text := ""
		for _, d := range out.Diags {
			text += d.Detail
		}
		for _, want := range []string{"TASKS", "nats-2"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q does not name %s", text, want)
			}
		}
	})
}

// One answer is enough from a single server. Servers of a cluster must all answer so for confirmAfter; one answer
// without a loss begins the time again.
func TestASuspicionNeedsTimeOnlyWhereServersAreReplicated(t *testing.T) {
	mark := wire.HighWater{Tasks: 5, Incarnation: "i"}
	at := time.Unix(1_700_000_000, 0)
	for _, c := range []struct {
		name       string
		answers    []wire.HighWater
		every      time.Duration
		lost, ever bool // at the last answer; at any of them
	}{
		{"nothing is missing", []wire.HighWater{{Tasks: 5, Incarnation: "i", Replicated: true}}, time.Second, false,
			false},
		{"a single server", []wire.HighWater{{Tasks: 4, Incarnation: "i"}}, time.Second, true, true},
		{"one answer of a cluster", []wire.HighWater{{Tasks: 4, Incarnation: "i", Replicated: true}}, time.Second, false,
			true},
		{"a second answer too soon", []wire.HighWater{{Tasks: 4, Incarnation: "i", Replicated: true},
			{Tasks: 4, Incarnation: "i", Replicated: true}}, confirmAfter - 1, false, true},
		{"a second answer in time", []wire.HighWater{{Tasks: 4, Incarnation: "i", Replicated: true},
			{Tasks: 4, Incarnation: "i", Replicated: true}}, confirmAfter, true, true},
		{"a whole answer between two", []wire.HighWater{{Tasks: 4, Incarnation: "i", Replicated: true},
			{Tasks: 6, Incarnation: "i", Replicated: true}, {Tasks: 4, Incarnation: "i", Replicated: true}},
			confirmAfter, false, true},
	} {
		var s suspicion
		var lost, suspected, ever bool
		for i, now := range c.answers {
			lost, suspected = s.judge(mark, now, at.Add(time.Duration(i)*c.every))
			ever = ever || suspected
		}
		if lost != c.lost || ever != c.ever {
			t.Errorf("%s: lost %v, suspected %v", c.name, lost, ever)
		}
	}
}
