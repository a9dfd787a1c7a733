package metrics_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"github.com/millipede-iac/millipede/cmd/internal/metrics"
	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// nats is a transport with one limit, a pool with two live workers and a silent one, a pool whose only worker is
// silent, and perhaps trouble.
type nats struct {
	err       error
	connected time.Duration
}

func (n nats) Limits(context.Context) ([]wire.LimitStatus, error) {
	return []wire.LimitStatus{{Limit: wire.Limit{Name: "api", Slots: 4}, Held: make([]wire.PermitRequest, 3),
		Waiting: make([]wire.PermitRequest, 7)}}, n.err
}

func (n nats) Workers(context.Context) ([]wire.Worker, error) {
	return []wire.Worker{{Heartbeat: wire.Heartbeat{Protocol: wire.ProtocolVersion, Pools: []string{"eu"},
		Slots: 16, Running: 5}},
		{Heartbeat: wire.Heartbeat{Protocol: 5, Pools: []string{"eu"}, Slots: 16, Running: 1}, Since: 3 * time.Second},
		{Heartbeat: wire.Heartbeat{Pools: []string{"eu"}, Slots: 16, Running: 2}, Since: 5 * time.Second},
		{Heartbeat: wire.Heartbeat{Pools: []string{"us"}, Slots: 8, Running: 8}, Since: time.Hour}}, n.err
}

func (n nats) Connected() time.Duration { return n.connected }

// whole returns the metrics of a service with everything that there is, after a run has gone on for a while.
func whole() *metrics.Set {
	s := metrics.New("service", "1.2.3")
	became := s.Statuses(func() map[record.RunStatus]int { return map[record.RunStatus]int{record.Applying: 2} })
	became(record.Errored)
	s.Drift(func() (metrics.DriftTally, error) {
		return metrics.DriftTally{Workspaces: 2, Objects: 900, Drifted: 3, Failing: 1, Oldest: time.Minute}, nil
	})
	s.Transport(nats{connected: time.Minute})
	s.RoundTrips(func(context.Context) (time.Duration, error) { return 3 * time.Millisecond, nil })
	s.Stores(func() metrics.StoreStats {
		return metrics.StoreStats{Changes: 12, Writing: 250 * time.Millisecond, Size: 4096}
	}, func() int64 { return 8192 })
	s.Commits()(20 * time.Millisecond)
	s.Worker(func() metrics.Load { return metrics.Load{Slots: 10, Running: 4} }, func() []metrics.Plugin {
		return []metrics.Plugin{{Source: "a/b/c", Memory: 100}, {Source: "a/b/c", Memory: 50}}
	})
	s.Tasks()(worker.Done{Operation: "apply", Outcome: "succeeded", Pool: "eu", Took: time.Second})
	show(s.Runs(), []loop.Shown{
		{Kind: loop.ShownStarted, Vertex: 1, Class: "aws_vpc", Action: "create", Pool: "eu"},
		{Kind: loop.ShownFinished, Vertex: 1, Class: "aws_vpc", Action: "create", Took: 2 * time.Second},
		{Kind: loop.ShownFinished, Vertex: 2},
		{Kind: loop.ShownStarted, Vertex: 3, Class: "aws_vpc", Action: "delete", Pool: "eu"},
		{Kind: loop.ShownDoubtful, Vertex: 3, Class: "aws_vpc", Action: "delete"},
		{Kind: loop.ShownFailed, Vertex: 3, Class: "aws_vpc", Action: "delete", Took: time.Minute},
		{Kind: loop.ShownSkipped, Vertex: 4, Class: "aws_vpc", Action: "update"},
		{Kind: loop.ShownCounts, Counts: loop.Counts{InDoubt: 1,
			Pools: map[string]loop.PoolCounts{"eu": {Running: 3, Queued: 9}}}},
	})
	return s
}

// show makes a run show messages, and continue.
func show(r *metrics.Runs, all []loop.Shown) (end func()) {
	o, end := r.Observe(coordinator.Silent{})
	for _, s := range all {
		o.(coordinator.Tracer).Shown(s)
	}
	return end
}

