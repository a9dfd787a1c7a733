// Package servicetest provides a service for tests, with an engine that the test controls.
package servicetest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/work"
	"github.com/millipede-iac/millipede/state/seal"
)

// Engine is an engine that the test controls. Its plans have changes.
type Engine struct {
	Mu        sync.Mutex
	PlanFunc  func(ctx context.Context, j *work.Job) (*work.PlanResult, error)
	ApplyFunc func(ctx context.Context, j *work.Job) (*work.ApplyResult, error)
	// WatchFunc returns the drifted objects.
	ChangeFunc  func(context.Context, *work.Job, work.ObjectChange) error
	WatchFunc   func(ctx context.Context, j *work.Job, addresses []string, reads int) ([]work.Found, error)
	ResolveFunc func(ctx context.Context, j *work.Job, r work.Resolution, who string) error
	Planned     []string // runs, in the order in which they began
	Applied     []string
}

// Plan calls PlanFunc; without one, the plan has a change.
func (e *Engine) Plan(ctx context.Context, j *work.Job) (*work.PlanResult, error) {
	e.Mu.Lock()
	e.Planned = append(e.Planned, j.Run.ID)
	plan := e.PlanFunc
	e.Mu.Unlock()
	fmt.Fprintln(j.Log, "planning")
	if plan != nil {
		return plan(ctx, j)
	}
	return &work.PlanResult{HasChanges: true, Add: 1, Plan: []byte("plan of " + j.Run.ID),
		Redacted: []byte("{}")}, nil
}

// Apply calls ApplyFunc; without one, it writes a state with an output.
func (e *Engine) Apply(ctx context.Context, j *work.Job) (*work.ApplyResult, error) {
	e.Mu.Lock()
	e.Applied = append(e.Applied, j.Run.ID)
	apply := e.ApplyFunc
	e.Mu.Unlock()
	if string(j.Plan) != "plan of "+j.Run.ID {
		return nil, fmt.Errorf("it got another plan: %q", j.Plan)
	}
	fmt.Fprintln(j.Log, "applying")
	if apply != nil {
		return apply(ctx, j)
	}
	state := fmt.Sprintf(`{"version":4,"serial":%d,"lineage":"l","outputs":{"o":{"value":"v","type":"string"}},"resources":[]}`, j.Run.Number)
	return &work.ApplyResult{Add: 1}, j.State.Write(ctx, []byte(state))
}

// PlanJSON returns a document that names the plan.
func (e *Engine) PlanJSON(_ context.Context, _, _ string, plan, shape []byte) ([]byte, error) {
	return json.Marshal(map[string]string{"plan": string(plan), "shape": string(shape)})
}

// Resolve calls ResolveFunc for the outcome of an operation; without one, nothing is in doubt any more.
func (e *Engine) Resolve(ctx context.Context, j *work.Job, r work.Resolution, who string) error {
	e.Mu.Lock()
	resolve := e.ResolveFunc
	e.Mu.Unlock()
	if resolve != nil {
		return resolve(ctx, j, r, who)
	}
	j.Doubtful(nil)
	return nil
}

// ChangeObjects calls ChangeFunc; without one, it does nothing.
func (e *Engine) ChangeObjects(ctx context.Context, j *work.Job, c work.ObjectChange) error {
	e.Mu.Lock()
	change := e.ChangeFunc
	e.Mu.Unlock()
	if change != nil {
		return change(ctx, j, c)
	}
	return nil
}

// Watch calls WatchFunc; without one, nothing has drifted.
func (e *Engine) Watch(ctx context.Context, j *work.Job, addresses []string, reads int) ([]work.Found, error) {
	e.Mu.Lock()
	watch := e.WatchFunc
	e.Mu.Unlock()
	if watch != nil {
		return watch(ctx, j, addresses, reads)
	}
	return nil, nil
}

// Capacity executes nothing: it returns the workers and limits that the test sets.
type Capacity struct {
	Mu  sync.Mutex
	All []service.Worker
	Has []service.Limit
	Far []service.Region
	// Drained are the pools of the last Drain.
	Drained []string
}

// Drain implements service.Capacity.
func (f *Capacity) Drain(_ context.Context, pools []string) error {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.Drained = pools
	return nil
}

// Workers implements service.Capacity.
func (f *Capacity) Workers(context.Context) ([]service.Worker, error) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	return slices.Clone(f.All), nil
}

