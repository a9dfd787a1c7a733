package estate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/remote"
	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/layout"
	"github.com/millipede-iac/millipede/coordinator/migration"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/tfstate"
	"github.com/millipede-iac/millipede/wire"
)

// Storage has the states of an estate for package migration: it implements migration.Directory, Selecting and Taking.
// The encryption must be set up before states are read, except for Present.
type Storage struct {
	estate *Estate
	config *Configuration
	root   *config.Node
	vars   Variables
}

// Storage returns the states of the directory. root is the loaded root module; the variables are for plans.
func (c *Configuration) Storage(root *config.Node, vars Variables) *Storage {
	return &Storage{c.estate, c, root, vars}
}

// Selected returns the selected workspace.
func (s *Storage) Selected() string { return s.estate.Workspace() }

// Select selects a workspace.
func (s *Storage) Select(workspace string) diag.List {
	if err := s.estate.SelectWorkspace(workspace); err != nil {
		return diag.Errors("Failed to select the workspace", err.Error()+".", nil)
	}
	return nil
}

// Fixed reports whether the environment selects the workspace.
func (s *Storage) Fixed() bool { return s.estate.Environ.Get("TF_WORKSPACE") != "" }

// Stored lists the workspaces of a backend that have a store here, and the default one.
func (s *Storage) Stored(ctx context.Context, r migration.Record) ([]string, error) {
	return s.estate.ownWorkspaces(ctx, r)
}

// Source opens the store of a workspace whose state is copied: a copy if there is no store yet, so that none is
// created.
func (s *Storage) Source(ctx context.Context, at migration.Side, workspace string, timeout time.Duration) (
	migration.Store, diag.List) {
	where, diags := s.estate.storeOf(at.Record, workspace, at.Backend)
	if diags.HasErrors() {
		return nil, diags
	}
	as, d := writes, s.estate.Directory()
	_, former := d.Former()
	if _, older := d.Unclaimed(where.location); !older && !former && !exists(where.Store()) {
		as = reads
	}
	return storeFrom(s.estate.openLocated(ctx, where, workspace, at.Backend, "init", as, timeout))
}

// Target opens the store of a workspace, which need not exist, for changes.
func (s *Storage) Target(ctx context.Context, at migration.Side, workspace, operation string, timeout time.Duration) (
	migration.Store, diag.List) {
	return storeFrom(s.estate.openWorkspace(ctx, workspace, at.Record, at.Backend, operation, timeout))
}

// Snapshot reads a state from a backend; nil if there is none.
func (s *Storage) Snapshot(ctx context.Context, b backend.Backend, workspace string) (*state.State, diag.List) {
	return s.estate.readSnapshot(ctx, b, workspace, false)
}

// Recorded returns the backend that init has recorded.
func (s *Storage) Recorded() (migration.Record, diag.List) { return s.estate.readBackendRecord() }

// Record records a backend.
func (s *Storage) Record(r migration.Record) error { return s.estate.writeBackendRecord(r) }

// Claim gives the stores of earlier versions to the backend that was used until now.
func (s *Storage) Claim(ctx context.Context, was migration.Record) diag.List {
	return s.estate.claimFormer(ctx, was)
}

// Left returns warnings about states of other backends.
func (s *Storage) Left(ctx context.Context) diag.List { return s.estate.Left(ctx) }

// Wanted returns the record of the backend that the configuration requires, with the arguments of -backend-config.
func (s *Storage) Wanted(arguments []string) (migration.Record, diag.List) {
	block := backendBlock(s.root)
	if block == nil {
		var diags diag.List
		if len(arguments) > 0 {
			diags = diags.Append(diag.New(diag.Warning, "Missing backend configuration",
				"The option -backend-config adds to the arguments of a backend block, and the configuration has "+
					"none, so it does nothing.", nil))
		}
		return migration.Record{}, diags
	}
	others, diags := s.arguments(arguments)
	if diags.HasErrors() {
		return migration.Record{}, diags
	}
	own, more := backendConfig(s.root, block)
	if diags = diags.Append(more); diags.HasErrors() {
		return migration.Record{}, diags
	}
	record, more := describeBackend(block, own, others)
	return record, diags.Append(more)
}

// arguments returns the arguments of -backend-config; later ones override earlier ones.
func (s *Storage) arguments(given []string) (map[string]cty.Value, diag.List) {
	out := map[string]cty.Value{}
	var diags diag.List
	if slices.Equal(given, []string{""}) {
		return out, nil // "-backend-config=" removes the arguments of earlier commands
	}
	for _, text := range given {
		if name, value, ok := strings.Cut(text, "="); ok {
			out[strings.TrimSpace(name)] = cty.StringVal(value)
			continue
		}
		if _, err := os.Stat(s.estate.path(text)); errors.Is(err, fs.ErrNotExist) {
			diags = diags.Append(diag.New(diag.Error, "Failed to read file", fmt.Sprintf("The file %q of "+
				"-backend-config does not exist.", text), nil))
			continue
		}
		body, more := s.config.Loader.ParseFile(text)
		diags = diags.Append(more)
		attrs, problems := body.JustAttributes()
		diags = diags.Append(problems)
		for name, attr := range attrs {
			v, problems := attr.Expr.Value(nil)
			diags = diags.Append(problems)
			if !problems.HasErrors() {
				out[name] = v
			}
		}
	}
	return out, diags
}

