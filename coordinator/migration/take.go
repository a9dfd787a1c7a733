package migration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
)

// TakeOptions are the options of Take.
type TakeOptions struct {
	Host, Organization, Project string
	// Name is the name of the default workspace's target. The targets of the other workspaces are named
	// NAME-WORKSPACE. If there are other workspaces, all targets have the tag NAME.
	Name string
	// ExecutionMode is the execution mode of new workspaces; if it is empty, the service chooses.
	ExecutionMode string
	// SkipPlan skips the check that a plan before the migration and a plan after it have no changes.
	SkipPlan    bool
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

// Taken is the result of Take.
type Taken struct {
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

// Taking is what Take needs of a directory beside its states.
type Taking interface {
	Storage
	// Present opens the present backend. It is an error if that is a service. Local reports whether the states are in
	// files of the directory; record is the name of the file in which init has recorded the backend.
	Present(ctx context.Context) (at Side, local bool, record string, diags diag.List)
	// Unfinished returns the IDs of the runs of a workspace that have not ended.
	Unfinished(ctx context.Context, at Side, workspace string) ([]string, diag.List)
	// OpenService opens a service with the arguments of a cloud block, whatever workspace the environment selects.
	OpenService(ctx context.Context, args cty.Value) (TakingService, diag.List)
	// Encrypted returns a service whose states are encrypted as configured.
	Encrypted(s TakingService) backend.Backend
	// Plan makes a plan on the state of a workspace of a backend, with another name as the value of
	// terraform.workspace; nil if it has failed. It stores and locks nothing.
	Plan(ctx context.Context, b backend.Backend, workspace, as string) (*plan.Plan, diag.List)
	// Write writes one version of a state to a workspace of a backend. It is an error if the user has asked to stop.
	Write(ctx context.Context, b backend.Backend, workspace string, st *state.State) error
}

// TakingService is a service that states are copied to. The caller closes it.
type TakingService interface {
	backend.Backend
	// Ensure creates a workspace, with this execution mode, if it does not exist.
	Ensure(ctx context.Context, workspace, executionMode string) error
	Close() error
}

// Take copies the states of all workspaces of a directory, with their stored versions, to workspaces of a service. The
// originals are not changed. After an interruption it can be called again; it then writes only the missing versions.
// If it fails, the result has the workspaces that were copied before, or is nil.
func Take(ctx context.Context, s Taking, o TakeOptions) (*Taken, diag.List) {
	from, local, record, diags := s.Present(ctx)
	if diags.HasErrors() {
		return nil, diags
	}
	m := &migration{Storage: s, from: from, options: Options{Lock: true, LockTimeout: o.LockTimeout}}
	names, err := m.sources(ctx)
	if err != nil {
		return nil, diags.Append(diag.New(diag.Error, "Failed to list the workspaces", err.Error()+".", nil))
	}
	var carried []string
	for _, name := range names {
		has, more := m.holdsState(ctx, name)
		runs, problems := s.Unfinished(ctx, from, name)
		if diags = diags.Append(more, unfinished(runs, name), problems); diags.HasErrors() {
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
	out := &Taken{Selected: selectedOf(carried, m.Selected()), Tag: tagOf(carried, o.Name), Record: record, Local: local}
	_, err = from.Backend.Workspaces(ctx)
	out.Single = errors.Is(err, backend.ErrNoWorkspaces)
	to, more := s.OpenService(ctx, o.arguments(out.Tag))
	if diags = diags.Append(more); diags.HasErrors() {
		return nil, diags
	}
	defer to.Close() //nolint:errcheck // it returns none
	t := taking{m, s, to, o}
	for _, name := range carried {
		taken, more := t.one(ctx, name, o.target(name))
		if diags = diags.Append(more); diags.HasErrors() {
			return out, diags
		}
		o.Each(taken)
		out.Workspaces = append(out.Workspaces, taken)
	}
	return out, diags
}

// unfinished returns an error for each run of a workspace that was cut off: it could not be resumed at the service.
func unfinished(runs []string, workspace string) (diags diag.List) {
	for _, id := range runs {
		diags = diags.Append(diag.New(diag.Error, "A run was cut off", fmt.Sprintf("The run %s of the workspace %q "+
			"has not ended, and cannot be resumed at the service. End it first: %s runs resume %[1]s", id,
			workspace, diag.Program()), nil))
	}
	return diags
}

// selectedOf returns the workspace to go on with.
func selectedOf(carried []string, selected string) string {
	if slices.Contains(carried, selected) {
		return selected
	}
	return carried[0]
}

// tagOf returns the tag that the targets get; empty if the default workspace alone is copied.
func tagOf(carried []string, name string) string {
	if len(carried) > 1 || carried[0] != journal.DefaultWorkspace {
		return name
	}
	return ""
}

// target returns the name that a workspace gets at the service.
func (o TakeOptions) target(workspace string) string {
	if workspace == journal.DefaultWorkspace {
		return o.Name
	}
	return o.Name + "-" + workspace
}

// arguments returns those of a cloud block that has this tag, or the name of the only workspace if tag is empty.
func (o TakeOptions) arguments(tag string) cty.Value {
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
	return cty.ObjectVal(args)
}

// taking copies states to a service.
type taking struct {
	*migration
	s       Taking
	service TakingService
	o       TakeOptions
}

// one copies one workspace while it holds the locks of its state and of its target.
func (t *taking) one(ctx context.Context, name, target string) (out TakenWorkspace, diags diag.List) {
	out = TakenWorkspace{Workspace: name, Target: target}
	at, diags := t.Target(ctx, t.from, name, "migrate", t.o.LockTimeout)
	if diags.HasErrors() {
		return out, diags
	}
	defer func() { diags = diags.Append(at.Close()) }()
	more := at.Locked(ctx, t.from.Backend, t.o.LockTimeout, func() diag.List {
		st, diags := at.Current(ctx)
		if diags.HasErrors() {
			return diags
		}
		plain := backend.Plain(t.from.Backend)
		if diags = diags.Append(t.unchanged(ctx, plain, name, name)); diags.HasErrors() {
			return diags
		}
		if name != target { // before anything is written
			if diags = diags.Append(t.unchanged(ctx, plain, name, target)); diags.HasErrors() {
				return diags
			}
		}
		written, more := t.write(ctx, at, name, target, st)
		if diags = diags.Append(more); diags.HasErrors() {
			return diags
		}
		out.Serial, out.Lineage, out.Written = st.Serial, st.Lineage, written
		return diags.Append(t.unchanged(ctx, t.service, target, target))
	})
	return out, diags.Append(more)
}

// write writes the versions that the service does not have, oldest first, and then reads the last one back. It
// returns an error if the service has a different state under this name.
func (t *taking) write(ctx context.Context, at Store, name, target string, st *state.State) (written int,
	diags diag.List) {
	to := Named{t.s.Encrypted(t.service), target}
	where := to.Describe("").Where
	there, diags := t.Snapshot(ctx, to, name)
	if diags.HasErrors() {
		return 0, diags
	}
	begin, why := beginning(there, st)
	if why != "" {
		return 0, diags.Append(diag.New(diag.Error, "The service has a different state under this name",
			fmt.Sprintf("%s: %s It was not changed. Choose another name, or delete that workspace.", where, why), nil))
	}
	fail := func(err error) diag.List {
		return diag.Errors("Failed to save state", fmt.Sprintf("Writing %s: %s. Run the "+
			"command again: it writes only the missing versions.", where, err), nil)
	}
	if err := t.service.Ensure(ctx, target, t.o.ExecutionMode); err != nil {
		return 0, diags.Append(fail(err))
	}
	versions, err := at.Versions().Versions(ctx, name)
	if err != nil {
		return 0, diags.Append(fail(err))
	}
	more := at.Locked(ctx, to, t.o.LockTimeout, func() diag.List {
		for _, v := range slices.Backward(versions) {
			if !lacks(v, st, begin) {
				continue
			}
			old, err := at.Versions().LoadVersion(ctx, name, v.Serial)
			if errors.Is(err, journal.ErrVersion) {
				continue // the store has deleted it
			}
			if err == nil {
				err = t.s.Write(ctx, to, "", old)
			}
			if err != nil {
				return fail(err)
			}
			begin, written = v.Serial, written+1
		}
		if there == nil || begin < st.Serial || there.Lineage != st.Lineage {
			if err := t.s.Write(ctx, to, "", st); err != nil {
				return fail(err)
			}
			written++
		}
		back, diags := t.Snapshot(ctx, to, name)
		if !diags.HasErrors() && !same(back, st) {
			diags = diags.Append(diag.New(diag.Error, "The service returned a different state than was written",
				fmt.Sprintf("The state at %s is not the one with the serial %d and the lineage %s. The state here was not "+
					"changed; continue to use it.", where, st.Serial, st.Lineage), nil))
		}
		return diags
	})
	return written, diags.Append(more)
}

// beginning returns the serial up to which a service has the versions of a state; 0 for none. there is the state that
// it has; nil for none. If that is another state, refusal is the reason why it may not be replaced.
func beginning(there, st *state.State) (serial uint64, refusal string) {
	switch {
	case there == nil:
	case there.Lineage != st.Lineage && there.IsEmpty() && there.Serial <= 1: // a new workspace
	case there.Lineage != st.Lineage:
		return 0, "its lineage is " + there.Lineage + ", and the state here has the lineage " + st.Lineage + "."
	case there.Serial > st.Serial:
		return 0, fmt.Sprintf("its serial is %d, and the state here has the serial %d: the state at the service is "+
			"newer.", there.Serial, st.Serial)
	case there.Serial == st.Serial && !there.SameContent(st):
		return 0, "it has the same serial, but different content."
	default:
		return there.Serial, ""
	}
	return 0, ""
}

// lacks reports whether a service lacks a version of a state that is to be written before the state itself. begin is
// the serial up to which it has the versions; 0 for none.
func lacks(v journal.VersionInfo, st *state.State, begin uint64) bool {
	return v.Lineage == st.Lineage && (v.Serial > begin || begin == 0) && v.Serial < st.Serial
}

// same reports whether the state that a service has is the one that was written.
func same(back, st *state.State) bool {
	return back != nil && back.Serial == st.Serial && back.Lineage == st.Lineage && back.SameContent(st)
}

// unchanged returns an error if a plan on the state of a workspace of a backend, with another name as the value of
// terraform.workspace, fails or has changes.
func (t *taking) unchanged(ctx context.Context, b backend.Backend, name, as string) diag.List {
	if t.o.SkipPlan {
		return nil
	}
	p, diags := t.s.Plan(ctx, b, name, as)
	if diags.HasErrors() || p == nil {
		return diags
	}
	return diags.Append(changes(p, b.Describe(name).Where, name, as))
}

// changes returns an error if a plan has changes. The plan is for the state of the workspace at where, under the name
// that the workspace gets.
func changes(p *plan.Plan, where, name, as string) diag.List {
	if !p.Differs() {
		return nil
	}
	var first string
	for _, c := range p.Changes {
		if c.Action != plan.NoOp {
			first = fmt.Sprintf(" The first change: %s (%s).", c.Addr, c.Action)
			break
		}
	}
	if as != name {
		return diag.Errors("The plan has changes under the new name", fmt.Sprintf("A plan for the "+
			"workspace %q has no changes, and it has changes if the workspace is called %q, as it would be at the service: "+
			"the configuration depends on terraform.workspace.%s Nothing was written. Use a variable of the configuration "+
			"in place of terraform.workspace, with a value for each workspace, so that a plan has no changes, and run the "+
			"command again. With -skip-plan, only the states are compared, and the next apply at the service makes these "+
			"changes.", name, as, first), nil)
	}
	return diag.Errors("The plan has changes", fmt.Sprintf("A plan for %s has changes, so it cannot show that the "+
		"migration itself changes nothing.%s Apply the changes first, or give -skip-plan: then only the states are "+
		"compared.", where, first), nil)
}
