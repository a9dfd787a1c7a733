package remote

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/internal/cloud/tfc"
)

// older is a service of the API's level 2.5: it has no projects, no redacted plans, no entries about runs and no
// reasons of waits, includes nothing, and its logs are for people, without marks. It answers unsupported requests with
// 404.
type older struct {
	mu      sync.Mutex
	host    string
	named   bool       // the workspace was created
	status  tfc.Status // of its only run; empty before it exists
	looks   int        // how often the run was looked at in this status
	archive int
	lacked  []string
	acted   []string
	held    bool // nobody may confirm the plan
}

// next are the statuses that the run reaches by itself.
var next = map[tfc.Status]tfc.Status{tfc.Pending: tfc.Planning, tfc.Planning: tfc.Planned, tfc.Applying: tfc.Applied,
	tfc.Confirmed: tfc.Applying}

func (o *older) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	path := r.Method + " " + strings.TrimPrefix(r.URL.Path, "/api/v2/")
	w.Header().Set("TFP-API-Version", "2.5")
	document := func(kind, id string, attributes map[string]any, related string) {
		w.Header().Set("Content-Type", "application/vnd.api+json")
		text, _ := json.Marshal(attributes)
		fmt.Fprintf(w, `{"data":{"id":%q,"type":%q,"attributes":%s,"relationships":{%s}}}`, id, kind, text, related)
	}
	phase := func(kind, id string, over bool) {
		status := "running"
		if over {
			status = "finished"
		}
		document(kind, id, map[string]any{"status": status, "log-read-url": o.host + "/logs/" + id}, "")
	}
	applied := o.status == tfc.Applied
	planned := applied || o.status == tfc.Planned || o.status == tfc.Confirmed || o.status == tfc.Applying
	workspace := map[string]any{"name": "net", "terraform-version": "1.9.0", "operations": true}
	switch path {
	case "GET organizations/acme/entitlement-set":
		document("entitlement-sets", "acme", map[string]any{"operations": true}, "")
	case "GET organizations/acme/workspaces/net":
		if !o.named {
			http.NotFound(w, r)
			return
		}
		document("workspaces", "ws-1", workspace, "")
	case "POST organizations/acme/workspaces":
		o.named = true
		document("workspaces", "ws-1", workspace, "")
	case "GET workspaces/ws-1":
		document("workspaces", "ws-1", workspace, "")
	case "POST workspaces/ws-1/configuration-versions":
		document("configuration-versions", "cv-1", map[string]any{"status": "pending",
			"upload-url": o.host + "/upload"}, "")
	case "PUT /upload":
		data, _ := io.ReadAll(r.Body)
		o.archive = len(data)
	case "GET configuration-versions/cv-1":
		document("configuration-versions", "cv-1", map[string]any{"status": "uploaded"}, "")
	case "POST runs":
		o.status, o.looks = tfc.Pending, 0
		fallthrough
	case "GET runs/run-1":
		if r.URL.Query().Has("include") {
			http.Error(w, `{"errors":["cannot include"]}`, http.StatusBadRequest)
			return
		}
		if to, moves := next[o.status]; moves && o.looks > 1 {
			o.status, o.looks = to, 0
		}
		o.looks++
		document("runs", "run-1", map[string]any{"status": o.status, "has-changes": true, "actions": map[string]bool{
			"is-confirmable": o.status == tfc.Planned && !o.held, "is-discardable": o.status == tfc.Planned,
			"is-cancelable": o.status == tfc.Planning || o.status == tfc.Applying}},
			`"workspace":{"data":{"id":"ws-1","type":"workspaces"}},"plan":{"data":{"id":"plan-1","type":"plans"}},`+
				`"apply":{"data":{"id":"apply-1","type":"applies"}}`)
	case "POST runs/run-1/actions/apply":
		o.acted, o.status, o.looks = append(o.acted, "apply"), tfc.Confirmed, 0
		w.WriteHeader(http.StatusAccepted)
	case "POST runs/run-1/actions/cancel":
		o.acted, o.status = append(o.acted, "cancel"), tfc.Canceled
		w.WriteHeader(http.StatusAccepted)
	case "POST runs/run-1/actions/discard":
		o.acted, o.status = append(o.acted, "discard"), tfc.Discarded
		w.WriteHeader(http.StatusAccepted)
	case "GET plans/plan-1":
		phase("plans", "plan-1", planned)
	case "GET applies/apply-1":
		phase("applies", "apply-1", applied)
	case "GET /logs/plan-1", "GET /logs/apply-1":
		text := "Terraform v1.9.0\nPlan: 1 to add"
		if strings.HasSuffix(path, "apply-1") {
			text = "Apply complete!\n"
		}
		var offset int
		_, _ = fmt.Sscan(r.URL.Query().Get("offset"), &offset)
		fmt.Fprint(w, text[min(offset, len(text)):])
	case "GET workspaces/ws-1/current-state-version":
		if !applied {
			http.NotFound(w, r)
			return
		}
		document("state-versions", "sv-1", map[string]any{"serial": 1, "hosted-state-download-url": o.host + "/state"}, "")
	case "GET /state":
		fmt.Fprint(w, `{"outputs":{"o":{"value":"v"}}}`)
	default:
		o.lacked = append(o.lacked, path)
		http.NotFound(w, r)
	}
}

