package estate

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/coordinator/planning"
	"github.com/millipede-iac/millipede/coordinator/rebase"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/encryption"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/internal/bounds"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/tfstate"
	"github.com/zclconf/go-cty/cty"
)

// ErrPlanEncrypted means that there is no configuration for decrypting a plan file.
var ErrPlanEncrypted = errors.New(
	"the given plan file is encrypted and requires a valid encryption configuration to decrypt")

// decodePlan decodes a plan file, decrypting it if it is encrypted. Its errors are those of planfile.Decode,
// ErrPlanEncrypted, and those of t.
func decodePlan(ctx context.Context, t *encryption.Target, data []byte) (*planfile.Saved, error) {
	if t == nil && encryption.IsEncrypted(data) {
		return nil, ErrPlanEncrypted
	}
	plain, _, err := t.Open(ctx, data, func() error {
		_, err := planfile.Decode(data)
		return err
	})
	if err != nil {
		return nil, err
	}
	saved, err := planfile.Decode(plain)
	if err != nil {
		return nil, err
	}
	saved.Plan.Digest = fmt.Sprintf("%x", sha256.Sum256(plain))
	return &saved, nil
}

// OpenPlan reads a saved plan. If the file has something else, the error says so.
func (e *Estate) OpenPlan(ctx context.Context, name string, vars Variables) (*planfile.Saved, diag.List) {
	enc, diags := e.ownEncryption(ctx, vars)
	if diags.HasErrors() {
		return nil, diags
	}
	var saved *planfile.Saved
	data, err := e.read(name, bounds.State)
	if err == nil {
		saved, err = decodePlan(ctx, enc.Plan(), data)
	}
	var version *planfile.VersionError
	var detail string
	switch {
	case err == nil:
		return saved, diags
	case errors.Is(err, planfile.ErrNoPlan):
		detail = fmt.Sprintf("The file %s is not a saved plan of Millipede. Plans of other engines, and plans in "+
			"JSON, cannot be applied; make one with plan -out=FILE.", name)
	case errors.As(err, &version):
		detail = anotherFormat(version)
	default:
		detail = err.Error() + "."
	}
	return nil, diags.Append(diag.New(diag.Error, fmt.Sprintf("Failed to load %q as a plan file", filepath.Base(name)),
		detail, nil))
}

// anotherFormat returns the message about a plan file of another version of Millipede: which version can read it.
func anotherFormat(e *planfile.VersionError) string {
	with := "the version that made it"
	if e.Engine != "" {
		with = "Millipede " + e.Engine
	}
	return fmt.Sprintf("This version cannot use the file: %s. Make the plan again with plan -out=FILE, or use %s.", e,
		with)
}

// WritePlan saves a plan.
func (e *Estate) WritePlan(ctx context.Context, name string, saved planfile.Saved) error {
	data, err := planfile.Encode(saved)
	if err == nil {
		data, err = e.sealing.Plan().Seal(ctx, data)
	}
	if err != nil {
		return err
	}
	return environ.Named(planfile.Write(e.path(name), data), name)
}

// ReadFile reads a file that contains either a saved plan or a state; the other result is nil.
func (e *Estate) ReadFile(ctx context.Context, name string, vars Variables) (*planfile.Saved, *state.State, diag.List) {
	const failed = "Failed to read the given file as a state or plan file"
	enc, diags := e.ownEncryption(ctx, vars)
	if diags.HasErrors() {
		return nil, nil, diags
	}
	text, err := e.read(name, bounds.State)
	if err != nil {
		return nil, nil, diag.Errors(failed, fmt.Sprintf("Reading it: %s.", err), nil)
	}
	saved, noPlan := decodePlan(ctx, enc.Plan(), text)
	if noPlan == nil {
		return saved, nil, diags
	}
	if version := (*planfile.VersionError)(nil); errors.As(noPlan, &version) {
		return nil, nil, diag.Errors(failed, anotherFormat(version), nil)
	}
	plain, _, err := backend.Open(ctx, enc.State(), text)
	var st *state.State
	if err == nil {
		var problems diag.List
		st, problems = tfstate.Parse(plain)
		switch err = problems.Err(); {
		case err == nil && st == nil:
			err = errors.New("the file is empty")
		case err == nil:
			return nil, st, diags
		}
	}
	if errors.Is(noPlan, ErrPlanEncrypted) {
		return nil, nil, diag.Errors("Couldn't show local plan", fmt.Sprintf("As a plan: %s.\n\nAs a state: %s.",
			noPlan, err), nil)
	}
	return nil, nil, diag.Errors(failed, fmt.Sprintf("As a state: %s.\n\nAs a plan: %s.", err, noPlan), nil)
}

// Fit adapts a saved plan to the current state. If the state has not changed since the plan was made, Fit returns the
// plan itself. If the state has changed, but nothing that the plan depends on, Fit returns the plan's changes on top
// of the current state. Otherwise the diagnostics say why the plan can no longer be applied. If the state is shared,
// Fit first locks the plan's objects, and waits for the holders of these locks.
func (r *Operation) Fit(ctx context.Context, p *plan.Plan) (*plan.Plan, diag.List) {
	if r.State.sharing != nil {
		return r.lockFor(ctx, p)
	}
	return r.fit(ctx, p)
}

