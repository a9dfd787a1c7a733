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

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/remote"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
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
		if diags = diags.Append(i.claimFormer(ctx, was)); !diags.HasErrors() {
			diags = diags.Append(i.adopt(ctx, was, now))
		}
	case first || o.Migrate || o.Force:
		if diags = diags.Append(i.claimFormer(ctx, was)); !diags.HasErrors() {
			diags = diags.Append(i.migrate(ctx, was, now))
		}
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
	return BackendChange{true, was.Type, now.Type}, diags.Append(i.Left(ctx))
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
type backendPair struct {
	was, now backendRecord
	from, to backend.Backend
}

// open opens both backends; close closes them.
func (i *migration) open(ctx context.Context, was, now backendRecord) (*backendPair, diag.List) {
	from, diags := i.backend(ctx, was)
	to, more := i.next(ctx, now)
	return &backendPair{was, now, from, to}, diags.Append(more)
}

// next opens the new backend. Problems of its arguments refer to their lines.
func (i *migration) next(ctx context.Context, now backendRecord) (backend.Backend, diag.List) {
	to, diags := i.backend(ctx, now)
	if i.block != nil {
		diags = eval.AtSource(diags, i.block.Body).WithSubject(i.block.TypeRange.Ptr())
	}
	return to, diags
}

// close closes what open has opened; one of them may have failed to open.
func (i *migration) close(m *backendPair) diag.List {
	return i.CloseBackend(m.from).Append(i.CloseBackend(m.to))
}

func (i *migration) backend(ctx context.Context, r backendRecord) (backend.Backend, diag.List) {
	b, diags := i.openRecorded(ctx, r, StateOptions{})
	if diags.HasErrors() {
		return nil, diags
	}
	return backend.Encrypted(b, i.sealing.State()), diags
}

// held lists the workspaces of a backend; a backend without workspaces has the default one.
func held(b backend.Backend) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		names, err := b.Workspaces(ctx)
		if errors.Is(err, backend.ErrNoWorkspaces) {
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
	if to, is := backend.Plain(m.to).(*remote.Store); is {
		return diags.Append(i.toService(ctx, m, to))
	}
	names, err := i.sources(ctx, m)
	if err != nil {
		return diags.Append(err)
	}
	_, err = m.to.Workspaces(ctx)
	single := errors.Is(err, backend.ErrNoWorkspaces)
	if err != nil && !single {
		return diags.Append(err)
	}
	several := len(names) > 1 || !slices.Contains(names, journal.DefaultWorkspace)
	if several && single {
		return diags.Append(i.carrySelected(ctx, m, now))
	}
	var carried []string
	for _, name := range names {
		st, more := i.source(ctx, m, name)
		if diags = diags.Append(more); diags.HasErrors() {
			return diags
		}
		if st != nil {
			carried = append(carried, name)
		}
	}
	if len(carried) == 0 {
		return diags
	}
	if several {
		question := fmt.Sprintf("Do you want to migrate all workspaces to %q?", now.kind())
		diags = diags.Append(i.agree(question,
			fmt.Sprintf("The states of these workspaces are copied, and replace those that the new backend has for them: "+
				"%s. Enter \"yes\" to copy them all, and \"no\" to change nothing.", strings.Join(carried, ", "))))
		if diags.HasErrors() {
			return diags
		}
	}
	for _, name := range carried {
		if diags = diags.Append(i.carry(ctx, m, name, several)); diags.HasErrors() {
			return diags
		}
	}
	return diags
}

// carry copies the state of one workspace, unless it is there already or, if that was not agreed, the user answers no.
func (i *migration) carry(ctx context.Context, m *backendPair, name string, agreed bool) diag.List {
	st, there, diags := i.pending(ctx, m, name, name)
	if st == nil || diags.HasErrors() {
		return diags
	}
	if !agreed {
		yes, more := i.copies(name, st, there)
		if diags = diags.Append(more); !yes || diags.HasErrors() {
			return diags
		}
	}
	if diags = diags.Append(i.put(ctx, m, name, st)); diags.HasErrors() || m.was.Type != "" {
		return diags
	}
	return diags.Append(i.leave(ctx, m, name))
}

