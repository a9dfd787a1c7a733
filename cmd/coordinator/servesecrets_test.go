package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/hashicorp/go-tfe"
	"github.com/klauspost/compress/zstd"

	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/test/stage/collector"
)

// leaky is a configuration that does not protect its secrets: it does not declare them as sensitive, and prints them.
// Beside each of them is a value that is no secret: where that one is found, a secret would be found, too.
const leaky = `
terraform {
  cloud {
    organization = "main"
    workspaces { name = "one" }
  }
}
variable "undeclared" {}
variable "declared" { sensitive = true }
variable "plain" { default = "open-4711" }
resource "terraform_data" "a" {
  input = { undeclared = var.undeclared, declared = var.declared, plain = var.plain }
  provisioner "local-exec" { command = "echo the key is $CLOUD_KEY, and not ${var.plain}" }
}
resource "terraform_data" "b" {
  input = { declared = var.declared, plain = "open-4711" }
}
output "ok" { value = var.plain }
`

// safe is a text that several goroutines write and that is read meanwhile.
type safe struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (s *safe) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *safe) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// The engine did not treat sensitive variables of a workspace as sensitive if the configuration did not declare them
// so: plans, logs and documents showed them. Programs that a run starts print their environment. Every read of the run
// returned the values of -var.
func TestASecretIsInNoAnswerLogOrFile(t *testing.T) {
	home := t.TempDir()
	said, told := &safe{}, &safe{}
	spans := collector.Start(t)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(told, r.Body) // a part of a notification is searched, too
	}))
	defer receiver.Close()
	s, _ := serveUnder(t, environ.Variables{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "OTEL_TRACES_EXPORTER=otlp",
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + spans.HTTP, "OTEL_BSP_SCHEDULE_DELAY=50"}, "", said, "-log-level=debug",
		"-log-format=json", "-metrics=127.0.0.1:0", "-notify-private")
	ctx := t.Context()
	w, err := s.client.Workspaces.Create(ctx, "main", client.WorkspaceCreateOptions{Name: client.String("one")})
	if err != nil {
		t.Fatal(err)
	}
	for key, category := range map[string]client.CategoryType{
		"undeclared": client.CategoryTerraform, "CLOUD_KEY": client.CategoryEnv,
	} {
		if _, err := s.client.Variables.Create(ctx, w.ID, client.VariableCreateOptions{
			Key: &key, Value: client.String("canary-" + key), Category: &category, Sensitive: client.Bool(true),
		}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.client.NotificationConfigurations.Create(ctx, w.ID, client.NotificationConfigurationCreateOptions{
		DestinationType: client.NotificationDestination(client.NotificationDestinationTypeGeneric), Name: client.String("n"),
		Enabled: client.Bool(true), URL: &receiver.URL, Token: client.String("canary-token"),
		Triggers: []client.NotificationTriggerType{client.NotificationTriggerCreated, client.NotificationTriggerPlanning,
			client.NotificationTriggerApplying, client.NotificationTriggerCompleted, client.NotificationTriggerErrored},
	}); err != nil {
		t.Fatal(err)
	}
	events := s.follow("/app/settings/events/main")
	before := s.run(w, leaky, client.RunCreateOptions{ // its objects are replaced, so they appear in the plan
		Variables: []*client.RunVariable{{Key: "declared", Value: `"canary-declared"`}, {Key: "plain", Value: `"first"`}},
	})
	if before.Status != client.RunApplied {
		t.Fatalf("the first run is %s", before.Status)
	}
	r := s.run(w, leaky, client.RunCreateOptions{ReplaceAddrs: []string{"terraform_data.a"},
		Variables: []*client.RunVariable{{Key: "declared", Value: `"canary-declared"`}},
	})
	texts := map[string]string{
		"the plan's log":        s.log(s.client.Plans.Logs(ctx, r.Plan.ID)),
		"the apply's log":       s.log(s.client.Applies.Logs(ctx, r.Apply.ID)),
		"what the service said": said.String(),
	}
	if r.Status != client.RunApplied || !strings.Contains(texts["the apply's log"],
		"the key is (sensitive value), and not open-4711") {
		t.Fatalf("%s: %s", r.Status, texts["the apply's log"])
	}
	if at := "plans/" + r.Plan.ID + "/json-output-redacted"; !strings.Contains(s.get(at), "open-4711") {
		t.Errorf("%s shows no value", at)
	}
	said.awaits(t, "the service's log", "an operation started")
	told.awaits(t, "notifications", `"trigger":"run:completed"`)
	events.awaits(t, "events of the overview", r.ID)
	texts["events of the overview"], texts["notifications"] = events.String(), told.String()
	watched := s.get("../millipede/v1/runs/" + r.ID + "/watch")
	if texts["what runs watch gets"] = watched; !strings.Contains(watched, "terraform_data.a") {
		t.Errorf("runs watch gets %s", watched)
	}
	spans.Until(ctx, t, func(all []collector.Span) bool {
		return slices.ContainsFunc(all, func(s collector.Span) bool { return s.Name == "create terraform_data" })
	})
	for _, span := range spans.Spans() {
		texts["spans"] += span.String()
	}
	for _, path := range []string{
		"workspaces/" + w.ID + "?include=outputs,current_run,current_state_version", "workspaces/" + w.ID + "/vars",
		"workspaces/" + w.ID + "/runs", "organizations/main/runs/queue", "organizations/main/workspaces",
		"runs/" + r.ID + "?include=workspace,plan,apply,configuration_version,created_by",
		"runs/" + r.ID + "/run-events", "plans/" + r.Plan.ID, "applies/" + r.Apply.ID,
		"plans/" + r.Plan.ID + "/json-output-redacted", "workspaces/" + w.ID + "/current-state-version?include=outputs",
		"workspaces/" + w.ID + "/current-state-version-outputs", "workspaces/" + w.ID + "/configuration-versions",
	} {
		texts[path] = s.get(path)
	}
	run := "/app/main/one/runs/" + r.ID
	current, err := s.client.StateVersions.ReadCurrent(ctx, w.ID)
	if err != nil {
		t.Fatal(err)
	}
	version := current.ID
	for path, must := range map[string]string{
		"/app/main": "one", "/app/main/one": r.ID, "/app/main/one/state": "terraform_data.a",
		"/app/main/one/versions": r.ID, "/app/main/one/variables": "undeclared", "/app/main/one/settings": "one",
		run: "terraform_data.a", run + "/changes?address=terraform_data.a": "open-4711",
		run + "/timeline/plan": "terraform_data", run + "/timeline/apply": "terraform_data",
		run + "/timeline/apply?outline=yes": "terraform_data", run + "/timeline/apply?story=yes": "attempts",
		run + "/timeline/apply?cursor=0": "event: end", "/app/main/one/state/" + version + "/0": "open-4711",
		"/app/main/one/state/" + version + "/1": "open-4711",
		run + "/log/apply?from=0":               "open-4711",
		"/app/settings/audit":                   "admin", "/app/settings/workers": "default",
	} {
		if texts[path] = s.page(path); !strings.Contains(texts[path], must) {
			t.Errorf("%s does not show %s: %s", path, must, texts[path])
		}
	}
	metrics := regexp.MustCompile(`"msg":"metrics","address":"([^"]+)"`).FindStringSubmatch(said.String())
	if metrics == nil {
		t.Fatalf("it does not say where its metrics are:\n%s", said)
	}
	answer, err := http.Get("http://" + metrics[1] + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	scrape, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	texts["metrics"] = string(scrape)
	if err != nil || !strings.Contains(texts["metrics"], `resource_type="terraform_data"`) {
		t.Errorf("the metrics are %s (%v)", scrape, err)
	}
	for where, text := range texts {
		if strings.Contains(text, "canary") {
			t.Errorf("%s tells a secret: %s", where, text)
		}
	}
	if full := s.get("plans/" + r.Plan.ID + "/json-output"); !strings.Contains(full, `"undeclared":{}`) {
		t.Errorf("the plan's document tells the value of a variable that nobody may read back: %s", full)
	}
	s.stop()
	texts["what the service said"] = said.String()
	logged := false
	for line := range strings.Lines(said.String()) {
		var e struct{ Msg, Run, Address, Attempt string }
		if json.Unmarshal([]byte(line), &e) == nil && e.Msg == "an operation started" && e.Run == r.ID {
			logged = logged || e.Address == "terraform_data.a"
		}
	}
	if !logged || strings.Contains(said.String(), "canary") || strings.Contains(said.String(), s.token) {
		t.Errorf("an operation is not logged with its run, or a secret is logged:\n%s", said.String())
	}
	err = filepath.WalkDir(home, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		for _, text := range append(unpacked(data), data) {
			if bytes.Contains(text, []byte("canary")) || bytes.Contains(text, []byte("PRIVATE KEY")) {
				t.Errorf("%s tells a secret", path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// unpacked returns the decompressed texts inside a file, compressed with Zstandard or gzip, at any position. A store
// keeps values of any length in pages, so that the compressed text of the last ones may be incomplete: of these, it
// returns the beginning.
func unpacked(data []byte) (all [][]byte) {
	for at := range data {
		var z io.Reader
		switch rest := data[at:]; {
		case bytes.HasPrefix(rest, []byte{0x28, 0xb5, 0x2f, 0xfd}):
			frame, err := zstd.NewReader(bytes.NewReader(rest), zstd.WithDecoderConcurrency(1))
			if err != nil {
				continue
			}
			defer frame.Close()
			z = frame
		case bytes.HasPrefix(rest, []byte{0x1f, 0x8b, 8}):
			member, err := gzip.NewReader(bytes.NewReader(rest))
			if err != nil {
				continue
			}
			z = member
		default:
			continue
		}
		text, _ := io.ReadAll(io.LimitReader(z, 16<<20)) // the bytes after the compressed text are an error
		all = append(all, text)
	}
	return all
}

func TestASearchOfFilesFindsWhatIsCompressedInThem(t *testing.T) {
	var member bytes.Buffer
	z := gzip.NewWriter(&member)
	if _, err := z.Write([]byte("canary in gzip")); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	e, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	file := slices.Concat([]byte("before"), member.Bytes(), []byte("between"),
		e.EncodeAll([]byte("canary in Zstandard"), nil), []byte("behind"))
	if got := bytes.Join(unpacked(file), []byte("; ")); string(got) != "canary in gzip; canary in Zstandard" {
		t.Errorf("found: %s", got)
	}
}

// awaits waits until a text has come.
func (s *safe) awaits(t *testing.T, what, text string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !strings.Contains(s.String(), text); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%s have no %s: %s", what, text, s)
		}
	}
}

// follow reads a stream of events of the pages until the test ends.
func (s *served) follow(path string) *safe {
	s.t.Helper()
	s.page("/app") // it logs in
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.address+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	answer, err := s.http.Do(r) //nolint:bodyclose // follow closes it at its end
	if err != nil || answer.StatusCode != http.StatusOK {
		s.t.Fatal(path, answer, err)
	}
	text := &safe{}
	go func() {
		defer answer.Body.Close()
		_, _ = io.Copy(text, answer.Body) // it ends with the test
	}()
	return text
}

// page returns a page of the service for the administrator, who logs in first.
func (s *served) page(path string) string {
	s.t.Helper()
	if s.http.Jar == nil {
		s.http.Jar, _ = cookiejar.New(nil) // it never fails
		form := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(s.page("/app/login"))
		if form == nil {
			s.t.Fatal("the page to log in has no form")
		}
		answer, err := s.http.PostForm(s.address+"/app/login", url.Values{"username": {"admin"}, "password": {s.token},
			"form": {form[1]}, "to": {"/app"}})
		if err != nil {
			s.t.Fatal(err)
		}
		answer.Body.Close()
	}
	answer, err := s.http.Get(s.address + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		s.t.Errorf("%s: %d, %v", path, answer.StatusCode, err)
	}
	return string(text)
}

// get asks the API for a path as the administrator.
func (s *served) get(path string) string {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.address+"/api/v2/"+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	reply, err := s.http.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil || reply.StatusCode != http.StatusOK {
		s.t.Errorf("%s: %d, %v", path, reply.StatusCode, err)
	}
	return string(text)
}