func TestAProbeAnswersWithTheReason(t *testing.T) {
	var log strings.Builder
	var fails error
	end, err := metrics.New("worker", "1.2.3").Listen(t.Context(), "127.0.0.1:0", slog.New(slog.NewTextHandler(&log, nil)),
		metrics.Probe{Path: "/readyz", Check: func(context.Context) error { return fails }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		http.DefaultClient.CloseIdleConnections()
		if err := end(); err != nil {
			t.Error(err)
		}
	}()
	address := regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(log.String())[1]
	for want, err := range map[string]error{"200 ok\n": nil, "503 the disk is full\n": errors.New("the disk is full")} {
		fails = err
		answer, err := http.Get("http://" + address + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		if err := errors.Join(err, answer.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(answer.StatusCode, " ", string(text)); got != want {
			t.Errorf("the answer is %q, not %q", got, want)
		}
	}
}

// scrape asks over HTTP, as Prometheus does, and reads the answer with Prometheus's parser.
func scrape(t *testing.T, s *metrics.Set) map[string]*dto.MetricFamily {
	t.Helper()
	var log strings.Builder
	end, err := s.Listen(t.Context(), "127.0.0.1:0", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		http.DefaultClient.CloseIdleConnections()
		if err := end(); err != nil {
			t.Error(err)
		}
	}()
	address := regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(log.String())[1]
	answer, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v", answer.Status, err)
	}
	return families
}

// lines are the values of ours, as "name{label=value} value"; of a histogram its count and sum.
func lines(families map[string]*dto.MetricFamily) (out []string) {
	for name, f := range families {
		if !strings.HasPrefix(name, "millipede_") {
			continue
		}
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			id := name + "{" + strings.Join(labels, ",") + "} "
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				out = append(out, id+fmt.Sprint(m.Counter.GetValue()))
			case dto.MetricType_HISTOGRAM:
				out = append(out, id+fmt.Sprint(m.Histogram.GetSampleCount(), " ", m.Histogram.GetSampleSum()))
			default:
				out = append(out, id+fmt.Sprint(m.Gauge.GetValue()))
			}
		}
	}
	slices.Sort(out)
	return out
}

// A worker that was killed sends no heartbeat that it leaves. It was counted for ever, so that the alert about
// operations that wait for a pool without workers could not fire.
func TestWorkersThatWereKilledAreNotCounted(t *testing.T) {
	counts := func(connected time.Duration) []string {
		s := metrics.New("service", "1.2.3")
		s.Transport(nats{connected: connected})
		return slices.DeleteFunc(lines(scrape(t, s)), func(line string) bool {
			return !strings.HasPrefix(line, "millipede_workers") && !strings.HasPrefix(line, "millipede_pool")
		})
	}
	version := fmt.Sprint(wire.ProtocolVersion)
	want := []string{"millipede_pool_slots_used{pool=eu} 6", "millipede_pool_slots_used{pool=us} 0",
		"millipede_pool_slots{pool=eu} 32", "millipede_pool_slots{pool=us} 0",
		"millipede_workers_protocol{pool=eu,version=5} 1", "millipede_workers_protocol{pool=eu,version=" + version + "} 1",
		"millipede_workers_unsuited{pool=eu} 1", "millipede_workers{pool=eu} 2", "millipede_workers{pool=us} 0"}
	if got := counts(time.Minute); !slices.Equal(got, want) {
		t.Errorf("it counts %q", got)
	}
	// After a break of the connection nothing has been heard of any worker yet.
	if got := counts(2 * time.Second); !slices.Contains(got, "millipede_workers{pool=us} 1") {
		t.Errorf("just connected again, it counts %q", got)
	}
}