// Limits implements service.Capacity.
func (f *Capacity) Limits(context.Context) ([]service.Limit, error) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	out := slices.Clone(f.Has)
	for i := range out { // who reads them adds what the permits belong to
		out[i].Held, out[i].Waiting = slices.Clone(out[i].Held), slices.Clone(out[i].Waiting)
	}
	return out, nil
}

// Regions implements service.Capacity.
func (f *Capacity) Regions(context.Context) ([]service.Region, error) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	return slices.Clone(f.Far), nil
}

// Resize implements service.Capacity.
func (f *Capacity) Resize(_ context.Context, limit string, slots int) error {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	for i := range f.Has {
		if f.Has[i].Name == limit {
			f.Has[i].Slots = slots
		}
	}
	return nil
}

// Harness is a service that a test can start again.
type Harness struct {
	t         *testing.T
	dir       string
	key       *seal.Key
	Engine    *Engine
	Capacity  Capacity
	Retention record.Retention // from the next Start on
	*service.Service
	store  *store.Store
	End    func() // ends the service, as its process would; Start starts it again
	change []func(*service.Options)
	Admin  *rights.Actor
	Token  string
	ahead  atomic.Int64 // of the clock, in nanoseconds
}

func (h *Harness) clock() time.Time { return time.Now().Add(time.Duration(h.ahead.Load())) }

// Dir is the directory of the service.
func (h *Harness) Dir() string { return h.dir }

// Later advances the service's clock.
func (h *Harness) Later(d time.Duration) { h.ahead.Add(int64(d)) }

// New returns a service with an organization, acme, and its administrator. It ends with the test. change sets its
// options.
func New(t *testing.T, change ...func(*service.Options)) *Harness {
	t.Helper()
	key, err := seal.NewKey(seal.NewSecret())
	if err != nil {
		t.Fatal(err)
	}
	h := &Harness{t: t, dir: t.TempDir(), key: key, Engine: &Engine{}, change: change}
	h.Start()
	t.Cleanup(func() { h.End() })
	if h.Token, err = h.Users.Bootstrap("root", "acme"); err != nil || h.Token == "" {
		t.Fatal(h.Token, err)
	}
	h.Admin = h.Actor(h.Token)
	return h
}

// Start opens the service with the data on the disk.
func (h *Harness) Start() {
	h.t.Helper()
	st, err := store.Open(h.dir, h.key)
	if err != nil {
		h.t.Fatal(err)
	}
	options := service.Options{
		Store: st, Engine: h.Engine, Now: h.clock, Version: "0.1.0", Plans: 2, Applies: 10, MaxConfiguration: 1 << 20,
		MaxState: 256 << 20, Capacity: &h.Capacity, Retention: h.Retention,
		ForceCancelAfter: 1,
	}
	for _, change := range h.change {
		change(&options)
	}
	s, err := service.New(options)
	if err != nil {
		h.t.Fatal(err)
	}
	h.Service, h.store = s, st
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	h.End = func() {
		cancel()
		if err := errors.Join(<-done, st.Close()); err != nil {
			h.t.Error(err)
		}
	}
}