// put makes st the state of a workspace of the new backend. The store of that keeps the state that it replaces.
func (i *migration) put(ctx context.Context, m *backendPair, target string, st *state.State) diag.List {
	at, diags := i.openWorkspace(ctx, target, m.now, m.to, "init", i.options.LockTimeout)
	if diags.HasErrors() {
		return diags
	}
	diags = diags.Append(i.locked(ctx, at, func() diag.List {
		err := m.to.Create(ctx, target)
		if errors.Is(err, backend.ErrNoWorkspaces) {
			err = nil
		}
		if err == nil {
			err = at.ensureWorkspace(ctx)
		}
		if err != nil {
			return diag.List{}.Append(err)
		}
		at.sync.Settle = true
		if _, err := at.sync.Pull(ctx, target, ""); err != nil {
			return i.unreadable(err, false)
		}
		return at.Replace(ctx, st, "init -migrate-state")
	}))
	return diags.Append(at.store.close())
}

// leave empties the state file of the local backend that was used without a block, as OpenTofu does, so that the
// state is not offered for migration again. The backup of the file keeps the state, and so does the store, if the
// location has one.
func (i *migration) leave(ctx context.Context, m *backendPair, name string) diag.List {
	if m.from.Describe(name).Where == m.to.Describe(name).Where {
		return nil
	}
	at, diags := i.openSource(ctx, m, name)
	if diags.HasErrors() {
		return diags
	}
	if err := at.sync.Empty(ctx, name, "init -migrate-state"); err != nil {
		diags = diags.Append(diag.New(diag.Error, "Failed to empty the former state file", err.Error()+".", nil))
	}
	return diags.Append(at.store.close())
}

// openSource opens the store of a workspace of the old backend: a copy if there is no store yet, so that none is made.
func (i *migration) openSource(ctx context.Context, m *backendPair, name string) (*Opened, diag.List) {
	at, diags := i.storeOf(m.was, name, m.from)
	if diags.HasErrors() {
		return nil, diags
	}
	as := writes
	_, former := i.Directory().Former()
	if _, older := i.Directory().Unclaimed(at.location); !older && !former && !exists(at.Store()) {
		as = reads
	}
	return i.openLocated(ctx, at, name, m.from, "init", as, i.options.LockTimeout)
}

// source returns the state of a workspace of the old backend; nil if it is empty: then there is nothing to copy.
func (i *migration) source(ctx context.Context, m *backendPair, name string) (*state.State, diag.List) {
	at, diags := i.openSource(ctx, m, name)
	if diags.HasErrors() {
		return nil, diags
	}
	st, more := i.current(ctx, at)
	diags = diags.Append(more)
	if !diags.HasErrors() && !st.IsEmpty() {
		diags = diags.Append(at.cutOff(ctx))
	}
	if diags = diags.Append(at.store.close()); diags.HasErrors() || st.IsEmpty() {
		return nil, diags
	}
	return st, diags
}

// pending returns the state of a workspace of the old backend that is to be copied to the target, a workspace of the
// new one, and the state that is there. The state is nil if there is nothing to copy.
func (i *migration) pending(ctx context.Context, m *backendPair, name, target string) (st, there *state.State,
	diags diag.List) {
	st, diags = i.source(ctx, m, name)
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
func (i *migration) copies(name string, st, there *state.State) (bool, diag.List) {
	if i.options.Force {
		return true, nil
	}
	const question = "Do you want to copy existing state to the new backend?" // programs look for these words
	what := fmt.Sprintf("The state of the workspace %q has %d resource(s). Enter \"yes\" to copy it, and \"no\" to begin "+
		"with an empty state.", name, len(st.Resources))
	if there != nil && !there.IsEmpty() {
		what = fmt.Sprintf("The new backend has a state of the workspace %q already, with %d resource(s). Enter \"yes\" to "+
			"replace it with the present one, which has %d, and \"no\" to use the one that is there.", name,
			len(there.Resources), len(st.Resources))
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
	st, _, diags := i.pending(ctx, m, selected, journal.DefaultWorkspace)
	if diags.HasErrors() {
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
		diags = diags.Append(i.put(ctx, m, journal.DefaultWorkspace, st))
	}
	if st != nil && m.was.Type == "" && !diags.HasErrors() {
		diags = diags.Append(i.leave(ctx, m, selected))
	}
	if diags.HasErrors() {
		return diags
	}
	return diags.Append(i.choose(journal.DefaultWorkspace))
}

// adopt uses the content of the new backend, whatever the old one contained: each has a store of its own.
func (i *migration) adopt(ctx context.Context, was, now backendRecord) diag.List {
	if was.same(now) {
		return nil
	}
	to, diags := i.next(ctx, now)
	if diags.HasErrors() {
		return diags
	}
	_, err := to.Workspaces(ctx)
	switch {
	case errors.Is(err, backend.ErrNoWorkspaces):
		diags = diags.Append(i.choose(journal.DefaultWorkspace)) // the selected one may be that of a service
	case err != nil:
		diags = diags.Append(err)
	}
	return diags.Append(i.CloseBackend(to))
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
