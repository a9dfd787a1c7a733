package estate

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/coordinator/layout"
	"github.com/millipede-iac/millipede/coordinator/migration"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
)

// storeAt says where a store is.
type storeAt struct {
	layout.Home
	// location is the state that the store belongs to; zero for stores of -state and for those in the directory of a
	// service.
	location layout.Location
	// record is the backend of the location. backend is that backend, opened; nil if it is opened only when needed.
	record  migration.Record
	backend backend.Backend
}

// located reports whether the store belongs to a location.
func (a storeAt) located() bool { return a.location != layout.Location{} }

// locate returns the location of the state of a workspace.
func (e *backends) locate(r migration.Record, workspace string) (layout.Location, diag.List) {
	args, diags := r.Values()
	if diags.HasErrors() {
		return layout.Location{}, diags
	}
	address, diags := e.place().Address(r.Kind(), args, workspace)
	return layout.Location{Backend: r.Kind(), Address: address, Workspace: workspace}, diags
}

// served reports whether the directory is that of a workspace of a service: its stores belong to workspaces, and no
// backend is configured. Without a Backend, the estate only reads what is stored.
func (e *backends) served() bool { return e.Backend != nil || e.Home != nil }

// storeOf returns where the store of a state is. b is its opened backend; it may be nil.
func (e *homes) storeOf(r migration.Record, workspace string, b backend.Backend) (storeAt, diag.List) {
	if e.served() {
		return storeAt{Home: e.Directory().Workspace(workspace)}, nil
	}
	l, diags := e.locate(r, workspace)
	return storeAt{Home: e.Directory().State(l), location: l, record: r, backend: b}, diags
}

// storeFor returns where the store of the selected workspace, or of the given state files, is: the record of init
// says where the states are, or the plan that is applied. b is the opened backend; it may be nil.
func (e *homes) storeFor(f StateOptions, b backend.Backend) (storeAt, diag.List) {
	r, diags := e.recordFor(f)
	if diags.HasErrors() {
		return storeAt{}, diags
	}
	at, diags := e.storeOf(r, e.Workspace(), b)
	if f.File+f.StateOut == "" || diags.HasErrors() || at.located() && at.location.Backend != localType {
		return at, diags // other backends have no such files
	}
	in := f.File
	if in == "" && at.located() && at.location.Address != backend.DefaultPath {
		in = at.location.Address // the state is read there
	}
	return storeAt{Home: e.Directory().File(in, f.StateOut)}, diags
}

// localType is the type of the local backend.
const localType = "local"

// recordFor returns the backend that an operation uses: that of the plan that is applied, or the one of init.
func (e *backends) recordFor(f StateOptions) (migration.Record, diag.List) {
	switch {
	case f.planned != nil:
		return *f.planned, nil
	case e.served():
		return migration.Record{}, nil
	}
	return e.readBackendRecord()
}

// backendOf returns the backend that a saved plan was made for; nil if the plan does not say that, because an earlier
// version made it, or if the estate has a backend of its own. If the plan is that of a run that is resumed, and the
// directory still uses the same location, its present arguments count: they may have newer credentials.
func (e *backends) backendOf(p *plan.Plan, resumed bool) (*migration.Record, diag.List) {
	if e.Backend != nil || len(p.BackendConfig) == 0 {
		return nil, nil
	}
	r := migration.Record{Type: p.BackendType, Config: p.BackendConfig}
	if !resumed {
		return &r, nil
	}
	own, diags := e.readBackendRecord()
	if diags.HasErrors() {
		return nil, diags
	}
	planned, diags := e.locate(r, p.Workspace)
	if diags.HasErrors() {
		return nil, diags
	}
	present, diags := e.locate(own, p.Workspace)
	if diags.HasErrors() || present != planned {
		return &r, nil // problems of the present backend do not matter
	}
	return nil, nil
}

// describeFor records in a plan for which backend it is.
func describeFor(r migration.Record, p *plan.Plan) {
	p.BackendType, p.BackendConfig = r.Kind(), r.Config
	if len(p.BackendConfig) == 0 {
		p.BackendConfig = []byte("{}")
	}
}

// openRecorded opens a recorded backend, without encryption.
func (e *backends) openRecorded(ctx context.Context, r migration.Record, f StateOptions) (backend.Backend, diag.List) {
	args, diags := r.Values()
	if diags.HasErrors() {
		return nil, diags
	}
	return e.openKind(ctx, r.Kind(), args, f)
}

