package issuer_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"go.uber.org/goleak"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/issuer"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/variables"
	"github.com/millipede-iac/millipede/service/work"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// begin returns a service at https://example.com, and a context in which that name leads to it.
func begin(t *testing.T, change ...func(*service.Options)) (*servicetest.Harness, context.Context) {
	t.Helper()
	h := servicetest.New(t, append(change, func(o *service.Options) { o.Host = "example.com" })...)
	server := httptest.NewTLSServer(issuer.Handler(h.Identity, slog.New(slog.DiscardHandler)))
	t.Cleanup(server.Close)
	c := server.Client()
	c.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", server.Listener.Addr().String())
	}
	return h, oidc.ClientContext(t.Context(), c)
}

// seen has the environment of a phase of a run.
type seen struct {
	environ map[string]string
	file    string
	phase   string
}

// watch makes the engine record the environments of the phases.
func watch(h *servicetest.Harness) chan seen {
	out := make(chan seen, 10)
	look := func(phase string) func(*work.Job) {
		return func(j *work.Job) {
			s := seen{environ: map[string]string{}, phase: phase}
			for _, v := range j.Environment {
				name, value, _ := strings.Cut(v, "=")
				s.environ[name] = value
			}
			text, _ := os.ReadFile(s.environ["TFC_WORKLOAD_IDENTITY_TOKEN_PATH"])
			s.file = string(text)
			out <- s
			_, _ = j.Log.Write([]byte("printed: " + s.environ["TFC_WORKLOAD_IDENTITY_TOKEN"] + "\n"))
		}
	}
	h.Engine.Mu.Lock()
	defer h.Engine.Mu.Unlock()
	h.Engine.PlanFunc = servicetest.PlanThen(look("plan"))
	h.Engine.ApplyFunc = func(_ context.Context, j *work.Job) (*work.ApplyResult, error) {
		look("apply")(j)
		return &work.ApplyResult{}, nil
	}
	return out
}

func set(t *testing.T, h *servicetest.Harness, w *service.WorkspaceView, name, value string) {
	t.Helper()
	if _, err := h.Variables.Put(h.Admin, w.ID, "", variables.Settings{Key: &name, Value: &value,
		Category: servicetest.Ptr(record.CategoryEnv)}); err != nil {
		t.Fatal(err)
	}
}

func TestOthersCanCheckWhichRunATokenIsOf(t *testing.T) {
	h, ctx := begin(t)
	w := h.NewWorkspace("one")
	set(t, h, w, "TFC_WORKLOAD_IDENTITY_AUDIENCE", "a.cloud")
	set(t, h, w, "TFC_WORKLOAD_IDENTITY_AUDIENCE_OTHER", "another.cloud")
	phases := watch(h)
	r := h.NewRun(w, func(r *record.Run) { r.AutoApply = true })
	h.Await(r.ID, record.Applied)
	provider, err := oidc.NewProvider(ctx, "https://example.com")
	if err != nil {
		t.Fatal(err)
	}
	for _, phase := range []string{"plan", "apply"} {
		s := <-phases
		if s.phase != phase || s.file == "" || s.file != s.environ["TFC_WORKLOAD_IDENTITY_TOKEN"] {
			t.Fatalf("%s: the file has %q", s.phase, s.file)
		}
		for tag, audience := range map[string]string{"": "a.cloud", "_OTHER": "another.cloud"} {
			text := s.environ["TFC_WORKLOAD_IDENTITY_TOKEN"+tag]
			token, err := provider.Verifier(&oidc.Config{ClientID: audience}).Verify(ctx, text)
			if err != nil {
				t.Fatalf("%s%s: %v", phase, tag, err)
			}
			const full = "organization:acme:project:Default Project:workspace:one"
			if token.Subject != full+":run_phase:"+phase || token.Expiry.Sub(token.IssuedAt) > 3*time.Hour {
				t.Errorf("%+v", token)
			}
			claims := map[string]any{}
			if err := token.Claims(&claims); err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]string{
				"terraform_organization_name": "acme", "terraform_workspace_id": w.ID, "terraform_run_id": r.ID,
				"terraform_run_phase": phase, "terraform_full_workspace": full, "terraform_project_id": w.Project,
			} {
				if claims[name] != want {
					t.Errorf("%s: %v", name, claims[name])
				}
			}
			if _, err := provider.Verifier(&oidc.Config{ClientID: "somebody else"}).Verify(ctx, text); err == nil {
				t.Error("another audience accepts the token")
			}
		}
		if _, err := os.Stat(s.environ["TFC_WORKLOAD_IDENTITY_TOKEN_PATH"]); !os.IsNotExist(err) {
			t.Errorf("the file of the token still exists: %v", err)
		}
	}
	v := h.Await(r.ID, record.Applied)
	log, err := h.Logs.Read(t.Context(), h.Logs.Address(&v.Plan), 0, 10_000)
	if err != nil || !strings.Contains(string(log), "printed: (sensitive value)") {
		t.Errorf("%v: %s", err, log)
	}
}

