package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	client "github.com/hashicorp/go-tfe"
)

// sharedService is a workspace of a service whose runs lock objects.
type sharedService struct {
	*served
	w    *client.Workspace
	home string // the data directory of the service
	dir  string // where provisioners look
}

// sharedConfiguration has independent parts. Each operation signals that it has begun, and continues when the test
// permits it.
const sharedConfiguration = `
variable "a" { default = "1" }
variable "b" { default = "1" }
variable "c" { default = [] }
resource "terraform_data" "a" {
  input            = var.a
  triggers_replace = var.a
  provisioner "local-exec" {
    command = "touch DIR/begun-a-${var.a}; while [ ! -e DIR/go-a-${var.a} ]; do sleep 0.05; done"
  }
}
resource "terraform_data" "b" {
  input            = var.b
  triggers_replace = var.b
  provisioner "local-exec" {
    command = "touch DIR/begun-b-${var.b}; while [ ! -e DIR/go-b-${var.b} ]; do sleep 0.05; done"
  }
}
resource "terraform_data" "c" {
  for_each = toset(var.c)
  provisioner "local-exec" {
    command = "touch DIR/begun-c-${each.key}; while [ ! -e DIR/go-c-${each.key} ]; do sleep 0.05; done"
  }
}
output "a" { value = terraform_data.a.output }
output "b" { value = terraform_data.b.output }
`

func newShared(t *testing.T) *sharedService {
	t.Helper()
	h := newAlone(t)
	h.set("object-locks", true)
	return h
}

// newAlone is newShared for a workspace whose runs lock its whole state.
func newAlone(t *testing.T) *sharedService {
	t.Helper()
	home := t.TempDir()
	s, _ := serveIn(t, home, "")
	w, err := s.client.Workspaces.Create(t.Context(), "main", client.WorkspaceCreateOptions{Name: client.String("one")})
	if err != nil {
		t.Fatal(err)
	}
	return &sharedService{s, w, home, t.TempDir()}
}

// set changes a setting of the workspace.
func (h *sharedService) set(name string, value any) {
	h.t.Helper()
	if err := h.served.set(h.w.ID, name, value); err != nil {
		h.t.Fatal(err)
	}
}

// set changes a setting of a workspace that the client library does not have.
func (s *served) set(workspace, name string, value any) error {
	body, err := json.Marshal(map[string]any{"data": map[string]any{"type": "workspaces",
		"attributes": map[string]any{name: value}}})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPatch,
		s.address+"/api/v2/workspaces/"+workspace, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/vnd.api+json")
	request.Header.Set("Authorization", "Bearer "+s.token)
	answer, err := s.http.Do(request)
	if err != nil {
		return err
	}
	_ = answer.Body.Close() // it was read as far as it counts
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s is not set: %s", name, answer.Status)
	}
	return nil
}

// begin starts an apply, and returns a channel for its end.
func (h *sharedService) begin(variables ...string) <-chan *client.Run {
	h.t.Helper()
	dir := h.t.TempDir()
	text := strings.ReplaceAll(sharedConfiguration, "DIR", h.dir)
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
	o := client.RunCreateOptions{}
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		o.Variables = append(o.Variables, &client.RunVariable{Key: name, Value: value})
	}
	over := make(chan *client.Run, 1)
	go func() {
		r, err := h.tryRun(h.w, dir, o)
		if err != nil {
			h.t.Error(err)
		}
		over <- r
	}()
	return over
}

// begun returns when an operation has begun; may permits it to continue.
func (h *sharedService) begun(name string) {
	for !h.t.Failed() {
		if _, err := os.Stat(filepath.Join(h.dir, "begun-"+name)); err == nil {
			return
		}
		runtime.Gosched()
	}
}

func (h *sharedService) may(names ...string) {
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(h.dir, "go-"+name), nil, 0o600); err != nil {
			h.t.Error(err)
		}
	}
}

// ended returns the run once it has ended, and its logs.
func (h *sharedService) ended(over <-chan *client.Run) (*client.Run, string) {
	h.t.Helper()
	r := <-over
	if r == nil {
		h.t.FailNow()
	}
	ctx := h.t.Context()
	return r, h.log(h.client.Plans.Logs(ctx, r.Plan.ID)) + h.log(h.client.Applies.Logs(ctx, r.Apply.ID))
}

