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

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/layout"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/snapshot"
	"github.com/millipede-iac/millipede/state/snapshot/tfcstore"
	"github.com/millipede-iac/millipede/state/tfstate"
	"github.com/millipede-iac/millipede/wire"
)

// ServiceMigration says how the states of a directory are taken to a service.
type ServiceMigration struct {
	Host, Organization, Project string
	// Name is that of the workspace for the default one. Those of others are NAME-WORKSPACE, and all have the tag NAME
	// where there are others.
	Name string
	// ExecutionMode is that of workspaces that are made; empty leaves it to the service.
	ExecutionMode string
	// SkipPlan leaves it unchecked that a plan has no changes, before and after.
	SkipPlan    bool
	Variables   Variables
	LockTimeout time.Duration
	// Each is told what became of a workspace as soon as that is known.
	Each func(TakenWorkspace)
}

// TakenWorkspace is what became of one workspace.
type TakenWorkspace struct {
	Workspace, Target string
	Serial            uint64
	Lineage           string
	// Written is how many versions were written; none where the service had them all.
	Written int
}

// TakenToService is where the states of a directory are.
type TakenToService struct {
	Workspaces []TakenWorkspace
	// Tag selects the workspaces in a cloud block; empty where there is one, which the block names.
	Tag string
}

// TakeToService copies the states of all workspaces of the directory, with the versions that there are, to workspaces
// of a service. Nothing is changed where they are now. It can be called again after it was cut off, and goes on with
// what is missing.
func (c *Configuration) TakeToService(ctx context.Context, root *config.Node, o ServiceMigration) (*TakenToService,
	diag.List) {
	e := c.estate
	if block := backendBlock(root); block != nil && namesService(block) {
		return nil, diag.Errors("The states are at a service already", "The configuration of this directory names a "+
			"service. To take a workspace from one service to another, pull its state and push it there.", &block.Range)
	}
	from, diags := e.OpenBackend(ctx, root, StateOptions{})
	if diags.HasErrors() {
		return nil, diags
	}
	i := &migration{Estate: e, options: BackendOptions{Lock: true, LockTimeout: o.LockTimeout}, config: c}
	names, err := i.sources(ctx, from)
	if err != nil {
		return nil, diags.Append(diag.New(diag.Error, "Failed to list the workspaces", err.Error()+".", nil))
	}
	m := &moving{from: from}
	var carried []string
	for _, name := range names {
		has, more := i.holdsState(ctx, m, name)
		if diags = diags.Append(more, i.runsOver(ctx, name)); diags.HasErrors() {
			return nil, diags
		}
		if has {
			carried = append(carried, name)
		}
	}
	if len(carried) == 0 {
		return nil, diags.Append(diag.New(diag.Error, "There is no state to take along", "Nothing was ever applied in "+
			"this directory. Write a cloud block into the configuration, and run init.", nil))
	}
	out := &TakenToService{}
	if len(carried) > 1 || carried[0] != journal.DefaultWorkspace {
		out.Tag = o.Name
	}
	to, more := i.openService(ctx, o, out.Tag)
	if diags = diags.Append(more); diags.HasErrors() {
		return nil, diags
	}
	defer to.Close()
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

// runsOver says that a run of a workspace was cut off, which nobody could resume any more.
func (i *migration) runsOver(ctx context.Context, name string) diag.List {
	store, diags := i.openStore(ctx, i.Directory().Workspace(name), i.lockInfo("migrate"), reads, 0)
	if diags.HasErrors() {
		return diags
	}
	runs, err := store.Runs(ctx, name)
	switch {
	case errors.Is(err, journal.ErrNoWorkspace): // the backend alone has it
		err = nil
	case err == nil:
		for _, r := range runs {
			if !r.Over() {
				diags = diags.Append(diag.New(diag.Error, "A run was cut off", fmt.Sprintf("The run %s of the workspace %q "+
					"has not ended, and could not be resumed at the service. End it first: %s runs resume %[1]s", r.ID,
					name, diag.Program()), nil))
			}
		}
	}
	return diags.Append(err, store.close())
}

// openService opens the service as a cloud block would that has this tag, or names the one workspace.
func (i *migration) openService(ctx context.Context, o ServiceMigration, tag string) (*tfcstore.Store, diag.List) {
	workspaces := map[string]cty.Value{"name": cty.StringVal(o.Name)}
	if tag != "" {
		workspaces = map[string]cty.Value{"tags": cty.SetVal([]cty.Value{cty.StringVal(tag)})}
	}
	if o.Project != "" {
		workspaces["project"] = cty.StringVal(o.Project)
	}
	args := map[string]cty.Value{"workspaces": cty.ObjectVal(workspaces)}
	for name, value := range map[string]string{"hostname": o.Host, "organization": o.Organization} {
		if value != "" { // else the environment says it
			args[name] = cty.StringVal(value)
		}
	}
	p := i.place()
	// Which workspace is selected here says nothing about those of the service.
	p.Env = func(name string) string {
		if name == "TF_WORKSPACE" {
			return ""
		}
		return i.Environ.Get(name)
	}
	b, diags := p.Open(ctx, snapshot.Cloud, cty.ObjectVal(args))
	if diags.HasErrors() {
		return nil, diags
	}
	return b.(*tfcstore.Store), diags
}

// takeOne takes one workspace along, under the locks of both sides.
func (i *migration) takeOne(ctx context.Context, m *moving, service *tfcstore.Store, name, target string,
	o ServiceMigration) (out TakenWorkspace, diags diag.List) {
	out = TakenWorkspace{Workspace: name, Target: target}
	at, diags := i.openWorkspace(ctx, name, m.from, "migrate", o.LockTimeout)
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
			if diags = diags.Append(i.unchanged(ctx, snapshot.Plain(m.from), name, o)); diags.HasErrors() {
				return diags
			}
		}
		to := renamed{snapshot.Encrypted(service, i.sealing.State()), target}
		written, more := i.write(ctx, at, service, to, st, o)
		if diags = diags.Append(more); diags.HasErrors() {
			return diags
		}
		out.Serial, out.Lineage, out.Written = st.Serial, st.Lineage, written
		if !o.SkipPlan {
			diags = diags.Append(i.unchanged(ctx, service, target, o))
		}
		return diags
	})
	return out, diags.Append(more)
}

