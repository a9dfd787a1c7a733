package estate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/remote"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/edit"
	"github.com/millipede-iac/millipede/state/journal"
)

// Service opens the service of the root module's cloud block or backend "remote"; nil if there is none.
func (e *Estate) Service(ctx context.Context, root *config.Node) (*remote.Store, diag.List) {
	block := backendBlock(root)
	if e.Backend != nil || block == nil || !namesService(block) {
		return nil, nil
	}
	b, diags := e.OpenBackend(ctx, root, StateOptions{})
	if diags.HasErrors() {
		return nil, diags
	}
	s, _ := backend.Plain(b).(*remote.Store)
	return s, diags
}

// namesService reports whether a block refers to a service.
func namesService(block *config.Backend) bool {
	return block.OwnBlock || block.Type == remote.Remote().Name
}

// SelectExisting ensures that the selected workspace exists in the configured backend, as in OpenTofu: if it does not,
// the only one that exists is selected, or the user chooses one. In a service, the workspace that the block names is
// created if necessary. Without a backend block, any workspace may be selected.
func (c *Configuration) SelectExisting(ctx context.Context, root *config.Node, o BackendOptions) diag.List {
	s, diags := c.estate.Service(ctx, root)
	if diags.HasErrors() {
		return diags
	}
	if s == nil {
		return diags.Append(c.selectFromBackend(ctx, root, o))
	}
	fail := func(err error) diag.List {
		return diags.Append(diag.New(diag.Error, "Failed to select a workspace", err.Error()+".", nil))
	}
	selected := c.estate.Workspace()
	if s.Single() != "" {
		if s.Integrated() {
			selected = s.Single()
		}
		if err := s.Create(ctx, selected); err != nil {
			return fail(err)
		}
		return diags.Append(c.estate.choose(selected))
	}
	names, err := s.Workspaces(ctx)
	switch {
	case err != nil:
		return fail(err)
	case slices.Contains(names, selected):
		return diags
	case c.estate.Environ.Get("TF_WORKSPACE") != "":
		return diags.Append(diag.New(diag.Error, "Invalid workspace selection", fmt.Sprintf("The environment variable "+
			"TF_WORKSPACE selects the workspace %q, and there is none of this name in the organization %s that the "+
			"block selects.", selected, s.Organization()), nil))
	case len(names) == 1:
		return diags.Append(c.estate.choose(names[0]))
	case len(names) > 1 && o.CanAsk:
		name, more := o.Choose(selected, names)
		if diags = diags.Append(more); diags.HasErrors() {
			return diags
		}
		return diags.Append(c.estate.choose(name))
	case len(names) > 1:
		return diags.Append(diag.New(diag.Error, fmt.Sprintf("Currently selected workspace %q does not exist", selected),
			fmt.Sprintf("The service has these workspaces: %s. Select one with \"%s workspace select\", or with the "+
				"environment variable TF_WORKSPACE.", strings.Join(names, ", "), diag.Program()), nil))
	case !o.CanAsk || !s.Integrated():
		return diags.Append(diag.New(diag.Error, "No existing workspaces", fmt.Sprintf("The service has no workspace "+
			"that the block selects. Make one with \"%s workspace new NAME\".", diag.Program()), nil))
	}
	name, more := o.Name("No workspaces found.", fmt.Sprintf("The service has no workspace with the tags that the block "+
		"asks for (%s).\n  Enter a name, and one is made with these tags.", strings.Join(s.Tags(), ", ")))
	if diags = diags.Append(more); diags.HasErrors() {
		return diags
	}
	if err := s.Create(ctx, name); err != nil {
		return fail(err)
	}
	return diags.Append(c.estate.choose(name))
}

