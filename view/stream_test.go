package view_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/view/document"
	"github.com/millipede-iac/millipede/wire"
)

// message is one line of OpenTofu's output.
type message struct {
	Text string `json:"@message"`
	Type string `json:"type"`
	Hook struct {
		Resource struct {
			Addr string `json:"addr"`
		} `json:"resource"`
		Action      string  `json:"action"`
		IDKey       string  `json:"id_key"`
		IDValue     string  `json:"id_value"`
		Elapsed     float64 `json:"elapsed_seconds"`
		Provisioner string  `json:"provisioner"`
		Output      string  `json:"output"`
	} `json:"hook"`
}

// The messages of an apply, recorded from OpenTofu 1.12.6, are reproduced by a Stream with the same events.
func TestMessagesAreAsOpenTofuWritesThem(t *testing.T) {
	a := recordedMessages(t)
	var out bytes.Buffer
	stream := document.NewStream(document.StreamOptions{
		Out: &out, Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC) },
		EngineVersion: "1.12.6",
	})
	compared := map[string]bool{}
	for line := range bytes.Lines(content(a, "messages.json")) {
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatal(err)
		}
		if !tell(stream, m) {
			continue
		}
		compared[m.Type] = true
		if err := stream.Settle(); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if d := cmp.Diff(timeless(t, string(line)), timeless(t, lines[len(lines)-1])); d != "" {
			t.Errorf("-OpenTofu +Millipede\n%s", d)
		}
	}
	for _, kind := range []string{"version", "apply_start", "apply_complete", "apply_errored", "refresh_start",
		"refresh_complete", "provision_start", "provision_progress", "provision_complete", "ephemeral_action_started",
		"ephemeral_action_complete"} {
		if !compared[kind] {
			t.Errorf("no message %s was recorded", kind)
		}
	}
}

// tell sends the stream the event for which OpenTofu wrote a message; it returns false if the event is not part of
// a run.
func tell(s *document.Stream, m message) bool {
	h := m.Hook
	called := func() (string, string) { return h.IDKey, h.IDValue }
	d := program.Description{Address: h.Resource.Addr, Action: h.Action, Called: called}
	notes := program.Notes{IDKey: h.IDKey, ID: h.IDValue}
	took := time.Duration(h.Elapsed) * time.Second
	switch m.Type {
	case "version":
	case "apply_start":
		s.Started(0, d, "", time.Time{})
	case "apply_complete":
		s.Started(0, d, "", time.Time{})
		s.Finished(0, d, notes, took)
	case "apply_errored":
		s.Started(0, d, "", time.Time{})
		s.Failed(0, d, notes, took)
	case "refresh_start":
		d.Action = "refresh"
		s.Started(0, d, "", time.Time{})
	case "refresh_complete":
		d.Action = "refresh"
		s.Started(0, d, "", time.Time{})
		s.Finished(0, d, notes, took)
	case "ephemeral_action_started", "ephemeral_action_complete":
		d.Action = "open"
		if strings.Contains(m.Text, "Clos") {
			d.Action = "close"
		}
		s.Started(0, d, "", time.Time{})
		if m.Type == "ephemeral_action_complete" {
			s.Finished(0, d, notes, took)
		}
	case "provision_start":
		s.Event(wire.Event{Address: h.Resource.Addr, Kind: "provision_start", Name: h.Provisioner})
	case "provision_complete":
		s.Event(wire.Event{Address: h.Resource.Addr, Kind: "provision_end", Name: h.Provisioner})
	case "provision_progress":
		s.Event(wire.Event{Address: h.Resource.Addr, Kind: "output", Name: h.Provisioner, Text: h.Output})
	default:
		return false
	}
	return true
}

// timeless decodes a message without the fields that differ from run to run.
func timeless(t *testing.T, line string) map[string]any {
	var m map[string]any
	if err := json.Unmarshal([]byte(strings.ReplaceAll(line, "1.12.6-dev", "1.12.6")), &m); err != nil {
		t.Fatal(err)
	}
	if _, err := time.Parse("2006-01-02T15:04:05.000000Z07:00", m["@timestamp"].(string)); err != nil {
		t.Error(err)
	}
	delete(m, "@timestamp")
	return m
}