func (r *Operation) fit(ctx context.Context, p *plan.Plan) (*plan.Plan, diag.List) {
	if diags := unfit(p, r.Prior, r.State.Workspace); diags.HasErrors() {
		return nil, diags
	}
	if diags := r.appliedBefore(ctx, p); diags.HasErrors() {
		return nil, diags
	}
	if p.Dependencies == nil { // saved by an earlier version
		if p.BaseSerial != r.Prior.Serial {
			return nil, stale(p, r.Prior, nil)
		}
		return p, nil
	}
	changed, err := r.State.store.Since(ctx, r.State.Workspace, p.BaseLineage, p.BaseSerial)
	switch {
	case errors.Is(err, journal.ErrVersion): // the plan was made with another store
		changed = rebase.Compare(p, r.Prior)
	case err != nil:
		return nil, diag.Errors("Failed to compare the plan with the state", err.Error()+".", nil)
	}
	// Differences of a run that has not ended are left out: it may still revert them. With the locks held, no such run
	// can change the plan's objects.
	if r.State.sharing != nil {
		changed = slices.DeleteFunc(changed, func(d journal.Difference) bool {
			return d.By.Serial == 0 && d.By.Run != ""
		})
	}
	if conflicts := rebase.Conflicts(p, changed); len(conflicts) > 0 {
		return nil, stale(p, r.Prior, conflicts)
	}
	if !rebase.Differs(p, changed) && p.BaseSerial == r.Prior.Serial && p.BaseLineage == r.Prior.Lineage {
		return p, nil
	}
	if p.Mode == plan.Destroy && len(p.Targets) == 0 && len(p.Excludes) == 0 {
		return nil, stale(p, r.Prior, nil) // the plan destroys everything, but not the objects created after it
	}
	return rebase.Onto(p, r.Prior, changed), nil
}

// appliedBefore returns the error for a saved plan that a run has applied already, if that run has changed an object.
// Without it, a plan could be applied again once its objects are gone. A run that has changed nothing does not count:
// its plan can be applied again when what had kept the run from its work is mended, such as missing credentials.
func (r *Operation) appliedBefore(ctx context.Context, p *plan.Plan) diag.List {
	if p.Digest == "" {
		return nil
	}
	runs, err := r.State.store.Runs(ctx, r.State.Workspace)
	if err != nil {
		return diag.Errors("Failed to read the runs", err.Error()+".", nil)
	}
	for _, run := range runs {
		if run.Plan != p.Digest {
			continue
		}
		events, err := r.State.store.Events(ctx, run.ID)
		if err != nil {
			return diag.Errors("Failed to read the run "+run.ID, err.Error()+".", nil)
		}
		if slices.ContainsFunc(events, func(e journal.Event) bool { return changes(p, e) }) {
			return staleness{}.diagnostic(fmt.Sprintf("The run %s has applied this plan already (%s, begun %s). A plan "+
				"is applied once. Make a new one.", run.ID, run.Command, run.Started.Format("2006-01-02 15:04:05 -0700")))
		}
	}
	return nil
}

// changes reports whether an event of a run tells that a change of its plan was made, or may have been made. A failed
// operation on an object does not count: what it has left is found by comparing the state.
func changes(p *plan.Plan, e journal.Event) bool {
	if e.Vertex < 0 || e.Vertex >= len(p.Graph.Vertices) {
		return false
	}
	over := e.Kind == journal.Finish || e.Kind == journal.Step || e.Kind == journal.Suspect
	x := p.Graph.Vertices[e.Vertex]
	if x.Kind == plan.InvokeAction {
		// What a failed invocation has left is in no state. One without an attempt was not carried out, because its condition
		// does not hold.
		return (over || e.Kind == journal.Fail) && e.Attempt != ""
	}
	if !over || x.Change < 0 {
		return false
	}
	action := p.Changes[x.Change].Action
	return action != plan.NoOp && action != plan.Read
}

// stale returns the error for a plan whose dependencies have changed.
func stale(p *plan.Plan, now *state.State, conflicts []rebase.Conflict) diag.List {
	detail := "The state was changed by another operation after the plan was made, so the plan can no longer be " +
		"applied. Make a new one."
	if len(conflicts) > 0 {
		detail = fmt.Sprintf("The plan was made for serial %d of the state, which now has serial %d. Something "+
			"that the plan depends on has changed since:\n", p.BaseSerial, now.Serial)
		const most = 10
		for i, c := range conflicts {
			if i == most {
				detail += fmt.Sprintf("  - and %d more\n", len(conflicts)-most)
				break
			}
			detail += fmt.Sprintf("  - %s\n", c)
		}
		detail += "\nSo the plan can no longer be applied. Make a new one."
	}
	return staleness{}.diagnostic(detail)
}

// staleness is the Extra of the error that a plan is stale.
type staleness struct{}

