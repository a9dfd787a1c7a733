package web_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/work"
)

// twoThings is a state with two objects.
const twoThings = `{"version":4,"serial":1,"lineage":"l","outputs":{},"resources":[{"mode":"managed","type":"thing",` +
	`"name":"a","provider":"provider[\"registry.opentofu.org/acme/thing\"]","instances":[` +
	`{"index_key":0,"schema_version":0,"attributes":{"id":"x"}},` +
	`{"index_key":1,"schema_version":0,"attributes":{"id":"y"}}]}]}`

// drifted returns a workspace in which an object has drifted.
func (b *browser) drifted(name string) *service.WorkspaceView {
	b.t.Helper()
	b.Engine.Mu.Lock()
	b.Engine.ApplyFunc = func(ctx context.Context, j *work.Job) (*work.ApplyResult, error) {
		return &work.ApplyResult{Add: 2}, j.State.Write(ctx, []byte(twoThings))
	}
	b.Engine.WatchFunc = func(context.Context, *work.Job, []string, int) ([]work.Found, error) {
		return []work.Found{{Address: "thing.a[1]", Attributes: []string{"size", "zone"}}}, nil
	}
	b.Engine.Mu.Unlock()
	w := b.NewWorkspace(name)
	r := b.NewRun(w, func(r *record.Run) { r.AutoApply = true })
	b.Await(r.ID, record.Applied)
	period := time.Hour
	if _, err := b.Workspaces.Change(b.Admin, w.ID, service.WorkspaceSettings{DriftPeriod: &period}); err != nil {
		b.t.Fatal(err)
	}
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for until := time.Now().Add(30 * time.Second); ; <-again.C {
		v, err := b.Drift.Watched(b.Admin, w.ID)
		if err != nil || time.Now().After(until) {
			b.t.Fatalf("no drift was found: %+v, %v", v, err)
		}
		if len(v.Drifted) == 1 {
			return w
		}
	}
}

func TestDriftIsMarkedAndPlannedWithOneClick(t *testing.T) {
	b := newBrowser(t)
	w := b.drifted("network")
	b.login("root", b.Token)
	for path, wants := range map[string][]string{
		"/app/acme":                            {"1 drifted", "Objects differ from the state."},
		"/app/acme?show=drifted":               {">network</a>"},
		"/app/acme/network":                    {"1 object drifted", "/app/acme/network/state?action=drift"},
		"/app/acme/network/state":              {"Plan refresh-only", "thing.a[0]", "differs from the state: size, zone"},
		"/app/acme/network/state?action=drift": {"thing.a[1]", "differs from the state: size, zone"},
	} {
		_, _, text := b.get(path)
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not contain %q", path, want)
			}
		}
	}
	if _, _, text := b.get("/app/acme/network/state?action=drift"); strings.Contains(text, "thing.a[0]") {
		t.Error("the page shows an object that has not drifted")
	}
	status, at, _ := b.post("/app/acme/network/state", url.Values{"action": {"refresh"}})
	if status != http.StatusOK || !strings.HasPrefix(at, "/app/acme/network/runs/run-") {
		t.Errorf("after the click: %d at %s", status, at)
	}
	all, err := b.Runs.List(b.Admin, w.ID, 1)
	if err != nil || len(all) != 1 || !all[0].RefreshOnly || all[0].AutoApply {
		t.Errorf("the run is %+v, %v", all, err)
	}
}

func TestSettingsOfMillipedesOwnAreOnThePage(t *testing.T) {
	b := newBrowser(t)
	w := b.NewWorkspace("network")
	b.login("root", b.Token)
	page := "/app/acme/network/settings"
	values := func(objects, refresh, period string) url.Values {
		return url.Values{"action": {"save"}, "mode": {"remote"}, "destroy": {"on"}, "objects": {objects},
			"refresh": {refresh}, "period": {period}}
	}
	if status, _, text := b.post(page, values("on", "changed", "24h")); status != http.StatusOK ||
		!strings.Contains(text, `value="24h"`) || !strings.Contains(text, `value="changed" selected`) ||
		!strings.Contains(text, `name="objects" checked`) {
		t.Errorf("saving: %d", status)
	}
	v, err := b.Workspaces.Find(b.Admin, w.ID)
	if err != nil || !v.ObjectLocks || v.Refresh != record.RefreshChanged || v.DriftPeriod != 24*time.Hour {
		t.Errorf("%+v, %v", v, err)
	}
	if status, _, _ := b.post(page, values("", "", "often")); status != http.StatusUnprocessableEntity {
		t.Errorf("an invalid period: %d", status)
	}
	if status, _, _ := b.post(page, values("", "", "0")); status != http.StatusOK {
		t.Errorf("saving again: %d", status)
	}
	if v, err = b.Workspaces.Find(b.Admin, w.ID); err != nil || v.ObjectLocks || v.Refresh != "" || v.DriftPeriod != 0 {
		t.Errorf("%+v, %v", v, err)
	}
}