// claim makes the store of an earlier version, which was that of a workspace whatever the backend was, the store of a
// state, if it is that.
func (e *homes) claim(at storeAt, info journal.LockInfo, timeout time.Duration,
	owns func(Store) (bool, error)) error {
	d := e.Directory()
	err := d.Claim(at.location, func(path string) (bool, error) {
		store, err := e.Stores.Open(path, info, max(timeout, formerTime), e.storeOptions())
		if err != nil {
			return false, err
		}
		is, err := owns(store)
		return is, errors.Join(err, store.Close())
	})
	if err == nil && exists(at.Store()) {
		err = d.MakeState(at.location) // the home of the earlier version did not say whose it is
	}
	return err
}

// claimFormer gives the stores of an earlier version that have no mark, because their snapshot was never written, to
// the backend that the directory has used until now. It is called before the directory gets another backend: later,
// nothing would say whose they are.
func (e *homes) claimFormer(ctx context.Context, was migration.Record) diag.List {
	if e.Backend != nil {
		return nil
	}
	fail := func(err error) diag.List {
		return diag.Errors("Failed to open the state store", err.Error()+".", nil)
	}
	d, info := e.Directory(), e.lockInfo("init")
	if err := e.layOut(d, info, 0); err != nil {
		return fail(err)
	}
	names, err := d.Workspaces()
	if err != nil {
		return fail(err)
	}
	for _, name := range names {
		at, diags := e.storeOf(was, name, nil)
		if diags.HasErrors() {
			return diags
		}
		err := e.claim(at, info, 0, func(store Store) (bool, error) {
			mark, err := store.Mark(ctx, name)
			if err != nil || mark.Where != "" {
				return false, err
			}
			return e.isPresent(ctx, store, at)
		})
		if err != nil {
			return fail(err)
		}
	}
	return nil
}

// owns reports whether the store of an earlier version is that of a state. Its mark names the snapshot that it was
// last written to. A store without one, or with changes since the last init -reconfigure, is that of the backend that
// the directory uses.
func (e *homes) owns(ctx context.Context, store Store, at storeAt) (bool, error) {
	workspace := at.location.Workspace
	mark, err := store.Mark(ctx, workspace)
	if errors.Is(err, journal.ErrNoWorkspace) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	versions, err := store.Versions(ctx, workspace)
	if err != nil {
		return false, err
	}
	marked := slices.IndexFunc(versions, func(v journal.VersionInfo) bool {
		return v.Serial == mark.Serial && v.Lineage == mark.Lineage
	})
	since := versions[:max(marked, 0)]
	if mark.Where == "" {
		since = versions
	}
	switched := slices.ContainsFunc(since, func(v journal.VersionInfo) bool { return v.Cause == reconfigured })
	if mark.Where != "" && !switched {
		where, err := e.nameOf(ctx, at)
		return mark.Where == where, err
	}
	own, err := e.isPresent(ctx, store, at)
	if err != nil || !own || !switched {
		return own, err
	}
	where, err := e.nameOf(ctx, at)
	if err != nil {
		return false, err
	}
	adopted := journal.SnapshotMark{}
	if versions[0].Cause == reconfigured { // nothing has changed since: the store had what the snapshot had
		adopted = journal.SnapshotMark{Where: where, Lineage: versions[0].Lineage, Serial: versions[0].Serial,
			SHA256: "unknown"}
	}
	return true, store.SetMark(ctx, workspace, adopted)
}

// reconfigured is the cause of the versions with which earlier versions took over the state of another backend.
const reconfigured = "init -reconfigure"

// nameOf returns the name of a location's snapshot in marks.
func (e *homes) nameOf(ctx context.Context, at storeAt) (string, error) {
	b := at.backend
	if b == nil {
		opened, diags := e.openRecorded(ctx, at.record, StateOptions{})
		if diags.HasErrors() {
			return "", diags.Err()
		}
		defer e.CloseBackend(opened)
		b = opened
	}
	return b.Describe(at.location.Workspace).Where, nil
}

// isPresent reports whether a location is the one that the directory uses, and the newest run in the store, if any,
// was for such a backend.
func (e *homes) isPresent(ctx context.Context, store Store, at storeAt) (bool, error) {
	r, diags := e.readBackendRecord()
	if diags.HasErrors() {
		return false, diags.Err()
	}
	present, diags := e.locate(r, at.location.Workspace)
	if diags.HasErrors() || present != at.location {
		return false, diags.Err()
	}
	runs, err := store.Runs(ctx, at.location.Workspace)
	if err != nil || len(runs) == 0 {
		return err == nil, err
	}
	_, text, err := store.RunPlan(ctx, runs[0].ID)
	if err != nil {
		return false, err
	}
	saved, err := planfile.DecodeRecorded(text)
	if err != nil {
		return true, nil //nolint:nilerr // the plan of another version says nothing about its backend
	}
	// The plans of cloud blocks had the local backend.
	typ := saved.Plan.BackendType
	return typ == "" || typ == at.location.Backend || at.location.Backend == backend.Cloud, nil
}
