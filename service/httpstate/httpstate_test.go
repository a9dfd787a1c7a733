package httpstate_test

import (
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/httpstate"
	"github.com/millipede-iac/millipede/service/servicetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// conversation is a client that sends requests, and records the answers.
type conversation struct {
	t       *testing.T
	address string
	token   string
	client  *http.Client
}

func begin(t *testing.T) (*conversation, *servicetest.Harness) {
	t.Helper()
	h := servicetest.New(t, func(o *service.Options) { o.MaxState = 1 << 10 })
	h.NewWorkspace("one")
	server := httptest.NewServer(httpstate.Handler(h.Service, slog.New(slog.DiscardHandler)))
	t.Cleanup(server.Close)
	return &conversation{t, server.URL + "/state/acme/one", h.Token, server.Client()}, h
}

// say sends a request, and returns the status and the body.
func (c *conversation) say(method, query, body string, header ...string) (int, string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.address+query, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.SetBasicAuth("anybody", c.token)
	if len(header) == 2 {
		r.Header.Set(header[0], header[1])
	}
	reply, err := c.client.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return reply.StatusCode, string(text)
}

func state(serial int) string { return fmt.Sprintf(`{"version":4,"serial":%d,"lineage":"l"}`, serial) }

func TestAStateIsLockedWrittenReadAndUnlocked(t *testing.T) {
	c, _ := begin(t)
	mine, other := `{"ID":"1","Who":"me"}`, `{"ID":"2","Who":"you"}`
	for i, step := range []struct {
		method, query, body string
		status              int
		says                string
	}{
		{"GET", "", "", 204, ""},
		{"LOCK", "", mine, 200, ""},
		{"LOCK", "", mine, 200, ""}, // its answer was lost
		{"LOCK", "", other, 423, `"Who":"me"`},
		{"POST", "?ID=1", state(1), 200, ""},
		{"POST", "?ID=1", state(1), 200, ""},
		{"POST", "?ID=2", state(2), 423, `"Who":"me"`},
		{"POST", "", state(2), 423, `"Who":"me"`},
		{"POST", "?ID=1", state(0), 409, "serial"},
		{"POST", "?ID=1", "nonsense", 400, "not a state"},
		{"GET", "", "", 200, state(1)},
		{"UNLOCK", "", other, 423, `"Who":"me"`},
		{"UNLOCK", "", `{"ID":"1"}`, 200, ""},
		{"UNLOCK", "", mine, 200, ""},
		{"POST", "", state(2), 200, ""}, // a client that does not lock
		{"DELETE", "", "", 405, ""},
	} {
		if status, text := c.say(step.method, step.query, step.body); status != step.status ||
			!strings.Contains(text, step.says) {
			t.Errorf("step %d, %s%s: %d %s", i, step.method, step.query, status, text)
		}
	}
}

func TestAChecksumIsChecked(t *testing.T) {
	c, _ := begin(t)
	sum := md5.Sum([]byte(state(1)))
	right := base64.StdEncoding.EncodeToString(sum[:])
	if status, _ := c.say("POST", "", state(2), "Content-MD5", right); status != 400 {
		t.Errorf("a state with a wrong checksum: %d", status)
	}
	if status, text := c.say("POST", "", state(1), "Content-MD5", right); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := c.say("POST", "", `{"version":4,"serial":3,"lineage":"l","more":"`+strings.Repeat("x", 1<<10)+
		`"}`); status != 413 {
		t.Errorf("a state that is too large: %d", status)
	}
}

// A client treats 404 as an empty state, and would create everything again. So a client without access to a workspace
// must not get 404.
func TestWhoMaySeeNothingIsRefused(t *testing.T) {
	c, _ := begin(t)
	good := *c
	for what, change := range map[string]func(){
		"a wrong token":     func() { c.token = "nosuch" },
		"no such workspace": func() { c.address = strings.Replace(c.address, "/one", "/two", 1) },
		"no such org":       func() { c.address = strings.Replace(c.address, "/acme", "/other", 1) },
	} {
		*c = good
		change()
		want := 403
		if c.token != good.token {
			want = 401
		}
		if status, text := c.say("GET", "", ""); status != want {
			t.Errorf("%s: %d %s", what, status, text)
		}
	}
}

func TestTheLockOfARunIsShown(t *testing.T) {
	c, h := begin(t)
	w, err := h.Workspaces.Named(h.Admin, "acme", "one")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Workspaces.Lock(h.Admin, w.ID, "holidays"); err != nil {
		t.Fatal(err)
	}
	if status, text := c.say("LOCK", "", `{"ID":"1"}`); status != 423 || !strings.Contains(text, `"Who":"root"`) ||
		!strings.Contains(text, "holidays") {
		t.Errorf("%d %s", status, text)
	}
}
