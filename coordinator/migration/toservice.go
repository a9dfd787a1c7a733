package migration

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/edit"
	"github.com/millipede-iac/millipede/state/journal"
)

// toService migrates states to a service, which need not have workspaces of the same names.
func (m *migration) toService(ctx context.Context, to Service) diag.List {
	if from, is := backend.Plain(m.from.Backend).(Service); is && from.Describe("").Where == to.Describe("").Where {
		return nil // the same workspaces with other names
	}
	names, err := m.sources(ctx)
	if err != nil {
		return diag.List{}.Append(err)
	}
	var diags diag.List
	var held []string
	for _, name := range names {
		has, more := m.holdsState(ctx, name)
		if diags = diags.Append(more); diags.HasErrors() {
			return diags
		}
		if has {
			held = append(held, name)
		}
	}
	carried, more := carriedTo(to, held, m.Selected())
	if diags = diags.Append(more); diags.HasErrors() {
		return diags
	}
	for _, name := range carried {
		target, more := m.target(to, name)
		if diags = diags.Append(more); diags.HasErrors() {
			return diags
		}
		if diags = diags.Append(m.bring(ctx, name, target)); diags.HasErrors() {
			return diags
		}
		if name == m.Selected() {
			diags = diags.Append(m.choose(target))
		}
	}
	return diags
}

// carriedTo returns which of the workspaces with a state are copied to a service. If the block names one workspace of
// the service, that is the selected one alone, and a warning names the others.
func carriedTo(to Service, held []string, selected string) ([]string, diag.List) {
	if to.Single() == "" || len(held) <= 1 {
		return held, nil
	}
	if !slices.Contains(held, selected) {
		return nil, diag.Errors("Several workspaces have states", fmt.Sprintf("The workspaces %s have "+
			"states, and the block names one workspace of the service. Select the one to bring there, or let the "+
			"block select workspaces by tags.", strings.Join(held, ", ")), nil)
	}
	others := slices.DeleteFunc(slices.Clone(held), func(n string) bool { return n == selected })
	return []string{selected}, diag.List{diag.New(diag.Warning, "Some states stay behind", fmt.Sprintf("The block names "+
		"one workspace of the service, so the state of %s alone goes there. The states of the others stay where they "+
		"are: %s.", selected, strings.Join(others, ", ")), nil)}
}

// holdsState reports whether something was ever stored in a workspace of the former backend. A state with
// operations in doubt is kept: only the store knows them.
func (m *migration) holdsState(ctx context.Context, name string) (bool, diag.List) {
	at, diags := m.Source(ctx, m.from, name, m.options.LockTimeout)
	if diags.HasErrors() {
		return false, diags
	}
	st, more := at.Current(ctx)
	if diags = diags.Append(more, at.Close()); diags.HasErrors() {
		return false, diags
	}
	for range st.Doubts() {
		return false, diags.Append(diag.New(diag.Error, "Some operations are in doubt", fmt.Sprintf("It is not known "+
			"whether an operation on an object of the workspace %q has taken effect, and the service would not know of "+
			"that. Say how it ended first: %s runs resolve", name, diag.Program()), nil))
	}
	return !edit.IsNone(st), diags
}

// targetAt returns the workspace of the service for the state of a workspace; empty if the user has to name one.
func targetAt(to Service, name string) string {
	switch {
	case to.Single() != "" && to.Integrated():
		return to.Single()
	case to.Single() != "":
		return journal.DefaultWorkspace
	case name != journal.DefaultWorkspace:
		return name
	}
	return ""
}

// target is targetAt, with the answer of the user.
func (m *migration) target(to Service, name string) (string, diag.List) {
	switch target := targetAt(to, name); {
	case target != "":
		return target, nil
	case !m.options.CanAsk:
		return "", diag.Errors("The default workspace needs a name", "The service has no default workspace, and nobody "+
			"can be asked for another name. Name one workspace in the block, or run the command where somebody can "+
			"answer.", nil)
	}
	return m.options.Name("The service has no default workspace.", "Enter a name for the workspace that the state of "+
		"the default workspace goes to.")
}

// bring writes the state of a workspace to one of the service.
func (m *migration) bring(ctx context.Context, name, target string) diag.List {
	st, there, diags := m.pending(ctx, name, target)
	if st == nil || diags.HasErrors() {
		return diags
	}
	yes, more := m.confirm(aboutService(name, m.to.Backend.Describe(target).Where, st, there), "the service")
	if diags = diags.Append(more); !yes || diags.HasErrors() {
		return diags
	}
	if diags = diags.Append(m.put(ctx, target, st)); diags.HasErrors() {
		return diags
	}
	return diags.Append(m.leave(ctx, name))
}
