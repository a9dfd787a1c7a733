package migration

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/lang/diag"
)

// Selecting is what SelectExisting needs of a directory.
type Selecting interface {
	Storage
	// List lists the workspaces of the backend of the configuration.
	List(ctx context.Context) (Listed, diag.List)
}

// Listed are the workspaces of the backend of a configuration.
type Listed struct {
	// Any: any workspace may be selected, because there is no backend block, or its backend has no workspaces.
	Any bool
	// Service is the service, if the backend is one; its workspaces are not listed. Otherwise it is nil.
	Service Service
	// Names are the workspaces of a backend that is not a service.
	Names []string
}

// choice is what is done if a workspace is selected that may not exist.
type choice struct {
	does choosing
	name string // the workspace that selects and creates mean; empty if the user names it
}

type choosing int

const (
	stays   choosing = iota // the selected workspace is used
	selects                 // the workspace with the name is selected
	asks                    // the user chooses one of the workspaces
	creates                 // the workspace with the name is created and selected
)

// SelectExisting ensures that the selected workspace exists in the configured backend, as in OpenTofu: if it does not,
// the only one that exists is selected, or the user chooses one. In a service, the workspace that the block names is
// created if necessary. Without a backend block, any workspace may be selected.
func SelectExisting(ctx context.Context, s Selecting, o Options) diag.List {
	l, diags := s.List(ctx)
	if diags.HasErrors() {
		return diags
	}
	fail := func(err error) diag.List {
		return diags.Append(diag.New(diag.Error, "Failed to select a workspace", err.Error()+".", nil))
	}
	var c choice
	var more diag.List
	switch {
	case l.Any:
		return diags
	case l.Service == nil:
		c, more = inBackend(l.Names, s.Selected(), s.Fixed(), o.CanAsk)
	case l.Service.Single() != "":
		c = choice{creates, s.Selected()}
		if l.Service.Integrated() {
			c.name = l.Service.Single()
		}
	default:
		names, err := l.Service.Workspaces(ctx)
		if err != nil {
			return fail(err)
		}
		l.Names = names
		c, more = inService(l.Service, names, s.Selected(), s.Fixed(), o.CanAsk)
	}
	if diags = diags.Append(more); diags.HasErrors() {
		return diags
	}
	switch {
	case c.does == asks:
		c.name, more = o.Choose(s.Selected(), l.Names)
	case c.does == creates && c.name == "":
		c.name, more = o.Name("No workspaces found.", fmt.Sprintf("The service has no workspace with the tags that the "+
			"block asks for (%s).\n  Enter a name, and one is made with these tags.", strings.Join(l.Service.Tags(), ", ")))
	}
	if diags = diags.Append(more); diags.HasErrors() || c.does == stays {
		return diags
	}
	if c.does == creates {
		if err := l.Service.Create(ctx, c.name); err != nil {
			return fail(err)
		}
	}
	return diags.Append(choose(s, c.name))
}

// inService returns the choice in a service with these workspaces, which the block selects by tags. fixed says that the
// environment selects the workspace.
func inService(s Service, names []string, selected string, fixed, canAsk bool) (choice, diag.List) {
	switch {
	case slices.Contains(names, selected):
		return choice{}, nil
	case fixed:
		return choice{}, diag.Errors("Invalid workspace selection", fmt.Sprintf("The environment variable "+
			"TF_WORKSPACE selects the workspace %q, and there is none of this name in the organization %s that the "+
			"block selects.", selected, s.Organization()), nil)
	case len(names) == 1:
		return choice{selects, names[0]}, nil
	case len(names) > 1 && canAsk:
		return choice{does: asks}, nil
	case len(names) > 1:
		return choice{}, notThere(selected, fmt.Sprintf("The service has these workspaces: %s. Select one with \"%s "+
			"workspace select\", or with the environment variable TF_WORKSPACE.", strings.Join(names, ", "), diag.Program()))
	case !canAsk || !s.Integrated():
		return choice{}, diag.Errors("No existing workspaces", fmt.Sprintf("The service has no workspace "+
			"that the block selects. Make one with \"%s workspace new NAME\".", diag.Program()), nil)
	}
	return choice{does: creates}, nil
}

// inBackend returns the choice in a backend that is not a service.
func inBackend(names []string, selected string, fixed, canAsk bool) (choice, diag.List) {
	switch {
	case slices.Contains(names, selected):
		return choice{}, nil
	case len(names) == 1 && fixed: // the first command that stores a state makes the workspace
		return choice{}, nil
	case len(names) == 1:
		return choice{selects, names[0]}, nil
	case !canAsk || fixed:
		return choice{}, notThere(selected, fmt.Sprintf("The backend has these workspaces: %s. Select one of them, or "+
			"make it, with \"%s workspace select -or-create NAME\".", strings.Join(names, ", "), diag.Program()))
	}
	return choice{does: asks}, nil
}

func notThere(selected, detail string) diag.List {
	return diag.Errors(fmt.Sprintf("Currently selected workspace %q does not exist", selected), detail, nil)
}
