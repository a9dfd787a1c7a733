package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/snapshot"
)

// operationRun is one plan or apply with everything opened for it.
type operationRun struct {
	app    *app
	ui     ui
	wd     *workdir
	inputs map[string]values.Input
	state  *openState
	prior  *state.State
	engine *engine
	// adopted are the changes that prior has and the store has not: they take over a state that Terraform has written. An
	// apply records them; a plan leaves the state as it is.
	adopted []state.Change
	// mismatch are the problems of variables that were given beside a saved plan: one that does not fit the state any
	// more has those of another.
	mismatch diag.List
	// left is what is wrong with an apply although all of it succeeded.
	left diag.List
	// progress writes the snapshot while the state is changed.
	progress *snapshot.Progress
}

// operationOptions say what to open.
type operationOptions struct {
	command     string
	destroys    bool // it plans to destroy everything
	vars        variableFlags
	state       stateFlags
	ui          ui
	parallelism placement.Parallelism
	// lockAs names the operation in the lock.
	lockAs string
	// saved is the plan to apply, whose configuration takes the place of the files; nil for none.
	saved *planfile.Saved
	// suits checks the configuration as soon as it is loaded; may be nil.
	suits func(*config.Tree) diag.List
	// dir is where the root module is; empty is the working directory.
	dir string
	// settles tells that the command is there to settle what a run that was cut off has left.
	settles bool
}

// bare tells whether the command does without configuration: nothing can be made then, but what exists can be read or destroyed.
func (o *operationOptions) bare() bool {
	return o.command == "destroy" || o.command == "refresh" || o.destroys
}

// operate opens what an operation needs, calls fn, and closes everything. It returns the exit code that fn returned,
// or 1 when something failed on the way.
func (a *app) operate(ctx context.Context, o operationOptions, fn func(*operationRun) int) int {
	r := &operationRun{app: a}
	wd, diags := a.newWorkdir(o.vars)
	if o.saved != nil {
		wd.loader = config.NewLoader(savedFiles(o.saved.Config))
	}
	r.wd = wd
	r.ui = o.ui
	r.ui.from(wd.loader.Sources)
	wd.dir = o.dir
	fail := func(more diag.List) int {
		r.ui.diagnostics(diags.Append(more))
		return 1
	}
	if diags.HasErrors() {
		return fail(nil)
	}
	if o.saved == nil && !wd.loader.HasConfig(wd.root()) && !o.bare() {
		return fail(diag.Errors("No configuration files",
			fmt.Sprintf("The command %s needs configuration, and there is none in this directory: no file that ends in .tf, .tofu, .tf.json or .tofu.json. To destroy what an earlier configuration made, put an empty configuration file here, or use the destroy command.", o.command), nil))
	}
	more := wd.loadFor(o.saved)
	diags = diags.Append(more)
	if diags.HasErrors() {
		return fail(nil)
	}
	if o.suits != nil {
		if diags = diags.Append(o.suits(wd.tree)); diags.HasErrors() {
			return fail(nil)
		}
	}
	if o.saved != nil {
		if r.inputs, more = savedInputs(o.saved.Plan, wd); more.HasErrors() {
			r.mismatch, more = more, nil
		}
	} else {
		r.inputs, more = wd.inputs()
	}
	diags = diags.Append(more)
	if diags.HasErrors() {
		return fail(nil)
	}
	st, more := a.openState(ctx, wd.tree.Root, o.state, o.lockAs)
	diags = diags.Append(more)
	if diags.HasErrors() {
		return fail(nil)
	}
	r.state = st
	if !o.settles {
		diags = diags.Append(r.settle(ctx))
	}
	code := r.withState(ctx, o, diags, fn)
	if more := st.close(ctx); len(more) > 0 {
		r.ui.diagnostics(more)
		if more.HasErrors() {
			code = 1
		}
	}
	return code
}

