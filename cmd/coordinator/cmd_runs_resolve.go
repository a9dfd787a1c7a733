package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/cmd/internal/running"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/view"
)

const resolveUsage = `
Usage: coordinator [global options] runs resolve ADDRESS -created=ID
       coordinator [global options] runs resolve ADDRESS... -not-created
       coordinator [global options] runs resolve ADDRESS... -invoked
       coordinator [global options] runs resolve ADDRESS... -not-invoked
       coordinator [global options] runs resolve ADDRESS... -find

  Records the outcome of operations in doubt. If their run is resumed, it continues after the operations, or starts them
  again. If a service executes the runs of this directory, the service records it.

Options:
  -created=ID           The object with this ID exists: it is read and stored in the state.
  -find                 Record nothing: show the objects that creations in doubt may have made, with what was sent. The
                        provider must be able to list the resource type.
  -invoked, -not-invoked
                        The action took place, or did not. A resumed run goes on after it, or invokes it again.
  -not-created          There is no object; or an update changed nothing. After a deletion, both options have the
                        object read.
` + lockHelp + textHelp

func runResolve(ctx context.Context, a *app, args []string) int {
	var sf stateFlags
	var shown viewFlags
	f := a.NewFlags()
	sf.registerLock(f)
	shown.RegisterText(f)
	created := f.String("created", "", "")
	notCreated := f.Bool("not-created", false, "")
	invoked := f.Bool("invoked", false, "")
	notInvoked := f.Bool("not-invoked", false, "")
	find := f.Bool("find", false, "")
	var names []string
	for len(args) > 0 && args[0] != "" && args[0][0] != '-' { // addresses may come first
		names, args = append(names, args[0]), args[1:]
	}
	if code, done := a.Parse(f, resolveUsage, args); done {
		return code
	}
	u := running.On(a.TextScreen(shown), running.Kind{})
	all, diags := instances(append(names, f.Args()...))
	switch {
	case !onlyOne(*created != "", *notCreated, *invoked, *notInvoked, *find):
		diags = diags.Append(diag.New(diag.Error, "Missing outcome of the operation", "Give either -created=ID "+
			"or -not-created, or -find to look for the object; for an action -invoked or -not-invoked.", nil))
	case !diags.HasErrors() && slices.ContainsFunc(all, func(a addr.Instance) bool {
		return (a.Resource.Mode == addr.Action) != (*invoked || *notInvoked)
	}):
		diags = diags.Append(diag.New(diag.Error, "Wrong kind of outcome", "The outcome of an action is -invoked or "+
			"-not-invoked, and that of an operation on an object -created=ID or -not-created.", nil))
	case *created != "" && len(all) > 1:
		diags = diags.Append(diag.New(diag.Error, "Several objects with one ID", "With -created=ID, name one operation "+
			"in doubt.", nil))
	}
	if diags.HasErrors() {
		u.Diagnostics(diags)
		return 1
	}
	if *invoked {
		*created = "invoked"
	}
	resolved := func(names ...string) {
		for _, name := range names {
			fmt.Fprintf(a.Stdout, "%s is resolved.\n", name)
		}
	}
	elsewhere := func(d *estate.Delegated) int {
		if *find {
			u.Diagnostics(diag.Errors("Objects cannot be looked for at a service", fmt.Sprintf("The service %s executes the "+
				"runs of this directory, and does not list objects.", d.Host), nil))
			return 1
		}
		var names []string
		for _, at := range all {
			names = append(names, at.String())
		}
		if err := d.Client.Resolve(ctx, d.Workspace.ID, names, *created); err != nil {
			u.Diagnostics(diag.Errors("Failed to resolve "+doubtsOf(all), fmt.Sprintf("The service %s says: %s.", d.Host,
				strings.TrimSuffix(err.Error(), ".")), nil))
			return 1
		}
		resolved(names...)
		return 0
	}
	return running.Operate(ctx, a.App, u, estate.OperationOptions{Name: "apply", State: sf.StateOptions, LockAs: "resolve",
		Settles: true}, elsewhere, func(r *running.Run) int {
		prior := r.Prior
		if *find {
			return findCandidates(ctx, r, all)
		}
		for _, at := range all {
			tx, diags := r.Engine.Resolve(ctx, prior, at, *created, r.State.Who())
			if len(tx.Changes) > 0 {
				diags = diags.Append(r.State.Record(ctx, tx))
			}
			r.UI.Diagnostics(diags)
			if diags.HasErrors() {
				return 1
			}
			resolved(at.String())
		}
		return 0
	})
}

// findCandidates shows what creations in doubt may have made.
func findCandidates(ctx context.Context, r *running.Run, all []addr.Instance) int {
	for _, at := range all {
		found, diags := operation.Do(ctx, r.Engine.Session, "resolve",
			func(ctx context.Context, s *operation.Session) ([]operation.Candidate, diag.List) {
				return s.Candidates(ctx, r.Prior, at)
			})
		r.UI.Diagnostics(diags)
		if diags.HasErrors() {
			return 1
		}
		r.UI.Print(view.CandidatesText(at, found, r.UI.Options()))
	}
	return 0
}

// onlyOne reports whether exactly one of the options was given.
func onlyOne(options ...bool) bool {
	n := 0
	for _, given := range options {
		if given {
			n++
		}
	}
	return n == 1
}

// instances reads the addresses of instances. There must be one.
func instances(names []string) (all []addr.Instance, diags diag.List) {
	if len(names) == 0 {
		names = []string{""} // reading it returns errors about missing parts
	}
	for _, name := range names {
		at, more := addr.ParseInstance(name)
		all, diags = append(all, at), diags.Append(more)
	}
	return all, diags
}

func doubtsOf(all []addr.Instance) string {
	if len(all) == 1 {
		return "the doubt"
	}
	return "the doubts"
}