func TestARunWithoutAnAudienceHasNoToken(t *testing.T) {
	h, _ := begin(t)
	phases := watch(h)
	r := h.NewRun(h.NewWorkspace("one"), nil)
	h.Await(r.ID, record.Planned)
	if s := <-phases; s.environ["TFC_WORKLOAD_IDENTITY_TOKEN"] != "" {
		t.Errorf("%v", s.environ)
	}
}

// A token is valid for two hours, and the file was not updated in a phase that lasts longer.
func TestTheFileGetsANewTokenWhileAPhaseLasts(t *testing.T) {
	h, ctx := begin(t, func(o *service.Options) { o.RenewIdentity = 5 * time.Millisecond })
	w := h.NewWorkspace("one")
	set(t, h, w, "TFC_WORKLOAD_IDENTITY_AUDIENCE", "a.cloud")
	var first, second string
	h.Engine.PlanFunc = servicetest.PlanThen(func(j *work.Job) {
		var file string
		for _, v := range j.Environment {
			if name, value, _ := strings.Cut(v, "="); name == "TFC_WORKLOAD_IDENTITY_TOKEN_PATH" {
				file = value
			} else if name == "TFC_WORKLOAD_IDENTITY_TOKEN" {
				first = value
			}
		}
		for second = first; second == first && t.Context().Err() == nil; { // the file is never absent or empty
			text, err := os.ReadFile(file)
			if err != nil || len(text) == 0 {
				t.Errorf("%q, %v", text, err)
				return
			}
			second = string(text)
		}
		_, _ = j.Log.Write([]byte("printed: " + second + "\n"))
	})
	r := h.NewRun(w, func(r *record.Run) { r.PlanOnly = true })
	v := h.Await(r.ID, record.PlannedAndFinished)
	provider, err := oidc.NewProvider(ctx, "https://example.com")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{first, second} {
		if _, err := provider.Verifier(&oidc.Config{ClientID: "a.cloud"}).Verify(ctx, text); err != nil {
			t.Error(err)
		}
	}
	log, err := h.Logs.Read(t.Context(), h.Logs.Address(&v.Plan), 0, 10_000)
	if err != nil || !strings.Contains(string(log), "printed: (sensitive value)") {
		t.Errorf("%v: %s", err, log)
	}
}

// If a service does not know its own address, it cannot name the issuer of tokens: the run fails with an advice.
func TestATokenNeedsAnIssuer(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	set(t, h, w, "TFC_WORKLOAD_IDENTITY_AUDIENCE", "a.cloud")
	r := h.NewRun(w, nil)
	v := h.Await(r.ID, record.Errored)
	log, err := h.Logs.Read(t.Context(), h.Logs.Address(&v.Plan), 0, 10_000)
	if err != nil || !strings.Contains(string(log), "-address") {
		t.Errorf("%v: %s", err, log)
	}
}

func TestKeysTakeTurnsAndAreKnownBefore(t *testing.T) {
	h, ctx := begin(t)
	w := h.NewWorkspace("one")
	set(t, h, w, "TFC_WORKLOAD_IDENTITY_AUDIENCE", "a.cloud")
	phases := watch(h)
	names := func() (out []string) {
		keys, err := h.Identity.SigningKeys()
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			out = append(out, k.ID)
		}
		return out
	}
	first := names()
	h.Later(31 * 24 * time.Hour)
	second := names()
	known := 0
	for _, k := range second {
		if slices.Contains(first, k) {
			known++
		}
	}
	if known != 1 || len(second) != 2 {
		t.Errorf("after a turn: %v, before %v", second, first)
	}
	r := h.NewRun(w, nil)
	h.Await(r.ID, record.Planned)
	provider, err := oidc.NewProvider(ctx, "https://example.com")
	if err != nil {
		t.Fatal(err)
	}
	verifier := provider.Verifier(&oidc.Config{ClientID: "a.cloud",
		Now: func() time.Time { return time.Now().Add(31 * 24 * time.Hour) }})
	if _, err := verifier.Verify(ctx, (<-phases).environ["TFC_WORKLOAD_IDENTITY_TOKEN"]); err != nil {
		t.Error(err)
	}
	h.End()
	h.Start()
	if again := names(); !slices.Equal(slices.Sorted(slices.Values(second)), slices.Sorted(slices.Values(again))) {
		t.Fatalf("before a start %v, after it %v", second, again)
	}
}
