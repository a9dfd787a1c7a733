package main

import (
	"context"
	"strings"
	"sync"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/querying"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
)

const queryUsage = `
Usage: coordinator [global options] query [options]

  Lists existing objects, managed or not: those that the list blocks in the files *.tfquery.hcl (*.tofuquery.hcl) of this
  directory describe. Nothing is changed. Each object is shown as soon as it is found.

Options:
  -unmanaged            Leave out the objects that are in the state.
  -generate-config-out=PATH
                        Write configuration that imports the objects to this new file or, if PATH is a directory or ends
                        in a slash, to a new file for each region and resource type in it.
  -var 'NAME=VALUE'     Set an input variable. May be given several times.
  -var-file=FILE        Set the variables in a file, beside terraform.tfvars and *.auto.tfvars.
  -input=false          Never ask for anything.
  -parallelism=N        How many operations may run at the same time, over all runs. Default: 10.
` + jsonHelp

func runQuery(ctx context.Context, a *app, args []string) int {
	var show viewFlags
	var vars variableFlags
	var parallelism parallelismFlag
	f := a.NewFlags()
	show.RegisterJSON(f)
	vars.register(f)
	parallelism.register(f)
	unmanaged := f.Bool("unmanaged", false, "")
	generated := f.String("generate-config-out", "", "")
	s, code, ok := a.begin(f, queryUsage, args, &show)
	if !ok {
		return code
	}
	if diags := noArguments(f); diags.HasErrors() {
		return s.End(diags)
	}
	vars.Input = vars.Input && !show.JSON // no prompts with JSON output
	v := &queryView{screen: s}
	if *generated != "" {
		var diags diag.List
		if v.files, diags = a.Estate.FoundFiles(*generated); diags.HasErrors() {
			return s.End(diags)
		}
	}
	diags := a.Estate.Inspect(ctx, estate.InspectOptions{Variables: vars.Variables, Sources: s.From, Queries: true,
		Observer: v, Parallelism: parallelism.value}, func(i *estate.Inspection) diag.List {
		if v.files != nil {
			v.files.Avoid(i.Config.Tree.Root.Module)
		}
		_, diags := operation.Do(ctx, i.Engine.Session, "query",
			func(ctx context.Context, s *operation.Session) (struct{}, diag.List) {
				return struct{}{}, s.Query(ctx, i.Prior, operation.QueryOptions{Unmanaged: *unmanaged,
					Generate: v.files != nil, Watcher: v})
			})
		return diags
	})
	return s.End(diags.Append(v.end(!diags.HasErrors())))
}

// queryView shows what a query finds. It holds the worker back while the output is not read.
type queryView struct {
	coordinator.Silent
	*screen
	files *estate.FoundFiles // nil if no configuration is generated

	mu    sync.Mutex // one line at a time
	lines int        // messages that may not have been written yet
}

// flushEvery is how many messages for programs may wait to be written.
const flushEvery = 100

// Begun implements querying.Watcher.
func (v *queryView) Begun(l *querying.List) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.Stream != nil {
		v.Stream.ListStart(l)
	}
}

// Found implements querying.Watcher.
func (v *queryView) Found(l *querying.List, o *querying.Object) {
	v.mu.Lock()
	defer v.mu.Unlock()
	resource, imports := "", ""
	if v.files != nil {
		resource, imports = v.files.Add(l, o)
	}
	v.Print(view.FoundText(l, o))
	if v.Stream == nil {
		return
	}
	v.Stream.ListFound(l, o, resource, imports)
	if v.lines++; v.lines == flushEvery {
		v.lines = 0
		v.Check(v.Stream.Settle())
	}
}

// Ended implements querying.Watcher.
func (v *queryView) Ended(l *querying.List) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.Print(view.ListedText(l, v.Options()))
	if v.Stream != nil {
		v.Stream.ListComplete(l)
	}
}

// Waiting implements coordinator.Observer.
func (v *queryView) Waiting(waits []coordinator.Wait) {
	for _, w := range waits {
		v.App.Estate.Tell(document.WaitText(w))
	}
}

// end writes the generated files.
func (v *queryView) end(ok bool) diag.List {
	if v.files == nil {
		return nil
	}
	names, diags := v.files.Close(ok)
	if len(names) > 0 {
		text := "Configuration was written to " + strings.Join(names, ", ") + ". Review it: secret values are left out, " +
			"and the blocks do not refer to other resources. An apply imports the objects."
		v.Print("\n" + text + "\n")
		if v.Stream != nil {
			v.Stream.Log(text)
		}
	}
	return diags
}