func TestAScrapeTellsWhatHappened(t *testing.T) {
	got := lines(scrape(t, whole()))
	for _, want := range []string{
		"millipede_runs{status=applying} 2", "millipede_runs{status=pending} 0",
		"millipede_run_changes_total{status=errored} 1",
		"millipede_vertices_total{action=create,outcome=succeeded} 1",
		"millipede_vertices_total{action=delete,outcome=failed} 1",
		"millipede_vertices_total{action=update,outcome=skipped} 1",
		"millipede_vertices_total{action=evaluate,outcome=succeeded} 1",
		"millipede_operation_duration_seconds{action=create,pool=eu,resource_type=aws_vpc} 1 2",
		"millipede_doubts_total{resource_type=aws_vpc} 1", "millipede_operations_in_doubt{} 1",
		"millipede_operations{pool=eu,state=queued} 9", "millipede_operations{pool=eu,state=running} 3",
		"millipede_permits_held{limit=api} 3", "millipede_permits_waiting{limit=api} 7",
		"millipede_permits_limit{limit=api} 4", "millipede_nats_up{} 1",
		"millipede_workers{pool=eu} 2", "millipede_pool_slots{pool=eu} 32", "millipede_pool_slots_used{pool=eu} 6",
		"millipede_nats_round_trip_seconds{} 1 0.003",
		"millipede_drift_workspaces{} 2", "millipede_drift_objects{} 900", "millipede_drift_objects_drifted{} 3",
		"millipede_drift_workspaces_failing{} 1", "millipede_drift_oldest_read_seconds{} 60",
		"millipede_store_size_bytes{store=service} 4096", "millipede_store_size_bytes{store=workspaces} 8192",
		"millipede_service_store_changes_total{} 12", "millipede_service_store_write_seconds_total{} 0.25",
		"millipede_store_commit_seconds{} 1 0.02",
		"millipede_worker_slots{} 10", "millipede_worker_slots_used{} 4",
		"millipede_worker_tasks_total{operation=apply,outcome=succeeded} 1",
		"millipede_worker_task_duration_seconds{operation=apply,pool=eu} 1 1",
		"millipede_plugin_processes{provider=a/b/c} 2", "millipede_plugin_resident_memory_bytes{provider=a/b/c} 150",
		"millipede_build_info{program=service,version=1.2.3} 1",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("it does not say %s", want)
		}
	}
	if t.Failed() {
		t.Log(strings.Join(got, "\n"))
	}
}

func TestWhereNATSDoesNotAnswerAScrapeSaysSo(t *testing.T) {
	s := metrics.New("service", "1")
	s.Transport(nats{err: errors.New("down")})
	s.RoundTrips(func(context.Context) (time.Duration, error) { return 0, errors.New("down") })
	got := lines(scrape(t, s))
	if !slices.Contains(got, "millipede_nats_up{} 0") || !slices.Contains(got, "millipede_nats_round_trip_seconds{} 0 0") {
		t.Errorf("got %q", got)
	}
}

func TestARunThatHasEndedIsNotCountedAsUnderWay(t *testing.T) {
	s := metrics.New("service", "1")
	end := show(s.Runs(), []loop.Shown{{Kind: loop.ShownCounts, Counts: loop.Counts{InDoubt: 1}}})
	end()
	if got := lines(scrape(t, s)); !slices.Contains(got, "millipede_operations_in_doubt{} 0") {
		t.Errorf("got %q", got)
	}
}

func TestLabelsAreBounded(t *testing.T) {
	s := metrics.New("service", "1")
	runs := s.Runs()
	o, _ := runs.Observe(coordinator.Silent{})
	for i := range 1000 {
		class, pool := fmt.Sprint("type_", i), fmt.Sprint("pool-", i)
		o.(coordinator.Tracer).Shown(loop.Shown{Kind: loop.ShownStarted, Vertex: i, Class: class, Pool: pool})
		o.(coordinator.Tracer).Shown(loop.Shown{Kind: loop.ShownFinished, Vertex: i, Class: class, Took: time.Second})
	}
	types, pools, all := map[string]bool{}, map[string]bool{}, uint64(0)
	for _, m := range scrape(t, s)["millipede_operation_duration_seconds"].Metric {
		for _, l := range m.Label {
			switch l.GetName() {
			case "resource_type":
				types[l.GetValue()] = true
			case "pool":
				pools[l.GetValue()] = true
			}
		}
		all += m.Histogram.GetSampleCount()
	}
	if len(types) > 201 || len(pools) > 65 || !types["other"] || !pools["other"] || all != 1000 {
		t.Errorf("%d types, %d pools, %d operations", len(types), len(pools), all)
	}
}

