package estate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/remote"
	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/layout"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/tfstate"
	"github.com/millipede-iac/millipede/wire"
)

// ServiceMigration has the options of TakeToService.
type ServiceMigration struct {
	Host, Organization, Project string
	// Name is the name of the default workspace's target. The targets of the other workspaces are named
	// NAME-WORKSPACE. If there are other workspaces, all targets have the tag NAME.
	Name string
	// ExecutionMode is the execution mode of new workspaces; if it is empty, the service chooses.
	ExecutionMode string
	// SkipPlan skips the check that a plan before the migration and a plan after it have no changes.
	SkipPlan    bool
	Variables   Variables
	LockTimeout time.Duration
	// Each is called with the result of each workspace.
	Each func(TakenWorkspace)
}

// TakenWorkspace is the result of one workspace.
type TakenWorkspace struct {
	Workspace, Target string
	Serial            uint64
	Lineage           string
	// Written is the number of versions that were written; 0 if the service had them all.
	Written int
}

// TakenToService is the result of TakeToService.
type TakenToService struct {
	Workspaces []TakenWorkspace
	// Tag selects the workspaces in a cloud block; empty if there is only the default workspace, which the block names.
	Tag string
	// Selected is the workspace of the directory to go on with: the selected one, or the first if that has no state.
	Selected string
	// Single: the present backend keeps one state, and has no workspaces to select.
	Single bool
	// Local: the states are in files of the directory, in which init would find them.
	Local bool
	// Record is the file in which init has recorded the backend, for commands of people.
	Record string
}

// TakeToService copies the states of all workspaces of the directory, with their stored versions, to workspaces of a
// service. The originals are not changed. After an interruption it can be called again; it then writes only the
// missing versions.
func (c *Configuration) TakeToService(ctx context.Context, root *config.Node, o ServiceMigration) (*TakenToService,
	diag.List) {
	e := c.estate
	if block := backendBlock(root); block != nil && namesService(block) {
		return nil, diag.Errors("The states are already at a service", "The configuration of this directory names a "+
			"service. To move a workspace from one service to another, pull its state and push it there.", &block.Range)
	}
	from, diags := e.OpenBackend(ctx, root, StateOptions{})
	if diags.HasErrors() {
		return nil, diags
	}
	i := &migration{Estate: e, options: BackendOptions{Lock: true, LockTimeout: o.LockTimeout}, config: c}
	record, diags := e.recordFor(StateOptions{})
	if diags.HasErrors() {
		return nil, diags
	}
	m := &backendPair{was: record, from: from}
	names, err := i.sources(ctx, m)
	if err != nil {
		return nil, diags.Append(diag.New(diag.Error, "Failed to list the workspaces", err.Error()+".", nil))
	}
	var carried []string
	for _, name := range names {
		has, more := i.holdsState(ctx, m, name)
		if diags = diags.Append(more, i.runsOver(ctx, m, name)); diags.HasErrors() {
			return nil, diags
		}
		if has {
			carried = append(carried, name)
		}
	}
	if len(carried) == 0 {
		return nil, diags.Append(diag.New(diag.Error, "There is no state to migrate", "Nothing was ever applied in "+
			"this directory. Add a cloud block to the configuration, and run init.", nil))
	}
	block := backendBlock(root)
	out := &TakenToService{Selected: carried[0], Record: e.recordName(),
		Local: block == nil || block.Type == backendRecord{}.kind()}
	_, err = from.Workspaces(ctx)
	out.Single = errors.Is(err, backend.ErrNoWorkspaces)
	if slices.Contains(carried, i.Workspace()) {
		out.Selected = i.Workspace()
	}
	if len(carried) > 1 || carried[0] != journal.DefaultWorkspace {
		out.Tag = o.Name
	}
	to, more := i.openService(ctx, o, out.Tag)
	if diags = diags.Append(more); diags.HasErrors() {
		return nil, diags
	}
	defer to.Close() //nolint:errcheck // it returns none
	for _, name := range carried {
		target := o.Name
		if name != journal.DefaultWorkspace {
			target += "-" + name
		}
		taken, more := i.takeOne(ctx, m, to, name, target, o)
		if diags = diags.Append(more); diags.HasErrors() {
			return out, diags
		}
		o.Each(taken)
		out.Workspaces = append(out.Workspaces, taken)
	}
	return out, diags
}

// runsOver returns an error for each run of the workspace that was cut off: it could not be resumed at the service.
func (i *migration) runsOver(ctx context.Context, m *backendPair, name string) diag.List {
	at, diags := i.storeOf(m.was, name, m.from)
	if diags.HasErrors() {
		return diags
	}
	store, diags := i.openStore(ctx, at, i.lockInfo("migrate"), reads, 0)
	if diags.HasErrors() {
		return diags
	}
	runs, err := store.Runs(ctx, name)
	switch {
	case errors.Is(err, journal.ErrNoWorkspace): // only the backend has the workspace
		err = nil
	case err == nil:
		for _, r := range runs {
			if !r.Over() {
				diags = diags.Append(diag.New(diag.Error, "A run was cut off", fmt.Sprintf("The run %s of the workspace %q "+
					"has not ended, and cannot be resumed at the service. End it first: %s runs resume %[1]s", r.ID,
					name, diag.Program()), nil))
			}
		}
	}
	return diags.Append(err, store.close())
}

