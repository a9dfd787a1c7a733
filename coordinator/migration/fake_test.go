package migration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/tfstate"
)

// place is a backend in memory. It notes locks and writes.
type place struct {
	*directory
	kind string
	// all are the snapshots by workspace; nil for a workspace without one. none: it has no workspaces. loses: it keeps
	// nothing of what is written.
	all         map[string][]byte
	none, loses bool
	// tags, name, cloud are those of a service.
	tags  []string
	name  string
	cloud bool
}

func (p *place) Describe(workspace string) backend.Description {
	return backend.Description{Where: p.kind + "/" + workspace, Form: tfstate.Compact}
}

func (p *place) Read(_ context.Context, workspace string) ([]byte, error) {
	return p.all[workspace], nil
}

func (p *place) Write(_ context.Context, workspace string, data []byte) error {
	if p.fails != nil && p.fails(p, workspace) {
		return errors.New("the network is down")
	}
	serial := "nothing"
	if st, _ := tfstate.Parse(data); st != nil {
		serial = fmt.Sprintf("serial %d", st.Serial)
	}
	p.note("write %s/%s %s", p.kind, workspace, serial)
	if !p.loses {
		p.all[workspace] = data
	}
	return nil
}

func (p *place) Lock(_ context.Context, workspace string, _ journal.LockInfo) (backend.Lock, error) {
	p.note("lock %s/%s", p.kind, workspace)
	return backend.Lock{ID: "id"}, nil
}

func (p *place) Unlock(_ context.Context, workspace, _ string) error {
	p.note("unlock %s/%s", p.kind, workspace)
	return nil
}

