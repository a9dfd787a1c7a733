package remote_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/backendtest"
	"github.com/millipede-iac/millipede/backend/remote"
	"github.com/millipede-iac/millipede/install/services"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/tfe"
)

// site is a service with an organization, acme.
type site struct {
	*servicetest.Harness
	t      *testing.T
	server *httptest.Server

	mu       sync.Mutex // guards the fields below
	requests []string
	// meddle may answer a request instead of the service, or say that the response is lost.
	meddle func(r *http.Request) (status int, lost bool)
}

func newSite(t *testing.T) *site {
	s := &site{Harness: servicetest.New(t), t: t}
	inner := tfe.Handler(tfe.Options{Service: s.Service, Poll: 10 * time.Millisecond})
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		path, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/api/v2/"), "?")
		s.requests = append(s.requests, r.Method+" "+path)
		meddle := s.meddle
		s.mu.Unlock()
		if meddle != nil {
			status, lost := meddle(r)
			if lost {
				inner.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			}
			if status != 0 {
				w.WriteHeader(status)
				return
			}
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(s.server.Close)
	return s
}

func (s *site) asked(beginning string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if strings.HasPrefix(r, beginning) {
			n++
		}
	}
	return n
}

// Find implements backend.Hosts.
func (s *site) Find(_ context.Context, host, service string) (*url.URL, error) {
	if host != "service.example" || service == "state.v2" {
		return nil, &services.NoServiceError{Host: host}
	}
	return url.Parse(s.server.URL + "/api/v2/")
}

// Token implements backend.Hosts.
func (s *site) Token(context.Context, string) (string, error) { return s.Harness.Token, nil }

// HTTP implements backend.Hosts.
func (s *site) HTTP() *http.Client { return s.server.Client() }

func (s *site) place(env map[string]string) backend.Place {
	return backend.Place{
		Kinds: backend.Kinds{remote.Cloud(), remote.Remote()}, Hosts: s, EngineVersion: "1.12.6",
		Pause: time.Millisecond,
		Env:   func(name string) string { return env[name] },
	}
}

func block(workspaces map[string]cty.Value) cty.Value {
	return cty.ObjectVal(map[string]cty.Value{
		"hostname": cty.StringVal("service.example"), "organization": cty.StringVal("acme"),
		"workspaces": cty.TupleVal([]cty.Value{cty.ObjectVal(workspaces)}),
	})
}

func named(name string) cty.Value { return block(map[string]cty.Value{"name": cty.StringVal(name)}) }

func (s *site) open(kind string, config cty.Value) backend.Backend {
	s.t.Helper()
	b, diags := s.place(nil).Open(s.t.Context(), kind, config)
	if diags.HasErrors() {
		s.t.Fatal(diags.Err())
	}
	s.t.Cleanup(func() { _ = backend.Close(b) })
	return b
}

func TestTheBackendsKeepTheContract(t *testing.T) {
	tags := cty.SetVal([]cty.Value{cty.StringVal("a"), cty.StringVal("b")})
	for claim, c := range map[string]struct {
		kind      string
		config    cty.Value
		workspace string
	}{
		"a cloud block with tags":      {"cloud", block(map[string]cty.Value{"tags": tags}), "main"},
		"the backend with a prefix":    {"remote", block(map[string]cty.Value{"prefix": cty.StringVal("net-")}), "main"},
		"the backend with a workspace": {"remote", named("one"), ""},
	} {
		t.Run(claim, func(t *testing.T) {
			sites := map[string]*site{}
			backendtest.Run(t, backendtest.Suite{
				OneState: c.workspace == "", Workspace: c.workspace,
				Open: func(t *testing.T) backend.Backend {
					if sites[t.Name()] == nil {
						sites[t.Name()] = newSite(t)
						if c.workspace != "" { // it is there, as init has made it
							if err := sites[t.Name()].open(c.kind, c.config).Create(t.Context(), c.workspace); err != nil {
								t.Fatal(err)
							}
						}
					}
					return sites[t.Name()].open(c.kind, c.config)
				},
			})
		})
	}
}

const state1 = `{"version":4,"serial":1,"lineage":"l","outputs":{"o":{"value":"v","type":"string"}},"resources":[]}`