// selectFromBackend is SelectExisting for a backend that is not a service.
func (c *Configuration) selectFromBackend(ctx context.Context, root *config.Node, o BackendOptions) diag.List {
	if c.estate.Backend != nil || backendBlock(root) == nil {
		return nil
	}
	b, diags := c.estate.OpenBackend(ctx, root, StateOptions{})
	if diags.HasErrors() {
		return diags
	}
	w := &Workspaces{estate: c.estate, backend: b}
	switch err := w.list(ctx); {
	case errors.Is(err, backend.ErrNoWorkspaces):
		return diags.Append(w.Close())
	case err != nil:
		return diags.Append(diag.New(diag.Error, "Failed to get existing workspaces", err.Error()+".", nil), w.Close())
	}
	selected, fixed := c.estate.Workspace(), c.estate.Environ.Get("TF_WORKSPACE") != ""
	switch names := w.Names; {
	case w.Has(selected):
	case len(names) == 1 && fixed: // the first command that stores a state makes the workspace
	case len(names) == 1:
		diags = diags.Append(c.estate.choose(names[0]))
	case !o.CanAsk || fixed:
		diags = diags.Append(diag.New(diag.Error, fmt.Sprintf("Currently selected workspace %q does not exist", selected),
			fmt.Sprintf("The backend has these workspaces: %s. Select one of them, or make it, with \"%s workspace "+
				"select -or-create NAME\".", strings.Join(names, ", "), diag.Program()), nil))
	default:
		name, more := o.Choose(selected, names)
		if diags = diags.Append(more); !more.HasErrors() {
			diags = diags.Append(c.estate.choose(name))
		}
	}
	return diags.Append(w.Close())
}

// choose selects a workspace, unless it is selected already.
func (e *Estate) choose(name string) diag.List {
	if e.Workspace() == name {
		return nil
	}
	if err := e.SelectWorkspace(name); err != nil {
		return diag.Errors("Failed to select the workspace", err.Error()+".", nil)
	}
	return nil
}

// toService migrates states to a service, which need not have workspaces of the same names.
func (i *migration) toService(ctx context.Context, m *backendPair, to *remote.Store) diag.List {
	if from, is := backend.Plain(m.from).(*remote.Store); is && from.Describe("").Where == to.Describe("").Where {
		return nil // the same workspaces with other names
	}
	names, err := i.sources(ctx, m)
	if err != nil {
		return diag.List{}.Append(err)
	}
	var diags diag.List
	var carried []string
	for _, name := range names {
		has, more := i.holdsState(ctx, m, name)
		if diags = diags.Append(more); diags.HasErrors() {
			return diags
		}
		if has {
			carried = append(carried, name)
		}
	}
	if to.Single() != "" && len(carried) > 1 {
		selected := i.Workspace()
		if !slices.Contains(carried, selected) {
			return diags.Append(diag.New(diag.Error, "Several workspaces have states", fmt.Sprintf("The workspaces %s have "+
				"states, and the block names one workspace of the service. Select the one to bring there, or let the "+
				"block select workspaces by tags.", strings.Join(carried, ", ")), nil))
		}
		diags = diags.Append(diag.New(diag.Warning, "Some states stay behind", fmt.Sprintf("The block names one "+
			"workspace of the service, so the state of %s alone goes there. The states of the others stay where they "+
			"are: %s.", selected, strings.Join(slices.DeleteFunc(carried, func(n string) bool { return n == selected }),
			", ")), nil))
		carried = []string{selected}
	}
	for _, name := range carried {
		target, more := i.target(to, name)
		if diags = diags.Append(more); diags.HasErrors() {
			return diags
		}
		if diags = diags.Append(i.bring(ctx, m, name, target)); diags.HasErrors() {
			return diags
		}
		if name == i.Workspace() {
			diags = diags.Append(i.choose(target))
		}
	}
	return diags
}