func TestNamesAndUnitsAreAsPrometheusHasThem(t *testing.T) {
	for name, f := range scrape(t, whole()) {
		if !strings.HasPrefix(name, "millipede_") {
			continue
		}
		if total := strings.HasSuffix(name, "_total"); total != (f.GetType() == dto.MetricType_COUNTER) {
			t.Errorf("%s is a %s", name, f.GetType())
		}
		if f.GetType() == dto.MetricType_HISTOGRAM && !strings.HasSuffix(name, "_seconds") {
			t.Errorf("%s has no unit", name)
		}
		if f.GetHelp() == "" || regexp.MustCompile(`_(ms|milliseconds|mb|kb|count|sum)(_|$)`).MatchString(name) {
			t.Errorf("%s: %q", name, f.GetHelp())
		}
	}
}

// expressions are those of the dashboard and of the alert rules, by where they are.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "grafana", "millipede.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		for i, target := range p.Targets {
			out[fmt.Sprintf("the panel %q, %d", p.Title, i)] = target.Expr
		}
	}
	rules, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "prometheus", "millipede.rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, alert := range strings.Split(string(rules), "- alert: ")[1:] {
		name, rest, _ := strings.Cut(alert, "\n")
		_, expr, ok := strings.Cut(rest, "expr: ")
		if !ok {
			t.Errorf("the alert %s has no expression", name)
		}
		out["the alert "+name], _, _ = strings.Cut(expr, "\n")
	}
	return out
}

// A metric that a program no longer exports is an empty graph in a dashboard, and an alert that never fires.
func TestTheDashboardAndTheAlertsNameWhatThereIs(t *testing.T) {
	families := scrape(t, whole())
	labels := map[string]map[string]bool{}
	for name, f := range families {
		set := map[string]bool{"instance": true, "job": true, "le": f.GetType() == dto.MetricType_HISTOGRAM}
		for _, m := range f.Metric {
			for _, l := range m.Label {
				set[l.GetName()] = true
			}
		}
		labels[name] = set
		if f.GetType() == dto.MetricType_HISTOGRAM {
			labels[name+"_bucket"], labels[name+"_sum"], labels[name+"_count"] = set, set, set
		}
	}
	labels["up"] = map[string]bool{"job": true, "instance": true}
	used := map[string]bool{}
	metric := regexp.MustCompile(`\b(millipede_\w+|process_\w+|up)\b(\{[^}]*\})?`)
	matcher := regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)`)
	grouped := regexp.MustCompile(`\b(?:by|on|group_left)\s*\(([^)]*)\)`)
	all := expressions(t)
	for where, expr := range all {
		if strings.Count(expr, "(") != strings.Count(expr, ")") || strings.Count(expr, "{") != strings.Count(expr, "}") {
			t.Errorf("%s is not balanced: %s", where, expr)
		}
		known := map[string]bool{}
		for _, m := range metric.FindAllStringSubmatch(expr, -1) {
			if labels[m[1]] == nil {
				t.Errorf("%s names %s, which there is not", where, m[1])
			}
			used[strings.TrimSuffix(m[1], "_bucket")] = true
			for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
				if !labels[m[1]][l[1]] {
					t.Errorf("%s asks %s for the label %s, which it has not", where, m[1], l[1])
				}
			}
			for l := range labels[m[1]] {
				known[l] = known[l] || labels[m[1]][l]
			}
		}
		for _, g := range grouped.FindAllStringSubmatch(expr, -1) {
			for l := range strings.SplitSeq(g[1], ",") {
				if l = strings.TrimSpace(l); l != "" && !known[l] {
					t.Errorf("%s groups by %s, which none of its metrics has", where, l)
				}
			}
		}
	}
	if len(all) < 20 {
		t.Errorf("only %d expressions were found", len(all))
	}
	for name := range families {
		if strings.HasPrefix(name, "millipede_") && !used[name] {
			t.Errorf("neither the dashboard nor an alert uses %s", name)
		}
	}
}