func (p *place) Workspaces(context.Context) ([]string, error) {
	if p.none {
		return nil, backend.ErrNoWorkspaces
	}
	var names []string
	for name := range p.all {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

func (p *place) Create(_ context.Context, workspace string) error {
	if p.none {
		return backend.ErrNoWorkspaces
	}
	if _, ok := p.all[workspace]; !ok {
		p.note("create %s/%s", p.kind, workspace)
		p.all[workspace] = nil
	}
	return nil
}

func (p *place) Delete(context.Context, string) error { return errors.ErrUnsupported }

// service is a place that is a service.
type service struct{ *place }

func (s service) Single() string       { return s.name }
func (s service) Integrated() bool     { return s.cloud }
func (s service) Tags() []string       { return s.tags }
func (s service) Organization() string { return "acme" }
func (s service) Close() error         { return nil }
func (s service) Ensure(ctx context.Context, workspace, _ string) error {
	return s.Create(ctx, workspace)
}

// directory implements Directory, Selecting and Taking in memory.
type directory struct {
	t        *testing.T
	selected string
	fixed    bool
	recorded Record
	wanted   Record
	places   map[string]backend.Backend // by kind
	versions map[string][]*state.State  // by workspace, newest first
	current  *state.State               // replaces the snapshots in stores
	runs     []string                   // that have not ended
	cutOff   diag.List
	listed   Listed
	// planned returns the plan for a workspace under a name; nil for plans without changes.
	planned func(where, as string) *plan.Plan
	// fails reports whether a write fails.
	fails func(p *place, workspace string) bool
	log   []string
}

func newDirectory(t *testing.T) *directory {
	d := &directory{t: t, selected: journal.DefaultWorkspace, places: map[string]backend.Backend{}}
	d.add("local")
	return d
}

// add adds a backend with the given states.
func (d *directory) add(kind string, workspaces ...string) *place {
	p := &place{directory: d, kind: kind, all: map[string][]byte{journal.DefaultWorkspace: nil}}
	for _, name := range workspaces {
		d.set(p, name, 1)
	}
	d.places[kind] = p
	return p
}

// set stores a state whose resource is named after the workspace.
func (d *directory) set(p *place, workspace string, serial uint64) {
	p.all[workspace] = d.encode(stateOf(workspace, serial))
}

func (d *directory) encode(st *state.State) []byte {
	var text bytes.Buffer
	if err := tfstate.Write(&text, st, "1.10.0", tfstate.Compact); err != nil {
		d.t.Fatal(err)
	}
	return text.Bytes()
}

// stateOf returns a state of a lineage with one object, whose attribute is the serial.
func stateOf(lineage string, serial uint64) *state.State {
	st := state.Empty()
	st.Lineage, st.Serial = lineage, serial
	at, _ := addr.ParseInstance("terraform_data.a")
	st.Apply(state.SetObject{Addr: at, Provider: addr.ProviderConfig{Provider: addr.DefaultProvider("test")}.
		Instance(addr.RootInstance, addr.NoKey),
		Object: &state.Object{Status: state.Ready, Attrs: fmt.Appendf(nil, `{"n":%d}`, serial)}})
	return st
}

func (d *directory) note(format string, args ...any) {
	d.log = append(d.log, fmt.Sprintf(format, args...))
}

// has checks what was done, in this order.
func (d *directory) has(want ...string) {
	d.t.Helper()
	if !slices.Equal(d.log, want) {
		d.t.Errorf("done: %s\nwant: %s", strings.Join(d.log, "; "), strings.Join(want, "; "))
	}
}

// options answer all questions with these answers, and fail the test if there are more.
func (d *directory) options(answers ...bool) Options {
	return Options{
		Lock: true, CanAsk: len(answers) > 0, Moving: func() { d.note("moving") },
		Confirm: func(question, what string) (bool, diag.List) {
			d.note("ask %s", question)
			if what == "" || len(answers) == 0 {
				return false, diag.Errors("no answer", what, nil)
			}
			yes := answers[0]
			answers = answers[1:]
			return yes, nil
		},
		Name: func(question, _ string) (string, diag.List) {
			d.note("ask %s", question)
			return "named", nil
		},
		Choose: func(missing string, names []string) (string, diag.List) {
			d.note("choose in place of %s: %s", missing, strings.Join(names, " "))
			return names[len(names)-1], nil
		},
	}
}

func (d *directory) Selected() string { return d.selected }
func (d *directory) Fixed() bool      { return d.fixed }
func (d *directory) Select(workspace string) diag.List {
	d.note("select %s", workspace)
	d.selected = workspace
	return nil
}
func (d *directory) Stored(context.Context, Record) ([]string, error) { return nil, nil }

func (d *directory) Snapshot(ctx context.Context, b backend.Backend, workspace string) (*state.State, diag.List) {
	data, err := b.Read(ctx, workspace)
	if err != nil || len(data) == 0 {
		return nil, diag.List{}.Append(err)
	}
	return tfstate.Parse(data)
}

func (d *directory) Source(_ context.Context, at Side, workspace string, _ time.Duration) (Store, diag.List) {
	return &store{d, at, workspace}, nil
}

func (d *directory) Target(_ context.Context, at Side, workspace, _ string, _ time.Duration) (Store, diag.List) {
	return &store{d, at, workspace}, nil
}

func (d *directory) Recorded() (Record, diag.List) { return d.recorded, nil }
func (d *directory) Record(r Record) error {
	d.note("record %s", r.Kind())
	d.recorded = r
	return nil
}
func (d *directory) Wanted([]string) (Record, diag.List) { return d.wanted, nil }
func (d *directory) Open(_ context.Context, r Record, _ bool) (backend.Backend, diag.List) {
	return d.places[r.Kind()], nil
}
func (d *directory) Close(backend.Backend) diag.List           { return nil }
func (d *directory) Claim(context.Context, Record) diag.List   { return nil }
func (d *directory) Left(context.Context) diag.List            { return nil }
func (d *directory) List(context.Context) (Listed, diag.List)  { return d.listed, nil }
func (d *directory) Encrypted(s TakingService) backend.Backend { return s }
func (d *directory) Present(context.Context) (Side, bool, string, diag.List) {
	return Side{d.recorded, d.places[d.recorded.Kind()]}, true, "recorded", nil
}
func (d *directory) Unfinished(context.Context, Side, string) ([]string, diag.List) {
	return d.runs, nil
}
func (d *directory) OpenService(context.Context, cty.Value) (TakingService, diag.List) {
	return d.places["service"].(service), nil
}

func (d *directory) Plan(_ context.Context, b backend.Backend, workspace, as string) (*plan.Plan, diag.List) {
	where := b.Describe(workspace).Where
	d.note("plan %s as %s", where, as)
	if d.planned != nil {
		return d.planned(where, as), nil
	}
	return &plan.Plan{}, nil
}

func (d *directory) Write(ctx context.Context, b backend.Backend, workspace string, st *state.State) error {
	return b.Write(ctx, workspace, d.encode(st))
}

// store is the store of a workspace: the snapshot, and the versions of the directory.
type store struct {
	d         *directory
	at        Side
	workspace string
}

func (s *store) Current(ctx context.Context) (*state.State, diag.List) {
	if s.d.current != nil {
		return s.d.current, nil
	}
	st, diags := s.d.Snapshot(ctx, s.at.Backend, s.workspace)
	if st == nil {
		st = state.Empty()
	}
	return st, diags
}
func (s *store) CutOff(context.Context) diag.List { return s.d.cutOff }
func (s *store) Locked(ctx context.Context, b backend.Backend, _ time.Duration, fn func() diag.List) diag.List {
	if _, err := b.Lock(ctx, s.workspace, journal.LockInfo{}); err != nil {
		s.d.t.Fatal(err)
	}
	diags := fn()
	return diags.Append(b.Unlock(ctx, s.workspace, "id"))
}
func (s *store) Replace(ctx context.Context, st *state.State, _ string) diag.List {
	return diag.List(nil).Append(s.d.Write(ctx, s.at.Backend, s.workspace, st))
}
func (s *store) Empty(ctx context.Context, _ string) error {
	return s.at.Backend.Write(ctx, s.workspace, nil)
}
func (s *store) Versions() journal.Versions { return versions{s.d, nil} }
func (s *store) Close() diag.List           { return nil }

// versions are those of a directory.
type versions struct {
	d *directory
	unused
}

// unused has the methods of journal.Versions that migrations do not call.
type unused interface {
	LoadExactly(ctx context.Context, workspace string, v journal.VersionInfo) (*state.State, error)
	Since(ctx context.Context, workspace, lineage string, serial uint64) ([]journal.Difference, error)
}

func (v versions) Versions(_ context.Context, workspace string) (out []journal.VersionInfo, _ error) {
	for _, st := range v.d.versions[workspace] {
		out = append(out, journal.VersionInfo{Lineage: st.Lineage, Serial: st.Serial})
	}
	return out, nil
}

func (v versions) LoadVersion(_ context.Context, workspace string, serial uint64) (*state.State, error) {
	for _, st := range v.d.versions[workspace] {
		if st.Serial == serial && !st.IsEmpty() {
			return st, nil
		}
	}
	return nil, journal.ErrVersion
}

// fails checks that the first error begins with want; empty for none.
func fails(t *testing.T, diags diag.List, want string) {
	t.Helper()
	for _, d := range diags {
		if d.Severity == diag.Error {
			if want == "" || !strings.HasPrefix(d.Summary, want) {
				t.Errorf("%s: %s, want %q", d.Summary, d.Detail, want)
			}
			return
		}
	}
	if want != "" {
		t.Errorf("no error %q", want)
	}
}