func (s staleness) diagnostic(detail string) diag.List {
	list := diag.Errors("Saved plan is stale", detail, nil)
	list[0].Extra = s
	return list
}

// Stale reports whether diagnostics of Fit say that dependencies of the plan have changed, so that a new plan is
// needed.
func Stale(list diag.List) bool {
	return slices.ContainsFunc(list, func(d *diag.Diagnostic) bool { _, is := d.Extra.(staleness); return is })
}

// unfit returns the errors that keep a plan from being applied to any version of the state: it is incomplete or
// cyclic, or made for another lineage or workspace.
func unfit(p *plan.Plan, s *state.State, workspace string) diag.List {
	switch {
	case len(p.Circle) > 0:
		return planning.Unordered(p.Circle)
	case p.Errored:
		return diag.Errors("Cannot apply incomplete plan", "Planning failed. The plan was saved so that it can be "+
			"inspected; it cannot be applied.", nil)
	case p.BaseLineage != s.Lineage && p.BaseLineage != "":
		return diag.Errors("Saved plan does not match the given state", "The plan was made for a state of another "+
			"lineage, so it is unrelated to the current state.", nil)
	case p.Workspace != workspace:
		return otherWorkspace(p, workspace)
	}
	return nil
}

func otherWorkspace(p *plan.Plan, workspace string) diag.List {
	return diag.Errors("Saved plan is for another workspace", fmt.Sprintf("The plan was made in the workspace "+
		"%q, and %q is selected now.", p.Workspace, workspace), nil)
}

// savedFiles is the file system of a saved plan's configuration; it implements config.FS.
type savedFiles planfile.Config

// ReadFile implements config.FS.
func (s savedFiles) ReadFile(name string) ([]byte, error) {
	if text, ok := s.Files[filepath.Clean(name)]; ok {
		return text, nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// ReadDir implements config.FS.
func (s savedFiles) ReadDir(name string) ([]fs.DirEntry, error) {
	dir := filepath.Clean(name)
	var out []fs.DirEntry
	for file := range s.Files {
		if filepath.Dir(filepath.Clean(file)) == dir {
			out = append(out, savedFile(filepath.Base(file)))
		}
	}
	if out == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return out, nil
}

// savedFile is the directory entry of a file of a saved plan's configuration.
type savedFile string

func (f savedFile) Name() string               { return string(f) }
func (savedFile) IsDir() bool                  { return false }
func (savedFile) Type() fs.FileMode            { return 0 }
func (f savedFile) Info() (fs.FileInfo, error) { return savedInfo{f}, nil }

type savedInfo struct{ savedFile }

func (savedInfo) Size() int64        { return 0 }
func (savedInfo) Mode() fs.FileMode  { return 0o400 }
func (savedInfo) ModTime() time.Time { return time.Time{} }
func (savedInfo) Sys() any           { return nil }

// savedVariable returns a function that returns the values of the plan's variables, for expressions that are evaluated
// while the configuration is loaded.
func savedVariable(p *plan.Plan) func(*config.Variable) (cty.Value, diag.List) {
	return func(v *config.Variable) (cty.Value, diag.List) {
		return p.Variables[v.Name].Value, nil
	}
}

// savedInputs returns the values of the variables of a plan. It returns an error for each variable that is given now
// with a different value, and for each ephemeral variable that has no default and is not given now: plans do not
// contain values of ephemeral variables.
func savedInputs(p *plan.Plan, c *Configuration) (map[string]values.Input, diag.List) {
	given, diags := c.Given.Given(c.Tree.Root.Module.Variables)
	out := map[string]values.Input{}
	for name, declared := range c.Tree.Root.Module.Variables {
		planned := p.Variables[name]
		now, isGiven := given[name]
		if planned.Ephemeral && isGiven {
			out[name] = values.Input{Value: now.Value}
			continue
		}
		if planned.Ephemeral && planned.Value == cty.NilVal && !declared.Required() {
			continue // it gets its default, like any variable that is not set
		}
		if planned.Ephemeral && planned.Value == cty.NilVal {
			diags = diags.Append(diag.New(diag.Error, "No value for required variable",
				fmt.Sprintf("The root module input variable %q is not set: it is ephemeral, so the saved plan does not "+
					"contain its value. Give it again, with -var, -var-file or the environment.", name), declared.Range.Ptr()))
			continue
		}
		out[name] = values.Input{Value: planned.Value}
		if !isGiven || planned.Value == cty.NilVal {
			continue
		}
		a, d1 := declared.Convert(name, now)
		b, d2 := declared.Convert(name, config.VariableValue{Value: planned.Value, Source: now.Source})
		if d1.HasErrors() || d2.HasErrors() || !a.RawEquals(b) {
			diags = diags.Append(diag.New(diag.Error, "Mismatch between input and plan variable value",
				fmt.Sprintf("The value of the variable %q differs from the one that the plan was made with. A saved "+
					"plan is applied with its own values; leave the variable out, or make a new plan.", name),
				declared.Range.Ptr()))
		}
	}
	return out, diags
}