func (r *operationRun) withState(ctx context.Context, o operationOptions, diags diag.List, fn func(*operationRun) int) int {
	prior, more := r.state.load(ctx)
	diags = diags.Append(more)
	if !diags.HasErrors() {
		r.adopted = r.app.succession(r.wd.tree, prior)
		prior.Apply(r.adopted...)
		r.prior = prior
		r.progress, more = r.state.progress(r.ui.note)
		diags = diags.Append(more)
		watch := r.app.logs.observe(r.ui.observer())
		r.engine, more = r.app.openEngine(ctx, engineOptions{
			tree: r.wd.tree, loader: r.wd.loader, inputs: r.inputs, prior: prior, store: r.progress, home: r.state.store.ownHome(),
			observer: watch, events: watch.Event, note: r.ui.note, parallelism: o.parallelism,
		})
		diags = diags.Append(more)
	}
	r.ui.diagnostics(diags)
	if diags.HasErrors() {
		return 1
	}
	code := fn(r)
	if more := r.engine.close(); len(more) > 0 {
		r.ui.diagnostics(more)
	}
	return code
}

// plan makes a plan and shows it with its problems; nil when there is none to show.
func (r *operationRun) plan(ctx context.Context, spec planSpec) (*operation.Planned, bool) {
	planned, diags := r.show(ctx, spec)
	r.ui.diagnostics(diags)
	return planned, !diags.HasErrors() && planned != nil
}

// show makes a plan and shows it, without its problems; nil when there is none to show.
func (r *operationRun) show(ctx context.Context, spec planSpec) (*operation.Planned, diag.List) {
	planned, diags := r.prepare(ctx, spec)
	if planned != nil {
		operation.Note(planned.Plan, spec.generated)
	}
	if planned != nil {
		planned.Plan.BackendType = "local"
		if b := r.wd.tree.Root.Module.Backend; b != nil {
			planned.Plan.BackendType = b.Type
		}
		r.ui.plan(planned, r.wd.tree)
	}
	return planned, diags
}

// prepare makes a plan and shows nothing of it.
func (r *operationRun) prepare(ctx context.Context, spec planSpec) (*operation.Planned, diag.List) {
	planned, diags := operation.Do(ctx, r.engine.Session, "plan",
		func(ctx context.Context, s *operation.Session) (*operation.Planned, diag.List) {
			return s.Plan(ctx, r.prior, operation.PlanOptions{
				Mode: spec.mode, SkipRefresh: !spec.refresh, Targets: spec.targets, Excludes: spec.excludes, Replace: spec.replace,
				Imports: spec.imports,
			})
		})
	r.ui.settle()
	return planned, diags
}

// save codes a plan with everything that carrying it out needs.
func (r *operationRun) save(p *plan.Plan) planfile.Saved {
	files := map[string][]byte{}
	for name, f := range r.wd.loader.Sources() {
		files[name] = f.Bytes
	}
	saved := planfile.Saved{Plan: p, Engine: version, Config: planfile.Config{Files: files, Dir: "."}}
	if text, err := (config.OS{}).ReadFile(config.ManifestPath(r.app.dataDir())); err == nil {
		saved.Config.Manifest = text
	}
	return saved
}

// apply carries a plan out and shows how it ended. It returns the exit code.
func (r *operationRun) apply(ctx context.Context, p *plan.Plan, command string) int {
	saved, err := planfile.Encode(r.save(p))
	if err != nil {
		r.ui.diagnostics(diag.Errors("Failed to record the plan", err.Error()+".", nil))
		return 1
	}
	defer r.app.interrupts.hold()()
	if len(r.adopted) > 0 {
		// A crash right after this leaves them in the version that the next command ends.
		if err := r.state.store.Commit(ctx, r.state.workspace, r.state.lockID, journal.Tx{Changes: r.adopted}); err != nil {
			r.ui.diagnostics(diag.Errors("Failed to save state", err.Error()+".", nil))
			return 1
		}
	}
	r.ui.applying(p)
	stop := r.progress.Start(ctx)
	applied, diags := operation.Do(ctx, r.engine.Session, command,
		func(ctx context.Context, s *operation.Session) (*operation.Applied, diag.List) {
			return s.Apply(ctx, operation.ApplyOptions{
				Plan: p, Saved: saved, Command: command, LockID: r.state.lockID, Who: r.state.info.Who,
			})
		})
	stop()
	return r.finish(ctx, p, applied, diags)
}

