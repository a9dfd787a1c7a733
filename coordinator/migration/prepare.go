package migration

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
)

// Options are the options for a change of the backend.
type Options struct {
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

// Change is the previously and the now recorded backend; empty is the local one without a block.
type Change struct {
	Changed  bool
	Was, Now string
}

// step is what init does about the backend.
type step int

const (
	keeps    step = iota // the record is that of the configuration
	records              // only the text of the block has changed
	adopts               // the content of the new backend is used
	migrates             // the states are copied to the new backend
	refuses              // the user has to choose between the two
)

// decide compares the recorded backend with the wanted one.
func decide(was, now Record, o Options) step {
	switch {
	case was.Same(now) && was.Hash == now.Hash && !o.Reconfigure:
		return keeps
	case was.Type != "" && was.Same(now) && !o.Reconfigure: // an equivalent block
		return records
	case was.Type == now.Type && was.Hash == now.Hash && len(o.Arguments) == 0 && !o.Reconfigure:
		return keeps // the arguments were given to an earlier init
	case o.Reconfigure:
		return adopts
	case was.Type == "" || o.Migrate || o.Force:
		return migrates
	}
	return refuses
}

// Prepare records the backend of the configuration. If it has changed, the states are migrated, or the content of the
// new backend is used, depending on the options.
func Prepare(ctx context.Context, b Directory, o Options) (Change, diag.List) {
	was, diags := b.Recorded()
	now, more := b.Wanted(o.Arguments)
	if diags = diags.Append(more); diags.HasErrors() {
		return Change{}, diags
	}
	what := decide(was, now, o)
	switch what {
	case keeps:
		return Change{}, diags
	case records:
		return Change{}, diags.Append(recorded(b, now))
	case adopts, migrates:
		if diags = diags.Append(b.Claim(ctx, was)); diags.HasErrors() {
			return Change{}, diags
		}
		m := &migration{Storage: b, from: Side{Record: was}, to: Side{Record: now}, options: o}
		if what == adopts {
			diags = diags.Append(m.adopt(ctx, b))
		} else {
			diags = diags.Append(m.migrate(ctx, b))
		}
	case refuses:
		return Change{}, diags.Append(diag.New(diag.Error, "Backend configuration changed",
			"The backend's configuration has changed since this directory was initialized, so the state may have to be "+
				"migrated.\n\nTo migrate it, run init -migrate-state. To use the state that the new backend already has, "+
				"run init -reconfigure.", nil))
	}
	if diags.HasErrors() {
		return Change{}, diags
	}
	if more := recorded(b, now); more.HasErrors() {
		return Change{}, diags.Append(more)
	}
	return Change{true, was.Type, now.Type}, diags.Append(b.Left(ctx))
}

// recorded records a backend.
func recorded(b Backends, r Record) diag.List {
	if err := b.Record(r); err != nil {
		return diag.Errors("Failed to record the backend", err.Error()+".", nil)
	}
	return nil
}

// adopt uses the content of the new backend, whatever the old one contained: each has a store of its own.
func (m *migration) adopt(ctx context.Context, b Backends) diag.List {
	if m.from.Same(m.to.Record) {
		return nil
	}
	to, diags := b.Open(ctx, m.to.Record, true)
	if diags.HasErrors() {
		return diags
	}
	_, err := to.Workspaces(ctx)
	switch {
	case errors.Is(err, backend.ErrNoWorkspaces):
		diags = diags.Append(m.choose(journal.DefaultWorkspace)) // the selected one may be that of a service
	case err != nil:
		diags = diags.Append(err)
	}
	return diags.Append(b.Close(to))
}

// choose selects a workspace, unless it is selected already.
func (m *migration) choose(name string) diag.List { return choose(m.Storage, name) }

func choose(s Storage, name string) diag.List {
	if s.Selected() == name {
		return nil
	}
	return s.Select(name)
}

// migrate copies the states of the old backend's workspaces to the new one.
func (m *migration) migrate(ctx context.Context, b Backends) (diags diag.List) {
	if m.from.Type != "" && m.to.Type != "" {
		m.options.Moving()
	}
	from, diags := b.Open(ctx, m.from.Record, false)
	to, more := b.Open(ctx, m.to.Record, true)
	diags = diags.Append(more)
	defer func() { diags = diags.Append(b.Close(from), b.Close(to)) }()
	if diags.HasErrors() {
		return diags
	}
	m.from.Backend, m.to.Backend = from, to
	if service, is := backend.Plain(to).(Service); is {
		return diags.Append(m.toService(ctx, service))
	}
	names, err := m.sources(ctx)
	if err != nil {
		return diags.Append(err)
	}
	_, err = to.Workspaces(ctx)
	single := errors.Is(err, backend.ErrNoWorkspaces)
	if err != nil && !single {
		return diags.Append(err)
	}
	if several(names) && single {
		return diags.Append(m.carrySelected(ctx))
	}
	var carried []string
	for _, name := range names {
		st, more := m.source(ctx, name)
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
	if several(names) {
		if diags = diags.Append(m.agree(aboutAll(m.to.Kind(), carried))); diags.HasErrors() {
			return diags
		}
	}
	for _, name := range carried {
		if diags = diags.Append(m.carry(ctx, name, several(names))); diags.HasErrors() {
			return diags
		}
	}
	return diags
}

// several reports whether there are other workspaces than the default one.
func several(names []string) bool {
	return len(names) > 1 || !slices.Contains(names, journal.DefaultWorkspace)
}

// carry copies the state of one workspace, unless it is there already or, if that was not agreed, the user answers no.
func (m *migration) carry(ctx context.Context, name string, agreed bool) diag.List {
	st, there, diags := m.pending(ctx, name, name)
	if st == nil || diags.HasErrors() {
		return diags
	}
	if !agreed {
		yes, more := m.confirm(aboutOne(name, st, there), "another backend")
		if diags = diags.Append(more); !yes || diags.HasErrors() {
			return diags
		}
	}
	if diags = diags.Append(m.put(ctx, name, st)); diags.HasErrors() {
		return diags
	}
	return diags.Append(m.leave(ctx, name))
}

// carrySelected copies the state of the selected workspace to a backend that has no workspaces: it becomes that of the
// default one, which is then selected.
func (m *migration) carrySelected(ctx context.Context) diag.List {
	selected := m.Selected()
	st, _, diags := m.pending(ctx, selected, journal.DefaultWorkspace)
	if diags.HasErrors() {
		return diags
	}
	if diags = diags.Append(m.agree(aboutSelected(m.to.Kind(), selected))); diags.HasErrors() {
		return diags
	}
	if st != nil {
		if diags = diags.Append(m.put(ctx, journal.DefaultWorkspace, st)); !diags.HasErrors() {
			diags = diags.Append(m.leave(ctx, selected))
		}
		if diags.HasErrors() {
			return diags
		}
	}
	return diags.Append(m.choose(journal.DefaultWorkspace))
}