// openService opens the service as a cloud block would that has this tag, or the name of the only workspace if tag is
// empty.
func (i *migration) openService(ctx context.Context, o ServiceMigration, tag string) (*remote.Store, diag.List) {
	workspaces := map[string]cty.Value{"name": cty.StringVal(o.Name)}
	if tag != "" {
		workspaces = map[string]cty.Value{"tags": cty.SetVal([]cty.Value{cty.StringVal(tag)})}
	}
	if o.Project != "" {
		workspaces["project"] = cty.StringVal(o.Project)
	}
	args := map[string]cty.Value{"workspaces": cty.ObjectVal(workspaces)}
	for name, value := range map[string]string{"hostname": o.Host, "organization": o.Organization} {
		if value != "" { // otherwise the environment has the value
			args[name] = cty.StringVal(value)
		}
	}
	p := i.place()
	// TF_WORKSPACE selects a workspace of this directory, not one of the service.
	p.Env = func(name string) string {
		if name == "TF_WORKSPACE" {
			return ""
		}
		return i.Environ.Get(name)
	}
	b, diags := p.Open(ctx, backend.Cloud, cty.ObjectVal(args))
	if diags.HasErrors() {
		return nil, diags
	}
	return b.(*remote.Store), diags
}

// takeOne copies one workspace while it holds the locks of its state and of its target.
func (i *migration) takeOne(ctx context.Context, m *backendPair, service *remote.Store, name, target string,
	o ServiceMigration) (out TakenWorkspace, diags diag.List) {
	out = TakenWorkspace{Workspace: name, Target: target}
	at, diags := i.openWorkspace(ctx, name, m.was, m.from, "migrate", o.LockTimeout)
	if diags.HasErrors() {
		return out, diags
	}
	defer func() { diags = diags.Append(at.store.close()) }()
	more := i.locked(ctx, at, func() diag.List {
		st, diags := i.current(ctx, at)
		if diags.HasErrors() {
			return diags
		}
		if !o.SkipPlan {
			plain := backend.Plain(m.from)
			if diags = diags.Append(i.unchanged(ctx, plain, name, name, o)); diags.HasErrors() {
				return diags
			}
			if name != target { // before anything is written
				if diags = diags.Append(i.unchanged(ctx, plain, name, target, o)); diags.HasErrors() {
					return diags
				}
			}
		}
		to := renamed{backend.Encrypted(service, i.sealing.State()), target}
		written, more := i.write(ctx, at, service, to, st, o)
		if diags = diags.Append(more); diags.HasErrors() {
			return diags
		}
		out.Serial, out.Lineage, out.Written = st.Serial, st.Lineage, written
		if !o.SkipPlan {
			diags = diags.Append(i.unchanged(ctx, service, target, target, o))
		}
		return diags
	})
	return out, diags.Append(more)
}

// write writes the versions that the service does not have, oldest first, and then reads the last one back. It
// returns an error if the service has a different state under this name.
func (i *migration) write(ctx context.Context, at *Opened, service *remote.Store, to renamed, st *state.State,
	o ServiceMigration) (written int, diags diag.List) {
	where := to.Describe("").Where
	there, diags := i.readSnapshot(ctx, to, at.Workspace, false)
	if diags.HasErrors() {
		return 0, diags
	}
	refuse := func(detail string) (int, diag.List) {
		return written, diags.Append(diag.New(diag.Error, "The service has a different state under this name",
			fmt.Sprintf("%s: %s It was not changed. Choose another name, or delete that workspace.", where, detail), nil))
	}
	begin := uint64(0)
	switch {
	case there == nil:
	case there.Lineage != st.Lineage && there.IsEmpty() && there.Serial <= 1: // a new workspace
	case there.Lineage != st.Lineage:
		return refuse("its lineage is " + there.Lineage + ", and the state here has the lineage " + st.Lineage + ".")
	case there.Serial > st.Serial:
		return refuse(fmt.Sprintf("its serial is %d, and the state here has the serial %d: the state at the service is "+
			"newer.", there.Serial, st.Serial))
	case there.Serial == st.Serial && !there.SameContent(st):
		return refuse("it has the same serial, but different content.")
	default:
		begin = there.Serial
	}
	fail := func(err error) (int, diag.List) {
		return written, diags.Append(diag.New(diag.Error, "Failed to save state", fmt.Sprintf("Writing %s: %s. Run the "+
			"command again: it writes only the missing versions.", where, err), nil))
	}
	if err := i.ensureTarget(ctx, service, to, o); err != nil {
		return fail(err)
	}
	versions, err := at.store.Versions(ctx, at.Workspace)
	if err != nil {
		return fail(err)
	}
	slices.Reverse(versions)
	lock, more := i.lockBackend(ctx, to, at.Workspace, at.info, o.LockTimeout)
	if diags = diags.Append(more); diags.HasErrors() {
		return written, diags
	}
	defer func() {
		diags = diags.Append(releasing(to.Unlock(context.WithoutCancel(ctx), at.Workspace, lock.ID)))
	}()
	for _, v := range versions {
		if v.Lineage != st.Lineage || v.Serial <= begin && begin > 0 || v.Serial >= st.Serial {
			continue
		}
		old, err := at.store.LoadVersion(ctx, at.Workspace, v.Serial)
		if errors.Is(err, journal.ErrVersion) {
			continue // the store has deleted it
		}
		if err == nil {
			err = i.writeVersion(ctx, to, old)
		}
		if err != nil {
			return fail(err)
		}
		begin, written = v.Serial, written+1
	}
	if there == nil || begin < st.Serial || there.Lineage != st.Lineage {
		if err := i.writeVersion(ctx, to, st); err != nil {
			return fail(err)
		}
		written++
	}
	back, more := i.readSnapshot(ctx, to, at.Workspace, false)
	if diags = diags.Append(more); diags.HasErrors() {
		return written, diags
	}
	if back == nil || back.Serial != st.Serial || back.Lineage != st.Lineage || !back.SameContent(st) {
		return written, diags.Append(diag.New(diag.Error, "The service returned a different state than was written",
			fmt.Sprintf("The state at %s is not the one with the serial %d and the lineage %s. The state here was not "+
				"changed; continue to use it.", where, st.Serial, st.Lineage), nil))
	}
	return written, diags
}

