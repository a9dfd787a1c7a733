package estate

import (
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/coordinator/layout"
	"github.com/millipede-iac/millipede/coordinator/migration"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/install/cliconfig"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/mem"
)

// stores has stores in memory, by their paths; one process at a time can open a store.
type stores struct {
	mu   sync.Mutex // guards the fields below
	all  map[string]*mem.Store
	held map[string]journal.LockInfo
}

func newStores() *stores {
	return &stores{all: map[string]*mem.Store{}, held: map[string]journal.LockInfo{}}
}

// homeOf returns the home of the state that an estate uses.
func homeOf(t *testing.T, e *Estate) layout.Home {
	t.Helper()
	at, diags := e.storeFor(StateOptions{}, nil)
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	return at.Home
}

// Open implements Stores.
func (s *stores) Open(path string, info journal.LockInfo, _ time.Duration, _ StoreOptions) (Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if holder, ok := s.held[path]; ok {
		return nil, &journal.Held{Holder: holder}
	}
	if s.all[path] == nil {
		s.all[path] = mem.New(mem.Options{Now: time.Now, NewID: rand.Text, EngineVersion: "1.12.6"})
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	s.held[path] = info
	return &stored{Store: s.all[path], of: s, path: path}, nil
}

// Copy implements Stores.
func (s *stores) Copy(path, to string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if holder, ok := s.held[path]; ok {
		return &journal.Held{Holder: holder}
	}
	if s.all[path] == nil {
		return fs.ErrNotExist
	}
	s.all[to] = s.all[path]
	return nil
}

// stored is an opened store. After Close others can open it.
type stored struct {
	*mem.Store
	of   *stores
	path string
}

// CopyTo implements layout.Source.
func (s *stored) CopyTo(context.Context, string) error { return nil }

// Split implements Store.
func (s *stored) Split(func(string) string) error { return nil }

// Close implements journal.Store.
func (s *stored) Close() error {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	delete(s.of.held, s.path)
	return nil
}

// testEstate returns the estate of a directory, which need not be the working directory.
func testEstate(t *testing.T, dir string) *Estate {
	t.Helper()
	return New(Options{
		Dir: dir, Temp: t.TempDir(), Version: "0", EngineVersion: "1.12.6", Platform: "linux_amd64",
		Environ: environ.Variables{"HOME=" + dir}, Who: func() string { return "somebody@somewhere" },
		Now: time.Now, NewID: rand.Text, Stores: newStores(), CLI: &cliconfig.Config{}, Memory: backend.NewMemory(),
	})
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, diags diag.List) {
	t.Helper()
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
}

// put opens the state for writing, and sets an output.
func put(ctx context.Context, e *Estate, value string) diag.List {
	at, diags := e.OpenChangeable(ctx, Finding{}, StateOptions{Lock: true}, "test")
	if diags.HasErrors() {
		return diags
	}
	diags = diags.Append(at.Commit(ctx,
		[]state.Change{state.SetOutput{Name: "x", Output: &state.Output{Value: cty.StringVal(value)}}}))
	return diags.Append(at.Close(ctx))
}

// get returns that output.
func get(ctx context.Context, e *Estate) (string, diag.List) {
	at, diags := e.OpenChangeable(ctx, Finding{}, StateOptions{}, "")
	if diags.HasErrors() {
		return "", diags
	}
	st, more := at.Load(ctx)
	diags = diags.Append(more, at.Close(ctx))
	if st == nil || st.Outputs["x"] == nil {
		return "", diags
	}
	return st.Outputs["x"].Value.AsString(), diags
}

func TestTwentyEstatesInTwentyDirectoriesDoNotAffectEachOther(t *testing.T) {
	var all sync.WaitGroup
	for i := range 20 {
		dir := t.TempDir()
		write(t, dir, "main.tf",
			fmt.Sprintf("terraform {\n  backend \"local\" {\n    path = \"of-%d.tfstate\"\n  }\n}\n", i))
		e := testEstate(t, dir)
		all.Go(func() {
			ctx, want := t.Context(), fmt.Sprintf("value %d", i)
			c, diags := e.Configuration(Variables{})
			root, more := c.LoadRoot(false)
			_, most := migration.Prepare(ctx, c.Storage(root, Variables{}), migration.Options{})
			diags = diags.Append(more, most, put(ctx, e, want))
			got, more := get(ctx, e)
			if diags = diags.Append(more); diags.HasErrors() || got != want {
				t.Errorf("the output in the state of %d is %q: %v", i, got, diags.Err())
			}
			text, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("of-%d.tfstate", i)))
			if err != nil || !strings.Contains(string(text), want) {
				t.Errorf("the snapshot of %d is %q, %v", i, text, err)
			}
		})
	}
	all.Wait()
}

