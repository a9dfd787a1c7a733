package tfc

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// cutting is a service whose first response to each request ends too early, as that of one that is restarted.
type cutting struct {
	mu   sync.Mutex
	seen map[string]int
}

func (s *cutting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	request := r.Method + " " + r.URL.Path + "?" + r.URL.RawQuery
	s.seen[request]++
	first := s.seen[request] == 1
	s.mu.Unlock()
	text := `{"data":{"id":"run-1","type":"runs","attributes":{"status":"applied","comment":"a comment"}}}`
	if strings.HasPrefix(r.URL.Path, "/logs/") {
		if text = ""; r.URL.Query().Get("offset") == "0" {
			text = "\x02one line\n\x03"
		}
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(text)))
	w.WriteHeader(http.StatusOK)
	if first && len(text) > 0 {
		w.(http.Flusher).Flush() //nolint:forcetypeassert // net/http's can
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write([]byte(text))
}

// A connection that was lost after the head of a response ended the command: a plan that went on in a service that was
// restarted was reported as failed.
func TestWhatOnlyReadsIsRepeatedWhenAResponseEndsTooEarly(t *testing.T) {
	service := &cutting{seen: map[string]int{}}
	server := httptest.NewServer(service)
	defer server.Close()
	base, err := url.Parse(server.URL + "/api/v2/")
	if err != nil {
		t.Fatal(err)
	}
	c := New(Options{Base: base, HTTP: server.Client(), Pause: time.Millisecond})
	ctx := t.Context()
	if r, err := c.Run(ctx, "run-1"); err != nil || r.ID != "run-1" {
		t.Errorf("%+v, %v", r, err)
	}
	var text strings.Builder
	if err := c.Log(ctx, "plans", &Phase{ID: "plan-1", Log: server.URL + "/logs/x"}, func(part []byte) error {
		text.Write(part)
		return nil
	}); err != nil || text.String() != "one line\n" {
		t.Errorf("the log is %q, %v", text.String(), err)
	}
	if data, err := c.get(ctx, server.URL+"/state"); err != nil || !strings.Contains(string(data), "run-1") {
		t.Errorf("the state is %q, %v", data, err)
	}
	// The service may have done what a POST asks for.
	if _, err := c.CreateRun(ctx, NewRun{Workspace: "ws-1"}); err == nil || service.seen["POST /api/v2/runs?"] != 1 {
		t.Errorf("a run was created %d times: %v", service.seen["POST /api/v2/runs?"], err)
	}
}