// sources returns the workspaces that may have a state: those of the old backend, with those that have a store here if
// its workspaces end with the process.
func (i *migration) sources(ctx context.Context, m *backendPair) ([]string, error) {
	names, err := held(m.from)(ctx)
	if err != nil {
		return nil, err
	}
	if m.from.Describe(journal.DefaultWorkspace).Volatile {
		own, err := i.ownWorkspaces(ctx, m.was)
		if err != nil {
			return nil, err
		}
		names = append(names, own...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// holdsState reports whether something was ever stored in a workspace of the former backend. A state with
// operations in doubt is kept: only the store knows them.
func (i *migration) holdsState(ctx context.Context, m *backendPair, name string) (bool, diag.List) {
	at, diags := i.openSource(ctx, m, name)
	if diags.HasErrors() {
		return false, diags
	}
	st, more := i.current(ctx, at)
	if diags = diags.Append(more, at.store.close()); diags.HasErrors() {
		return false, diags
	}
	for range st.Doubts() {
		return false, diags.Append(diag.New(diag.Error, "Some operations are in doubt", fmt.Sprintf("It is not known "+
			"whether an operation on an object of the workspace %q has taken effect, and the service would not know of "+
			"that. Say how it ended first: %s runs resolve", name, diag.Program()), nil))
	}
	return !edit.NeverStored(st), diags
}

// current returns the state of an opened workspace, with others' changes; an empty one if there is none.
func (i *migration) current(ctx context.Context, at *Opened) (*state.State, diag.List) {
	if _, err := at.sync.Pull(ctx, at.Workspace, at.LockID); errors.Is(err, journal.ErrNoWorkspace) {
		return state.Empty(), nil
	} else if err != nil {
		return nil, i.unreadable(err, false)
	}
	return at.Load(ctx)
}

// target returns the workspace of the service for the state of a workspace.
func (i *migration) target(to *remote.Store, name string) (string, diag.List) {
	switch {
	case to.Single() != "" && to.Integrated():
		return to.Single(), nil
	case to.Single() != "":
		return journal.DefaultWorkspace, nil
	case name != journal.DefaultWorkspace:
		return name, nil
	case !i.options.CanAsk:
		return "", diag.Errors("The default workspace needs a name", "The service has no default workspace, and nobody "+
			"can be asked for another name. Name one workspace in the block, or run the command where somebody can "+
			"answer.", nil)
	}
	return i.options.Name("The service has no default workspace.", "Enter a name for the workspace that the state of "+
		"the default workspace goes to.")
}

// renamed is one workspace of a backend, under any requested name.
type renamed struct {
	backend.Backend
	name string
}

func (r renamed) Describe(string) backend.Description { return r.Backend.Describe(r.name) }

func (r renamed) Read(ctx context.Context, _ string) ([]byte, error) {
	return r.Backend.Read(ctx, r.name)
}

func (r renamed) Write(ctx context.Context, _ string, data []byte) error {
	return r.Backend.Write(ctx, r.name, data)
}

func (r renamed) Lock(ctx context.Context, _ string, info journal.LockInfo) (backend.Lock, error) {
	return r.Backend.Lock(ctx, r.name, info)
}

func (r renamed) Unlock(ctx context.Context, _, lockID string) error {
	return r.Backend.Unlock(ctx, r.name, lockID)
}

func (r renamed) Create(ctx context.Context, _ string) error { return r.Backend.Create(ctx, r.name) }

// bring writes the state of a workspace to one of the service.
func (i *migration) bring(ctx context.Context, m *backendPair, name, target string) diag.List {
	st, there, diags := i.pending(ctx, m, name, target)
	if st == nil || diags.HasErrors() {
		return diags
	}
	if !i.options.Force {
		what := "Enter \"yes\" to write it there and \"no\" to leave it where it is."
		if there != nil && !there.IsEmpty() {
			what = fmt.Sprintf("There is already a state with %d resource(s). Enter \"yes\" to replace it with the "+
				"present one, which has %d, and \"no\" to use the existing one.", len(there.Resources), len(st.Resources))
		}
		yes, more := i.options.Confirm(fmt.Sprintf("Do you want to copy the state of the workspace %q to %s?",
			name, m.to.Describe(target).Where), what)
		if more.HasErrors() {
			return diags.Append(diag.New(diag.Error, "Can't ask approval for state migration when interactive input is "+
				"disabled.", "The state has to be copied to the service, and input is disabled. Give -force-copy to "+
				"copy it without confirmation, or -reconfigure to leave it where it is.", nil))
		}
		if !yes {
			return diags
		}
	}
	if diags = diags.Append(i.put(ctx, m, target, st)); diags.HasErrors() || m.was.Type != "" {
		return diags
	}
	return diags.Append(i.leave(ctx, m, name))
}