// The messages about a plan, recorded from OpenTofu 1.12.6, are reproduced by a Stream that is shown the same plan.
func TestMessagesAboutAPlanAreAsOpenTofuWritesThem(t *testing.T) {
	a := recordedMessages(t)
	p, _ := planOf(t, content(a, "plan.json"), content(a, "schemas.json"))
	var out bytes.Buffer
	stream := document.NewStream(document.StreamOptions{Out: &out, Now: time.Now, EngineVersion: "1.12.6"})
	stream.Plan(p)
	if err := stream.Settle(); err != nil {
		t.Fatal(err)
	}
	var got, want []map[string]any
	collect := func(text string) (out []map[string]any) {
		for line := range strings.Lines(text) {
			m := timeless(t, line)
			switch m["type"] {
			case "planned_change", "resource_drift", "change_summary", "outputs":
				out = append(out, m)
			}
		}
		return out
	}
	got, want = collect(out.String()), collect(string(content(a, "plan.messages")))
	byText := func(list []map[string]any) map[string]map[string]any {
		out := map[string]map[string]any{}
		for _, m := range list {
			out[m["@message"].(string)] = m
		}
		return out
	}
	// OpenTofu writes them in no defined order.
	if d := cmp.Diff(byText(want), byText(got)); d != "" {
		t.Errorf("-OpenTofu +Millipede\n%s", d)
	}
}

func recordedMessages(t *testing.T) *txtar.Archive {
	file := filepath.Join("testdata", "tofu-messages", "apply.txtar")
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !*record {
		return a
	}
	dir := t.TempDir()
	run := func(name string, args ...string) []byte {
		c := exec.Command(name, args...)
		c.Dir = dir
		c.Env = append(os.Environ(), "FLEET_CLOUD="+filepath.Join(dir, "cloud"))
		out, err := c.Output() // applying fails
		t.Logf("%v: %v", args, err)
		return out
	}
	use := func(name string) {
		for file, from := range map[string]string{"main.tf": name, filepath.Join("m", "main.tf"): "m/main.tf"} {
			path := filepath.Join(dir, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, content(a, from), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		run(os.Getenv("TOFU"), "init")
	}
	tofu := os.Getenv("TOFU")
	use("1.tf")
	run(tofu, "apply", "-auto-approve")
	run("sh", "-c", string(content(a, "drift.sh")))
	use("2.tf")
	setContent(a, "plan.messages", run(tofu, "plan", "-json", "-out=p"))
	setContent(a, "plan.json", indented(t, run(tofu, "show", "-json", "p")))
	setContent(a, "schemas.json", usedSchemas(t, run(tofu, "providers", "schema", "-json"), content(a, "plan.json")))
	setContent(a, "messages.json", run(tofu, "apply", "-json", "-auto-approve"))
	if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
		t.Fatal(err)
	}
	return a
}

// The failed destruction of a deposed object was reported as an event of the object that replaced it.
func TestAFailedEndOfADeposedObjectIsNoEventOfTheCurrentOne(t *testing.T) {
	var out strings.Builder
	s := document.NewStream(document.StreamOptions{Out: &out, Now: time.Now})
	d := program.Description{Address: "a.b", Action: "delete", Deposed: "0a1b2c3d"}
	s.Started(0, d, "", time.Time{})
	s.Failed(0, d, program.Notes{}, time.Second)
	if err := s.Settle(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "apply_start") || strings.Contains(out.String(), "apply_errored") {
		t.Error(out.String())
	}
}

// A data source that could not be read was reported as an apply_errored event, which OpenTofu never sends for data
// sources; likewise one that was read and did not meet a postcondition.
func TestADataSourceThatFailsIsNoErroredApply(t *testing.T) {
	for name, c := range map[string]struct {
		notes program.Notes
		want  bool
	}{
		"not read":                 {want: false},
		"a postcondition is unmet": {notes: program.Notes{Action: "read"}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			s := document.NewStream(document.StreamOptions{Out: &out, Now: time.Now})
			d := program.Description{Address: "data.a.b", Action: "read"}
			s.Started(0, d, "", time.Time{})
			s.Failed(0, d, c.notes, time.Second)
			if err := s.Settle(); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(out.String(), "apply_errored") ||
				strings.Contains(out.String(), "apply_complete") != c.want {
				t.Error(out.String())
			}
		})
	}
}