// finish writes the snapshot and shows the result of an apply or a resumed run.
func (r *operationRun) finish(ctx context.Context, p *plan.Plan, applied *operation.Applied, diags diag.List) int {
	r.ui.settle()
	diags = diags.Append(r.state.push(context.WithoutCancel(ctx)))
	if !diags.HasErrors() {
		diags = diags.Append(r.left)
	}
	if applied != nil {
		after, more := r.state.load(context.WithoutCancel(ctx))
		diags = diags.Append(more)
		if after != nil {
			r.ui.applied(p, applied, !diags.HasErrors(), after)
		}
	}
	r.ui.diagnostics(diags)
	if diags.HasErrors() {
		return 1
	}
	return 0
}

// noApproval is the summary that OpenTofu has where nobody can approve.
const noApproval = "error asking for approval: EOF"

// approve asks the user; without somebody to ask it is an error. As in OpenTofu it does so even where input is turned off,
// which is about the values of variables.
func (r *operationRun) approve(p *plan.Plan) bool {
	a := r.app
	question, what := "Do you want to perform these actions?", "Millipede will perform the actions described above.\n  Only 'yes' will be accepted to approve."
	switch p.Mode {
	case plan.Destroy:
		question, what = "Do you really want to destroy all resources?", "Millipede will destroy all your managed infrastructure, as shown above.\n  There is no undo. Only 'yes' will be accepted to confirm."
	case plan.RefreshOnly:
		question, what = "Would you like to update the state to reflect these detected changes?", "Millipede will write these changes to the state without modifying any real infrastructure.\n  There is no undo. Only 'yes' will be accepted to confirm."
	}
	if w := a.workspace(); w != "default" {
		question = strings.TrimSuffix(question, "?") + fmt.Sprintf(" in workspace %q?", w)
	}
	fmt.Fprintf(a.stdout, "\n%s\n  %s\n\n  Enter a value: ", question, what)
	line, err := a.readLine()
	fmt.Fprintln(a.stdout)
	if answered(line) && err == nil {
		return true
	}
	if errors.Is(err, operation.ErrInterrupted) {
		r.ui.diagnostics(diag.Errors("Operation interrupted", "The plan was not approved, so nothing of it was carried out.", nil))
		return false
	}
	if err != nil {
		r.ui.diagnostics(diag.Errors(noApproval, "Standard input has ended before a whole line came. Give -auto-approve to apply without being asked, or save the plan with plan -out=FILE and apply that.", nil))
		return false
	}
	verb := "Apply"
	if p.Mode == plan.Destroy {
		verb = "Destroy"
	}
	fmt.Fprintf(a.stdout, "\n%s cancelled.\n", verb)
	return false
}

// loadFor loads the configuration in the directory, or the one that a plan was saved with.
func (w *workdir) loadFor(saved *planfile.Saved) diag.List {
	if saved == nil {
		return w.load()
	}
	manifest := config.Manifest{}
	if len(saved.Config.Manifest) > 0 {
		var err error
		if manifest, err = config.ParseManifest(saved.Config.Manifest); err != nil {
			return diag.Errors("Failed to read the saved plan", err.Error()+".", nil)
		}
	}
	tree, diags := w.loader.LoadTree(config.TreeOptions{Variable: savedVariable(saved.Plan), Workspace: saved.Plan.Workspace, Locator: manifest, Base: w.app.dir, Env: w.app.environ})
	w.tree = tree
	return diags
}

// stale tells why a saved plan cannot be applied to the state any more.
func stale(p *plan.Plan, s *state.State, workspace string) diag.List {
	switch {
	case p.Errored:
		return diag.Errors("Cannot apply incomplete plan", "The plan was saved although planning had failed, to be looked at; it cannot be applied.", nil)
	case p.BaseLineage != s.Lineage && p.BaseLineage != "":
		return diag.Errors("Saved plan does not match the given state", "The plan was made for a state of another lineage, so it has nothing to do with the state that is here now.", nil)
	case p.BaseSerial != s.Serial:
		return diag.Errors("Saved plan is stale", "The state was changed by another operation after the plan was made, so the plan cannot be applied any more. Make a new one.", nil)
	case p.Workspace != workspace:
		return diag.Errors("Saved plan is for another workspace", fmt.Sprintf("The plan was made in the workspace %q, and %q is selected now.", p.Workspace, workspace), nil)
	}
	return nil
}
