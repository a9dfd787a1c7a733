package system

import (
	"strings"
	"syscall"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/collector"
	"github.com/millipede-iac/millipede/test/stage/site"
)

// traced is a configuration with two machines in each of two pools; one of them has a secret.
const traced = site.FleetOnly + `
variable "secret" {
  sensitive = true
  default   = "canary-4711"
}
resource "fleet_machine" "eu" {
  count  = 2
  name   = "eu-${count.index}"
  region = "eu"
  labels = { secret = var.secret }
}
resource "fleet_machine" "us" {
  count  = 2
  name   = "us-${count.index}"
  region = "us"
  labels = { behind = fleet_machine.eu[count.index].id }
}
`

func TestTheSpansOfACoordinatorAndItsRemoteWorkersAreOneTree(t *testing.T) {
	c := collector.Start(t)
	s := site.New(t, traced)
	s.Server()
	const outside, outsideSpan = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	s.Env = append(s.Env, "OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+c.GRPC,
		"OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_BSP_SCHEDULE_DELAY=100",
		"TRACEPARENT=00-"+outside+"-"+outsideSpan+"-01")
	workers := []*site.Worker{s.Worker("eu"), s.Worker("us"), s.Worker("default")}
	s.Must("init", "-no-color")
	s.Must("apply", "-auto-approve", "-no-color")

	// Each machine is created by one call, and spans come from all processes.
	created := func(spans []collector.Span) (n int) {
		for _, span := range spans {
			if strings.HasSuffix(span.Name, "/ApplyResourceChange") {
				n++
			}
		}
		return n
	}
	c.Until(site.Waiting(t), t, func(spans []collector.Span) bool {
		tasks := 0
		for _, span := range spans {
			if span.Name == "task" && span.Attribute("millipede.operation") == "apply" {
				tasks++
			}
		}
		return created(spans) == 4 && tasks == 4
	})
	for _, w := range workers {
		if err := w.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		site.Succeeds(t, w.Process, "a worker that drains")
	}

	spans := c.Spans()
	if n := created(spans); n != 4 {
		t.Errorf("4 machines were created by %d calls", n)
	}
	byID := map[string]collector.Span{}
	for _, span := range spans {
		byID[span.ID()] = span
	}
	// path lists the names from the command down to a span.
	path := func(span collector.Span) []string {
		names := []string{span.Name}
		for at := span; at.Parent() != outsideSpan; {
			above, ok := byID[at.Parent()]
			if !ok {
				t.Fatalf("the parent %q of the span %s (%v) was not received", at.Parent(), span.Name, names)
			}
			at = above
			names = append([]string{at.Name}, names...)
		}
		return names
	}
	services := map[string]map[string]bool{}
	for _, span := range spans {
		p := path(span)
		if strings.HasSuffix(span.Name, "/ApplyResourceChange") {
			want := "apply > apply > walk > create fleet_machine > task > /tfplugin6.Provider/ApplyResourceChange"
			if got := strings.Join(p, " > "); got != want {
				t.Errorf("the path to a creation is %s, not %s", got, want)
			}
		}
		if services[span.Process["service.name"]] == nil {
			services[span.Process["service.name"]] = map[string]bool{}
		}
		services[span.Process["service.name"]][span.Attribute("millipede.worker")] = true
		if strings.Contains(span.String(), "canary-4711") {
			t.Errorf("a sensitive value is in a span: %s", span.String())
		}
		if span.Name == "create fleet_machine" && !strings.HasPrefix(span.Attribute("millipede.address"), "fleet_machine.") {
			t.Errorf("a vertex has no address: %v", span.Attributes)
		}
	}
	if n := len(services["millipede-worker"]); len(services["millipede"]) == 0 ||
		!services["millipede-worker"][workers[0].ID] || !services["millipede-worker"][workers[1].ID] {
		t.Errorf("spans came from %v (%d)", services, n)
	}
}

func TestACommandSucceedsWhenItsTraceCannotBeDelivered(t *testing.T) {
	s := site.New(t, site.Slow(1, 1))
	s.Env = append(s.Env, "OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1")
	s.Must("init", "-no-color")
	out := s.Must("apply", "-auto-approve", "-no-color")
	site.Wants(t, out, "Warning: ")
	site.Wants(t, out, "spans of the trace were not delivered to http://127.0.0.1:1/v1/traces")
	s.Env = append(s.Env, "OTEL_EXPORTER_OTLP_PROTOCOL=smoke signals")
	site.Wants(t, s.Must("output", "-no-color"), "OTEL_EXPORTER_OTLP_PROTOCOL is \"smoke signals\"")
}