// ensureTarget creates the workspace at the service if it does not exist, and sets its execution mode.
func (i *migration) ensureTarget(ctx context.Context, service *remote.Store, to renamed, o ServiceMigration) error {
	_, err := service.Workspace(ctx, to.name)
	made := errors.Is(err, remote.ErrNoSuchWorkspace)
	if err != nil && !made {
		return err
	}
	if err := to.Create(ctx, ""); err != nil || !made || o.ExecutionMode == "" {
		return err
	}
	w, err := service.Workspace(ctx, to.name)
	if err != nil {
		return err
	}
	_, err = service.Client().ChangeWorkspace(ctx, w.ID, map[string]any{"execution-mode": o.ExecutionMode})
	return err
}

// writeVersion writes one version of a state to the service.
func (i *migration) writeVersion(ctx context.Context, to renamed, st *state.State) error {
	if i.Stop.Asked() {
		return operation.ErrInterrupted
	}
	var text bytes.Buffer
	if err := tfstate.Write(&text, st, i.EngineVersion, to.Describe("").Form); err != nil {
		return err
	}
	return to.Write(ctx, "", text.Bytes())
}

// unchanged makes a plan on the state of a workspace of a backend, with another name as the value of
// terraform.workspace, and returns an error if the plan fails or has changes. The plan is discarded.
func (i *migration) unchanged(ctx context.Context, b backend.Backend, name, as string, o ServiceMigration) (
	diags diag.List) {
	dir, err := os.MkdirTemp(i.Temp, "millipede-migrate-")
	if err != nil {
		return diag.List{}.Append(err)
	}
	defer func() { diags = diags.Append(os.RemoveAll(dir)) }()
	options := i.Options
	home := layout.At(dir, "")
	options.Home, options.Backend = &home, renamed{b, name}
	options.Environ = i.Environ.With("TF_WORKSPACE=" + as)
	own := New(options)
	op, diags := own.Begin(ctx, OperationOptions{
		Name: "plan", Variables: o.Variables, State: StateOptions{KeepsNothing: true}, LockAs: "OperationTypePlan",
		Watch: Watch{
			Sources: func(func() map[string]*hcl.File) {}, Observer: coordinator.Silent{}, Events: func(wire.Event) {},
			Note: i.Tell, Settle: func() {},
		},
	})
	if diags.HasErrors() {
		return diags
	}
	planned, more := op.Plan(ctx, plan.Options{})
	diags = diags.Append(Errors(more), op.Close(ctx))
	if diags.HasErrors() || planned == nil || !planned.Plan.Differs() {
		return Errors(diags)
	}
	var first string
	for _, c := range planned.Plan.Changes {
		if c.Action != plan.NoOp {
			first = fmt.Sprintf(" The first change: %s (%s).", c.Addr, c.Action)
			break
		}
	}
	if as != name {
		return diags.Append(diag.New(diag.Error, "The plan has changes under the new name", fmt.Sprintf("A plan for the "+
			"workspace %q has no changes, and it has changes if the workspace is called %q, as it would be at the service: "+
			"the configuration depends on terraform.workspace.%s Nothing was written. Use a variable of the configuration "+
			"in place of terraform.workspace, with a value for each workspace, so that a plan has no changes, and run the "+
			"command again. With -skip-plan, only the states are compared, and the next apply at the service makes these "+
			"changes.", name, as, first), nil))
	}
	detail := fmt.Sprintf("A plan for %s has changes, so it cannot show that the migration itself changes "+
		"nothing.%s Apply the changes first, or give -skip-plan: then only the states are compared.",
		renamed{b, name}.Describe("").Where, first)
	return diags.Append(diag.New(diag.Error, "The plan has changes", detail, nil))
}