// Open opens a recorded backend. Problems with the arguments of the wanted one refer to their lines.
func (s *Storage) Open(ctx context.Context, r migration.Record, wanted bool) (backend.Backend, diag.List) {
	b, diags := s.estate.openRecorded(ctx, r, StateOptions{})
	if !diags.HasErrors() {
		b = backend.Encrypted(b, s.estate.sealing.State())
	} else {
		b = nil
	}
	if block := backendBlock(s.root); block != nil && wanted {
		diags = eval.AtSource(diags, block.Body).WithSubject(block.TypeRange.Ptr())
	}
	return b, diags
}

// Close closes a backend.
func (s *Storage) Close(b backend.Backend) diag.List { return s.estate.CloseBackend(b) }

// List lists the workspaces of the configured backend.
func (s *Storage) List(ctx context.Context) (migration.Listed, diag.List) {
	service, diags := s.estate.Service(ctx, s.root)
	switch {
	case diags.HasErrors():
		return migration.Listed{}, diags
	case service != nil:
		return migration.Listed{Service: service}, diags
	case s.estate.Backend != nil || backendBlock(s.root) == nil:
		return migration.Listed{Any: true}, diags
	}
	b, diags := s.estate.OpenBackend(ctx, s.root, StateOptions{})
	if diags.HasErrors() {
		return migration.Listed{}, diags
	}
	w := &Workspaces{estate: s.estate, backend: b}
	err := w.list(ctx)
	single := errors.Is(err, backend.ErrNoWorkspaces)
	if err != nil && !single {
		diags = diags.Append(diag.New(diag.Error, "Failed to get existing workspaces", err.Error()+".", nil))
	}
	return migration.Listed{Any: single, Names: w.Names}, diags.Append(w.Close())
}

// Present opens the backend that the directory uses; a service is an error.
func (s *Storage) Present(ctx context.Context) (at migration.Side, local bool, record string, diags diag.List) {
	block := backendBlock(s.root)
	if block != nil && namesService(block) {
		return at, false, "", diag.Errors("The states are already at a service", "The configuration of this directory "+
			"names a service. To move a workspace from one service to another, pull its state and push it there.",
			&block.Range)
	}
	if at.Backend, diags = s.estate.OpenBackend(ctx, s.root, StateOptions{}); diags.HasErrors() {
		return at, false, "", diags
	}
	at.Record, diags = s.estate.recordFor(StateOptions{})
	return at, block == nil || block.Type == localType, s.estate.recordName(), diags
}

// Unfinished returns the IDs of the runs of a workspace that have not ended.
func (s *Storage) Unfinished(ctx context.Context, at migration.Side, workspace string) (ids []string, _ diag.List) {
	where, diags := s.estate.storeOf(at.Record, workspace, at.Backend)
	if diags.HasErrors() {
		return nil, diags
	}
	store, diags := s.estate.openStore(ctx, where, s.estate.lockInfo("migrate"), reads, 0)
	if diags.HasErrors() {
		return nil, diags
	}
	runs, err := store.Runs(ctx, workspace)
	if errors.Is(err, journal.ErrNoWorkspace) { // only the backend has the workspace
		err = nil
	}
	for _, r := range runs {
		if !r.Over() {
			ids = append(ids, r.ID)
		}
	}
	return ids, diags.Append(err, store.close())
}

// OpenService opens a service with the arguments of a cloud block.
func (s *Storage) OpenService(ctx context.Context, args cty.Value) (migration.TakingService, diag.List) {
	p := s.estate.place()
	// TF_WORKSPACE selects a workspace of this directory, not one of the service.
	p.Env = func(name string) string {
		if name == "TF_WORKSPACE" {
			return ""
		}
		return s.estate.Environ.Get(name)
	}
	b, diags := p.Open(ctx, backend.Cloud, args)
	if diags.HasErrors() {
		return nil, diags
	}
	return targetService{b.(*remote.Store)}, diags
}

// Encrypted returns a service whose states are encrypted as configured.
func (s *Storage) Encrypted(service migration.TakingService) backend.Backend {
	return backend.Encrypted(service, s.estate.sealing.State())
}

// targetService is a service that states are copied to.
type targetService struct{ *remote.Store }

