package web_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/control"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/work"
)

// heldUp starts a run whose apply waits for a permit of the limit quota that it holds itself, until goOn is called.
func (b *browser) heldUp(workspace string) (r *record.Run, goOn func()) {
	b.t.Helper()
	shown, ended := make(chan struct{}), make(chan struct{})
	recorder := timeline.NewRecorder(timeline.Head{Begun: time.Now().UnixMilli(), Ended: timeline.None})
	recorder.Note(func(_ *timeline.Head, _ *int64, s *[]timeline.Shortage) {
		*s = []timeline.Shortage{{Kind: "permit", Name: "quota", Vertices: 4, Example: "<b>", Slots: 2}}
	})
	b.Capacity.Has = []service.Limit{{Name: "quota", Slots: 2, Held: []service.Permit{{Run: "e", Since: time.Now()},
		{Run: "e", Since: time.Now()}}}}
	b.Engine.ApplyFunc = func(_ context.Context, j *work.Job) (*work.ApplyResult, error) {
		j.Watched(recorder, "e")
		close(shown)
		<-ended
		return &work.ApplyResult{}, nil
	}
	r = b.NewRun(b.NewWorkspace(workspace), func(r *record.Run) { r.AutoApply, r.Message = true, "grow" })
	<-shown
	return r, func() {
		close(ended)
		b.Await(r.ID, record.Applied)
	}
}

// The pages and the API showed only that a run waits for other runs, never that it waits for a limit or a pool.
func TestARunAndItsWorkspaceShowWhichLimitTheyWaitForAndWhoHoldsIt(t *testing.T) {
	b := newBrowser(t)
	b.login("root", b.Token)
	r, goOn := b.heldUp("network")
	defer goOn()
	for _, path := range []string{"/app/acme/network", "/app/acme/network/settings", "/app/acme/network/runs/" + r.ID} {
		_, _, text := b.get(path)
		for _, want := range []string{"4 operations wait for a permit of the limit quota (2 slots), for example " +
			"<code>&lt;b&gt;</code>", `href="/app/settings/workers#limit-quota"`, "2 slots held by",
			"/app/acme/network/runs/" + r.ID} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not contain %q", path, want)
			}
		}
	}
	q := httptest.NewRequest(http.MethodGet, control.Prefix+"runs/"+r.ID+"/wait", nil)
	q.Header.Set("Authorization", "Bearer "+b.Token)
	w := httptest.NewRecorder()
	control.Handler(b.Service, slog.New(slog.DiscardHandler)).ServeHTTP(w, q)
	var answer struct {
		Wait struct {
			Kind, On string
			Lacks    []struct {
				Kind, Name string
				Operations int
				HeldBy     []struct {
					Run, Workspace string
					Permits        int
				} `json:"held-by"`
			}
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatal(err, w.Body)
	}
	got := answer.Wait
	if got.Kind != "permit" || got.On != "quota" || len(got.Lacks) != 1 || len(got.Lacks[0].HeldBy) != 1 {
		t.Fatalf("%s", w.Body)
	}
	if h := got.Lacks[0].HeldBy[0]; h.Run != r.ID || h.Workspace != "network" || h.Permits != 2 {
		t.Errorf("%+v", h)
	}
}