func TestAStateThatAnotherHoldsNamesTheHolder(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	e := testEstate(t, dir)
	other := New(e.Options)
	at, diags := other.OpenChangeable(ctx, Finding{}, StateOptions{Lock: true}, "apply")
	must(t, diags)
	_, diags = e.OpenChangeable(ctx, Finding{}, StateOptions{Lock: true}, "apply")
	if held := HeldBy(diags); held == nil || held.Holder.Who != "somebody@somewhere" ||
		held.Holder.Operation != "apply" {
		t.Errorf("the state was opened twice: %v", diags.Err())
	}
	must(t, at.Close(ctx))
	must(t, put(ctx, e, "free again"))
}

func TestABackendThatIsNotPreparedIsRefused(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	e := testEstate(t, dir)
	must(t, put(ctx, e, "kept"))
	write(t, dir, "main.tf", "terraform {\n  backend \"local\" {\n    path = \"elsewhere.tfstate\"\n  }\n}\n")
	if diags := put(ctx, e, "lost"); !diags.HasErrors() ||
		!strings.HasPrefix(diags[0].Summary, "Backend initialization required") {
		t.Errorf("a backend was used without init: %v", diags.Err())
	}

	c, diags := e.Configuration(Variables{})
	must(t, diags)
	root, diags := c.LoadRoot(false)
	must(t, diags)
	var asked []string
	o := migration.Options{CanAsk: true, Confirm: func(question, _ string) (bool, diag.List) {
		asked = append(asked, question)
		return true, nil
	}}
	change, diags := migration.Prepare(ctx, c.Storage(root, Variables{}), o)
	must(t, diags)
	if !change.Changed || change.Was != "" || change.Now != "local" || len(asked) != 1 {
		t.Errorf("the change is %+v, and the questions were %q", change, asked)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "elsewhere.tfstate")); err != nil ||
		!strings.Contains(string(text), "kept") {
		t.Errorf("the state was not migrated: %q, %v", text, err)
	}
	if got, diags := get(ctx, e); got != "kept" || diags.HasErrors() {
		t.Errorf("the output in the state is %q: %v", got, diags.Err())
	}
	if change, diags := migration.Prepare(ctx, c.Storage(root, Variables{}), o); change.Changed || diags.HasErrors() {
		t.Errorf("init with an unchanged backend: %+v, %v", change, diags.Err())
	}
}

func TestAWorkspaceIsMadeSelectedAndDeleted(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	e := testEstate(t, dir)
	must(t, put(ctx, e, "of default"))
	w, diags := e.Workspaces(ctx, nil)
	must(t, diags)
	must(t, w.Create(ctx, "second", nil, StateOptions{Lock: true}))
	if e.Workspace() != "second" {
		t.Errorf("the selected workspace is %q", e.Workspace())
	}
	if got, diags := get(ctx, e); got != "" || diags.HasErrors() {
		t.Errorf("the new workspace has %q: %v", got, diags.Err())
	}
	if w, diags = e.Workspaces(ctx, nil); !slices.Equal(w.Names, []string{"default", "second"}) {
		t.Errorf("the workspaces are %q: %v", w.Names, diags.Err())
	}
	if err := e.SelectWorkspace("default"); err != nil {
		t.Fatal(err)
	}
	must(t, w.Delete(ctx, "second", false, StateOptions{Lock: true}))
	if w, diags = e.Workspaces(ctx, nil); !slices.Equal(w.Names, []string{"default"}) {
		t.Errorf("the workspaces are %q: %v", w.Names, diags.Err())
	}
	if got, _ := get(ctx, e); got != "of default" {
		t.Errorf("the other workspace has %q", got)
	}
}

