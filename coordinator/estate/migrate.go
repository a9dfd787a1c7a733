package estate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/snapshot"
	"github.com/millipede-iac/millipede/state/snapshot/tfcstore"
	"github.com/zclconf/go-cty/cty"
)

// BackendOptions are the options for a change of the backend.
type BackendOptions struct {
	// Arguments are those of -backend-config: NAME=VALUE, or names of files.
	Arguments []string
	// Reconfigure uses the content of the new backend; Migrate copies the states to it; Force does so without
	// asking.
	Reconfigure, Migrate, Force bool
	Lock                        bool
	LockTimeout                 time.Duration
	// CanAsk is set if Confirm may be called.
	CanAsk bool
	// Confirm asks the user; the diagnostics say why there was no answer.
	Confirm func(question, what string) (bool, diag.List)
	// Moving is called when states are about to be migrated.
	Moving func()
	// Name asks for the name of a workspace of a service, for the reason in what; Choose asks which of several is
	// to be selected, because the selected one does not exist.
	Name   func(question, what string) (string, diag.List)
	Choose func(missing string, names []string) (string, diag.List)
}

// BackendChange is the previously and the now recorded backend; empty is the local one without a block.
type BackendChange struct {
	Changed  bool
	Was, Now string
}

// migration is a comparison of the recorded and the configured backend, with its consequences.
type migration struct {
	*Estate
	options BackendOptions
	config  *Configuration
	block   *config.Backend // of the configuration; nil if there is none
}

// PrepareBackend records the backend of the configuration. If it has changed, the states are migrated, or the
// content of the new backend is used, depending on the options.
func (c *Configuration) PrepareBackend(ctx context.Context, root *config.Node, o BackendOptions) (BackendChange,
	diag.List) {
	i := &migration{c.estate, o, c, backendBlock(root)}
	was, diags := i.readBackendRecord()
	now, more := i.wanted(root)
	if diags = diags.Append(more); diags.HasErrors() {
		return BackendChange{}, diags
	}
	first := was.Type == ""
	switch {
	case was.same(now) && was.Hash == now.Hash && !o.Reconfigure:
		return BackendChange{}, diags
	case was.Type != "" && was.same(now) && !o.Reconfigure: // an equivalent block
		if err := i.writeBackendRecord(now); err != nil {
			return BackendChange{}, diags.Append(unrecorded(err))
		}
		return BackendChange{}, diags
	case was.Type == now.Type && was.Hash == now.Hash && len(o.Arguments) == 0 && !o.Reconfigure:
		return BackendChange{}, diags // the arguments were given to an earlier init
	case o.Reconfigure:
		diags = diags.Append(i.adopt(ctx, was, now))
	case first || o.Migrate || o.Force:
		diags = diags.Append(i.migrate(ctx, was, now))
	default:
		return BackendChange{}, diags.Append(diag.New(diag.Error, "Backend configuration changed",
			"The backend's configuration has changed since this directory was initialized, so the state may have to be "+
				"migrated.\n\nTo migrate it, run init -migrate-state. To use the state that the new backend already has, "+
				"run init -reconfigure.", nil))
	}
	if diags.HasErrors() {
		return BackendChange{}, diags
	}
	if err := i.writeBackendRecord(now); err != nil {
		return BackendChange{}, diags.Append(unrecorded(err))
	}
	return BackendChange{true, was.Type, now.Type}, diags
}

func unrecorded(err error) diag.List {
	return diag.Errors("Failed to record the backend", err.Error()+".", nil)
}

// wanted returns the record of the backend that the configuration and the options require.
func (i *migration) wanted(root *config.Node) (backendRecord, diag.List) {
	block := backendBlock(root)
	if block == nil {
		var diags diag.List
		if len(i.options.Arguments) > 0 {
			diags = diags.Append(diag.New(diag.Warning, "Missing backend configuration",
				"The option -backend-config adds to the arguments of a backend block, and the configuration has "+
					"none, so it does nothing.", nil))
		}
		return backendRecord{}, diags
	}
	others, diags := i.backendArguments()
	if diags.HasErrors() {
		return backendRecord{}, diags
	}
	own, more := backendConfig(root, block)
	if diags = diags.Append(more); diags.HasErrors() {
		return backendRecord{}, diags
	}
	record, more := describeBackend(block, own, others)
	return record, diags.Append(more)
}

