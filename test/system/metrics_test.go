package system

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/millipede-iac/millipede/test/stage/site"
)

func TestAWorkerIsScrapedForWhatItDoes(t *testing.T) {
	s := site.New(t, site.Slow(3, 1))
	s.Server()
	w := s.NewWorker("default")
	w.Args = []string{"-metrics=127.0.0.1:0"}
	w.Start()
	found := regexp.MustCompile(`msg=metrics address=(\S+)`).FindStringSubmatch(w.Output())
	if found == nil {
		t.Fatalf("the log does not have the address of the metrics:\n%s", w.Output())
	}
	address := "http://" + found[1]
	s.Must("init", "-no-color")
	s.Must("apply", "-auto-approve", "-no-color")

	scraped := scrape(t, address+"/metrics")
	for _, want := range []struct {
		name   string
		value  float64
		labels string
	}{
		{"millipede_worker_tasks_total", 3, `operation=apply outcome=succeeded`},
		{"millipede_worker_task_duration_seconds", 3, `operation=apply pool=default`},
		{"millipede_worker_slots", 16, ``},
		{"millipede_worker_slots_used", 0, ``},
		{"millipede_plugin_processes", 1, `provider=registry.opentofu.org/millipede/fleet`},
		{"millipede_nats_round_trip_seconds", 1, ``},
	} {
		if got, ok := sample(scraped, want.name, want.labels); !ok || got != want.value {
			t.Errorf("%s{%s} is %v (%t), not %v", want.name, want.labels, got, ok, want.value)
		}
	}
	if answer, err := http.Get(address + "/"); err != nil {
		t.Error(err)
	} else {
		answer.Body.Close()
		if answer.StatusCode != http.StatusNotFound {
			t.Errorf("another path than that of the metrics responds: %s", answer.Status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if err := w.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	site.Succeeds(t, w.Process, "a worker that drains")
}

// A worker that is killed for a server that is away leaves operations in doubt, and comes back no better.
func TestAWorkerStaysAliveWithoutNATSAndIsReadyAgainWithIt(t *testing.T) {
	s := site.New(t, site.FleetOnly)
	server := s.Server()
	w := s.NewWorker("default")
	w.Args = []string{"-metrics=127.0.0.1:0"}
	w.Start()
	address := "http://" + regexp.MustCompile(`msg=metrics address=(\S+)`).FindStringSubmatch(w.Output())[1]
	status := func(path string) int {
		answer, err := http.Get(address + path)
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode
	}
	defer http.DefaultClient.CloseIdleConnections()
	site.Eventually(t, "the worker is ready", func() bool { return status("/readyz") == http.StatusOK })
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	site.Eventually(t, "the worker is not ready without a server", func() bool {
		return status("/readyz") == http.StatusServiceUnavailable
	})
	if got := status("/healthz"); got != http.StatusOK {
		t.Errorf("without a server, /healthz answers %d", got)
	}
	if err := server.Restart(site.Waiting(t)); err != nil {
		t.Fatal(err)
	}
	site.Eventually(t, "the worker is ready again", func() bool { return status("/readyz") == http.StatusOK })
}

// scrape reads metrics as Prometheus does.
func scrape(t *testing.T, url string) map[string]*dto.MetricFamily {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v", answer.Status, err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(text)))
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	return families
}

// sample returns the value of a metric with labels ("NAME=VALUE ..."); for a histogram, the number of observations.
func sample(families map[string]*dto.MetricFamily, name, labels string) (float64, bool) {
	for _, m := range families[name].GetMetric() {
		var has []string
		for _, l := range m.GetLabel() {
			has = append(has, fmt.Sprintf("%s=%s", l.GetName(), l.GetValue()))
		}
		if strings.Join(has, " ") != labels {
			continue
		}
		switch {
		case m.Histogram != nil:
			return float64(m.GetHistogram().GetSampleCount()), true
		case m.Counter != nil:
			return m.GetCounter().GetValue(), true
		default:
			return m.GetGauge().GetValue(), true
		}
	}
	return 0, false
}