// Ensure creates a workspace if it does not exist, and then sets its execution mode; empty is the service's default.
func (s targetService) Ensure(ctx context.Context, workspace, executionMode string) error {
	_, err := s.Workspace(ctx, workspace)
	made := errors.Is(err, remote.ErrNoSuchWorkspace)
	if err != nil && !made {
		return err
	}
	if err := s.Create(ctx, workspace); err != nil || !made || executionMode == "" {
		return err
	}
	w, err := s.Workspace(ctx, workspace)
	if err != nil {
		return err
	}
	_, err = s.Client().ChangeWorkspace(ctx, w.ID, map[string]any{"execution-mode": executionMode})
	return err
}

// Write writes one version of a state to a backend.
func (s *Storage) Write(ctx context.Context, b backend.Backend, workspace string, st *state.State) error {
	if s.estate.Stop.Asked() {
		return operation.ErrInterrupted
	}
	var text bytes.Buffer
	if err := tfstate.Write(&text, st, s.estate.EngineVersion, b.Describe(workspace).Form); err != nil {
		return err
	}
	return b.Write(ctx, workspace, text.Bytes())
}

// Plan makes a plan on the state of a workspace of a backend, with another name as the value of terraform.workspace;
// nil if it has failed. The plan is made in a temporary directory, so that nothing is stored here.
func (s *Storage) Plan(ctx context.Context, b backend.Backend, workspace, as string) (_ *plan.Plan, diags diag.List) {
	dir, err := os.MkdirTemp(s.estate.Temp, "millipede-migrate-")
	if err != nil {
		return nil, diag.List{}.Append(err)
	}
	defer func() { diags = diags.Append(os.RemoveAll(dir)) }()
	options := s.estate.Options
	home := layout.At(dir, "")
	options.Home, options.Backend = &home, migration.Named{Backend: b, Name: workspace}
	options.Environ = s.estate.Environ.With("TF_WORKSPACE=" + as)
	own := New(options)
	op, diags := own.Begin(ctx, OperationOptions{
		Name: "plan", Variables: s.vars, State: StateOptions{KeepsNothing: true}, LockAs: "OperationTypePlan",
		Watch: Watch{
			Sources: func(func() map[string]*hcl.File) {}, Observer: coordinator.Silent{}, Events: func(wire.Event) {},
			Note: s.estate.Tell, Settle: func() {},
		},
	})
	if diags.HasErrors() {
		return nil, diags
	}
	planned, more := op.Plan(ctx, plan.Options{})
	diags = diags.Append(Errors(more), op.Close(ctx))
	switch {
	case diags.HasErrors() || planned == nil:
		return nil, Errors(diags)
	case !planned.Plan.Differs():
		return planned.Plan, Errors(diags)
	}
	return planned.Plan, diags
}

// migratingStore implements migration.Store for an opened state.
type migratingStore struct{ at *Opened }

func storeFrom(at *Opened, diags diag.List) (migration.Store, diag.List) {
	if at == nil {
		return nil, diags
	}
	return migratingStore{at}, diags
}

// Current returns the state, with others' changes; an empty one if there is none.
func (s migratingStore) Current(ctx context.Context) (*state.State, diag.List) {
	_, err := s.at.sync.Pull(ctx, s.at.Workspace, s.at.LockID)
	switch {
	case errors.Is(err, journal.ErrNoWorkspace):
		return state.Empty(), nil
	case err != nil:
		return nil, s.at.estate.unreadable(err, false)
	}
	return s.at.Load(ctx)
}

// CutOff returns an error if a run was cut off.
func (s migratingStore) CutOff(ctx context.Context) diag.List { return s.at.cutOff(ctx) }

// Locked calls fn while the workspace is locked in a backend.
func (s migratingStore) Locked(ctx context.Context, b backend.Backend, timeout time.Duration,
	fn func() diag.List) diag.List {
	lock, diags := s.at.estate.lockBackend(ctx, b, s.at.Workspace, s.at.info, timeout)
	if diags.HasErrors() {
		return diags
	}
	diags = fn()
	return diags.Append(releasing(b.Unlock(context.WithoutCancel(ctx), s.at.Workspace, lock.ID)))
}

// Replace makes st the state of the workspace, which is created if it does not exist.
func (s migratingStore) Replace(ctx context.Context, st *state.State, cause string) diag.List {
	if err := s.at.ensureWorkspace(ctx); err != nil {
		return diag.List{}.Append(err)
	}
	s.at.sync.Settle = true
	if _, err := s.at.sync.Pull(ctx, s.at.Workspace, ""); err != nil {
		return s.at.estate.unreadable(err, false)
	}
	return s.at.Replace(ctx, st, cause)
}

// Empty empties the state and its snapshot.
func (s migratingStore) Empty(ctx context.Context, cause string) error {
	return s.at.sync.Empty(ctx, s.at.Workspace, cause)
}

// Versions returns the earlier versions of the state.
func (s migratingStore) Versions() journal.Versions { return s.at.store }

// Close closes the store.
func (s migratingStore) Close() diag.List { return s.at.store.close() }