// backendArguments returns the arguments of -backend-config; later ones override earlier ones.
func (i *migration) backendArguments() (map[string]cty.Value, diag.List) {
	out := map[string]cty.Value{}
	var diags diag.List
	if slices.Equal(i.options.Arguments, []string{""}) {
		return out, nil // "-backend-config=" removes the arguments of earlier commands
	}
	for _, text := range i.options.Arguments {
		if name, value, ok := strings.Cut(text, "="); ok {
			out[strings.TrimSpace(name)] = cty.StringVal(value)
			continue
		}
		if _, err := os.Stat(i.path(text)); errors.Is(err, fs.ErrNotExist) {
			diags = diags.Append(diag.New(diag.Error, "Failed to read file", fmt.Sprintf("The file %q of "+
				"-backend-config does not exist.", text), nil))
			continue
		}
		body, more := i.config.Loader.ParseFile(text)
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

// backendPair is the migration of the states of all workspaces from one backend to another.
type backendPair struct{ from, to snapshot.Backend }

// open opens both backends; close closes them.
func (i *migration) open(ctx context.Context, was, now backendRecord) (*backendPair, diag.List) {
	from, diags := i.backend(ctx, was)
	to, more := i.backend(ctx, now)
	if i.block != nil { // problems of its arguments refer to their lines
		more = eval.AtSource(more, i.block.Body).WithSubject(i.block.TypeRange.Ptr())
	}
	return &backendPair{from, to}, diags.Append(more)
}

// close closes what open has opened; one of them may have failed to open.
func (i *migration) close(m *backendPair) diag.List {
	return i.CloseBackend(m.from).Append(i.CloseBackend(m.to))
}

func (i *migration) backend(ctx context.Context, r backendRecord) (snapshot.Backend, diag.List) {
	args := cty.EmptyObjectVal
	if r.Type != "" {
		var err error
		if args, err = r.arguments(); err != nil {
			return nil, diag.Errors("Invalid backend configuration", err.Error()+".", nil)
		}
	}
	b, diags := i.openKind(ctx, r.kind(), args, StateOptions{})
	if diags.HasErrors() {
		return nil, diags
	}
	return snapshot.Encrypted(b, i.sealing.State()), diags
}

// workspaces returns all workspaces that have a home or exist in one of the backends.
func (i *migration) workspaces(ctx context.Context, m *backendPair) ([]string, error) {
	var out []string
	lists := []func(context.Context) ([]string, error){i.ownWorkspaces, held(m.from), held(m.to)}
	// A service need not have the workspace that every directory has.
	for _, b := range []snapshot.Backend{m.from, m.to} {
		if _, is := snapshot.Plain(b).(*tfcstore.Store); is {
			lists = []func(context.Context) ([]string, error){held(b)}
		}
	}
	for _, list := range lists {
		names, err := list(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, names...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// held lists the workspaces of a backend; a backend without workspaces has the default one.
func held(b snapshot.Backend) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		names, err := b.Workspaces(ctx)
		if errors.Is(err, snapshot.ErrNoWorkspaces) {
			return []string{journal.DefaultWorkspace}, nil
		}
		return names, err
	}
}

// migrate copies the states of the old backend's workspaces to the new one.
func (i *migration) migrate(ctx context.Context, was, now backendRecord) (diags diag.List) {
	if was.Type != "" && now.Type != "" {
		i.options.Moving()
	}
	m, diags := i.open(ctx, was, now)
	defer func() { diags = diags.Append(i.close(m)) }()
	if diags.HasErrors() {
		return diags
	}
	if to, is := snapshot.Plain(m.to).(*tfcstore.Store); is {
		return diags.Append(i.toService(ctx, m, to))
	}
	names, err := i.sources(ctx, m.from)
	if err != nil {
		return diags.Append(err)
	}
	_, err = m.to.Workspaces(ctx)
	single := errors.Is(err, snapshot.ErrNoWorkspaces)
	if err != nil && !single {
		return diags.Append(err)
	}
	several := len(names) > 1 || !slices.Contains(names, journal.DefaultWorkspace)
	if several && single {
		return diags.Append(i.carrySelected(ctx, m, now))
	}
	var carried []string
	diags = diags.Append(i.each(ctx, m, names, func(at *Opened) diag.List {
		st, diags := i.stored(ctx, m, at)
		if st != nil {
			carried = append(carried, at.Workspace)
		}
		return diags
	}))
	if diags.HasErrors() || len(carried) == 0 {
		return diags
	}
	if several {
		question := fmt.Sprintf("Do you want to copy the states of all workspaces to the backend %q?", now.kind())
		diags = diags.Append(i.agree(question,
			fmt.Sprintf("The states of these workspaces are copied, and replace those that the new backend has for them: "+
				"%s. Enter \"yes\" to copy them all, and \"no\" to change nothing.", strings.Join(carried, ", "))))
		if diags.HasErrors() {
			return diags
		}
	}
	return diags.Append(i.each(ctx, m, carried, func(at *Opened) diag.List {
		st, there, diags := i.pending(ctx, m, at, at.Workspace)
		if st == nil {
			return diags
		}
		if !several {
			yes, more := i.copies(at, st, there)
			if diags = diags.Append(more); diags.HasErrors() {
				return diags
			}
			if !yes {
				return diags.Append(i.take(ctx, m, at))
			}
		}
		return diags.Append(i.locked(ctx, at, func() diag.List {
			if err := m.to.Create(ctx, at.Workspace); err != nil {
				return diag.List{}.Append(err)
			}
			return at.Push(ctx)
		}))
	}))
}

// stored returns the state of a workspace of the old backend; nil if nothing was ever stored there.
func (i *migration) stored(ctx context.Context, m *backendPair, at *Opened) (*state.State, diag.List) {
	source := &snapshot.Sync{Store: at.store, Backend: m.from, Version: i.EngineVersion}
	if _, err := source.Pull(ctx, at.Workspace, at.LockID); err != nil && !errors.Is(err, journal.ErrNoWorkspace) {
		return nil, i.unreadable(err, false)
	} else if err != nil {
		return nil, nil
	}
	st, diags := at.Load(ctx)
	if diags.HasErrors() || NeverStored(st) {
		return nil, diags
	}
	return st, diags
}

// pending returns the state of a workspace of the old backend that is to be copied to the target, a workspace of the
// new one, and the state that is there. The state is nil if there is nothing to copy.
func (i *migration) pending(ctx context.Context, m *backendPair, at *Opened, target string) (st, there *state.State,
	diags diag.List) {
	st, diags = i.stored(ctx, m, at)
	if st == nil {
		return nil, nil, diags
	}
	there, diags = i.readSnapshot(ctx, m.to, target, false)
	if diags.HasErrors() || there != nil && there.SameContent(st) && there.Lineage == st.Lineage {
		return nil, nil, diags
	}
	return st, there, diags
}

// agree asks a question about several workspaces, unless -force-copy answers it. A "no" is an error.
func (i *migration) agree(question, what string) diag.List {
	if i.options.Force {
		return nil
	}
	yes, diags := false, diag.List(nil)
	if i.options.CanAsk {
		yes, diags = i.options.Confirm(question, what)
	}
	switch {
	case diags.HasErrors() || !i.options.CanAsk:
		return diag.Errors("Error asking for state migration action: input is disabled",
			"The states of several workspaces have to be copied to another backend, and input is disabled. Give "+
				"-force-copy to copy them without confirmation, or -reconfigure to leave them where they are.", nil)
	case !yes:
		return diag.Errors("Migration aborted by user.", "Nothing was changed.", nil)
	}
	return nil
}

// copies asks whether the state of the only workspace is to be copied.
func (i *migration) copies(at *Opened, st, there *state.State) (bool, diag.List) {
	if i.options.Force {
		return true, nil
	}
	question := fmt.Sprintf("Do you want to copy the state of the workspace %q to the new backend?", at.Workspace)
	what := fmt.Sprintf("It has %d resource(s). Enter \"yes\" to copy it, and \"no\" to begin with an empty state.",
		len(st.Resources))
	if there != nil && !there.IsEmpty() {
		what = fmt.Sprintf("There is already a state with %d resource(s). Enter \"yes\" to replace it with the present "+
			"one, which has %d, and \"no\" to use the existing one.", len(there.Resources), len(st.Resources))
	}
	yes, diags := i.options.Confirm(question, what)
	if diags.HasErrors() {
		return false, diag.Errors("Can't ask approval for state migration when interactive input is disabled.",
			"The state has to be copied to another backend, and input is disabled. Give -force-copy to copy it "+
				"without confirmation, or -reconfigure to leave it where it is.", nil)
	}
	return yes, nil
}

// carrySelected copies the state of the selected workspace to a backend that has no workspaces: it becomes that of the
// default one, which is then selected.
func (i *migration) carrySelected(ctx context.Context, m *backendPair, now backendRecord) diag.List {
	selected := i.Workspace()
	from, diags := i.openWorkspace(ctx, selected, m.from, "init", i.options.LockTimeout)
	if diags.HasErrors() {
		return diags
	}
	st, _, more := i.pending(ctx, m, from, journal.DefaultWorkspace)
	if diags = diags.Append(more, from.store.close()); diags.HasErrors() {
		return diags
	}
	question := fmt.Sprintf("The backend %q has no workspaces. Do you want to copy only the state of the selected "+
		"workspace?", now.kind())
	diags = diags.Append(i.agree(question, fmt.Sprintf("The state of the workspace %q becomes the only one of "+
		"the new backend. Those of the other workspaces stay where they are. Enter \"yes\" to copy it, and \"no\" to "+
		"change nothing.", selected)))
	if diags.HasErrors() {
		return diags
	}
	if st != nil {
		diags = diags.Append(i.each(ctx, m, []string{journal.DefaultWorkspace}, func(at *Opened) diag.List {
			return i.locked(ctx, at, func() diag.List { return at.Replace(ctx, st, "init -migrate-state") })
		}))
	}
	if diags.HasErrors() {
		return diags
	}
	return diags.Append(i.choose(journal.DefaultWorkspace))
}

// adopt uses the content of the new backend, whatever the old one contained. The store keeps that as earlier
// versions.
func (i *migration) adopt(ctx context.Context, was, now backendRecord) (diags diag.List) {
	if was.same(now) {
		return nil
	}
	m, diags := i.open(ctx, was, now)
	defer func() { diags = diags.Append(i.close(m)) }()
	if diags.HasErrors() {
		return diags
	}
	names, err := i.workspaces(ctx, m)
	if err != nil {
		return diags.Append(err)
	}
	_, err = m.to.Workspaces(ctx)
	single := errors.Is(err, snapshot.ErrNoWorkspaces)
	if single {
		names = []string{journal.DefaultWorkspace}
	}
	diags = diags.Append(i.each(ctx, m, names, func(at *Opened) diag.List { return i.take(ctx, m, at) }))
	if !single || diags.HasErrors() {
		return diags
	}
	return diags.Append(i.choose(journal.DefaultWorkspace)) // the selected one may be that of a service
}

// take makes the state at the new backend, or an empty one, the state of the workspace.
func (i *migration) take(ctx context.Context, m *backendPair, at *Opened) diag.List {
	st, diags := i.readSnapshot(ctx, m.to, at.Workspace, false)
	if diags.HasErrors() {
		return diags
	}
	if st == nil {
		st = state.Empty()
	}
	switch ours, err := at.store.Load(ctx, at.Workspace); {
	case errors.Is(err, journal.ErrNoWorkspace):
		return nil
	case err != nil:
		return diags.Append(err)
	case NeverStored(ours):
		return nil // the first command adopts its state
	}
	if err := at.store.Replace(ctx, at.Workspace, at.LockID, st, journal.Because("init -reconfigure")); err != nil {
		return diags.Append(err)
	}
	return diags
}

// each opens the workspaces one after another with the new backend, and calls fn for them until there is an error.
func (i *migration) each(ctx context.Context, m *backendPair, names []string, fn func(*Opened) diag.List) (
	diags diag.List) {
	for _, name := range names {
		at, more := i.openWorkspace(ctx, name, m.to, "init", i.options.LockTimeout)
		if diags = diags.Append(more); diags.HasErrors() {
			break
		}
		if diags = diags.Append(fn(at), at.store.close()); diags.HasErrors() {
			break
		}
	}
	return diags
}

// locked calls fn while the new backend is locked, unless locking is disabled.
func (i *migration) locked(ctx context.Context, at *Opened, fn func() diag.List) diag.List {
	if !i.options.Lock {
		return fn()
	}
	lock, diags := i.lockBackend(ctx, at.backend, at.Workspace, at.info, i.options.LockTimeout)
	if diags.HasErrors() {
		return diags
	}
	diags = fn()
	if err := at.backend.Unlock(context.WithoutCancel(ctx), at.Workspace, lock.ID); err != nil {
		diags = diags.Append(diag.New(diag.Error, "Error releasing the state lock", err.Error(), nil))
	}
	return diags
}