func (h *sharedService) applied(over <-chan *client.Run) *client.Run {
	h.t.Helper()
	r, text := h.ended(over)
	if r.Status != client.RunApplied {
		h.t.Fatalf("%s: %s", r.Status, text)
	}
	return r
}

// outputs returns the outputs of the present state, with its serial and its run.
func (h *sharedService) outputs() string {
	h.t.Helper()
	v, err := h.client.StateVersions.ReadCurrent(h.t.Context(), h.w.ID)
	if err != nil {
		h.t.Fatal(err)
	}
	return fmt.Sprintf("%s %s in %d", h.output(h.w, "a"), h.output(h.w, "b"), v.Serial)
}

// waiting returns the objects for which a run waits, once it waits for objects.
func (h *sharedService) waiting() (on, text string) {
	for !h.t.Failed() {
		runs, err := h.client.Runs.List(h.t.Context(), h.w.ID, nil)
		if err != nil {
			h.t.Fatal(err)
		}
		for _, r := range runs.Items {
			if r.Status != client.RunApplying {
				continue
			}
			request, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet,
				h.address+"/api/millipede/v1/runs/"+r.ID+"/wait", nil)
			if err != nil {
				h.t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer "+h.token)
			answer, err := h.http.Do(request)
			if err != nil {
				h.t.Fatal(err)
			}
			var got struct {
				Wait *struct{ Kind, On, Text string }
			}
			if err := json.NewDecoder(answer.Body).Decode(&got); err != nil {
				h.t.Error(err)
			}
			_ = answer.Body.Close()
			if got.Wait != nil && got.Wait.Kind == "objects" {
				return got.Wait.On, got.Wait.Text
			}
		}
	}
	return "", ""
}

// Two runs could not apply in one workspace at the same time, whatever they changed.
func TestRunsThatChangeOtherThingsAreAppliedAtOnce(t *testing.T) {
	h := newShared(t)
	h.may("a-1", "b-1")
	h.applied(h.begin())
	if got := h.outputs(); got != "1 1 in 1" {
		t.Errorf("at first the outputs are %s", got)
	}
	a, b := h.begin(`a="2"`), h.begin(`b="2"`)
	h.begun("a-2")
	h.begun("b-2") // both are under way
	h.may("b-2")
	h.applied(b)
	// The changes of the other run so far belong to a version that has not ended.
	if got := h.outputs(); got != "1 2 in 2" {
		t.Errorf("while one is under way, the outputs are %s", got)
	}
	h.may("a-2")
	h.applied(a)
	if got := h.outputs(); got != "2 2 in 3" {
		t.Errorf("then they are %s", got)
	}
	if code := h.stop(); code != 0 {
		t.Errorf("it ended with %d", code)
	}
}

func TestARunWaitsForTheObjectsOfAnotherOneAndSaysSo(t *testing.T) {
	h := newShared(t)
	h.may("a-1", "b-1")
	h.applied(h.begin())
	first := h.begin(`a="2"`)
	h.begun("a-2")
	second := h.begin(`a="3"`) // planned by the state before the first
	on, text := h.waiting()
	h.may("a-2", "a-3")
	r := h.applied(first)
	if on != r.ID || !strings.Contains(text, "terraform_data.a, which") ||
		!strings.Contains(text, "admin ("+r.ID+") has since") {
		t.Errorf("it waits for %s: %s", on, text)
	}
	// The object that it was to change has changed, so it plans again: nobody has approved the first plan.
	again, log := h.ended(second)
	if again.Status != client.RunApplied || !strings.Contains(log, "terraform_data.a, which the plan changes") ||
		!strings.Contains(log, "by admin ("+r.ID+")") || !strings.Contains(log, "so it plans again") {
		t.Errorf("%s: %s", again.Status, log)
	}
	if got := h.outputs(); got != "3 1 in 3" {
		t.Errorf("the outputs are %s", got)
	}
	// Both create instances of a resource that has none, so one waits; afterwards nothing blocks it.
	x := h.begin(`a="3"`, `c=["x"]`)
	h.begun("c-x")
	y := h.begin(`a="3"`, `c=["y"]`)
	if _, text = h.waiting(); !strings.Contains(text, "terraform_data.c, which") {
		t.Errorf("it waits for: %s", text)
	}
	h.may("c-x", "c-y")
	h.applied(x)
	h.applied(y)
	v, err := h.client.StateVersions.ReadCurrent(t.Context(), h.w.ID)
	if err != nil {
		t.Fatal(err)
	}
	state, err := h.client.StateVersions.Download(t.Context(), v.DownloadURL)
	if got := string(state); err != nil || v.Serial != 5 || !strings.Contains(got, `"index_key": "x"`) &&
		!strings.Contains(got, `"index_key":"x"`) || !strings.Contains(got, `"y"`) {
		t.Errorf("version %d: %v: %s", v.Serial, err, got)
	}
	h.stop()
}

