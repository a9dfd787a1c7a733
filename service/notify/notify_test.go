package notify_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/notifications"
	"github.com/millipede-iac/millipede/service/notify"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/work"
)

const token = "canary-token"

// receiver stores the requests that it gets, and refuses the first ones.
type receiver struct {
	t      *testing.T
	server *httptest.Server
	signed bool

	mu     sync.Mutex // guards the fields below
	refuse int
	asked  int
	got    []map[string]any
	came   chan struct{}
}

func newReceiver(t *testing.T, refuse int, signed bool) *receiver {
	r := &receiver{t: t, refuse: refuse, signed: signed, came: make(chan struct{}, 1000)}
	r.server = httptest.NewServer(r)
	t.Cleanup(r.server.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	mac := hmac.New(sha512.New, []byte(token))
	mac.Write(body)
	if r.signed && q.Header.Get("X-TFE-Notification-Signature") != hex.EncodeToString(mac.Sum(nil)) {
		r.t.Errorf("the signature of %s is wrong", body)
	}
	var v map[string]any
	if err := json.Unmarshal(body, &v); err != nil {
		r.t.Errorf("%s: %v", body, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked++; r.asked <= r.refuse {
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	}
	r.got = append(r.got, v)
	r.came <- struct{}{}
}

// triggers waits for a number of notifications, and returns their triggers.
func (r *receiver) triggers(ctx context.Context, n int) (out []string) {
	r.t.Helper()
	for range n {
		select {
		case <-r.came:
		case <-ctx.Done():
			r.t.Fatalf("only %d notifications came", len(r.got))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.got {
		out = append(out, v["notifications"].([]any)[0].(map[string]any)["trigger"].(string))
	}
	return out
}

// sending runs a sender over a service until the test, or end, ends it.
func sending(t *testing.T, h *servicetest.Harness, private bool) (end func()) {
	s := notify.New(notify.Options{Notifications: h.Notifications, Address: "https://tofu.example",
		Private: private, Now: time.Now,
		Logger: slog.New(slog.DiscardHandler), Pauses: []time.Duration{time.Millisecond, time.Millisecond}})
	return run(t, s)
}

func run(t *testing.T, s *notify.Sender) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	end = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(end)
	return end
}

var all = []string{"run:created", "run:planning", "run:needs_attention", "run:applying", "run:completed", "run:errored"}

// configure adds a receiver of some triggers; without any, of all.
func configure(t *testing.T, h *servicetest.Harness, w *service.WorkspaceView, kind, url string,
	triggers ...string) *record.Notification {
	t.Helper()
	if len(triggers) == 0 {
		triggers = all
	}
	n, err := h.Notifications.Create(h.Admin, record.Notification{Workspace: w.ID, Name: kind, Destination: kind, URL: url,
		Token: token, Enabled: true, Triggers: triggers})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func timeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestAReceiverHearsOfARunInOrderSignedAndAgainAfterItWasBusy(t *testing.T) {
	h := servicetest.New(t)
	r := newReceiver(t, 2, true)
	end := sending(t, h, true)
	w := h.NewWorkspace("one")
	n := configure(t, h, w, "generic", r.server.URL)
	run := h.NewRun(w, func(r *record.Run) { r.AutoApply, r.Message = true, "why" })
	want := []string{"run:created", "run:planning", "run:applying", "run:completed"}
	if got := r.triggers(timeout(t), len(want)); !slices.Equal(got, want) {
		t.Errorf("the receiver got %q", got)
	}
	first := r.got[0]
	if first["payload_version"] != 1.0 || first["run_id"] != run.ID || first["workspace_name"] != "one" ||
		first["organization_name"] != "acme" || first["run_message"] != "why" ||
		first["notification_configuration_id"] != n.ID ||
		first["run_url"] != "https://tofu.example/app/acme/one/runs/"+run.ID {
		t.Errorf("got %v", first)
	}
	end()
	if now, err := h.Notifications.Find(h.Admin, n.ID); err != nil || now.Last == nil || !now.Last.Successful() {
		t.Errorf("%+v, %v", now, err)
	}
}

func TestDriftIsToldInTheFormOfAssessments(t *testing.T) {
	h := servicetest.New(t)
	r := newReceiver(t, 0, false)
	sending(t, h, true)
	w := h.NewWorkspace("one")
	h.Engine.ApplyFunc = func(ctx context.Context, j *work.Job) (*work.ApplyResult, error) {
		return &work.ApplyResult{Add: 1}, j.State.Write(ctx, []byte(`{"version":4,"serial":1,"lineage":"l",`+
			`"outputs":{},"resources":[{"mode":"managed","type":"thing","name":"a",`+
			`"provider":"provider[\"registry.opentofu.org/acme/thing\"]","instances":[`+
			`{"index_key":0,"attributes":{}},{"index_key":1,"attributes":{}}]}]}`))
	}
	h.Engine.WatchFunc = func(_ context.Context, j *work.Job, _ []string, _ int) ([]work.Found, error) {
		return []work.Found{{Address: "thing.a[1]"}}, errors.New("a cloud is away")
	}
	run := h.NewRun(w, func(r *record.Run) { r.AutoApply = true })
	h.Await(run.ID, record.Applied)
	if _, err := h.Notifications.Create(h.Admin, record.Notification{Workspace: w.ID, Name: "drift",
		Destination: "generic",
		URL:         r.server.URL, Token: token, Enabled: true,
		Triggers: []string{record.TriggerDrift, record.TriggerUnread}}); err != nil {
		t.Fatal(err)
	}
	period := time.Hour
	if _, err := h.Workspaces.Change(h.Admin, w.ID, service.WorkspaceSettings{DriftPeriod: &period}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case <-r.came:
		case <-timeout(t).Done():
			t.Fatal("the receiver got no notification")
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	told := map[any]map[string]any{}
	for _, v := range r.got {
		told[v["trigger"]] = v
	}
	for trigger, succeeded := range map[string]bool{record.TriggerDrift: true, record.TriggerUnread: false} {
		v := told[trigger]
		details, _ := v["details"].(map[string]any)
		result, _ := details["new_assessment_result"].(map[string]any)
		if v["payload_version"] != "2" || v["trigger_scope"] != "assessment" || details["workspace_id"] != w.ID ||
			details["organization_name"] != "acme" || result["resources_drifted"] != 1.0 ||
			result["resources_undrifted"] != 1.0 || result["succeeded"] != succeeded {
			t.Errorf("%s: %v", trigger, v)
		}
	}
}

func TestAReceiverThatIsAwayIsAskedAgainAfterGrowingPausesAndThenNoMore(t *testing.T) {
	h := servicetest.New(t)
	r := newReceiver(t, 1000, true)
	w := h.NewWorkspace("one")
	n := configure(t, h, w, "generic", r.server.URL, "run:completed")
	run := h.NewRun(w, func(r *record.Run) { r.AutoApply = true })
	h.Await(run.ID, record.Applied)
	var passed time.Duration
	now := func() time.Time { return time.Now().Add(passed) }
	s := notify.New(notify.Options{Notifications: h.Notifications, Private: true,
		Now: now, Logger: slog.New(slog.DiscardHandler)})
	due := func() []notifications.Outgoing {
		all, _, err := h.Notifications.Due(func(string) bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	var pauses []time.Duration
	for all := due(); len(all) == 1; all = due() {
		asked := now()
		s.Deliver(t.Context(), all[0])
		waiting, err := h.Notifications.Undelivered(h.Admin, n.ID)
		if err != nil {
			t.Fatal(err)
		}
		if len(waiting) == 0 {
			break
		}
		if again := due(); len(again) != 0 {
			t.Fatalf("the request is repeated at once: %+v", again)
		}
		pauses = append(pauses, waiting[0].Due.Sub(asked).Truncate(10*time.Second))
		h.Later(waiting[0].Due.Sub(asked))
		passed += waiting[0].Due.Sub(asked)
	}
	if want := []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour}; !slices.Equal(pauses, want) || r.asked != 7 {
		t.Errorf("the receiver got %d requests, with pauses of %v", r.asked, pauses)
	}
	if now, err := h.Notifications.Find(h.Admin, n.ID); err != nil || now.Last == nil ||
		now.Last.Code != http.StatusServiceUnavailable {
		t.Errorf("the latest response is not stored: %+v, %v", now, err)
	}
}

func TestAReceiverThatIsAwayKeepsNoMoreThanTwoHundredNotifications(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	n := configure(t, h, w, "generic", "https://receiver.example")
	for range 51 { // four notifications each
		h.Await(h.NewRun(w, func(r *record.Run) { r.AutoApply = true }).ID, record.Applied)
	}
	if all, err := h.Notifications.Undelivered(h.Admin, n.ID); err != nil || len(all) != 200 ||
		all[0].Trigger != "run:created" {
		t.Errorf("%d notifications wait: %v", len(all), err)
	}
}

func TestWhatIsToBeSentSurvivesARestart(t *testing.T) {
	h := servicetest.New(t)
	r := newReceiver(t, 0, true)
	w := h.NewWorkspace("one")
	configure(t, h, w, "generic", r.server.URL)
	run := h.NewRun(w, func(r *record.Run) { r.AutoApply = true })
	h.Await(run.ID, record.Applied) // nobody sends yet
	h.End()
	h.Start()
	end := sending(t, h, true)
	if got := r.triggers(timeout(t), 4); got[0] != "run:created" || got[3] != "run:completed" {
		t.Errorf("the receiver got %q", got)
	}
	end()
}

// A service often runs in a network that trusts it. The administrator of a workspace must not be able to make it send
// requests to other machines of that network.
func TestNothingIsSentToAPrivateAddress(t *testing.T) {
	h := servicetest.New(t)
	r := newReceiver(t, 0, false)
	s := notify.New(notify.Options{Notifications: h.Notifications, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	w := h.NewWorkspace("one")
	for _, url := range []string{r.server.URL, strings.Replace(r.server.URL, "127.0.0.1", "localhost", 1),
		"http://10.0.0.1/", "http://169.254.169.254/latest", "http://[::1]:1/", "http://[::ffff:127.0.0.1]:1/",
		"http://100.64.1.1/", "http://0.0.0.0:1/", "http://[fd00::1]/"} {
		n := configure(t, h, w, "generic", url)
		got, err := s.Verify(t.Context(), h.Admin, n.ID)
		if err != nil || got.Code != 0 || !strings.Contains(got.Body, "not a public one") {
			t.Errorf("%s: %+v, %v", url, got, err)
		}
	}
	if r.asked != 0 {
		t.Errorf("the receiver got %d requests", r.asked)
	}
}

func TestSlackGetsASentence(t *testing.T) {
	h := servicetest.New(t)
	r := newReceiver(t, 0, false)
	s := notify.New(notify.Options{Notifications: h.Notifications, Private: true, Now: time.Now,
		Logger: slog.New(slog.DiscardHandler)})
	n := configure(t, h, h.NewWorkspace("one"), "slack", r.server.URL)
	_, err := s.Verify(t.Context(), h.Admin, n.ID)
	if err != nil || r.got[0]["text"] != "Verification of slack: acme/one" {
		t.Errorf("%v, %v", r.got, err)
	}
}

func TestSlackGetsALinkToTheRun(t *testing.T) {
	h := servicetest.New(t)
	r := newReceiver(t, 0, false)
	w := h.NewWorkspace("one")
	configure(t, h, w, "slack", r.server.URL, "run:completed")
	sending(t, h, true)
	run := h.NewRun(w, func(r *record.Run) { r.AutoApply, r.Message = true, "why <!channel> & not" })
	select {
	case <-r.came:
	case <-timeout(t).Done():
		t.Fatal("the receiver got no notification")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if want := "Run Completed: <https://tofu.example/app/acme/one/runs/" + run.ID + "|" + run.ID +
		"> in acme/one (why &lt;!channel&gt; &amp; not)"; len(r.got[0]) != 1 || r.got[0]["text"] != want {
		t.Errorf("the payload is %v, not %s", r.got[0], want)
	}
}