func TestNamesStartInTheDirectoryOfTheEstate(t *testing.T) {
	dir := t.TempDir()
	e := testEstate(t, dir)
	write(t, dir, "millipede.hcl", "pool \"eu\" {\n  providers = [\"**\"]\n}\n")
	write(t, dir, "main.tf", "variable \"x\" {\n  default = 1\n}\n")
	if rules, diags := e.Rules(nil); rules == nil || diags.HasErrors() {
		t.Errorf("millipede.hcl is not found: %v", diags.Err())
	}
	c, diags := e.Configuration(Variables{})
	must(t, diags)
	if must(t, c.Load()); c.Tree.Root.Module.Variables["x"] == nil {
		t.Error("another configuration was loaded")
	}
	must(t, put(t.Context(), e, "here"))
	for _, name := range []string{".millipede", "terraform.tfstate"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{".millipede", ".terraform", "terraform.tfstate"} {
		if _, err := os.Stat(name); err == nil {
			t.Errorf("%s was created in the working directory of the process", name)
		}
	}
}

func TestASavedPlanThatDoesNotFitTheStateIsRefused(t *testing.T) {
	s := state.Empty()
	s.Lineage, s.Serial = "a", 3
	for want, p := range map[string]*plan.Plan{
		"":                             {BaseLineage: "a", BaseSerial: 3, Workspace: "default"},
		"Cannot apply incomplete plan": {BaseLineage: "a", BaseSerial: 3, Workspace: "default", Errored: true},
		"Saved plan does not match the given state": {BaseLineage: "b", BaseSerial: 3, Workspace: "default"},
		"Saved plan is for another workspace":       {BaseLineage: "a", BaseSerial: 3, Workspace: "other"},
	} {
		got := ""
		if diags := unfit(p, s, "default"); len(diags) > 0 {
			got = diags[0].Summary
		}
		if got != want {
			t.Errorf("%+v: %q, not %q", p, got, want)
		}
	}
}

func TestWorkspacesHaveNamesThatAreSafeInURLsAndPaths(t *testing.T) {
	for name, want := range map[string]bool{"": false, ".": false, "..": false, "a/b": false, "a b": false,
		"prod-1.eu_west": true} {
		if ValidWorkspace(name) != want {
			t.Errorf("%q may be a name: %v", name, !want)
		}
	}
}

// The state stayed open and locked until the process ended.
func TestAPanicWhileAnOperationIsOpenedLeavesTheStateToOthers(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	e := testEstate(t, dir)
	write(t, dir, "main.tf", "resource \"terraform_data\" \"a\" {}\n")
	e.Reattached = func() (map[addr.Provider]string, error) { panic("planted") }
	func() {
		defer func() {
			if got := recover(); got != "planted" {
				t.Errorf("the panic is %v", got)
			}
		}()
		_, diags := e.Begin(ctx, OperationOptions{Name: "plan", State: StateOptions{Lock: true}, LockAs: "plan",
			Watch: Watch{Sources: func(func() map[string]*hcl.File) {}, Note: func(string) {}}})
		t.Errorf("there was no panic: %v", diags)
	}()
	must(t, put(ctx, e, "free"))
}

// Names are relative to the directory of the estate, which is not the working directory of the process. Errors had the
// absolute paths that were opened, which the user had not written.
func TestErrorsAboutFilesHaveTheNamesThatPeopleHaveWritten(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	e := testEstate(t, dir)
	if err := os.Mkdir(filepath.Join(dir, "millipede.hcl"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, opening := e.OpenPlan(ctx, "nosuch", Variables{})
	_, _, reading := e.ReadFile(ctx, "nosuch", Variables{})
	_, rules := e.Rules(nil)
	_, flags := e.Configuration(Variables{List: []config.VariableFlag{{File: true, Text: "nosuch.tfvars"}}})
	for what, diags := range map[string]diag.List{"a plan": opening, "a file": reading, "rules": rules, "values": flags} {
		if text := fmt.Sprint(diags.Err()); !diags.HasErrors() || strings.Contains(text, dir) {
			t.Errorf("%s: %s", what, text)
		}
	}
}