// The response to the request for the lock is lost, and the request is sent a second time. The service says that the
// workspace is locked: the command would have failed because of its own lock, and left it behind.
func TestALockWhoseAnswerWasLostIsOurs(t *testing.T) {
	s := newSite(t)
	b := s.open("cloud", named("one"))
	if err := b.Create(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	times := 0
	s.meddle = func(r *http.Request) (int, bool) {
		if !strings.HasSuffix(r.URL.Path, "/actions/lock") {
			return 0, false
		}
		times++
		return 0, times == 1
	}
	lock, err := b.Lock(t.Context(), "one", backendtest.Info("11", "OperationTypeApply"))
	if err != nil || lock.ID != "acme/one" || times != 2 {
		t.Fatalf("%+v after %d requests: %v", lock, times, err)
	}
	if err := b.Write(t.Context(), "one", []byte(state1)); err != nil {
		t.Fatal(err)
	}
	if err := b.Unlock(t.Context(), "one", lock.ID); err != nil {
		t.Fatal(err)
	}
}

func TestABusyServiceIsAskedAgain(t *testing.T) {
	s := newSite(t)
	b := s.open("cloud", named("one"))
	failures := map[string]int{}
	s.meddle = func(r *http.Request) (int, bool) {
		key := r.Method + r.URL.Path
		if failures[key]++; failures[key] == 1 {
			return http.StatusServiceUnavailable, false
		}
		return 0, false
	}
	if err := b.Write(t.Context(), "one", []byte(state1)); err != nil {
		t.Fatal(err)
	}
	if data, err := b.Read(t.Context(), "one"); err != nil || string(data) != state1 {
		t.Errorf("read %q, %v", data, err)
	}
}

// Without -lock the service still accepts states only from the holder of the lock.
func TestAStateIsWrittenWithoutALockOfItsOwn(t *testing.T) {
	s := newSite(t)
	b := s.open("cloud", named("one"))
	if err := b.Write(t.Context(), "one", []byte(state1)); err != nil {
		t.Fatal(err)
	}
	if s.asked("POST workspaces/") == 0 {
		t.Error("nothing was written")
	}
	if w, err := s.Workspaces.Named(s.Admin, "acme", "one"); err != nil || w.Lock.Held() {
		t.Errorf("the workspace is left locked: %v", err)
	}
}

// A state of another lineage, or an earlier one, is written because the user has requested it: state push -force, state
// restore. The service refused it.
func TestWhatWasSeenMayBeReplaced(t *testing.T) {
	s := newSite(t)
	b := s.open("cloud", named("one"))
	if err := b.Write(t.Context(), "one", []byte(strings.Replace(state1, `"serial":1`, `"serial":7`, 1))); err != nil {
		t.Fatal(err)
	}
	another := strings.Replace(state1, `"lineage":"l"`, `"lineage":"other"`, 1)
	if err := b.Write(t.Context(), "one", []byte(another)); err != nil {
		t.Fatal(err)
	}
	if data, err := s.open("cloud", named("one")).Read(t.Context(), "one"); err != nil || string(data) != another {
		t.Errorf("read %q, %v", data, err)
	}
	// A client that has not read the present state does not replace it.
	if err := s.open("cloud", named("one")).Write(t.Context(), "one", []byte(state1)); err == nil {
		t.Error("a state that nobody has seen was replaced by one of another lineage")
	}
}

func TestALockOfARunIsNotBroken(t *testing.T) {
	s := newSite(t)
	b := s.open("cloud", named("one"))
	if err := b.Create(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	w, err := s.Workspaces.Named(s.Admin, "acme", "one")
	if err != nil {
		t.Fatal(err)
	}
	run := s.NewRun(w, nil)
	s.Await(run.ID, "planned")
	_, err = b.Lock(t.Context(), "one", backendtest.Info("11", "OperationTypePlan"))
	if err == nil || !strings.Contains(fmt.Sprint(err), "locked") {
		t.Errorf("locked beside a run: %v", err)
	}
	if err := b.Unlock(t.Context(), "one", "acme/one"); err == nil || !strings.Contains(err.Error(), "Run "+run.ID) {
		t.Errorf("unlocked: %v", err)
	}
}

func TestALostLockIsNoticed(t *testing.T) {
	s := newSite(t)
	p := s.place(nil)
	p.LockCheck = time.Millisecond
	b, diags := p.Open(t.Context(), "cloud", named("one"))
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	defer backend.Close(b)
	lock, err := b.Lock(t.Context(), "one", backendtest.Info("11", "OperationTypeApply"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.Workspaces.Named(s.Admin, "acme", "one")
	if err == nil {
		_, err = s.Workspaces.ForceUnlock(s.Admin, w.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	<-lock.Lost
}

func TestWorkspacesForAnotherVersionAreNotChanged(t *testing.T) {
	s := newSite(t)
	for version, taken := range map[string]bool{"latest": true, "1.12.1": true, "~> 1.12": true, "1.9.8": false,
		"< 1.10": false} {
		name := strings.NewReplacer(".", "", " ", "", "<", "", "~>", "c").Replace("w" + version)
		b := s.open("cloud", named(name))
		if err := b.Create(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		w, err := b.(*remote.Store).Workspace(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = b.(*remote.Store).Client().ChangeWorkspace(t.Context(), w.ID,
			map[string]any{"terraform-version": version}); err != nil {
			t.Fatal(err)
		}
		b = s.open("cloud", named(name))
		_, err = b.Lock(t.Context(), name, backendtest.Info("11", "OperationTypePlan"))
		if taken != (err == nil) || err != nil && !strings.Contains(err.Error(), "-ignore-remote-version") {
			t.Errorf("%s: %v", version, err)
		}
		p := s.place(nil)
		p.AnyVersion = true
		if b, diags := p.Open(t.Context(), "cloud", named(name)); diags.HasErrors() {
			t.Error(diags.Err())
		} else if err := b.Unlock(t.Context(), name, "acme/"+name); (err == nil) != taken {
			t.Error(err)
		} else if err := b.Write(t.Context(), name, []byte(state1)); err != nil {
			t.Errorf("%s, whatever the version: %v", version, err)
		}
	}
}

func TestTheEnvironmentStandsInForArguments(t *testing.T) {
	s := newSite(t)
	env := map[string]string{"TF_CLOUD_HOSTNAME": "service.example", "TF_CLOUD_ORGANIZATION": "acme",
		"TF_CLOUD_PROJECT": "new", "TF_WORKSPACE": "one"}
	b, diags := s.place(env).Open(t.Context(), "cloud", cty.EmptyObjectVal)
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	if err := b.Create(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	w, err := s.Workspaces.Named(s.Admin, "acme", "one")
	if err != nil {
		t.Fatal(err)
	}
	if p, err := s.Projects.Find(s.Admin, w.Project); err != nil || p.Name != "new" {
		t.Errorf("the project is %+v, %v", p, err)
	}
}

func TestWrongBlocksAreTold(t *testing.T) {
	s := newSite(t)
	text := cty.StringVal
	for claim, c := range map[string]struct {
		kind   string
		config cty.Value
		env    map[string]string
		want   string
	}{
		"no host": {"cloud", cty.ObjectVal(map[string]cty.Value{"organization": text("acme")}), nil,
			"Hostname is required"},
		"no organization": {"remote", cty.ObjectVal(map[string]cty.Value{"hostname": text("service.example")}), nil,
			"Invalid or missing required argument"},
		"no workspaces": {"cloud", block(nil), nil, "Invalid workspaces configuration"},
		"two ways to name them": {"remote", block(map[string]cty.Value{"name": text("a"), "prefix": text("b")}), nil,
			"Invalid workspaces configuration"},
		"the environment selects another one": {"cloud", named("one"), map[string]string{"TF_WORKSPACE": "two"},
			"TF_WORKSPACE"},
		"an organization that is not there": {"cloud", cty.ObjectVal(map[string]cty.Value{
			"hostname": text("service.example"), "organization": text("nosuch"),
			"workspaces": cty.ObjectVal(map[string]cty.Value{"name": text("a")}),
		}), nil, `Failed to read organization "nosuch"`},
		"a host without the service": {"cloud", cty.ObjectVal(map[string]cty.Value{
			"hostname": text("other.example"), "organization": text("acme"),
			"workspaces": cty.ObjectVal(map[string]cty.Value{"name": text("a")}),
		}), nil, "The host has no such service"},
	} {
		_, diags := s.place(c.env).Open(t.Context(), c.kind, c.config)
		if !told(diags, c.want) {
			t.Errorf("%s: %v", claim, diags.Err())
		}
	}
}

func told(diags diag.List, want string) bool {
	for _, d := range diags {
		if d.Severity == diag.Error && strings.Contains(d.Summary+d.Detail, want) {
			return true
		}
	}
	return false
}