// write brings the versions to the service that it does not have, the oldest first, and reads the last one back.
func (i *migration) write(ctx context.Context, at *Opened, service *tfcstore.Store, to renamed, st *state.State,
	o ServiceMigration) (written int, diags diag.List) {
	where := to.Describe("").Where
	there, diags := i.readSnapshot(ctx, to, at.Workspace, false)
	if diags.HasErrors() {
		return 0, diags
	}
	refuse := func(detail string) (int, diag.List) {
		return written, diags.Append(diag.New(diag.Error, "There is another state at the service", fmt.Sprintf("%s: %s "+
			"Nothing of it was changed. Take another name, or delete that workspace.", where, detail), nil))
	}
	begin := uint64(0)
	switch {
	case there == nil:
	case there.Lineage != st.Lineage && there.IsEmpty() && there.Serial <= 1: // a workspace that was just made
	case there.Lineage != st.Lineage:
		return refuse("its lineage is " + there.Lineage + ", and that of the state here is " + st.Lineage + ".")
	case there.Serial > st.Serial:
		return refuse(fmt.Sprintf("its serial is %d already, and that of the state here is %d: it goes on there.",
			there.Serial, st.Serial))
	case there.Serial == st.Serial && !there.SameContent(st):
		return refuse("it has the same serial and another content.")
	default:
		begin = there.Serial
	}
	fail := func(err error) (int, diag.List) {
		return written, diags.Append(diag.New(diag.Error, "Failed to save state", fmt.Sprintf("Writing %s: %s. Run the "+
			"command again: it goes on with what is missing.", where, err), nil))
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
			continue // it is not kept any more
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
		return written, diags.Append(diag.New(diag.Error, "The service has another state than was written",
			fmt.Sprintf("What %s answers is not the state with the serial %d and the lineage %s. The state here is as it "+
				"was; go on with that.", where, st.Serial, st.Lineage), nil))
	}
	return written, diags
}

// ensureTarget makes the workspace of the service, if it is not there.
func (i *migration) ensureTarget(ctx context.Context, service *tfcstore.Store, to renamed, o ServiceMigration) error {
	_, err := service.Workspace(ctx, to.name)
	made := errors.Is(err, tfcstore.ErrNoSuchWorkspace)
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

// unchanged makes a plan on the state of a workspace of a backend, and says what is wrong with it or that it has
// changes: terraform.workspace may be another name there. Nothing is kept of the plan.
func (i *migration) unchanged(ctx context.Context, b snapshot.Backend, name string, o ServiceMigration) (
	diags diag.List) {
	dir, err := os.MkdirTemp(i.Temp, "millipede-migrate-")
	if err != nil {
		return diag.List{}.Append(err)
	}
	defer func() { diags = diags.Append(os.RemoveAll(dir)) }()
	options := i.Options
	home := layout.At(dir, "")
	options.Home, options.Backend = &home, renamed{b, name}
	options.Environ = i.Environ.With("TF_WORKSPACE=" + name)
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
	planned, more := op.Plan(ctx, operation.PlanOptions{})
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
	detail := fmt.Sprintf("A plan for %s has changes, so it could not be seen that nothing else has changed on the "+
		"way.%s Apply them first, or give -skip-plan: then only the states are compared.",
		renamed{b, name}.Describe("").Where, first)
	return diags.Append(diag.New(diag.Error, "The plan has changes", detail, nil))
}