// Die ends the service as if its process had died: of its end nothing is recorded. Start starts it again.
func (h *Harness) Die() {
	h.t.Helper()
	name := filepath.Join(h.dir, "service.db")
	before, err := os.ReadFile(name)
	if err != nil {
		h.t.Fatal(err)
	}
	h.End()
	if err := os.WriteFile(name, before, 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// StateText returns the bytes of a version of a state.
func (h *Harness) StateText(a *rights.Actor, id string) ([]byte, *record.StateVersion, error) {
	r, v, err := h.States.Download(a, id)
	if err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(r)
	return text, v, errors.Join(err, r.Close())
}

// Restore ends the service, and starts it with the data of a backup.
func (h *Harness) Restore(backup io.Reader) {
	h.t.Helper()
	h.End()
	dir := filepath.Join(h.t.TempDir(), "restored")
	if err := store.Restore(backup, dir, h.key); err != nil {
		h.t.Fatal(err)
	}
	h.dir = dir
	h.Start()
}

// Actor returns the actor of a token.
func (h *Harness) Actor(token string) *rights.Actor {
	h.t.Helper()
	a, err := h.Tokens.Authenticate(token, "test")
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

// Member creates a user with a token, in a team with a role on a workspace or a project, and returns the user.
func (h *Harness) Member(name, role, on string) *rights.Actor {
	h.t.Helper()
	u, err := h.Users.Create(h.Admin, name, "", false)
	if err != nil {
		h.t.Fatal(err)
	}
	team, err := h.Teams.Create(h.Admin, record.Team{Organization: "acme", Name: "team-" + name})
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.Teams.ChangeMembers(h.Admin, team.ID, []string{name}, false); err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.TeamAccess.Create(h.Admin, record.Access{Team: team.ID, On: on, Role: role}); err != nil {
		h.t.Fatal(err)
	}
	token, _, err := h.Tokens.Create(h.Admin, record.TokenUser, u.ID, "", time.Time{})
	if err != nil {
		h.t.Fatal(err)
	}
	return h.Actor(token)
}

// Ptr returns a pointer to a value.
func Ptr[T any](v T) *T { return &v }

// NewWorkspace creates a workspace of acme.
func (h *Harness) NewWorkspace(name string) *service.WorkspaceView {
	h.t.Helper()
	w, err := h.Workspaces.Create(h.Admin, "acme", service.WorkspaceSettings{Name: &name})
	if err != nil {
		h.t.Fatal(err)
	}
	return w
}

// Archive returns the archive of a configuration.
func Archive(t *testing.T, files map[string]string) io.Reader {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return &b
}

// NewConfiguration uploads a configuration, and returns its ID.
func (h *Harness) NewConfiguration(w *service.WorkspaceView, speculative bool) string {
	h.t.Helper()
	c, err := h.Configurations.Create(h.Admin, w.ID, record.Configuration{Speculative: speculative})
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.Configurations.Upload(c.Secret, Archive(h.t, map[string]string{"main.tf": ""}), -1); err != nil {
		h.t.Fatal(err)
	}
	return c.ID
}

// NewRun queues a run; change sets its options.
func (h *Harness) NewRun(w *service.WorkspaceView, change func(*record.Run)) *record.Run {
	h.t.Helper()
	h.Engine.Mu.Lock()
	planned := len(h.Engine.Planned)
	h.Engine.Mu.Unlock()
	r := record.Run{Refresh: true, Source: record.SourceAPI, Message: fmt.Sprint(planned)}
	if change != nil {
		change(&r)
	}
	if r.Configuration == "" {
		r.Configuration = h.NewConfiguration(w, false)
	}
	out, err := h.Runs.Create(h.Admin, w.ID, r)
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

// Await waits until a run has a status.
func (h *Harness) Await(id string, s record.RunStatus) *service.RunView {
	h.t.Helper()
	changes := uint64(0)
	for {
		v, err := h.Runs.Find(h.Admin, id)
		if err != nil {
			h.t.Fatal(err)
		}
		if v.Status == s {
			return v
		}
		if v.Status.Final() || h.t.Context().Err() != nil {
			log, _ := h.Logs.Read(context.Background(), h.Logs.Address(&v.Plan), 0, 10_000)
			h.t.Fatalf("the run is %s, not %s; its log: %q", v.Status, s, log)
		}
		changes = h.Runs.Changed(h.t.Context(), changes)
	}
}

// PlanThen plans as usual, after it has called look with the job.
func PlanThen(look func(*work.Job)) func(context.Context, *work.Job) (*work.PlanResult, error) {
	return func(_ context.Context, j *work.Job) (*work.PlanResult, error) {
		look(j)
		return &work.PlanResult{HasChanges: true, Plan: []byte("plan of " + j.Run.ID),
			Redacted: []byte("{}")}, nil
	}
}

// PlanNothing returns a plan without changes.
func PlanNothing(_ context.Context, j *work.Job) (*work.PlanResult, error) {
	return &work.PlanResult{Plan: []byte("plan of " + j.Run.ID), Redacted: []byte("{}")}, nil
}

// PlanUntilLeft plans until it is left; begun is closed when it has begun.
func PlanUntilLeft(begun chan<- struct{}) func(context.Context, *work.Job) (*work.PlanResult, error) {
	return func(ctx context.Context, _ *work.Job) (*work.PlanResult, error) {
		close(begun)
		<-ctx.Done()
		return nil, work.ErrStopped
	}
}
