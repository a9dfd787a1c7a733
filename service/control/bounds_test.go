package control_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/control"
	"github.com/millipede-iac/millipede/service/servicetest"
)

// The bounds of a workspace that are set are those that are shown, and wrong ones say what is possible.
func TestTheBoundsOfAWorkspaceAreSetAndShown(t *testing.T) {
	h := servicetest.New(t, func(o *service.Options) {
		o.Apart, o.Bounds.PlanTime, o.Bounds.PlanSize = true, 2*time.Hour, 512
	})
	handler := control.Handler(h.Service, slog.New(slog.DiscardHandler))
	at := control.Prefix + "workspaces/" + h.NewWorkspace("one").ID + "/bounds"
	ask := func(method, body string) (int, string) {
		r := httptest.NewRequest(method, at, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+h.Token)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	const all = `"service":{"plan-time":"2h","plan-memory":0,"plan-size":512}`
	for _, c := range []struct {
		method, body string
		status       int
		want         string
	}{
		{http.MethodGet, "", http.StatusOK, `{"bounds":{"plan-time":"0","plan-memory":0,"plan-size":0},` + all},
		{http.MethodPut, `{"plan-time":"30m","plan-memory":512,"plan-size":64}`, http.StatusOK,
			`{"bounds":{"plan-time":"30m","plan-memory":512,"plan-size":64},` + all},
		{http.MethodGet, "", http.StatusOK, `{"bounds":{"plan-time":"30m","plan-memory":512,"plan-size":64},` + all},
		{http.MethodPut, `{"plan-time":"3h"}`, http.StatusUnprocessableEntity, "at most that of the service, 2h"},
		{http.MethodPut, `{"plan-time":"fast"}`, http.StatusUnprocessableEntity, "as in 30m or 2h"},
		{http.MethodPut, `{}`, http.StatusOK, `{"bounds":{"plan-time":"0","plan-memory":0,"plan-size":0},` + all},
	} {
		if status, text := ask(c.method, c.body); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s %s: %d, %s", c.method, c.body, status, text)
		}
	}
}