// began returns a session in the service, with a workspace that init has created, and the lines of a followed log.
func began(t *testing.T) (*older, *Session, func(kind, id string) string) {
	t.Helper()
	o := &older{}
	server := httptest.NewServer(o)
	t.Cleanup(server.Close)
	o.host = server.URL
	base, err := url.Parse(server.URL + "/api/v2/")
	if err != nil {
		t.Fatal(err)
	}
	c := tfc.New(tfc.Options{Base: base, Token: "t", HTTP: server.Client(), Integrated: true, Pause: time.Millisecond})
	ctx := t.Context()
	if operations, err := c.Entitlements(ctx, "acme"); err != nil || !operations {
		t.Fatalf("the service does not report that it executes runs: %v", err)
	}
	if _, err := c.Workspace(ctx, "acme", "net"); !tfc.NotFound(err) {
		t.Fatalf("there is a workspace: %v", err)
	}
	if id, err := c.Project(ctx, "acme", "p"); err != nil || id != "" {
		t.Fatalf("the project is %q: %v", id, err)
	}
	w, err := c.CreateWorkspace(ctx, "acme", tfc.NewWorkspace{Name: "net"})
	if err != nil || w.RunsHere() || w.Structured {
		t.Fatalf("%+v, %v", w, err)
	}
	s := &Session{Client: c, Host: base.Host, Organization: "acme", Workspace: w, Tell: func(string) {},
		Pause: 6 * time.Millisecond}
	return o, s, func(kind, id string) string {
		t.Helper()
		var lines []string
		if err := s.Follow(ctx, kind, id, func(line []byte) { lines = append(lines, string(line)) }); err != nil {
			t.Fatal(err)
		}
		return strings.Join(lines, "|")
	}
}

// plans creates a run, and waits until it plans.
func plans(t *testing.T, s *Session) *tfc.Run {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte("# nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if diags := append(s.MayPlan(), s.MayApply()...); len(diags) > 0 {
		t.Fatal(diags)
	}
	r, diags := s.Begin(t.Context(), t.Context(), Request{Dir: dir, Temp: t.TempDir(), NewRun: tfc.NewRun{Refresh: true}})
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	r, err := s.AwaitPlan(t.Context(), r.ID, 0)
	if err != nil || r.Status != tfc.Planning {
		t.Fatalf("%+v, %v", r, err)
	}
	return r
}

// The client was only tested with a service that has all features.
func TestAServiceOfAnOlderLevelPlansAndApplies(t *testing.T) {
	o, s, follow := began(t)
	ctx, c := t.Context(), s.Client
	r := plans(t, s)
	if o.archive == 0 {
		t.Error("nothing was uploaded")
	}
	if _, err := s.Settled(ctx, r.ID); err != nil {
		t.Fatal(err)
	}
	if got := follow(tfc.Plans, r.Plan); got != "Terraform v1.9.0|Plan: 1 to add" {
		t.Errorf("the log of the plan is %q", got)
	}
	for _, redacted := range []bool{true, false} {
		if data, err := c.PlanJSON(ctx, r.Plan, redacted); err != nil || data != nil {
			t.Errorf("a redacted plan from a service without them: %q, %v", data, err)
		}
	}
	if notes, err := c.Notes(ctx, r.ID); err != nil || notes != nil {
		t.Errorf("the entries about a run from a service without them: %v, %v", notes, err)
	}
	if v, err := c.CurrentState(ctx, s.Workspace.ID); err != nil || v != nil {
		t.Errorf("before the apply the state is %+v, %v", v, err)
	}
	if err := c.Confirm(ctx, r.ID, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.AwaitApply(ctx, r.ID); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Ended(ctx, r.ID); err != nil || r.Status != tfc.Applied {
		t.Fatalf("%+v, %v", r, err)
	}
	if got := follow(tfc.Applies, r.Apply); got != "Apply complete!" {
		t.Errorf("the log of the apply is %q", got)
	}
	v, err := c.CurrentState(ctx, s.Workspace.ID)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := c.DownloadState(ctx, v); err != nil || !strings.Contains(string(text), `"o":{"value":"v"}`) {
		t.Errorf("the outputs are in %s, %v", text, err)
	}
	for _, want := range []string{"json-output-redacted", "run-events", "projects"} {
		if !strings.Contains(strings.Join(o.lacked, "\n"), want) {
			t.Errorf("the client has not requested %s: %q", want, o.lacked)
		}
	}
}

func TestAnInterruptEndsTheRunOfAServiceOfAnOlderLevel(t *testing.T) {
	o, s, _ := began(t)
	r := plans(t, s)
	if how, err := s.Stop(t.Context(), r.ID, "interrupted"); err != nil || how != "cancelled" {
		t.Errorf("while it plans: %q, %v", how, err)
	}
	if r, err := s.Ended(t.Context(), r.ID); err != nil || r.Status != tfc.Canceled {
		t.Errorf("%+v, %v", r, err)
	}
	r = plans(t, s)
	if _, err := s.Settled(t.Context(), r.ID); err != nil {
		t.Fatal(err)
	}
	if how, err := s.Stop(t.Context(), r.ID, "interrupted"); err != nil || how != "discarded" {
		t.Errorf("while it waits for approval: %q, %v", how, err)
	}
	if got := strings.Join(o.acted, " "); got != "cancel discard" {
		t.Errorf("the request is %s", got)
	}
}

// A user who may plan but not apply gets a run that stays planned and cannot be confirmed, and services without a final
// status for that report the same. The command line waited for ever.
func TestAPlanThatNobodyHereMayConfirmIsNotAwaitedForEver(t *testing.T) {
	o, s, _ := began(t)
	o.held = true
	r := plans(t, s)
	r, err := s.Settled(t.Context(), r.ID)
	if err != nil || r.Status != tfc.Planned || r.Actions.Confirmable {
		t.Errorf("%+v, %v", r, err)
	}
}