// inTheWayOfStates puts a file where the service stores the versions of states, so that none can be written. The
// returned function removes the file.
func (h *sharedService) inTheWayOfStates() (over func()) {
	h.t.Helper()
	dir := ""
	err := filepath.WalkDir(h.home, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "states" {
			dir = path
		}
		return err
	})
	if err != nil || dir == "" {
		h.t.Fatalf("there is no directory of states: %v", err)
	}
	is := func(err error) {
		h.t.Helper()
		if err != nil {
			h.t.Fatal(err)
		}
	}
	is(os.Rename(dir, dir+".away"))
	is(os.WriteFile(dir, nil, 0o600))
	return func() {
		is(os.Remove(dir))
		is(os.Rename(dir+".away", dir))
	}
}

// A run had applied everything, but the service could not store the new version of the state. The error says that the
// next command writes it; but the next run found nothing to apply, so it was not written until something was changed
// again.
func TestARunWithNothingToApplyWritesTheStateThatAnEarlierOneCouldNot(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *sharedService{
		"the state is shared": newShared, "it is not": newAlone,
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t)
			h.may("a-1", "b-1")
			h.applied(h.begin())
			second := h.begin(`a="2"`)
			h.begun("a-2")
			over := h.inTheWayOfStates()
			h.may("a-2")
			r, text := h.ended(second)
			over()
			if r.Status != client.RunErrored || !strings.Contains(text, "Failed to save state") {
				t.Fatalf("%s: %s", r.Status, text)
			}
			if r, text := h.ended(h.begin(`a="2"`)); r.Status != client.RunPlannedAndFinished {
				t.Errorf("%s: %s", r.Status, text)
			}
			if got := h.outputs(); got != "2 1 in 2" {
				t.Errorf("the outputs are %s", got)
			}
			h.stop()
		})
	}
}

// current is the run that changes a to a value.
func (h *sharedService) current(a string) *client.Run {
	h.t.Helper()
	runs, err := h.client.Runs.List(h.t.Context(), h.w.ID, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, r := range runs.Items {
		for _, v := range r.Variables {
			if v.Key == "a" && v.Value == a {
				return r
			}
		}
	}
	h.t.Fatalf("there is no run with %s", a)
	return nil
}

func TestARunGoesOnWhenTheOneThatItWaitsForIsCancelled(t *testing.T) {
	h := newShared(t)
	h.may("a-1", "b-1", "a-3")
	h.applied(h.begin())
	first := h.begin(`a="2"`)
	h.begun("a-2")
	second := h.begin(`a="3"`)
	on, text := h.waiting()
	id := h.current(`"2"`).ID
	if on != id || !strings.Contains(text, "output.a, which") {
		t.Errorf("it waits for %s: %s", on, text)
	}
	if err := h.client.Runs.Cancel(t.Context(), id, client.RunCancelOptions{}); err != nil {
		t.Fatal(err)
	}
	if r, text := h.ended(first); r.Status != client.RunErrored && r.Status != client.RunCanceled {
		t.Errorf("%s: %s", r.Status, text)
	}
	r, text := h.ended(second)
	if r.Status != client.RunApplied || !strings.Contains(text, "terraform_data.a, which the plan changes, was changed") ||
		!strings.Contains(text, "by admin ("+id+")") || !strings.Contains(text, "is tainted, so it must be replaced") {
		t.Errorf("%s: %s", r.Status, text)
	}
	if got := h.outputs(); got != "3 1 in 3" {
		t.Errorf("the outputs are %s", got)
	}
	h.stop()
}
