// Package suite executes the test files of a configuration: it plans and applies on separate states, evaluates
// assertions about the results, and destroys the objects that it has created.
//
// Every run uses the same session as the commands plan and apply: the same programs, workers and messages.
// States are kept in memory, because nothing outlives the process. The package prints nothing: it reports to a
// View. The required behaviour is that of OpenTofu 1.12 (website/docs/cli/commands/test there).
package suite

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
)

// Status is the status of a run, of a file (the worst of its runs), or of the suite (the worst of its files).
type Status byte

// The statuses, from the best to the worst.
const (
	Pending Status = iota
	Skip
	Pass
	Fail
	Error
)

// String returns the word for the status in JSON.
func (s Status) String() string { return [...]string{"pending", "skip", "pass", "fail", "error"}[s] }

// Suite has all files that are executed.
type Suite struct {
	Files  []*File
	Status Status
}

// File is one test file.
type File struct {
	Config *config.TestFile
	Name   string
	Runs   []*Run
	Status Status
}

// Run is one run of a file.
type Run struct {
	Config *config.TestRun
	Name   string
	// Index is the position in the file.
	Index  int
	Status Status
	Diags  diag.List
	// Took is the duration of the run.
	Took time.Duration
	// Verbose is the result of the run if the verbose option is set; otherwise nil.
	Verbose *Verbose
}

// Verbose is the plan of a run or, if it was applied, the state after it.
type Verbose struct {
	Plan    *plan.Plan
	State   *state.State // nil for a plan
	Schemas *values.Schemas
	Tree    *config.Tree
}

// View receives the progress. Its methods are called sequentially, except Interrupted and Cancelled, which are
// called by another goroutine.
type View interface {
	// Begin is called once, before the first run.
	Begin(*Suite)
	// Ran is called after all runs of a file.
	Ran(*File)
	// Cleaned is called when the objects of a run were destroyed; left has the ones that still exist.
	Cleaned(f *File, r *Run, left *state.State, problems diag.List)
	// Interrupted is called at the first request to stop, Cancelled at the second one. Abandoned reports the
	// objects that exist then.
	Interrupted()
	Cancelled()
	Abandoned(Abandoned)
	// End is called once, unless the suite was cancelled.
	End(*Suite)
}

// Abandoned describes what a cancelled suite has left behind.
type Abandoned struct {
	File *File
	Run  *Run
	// Main is the state of the module under test; Others are those of other modules, by the last run that was
	// applied to each.
	Main   *state.State
	Others map[*Run]*state.State
	// Creating are the addresses of objects that were about to be created.
	Creating []string
}

// Options configure a suite.
type Options struct {
	// Session is the template for the session of each run, without configuration, variables and store.
	Session *operation.Session
	Tree    *config.Tree
	Given   *config.GivenValues
	// NewStore returns an empty store; the runner closes it after its file.
	NewStore func() journal.Store
	// Filter lists the files to execute; nil selects all.
	Filter  []string
	Verbose bool
	View    View
	// Refusal is the reason why nothing can be executed: the first run of each file fails with it. The session
	// then needs only a clock.
	Refusal diag.List
	// Stop requests the end: Stopping after the current run, with a complete cleanup; Leaving at once. It
	// replaces the Stop of the session. The zero value never requests it.
	Stop operation.Stop
}

// Runner executes a suite once.
type Runner struct {
	Options
	suite Suite

	saidStopped, saidCancelled sync.Once
}

// New returns the runner of a suite, with warnings about its files.
func New(o Options) (*Runner, diag.List) {
	r := &Runner{Options: o}
	var diags diag.List
	for _, f := range o.Tree.Tests {
		if len(o.Filter) > 0 && !slices.Contains(o.Filter, f.Name) {
			continue
		}
		file := &File{Config: f, Name: f.Name}
		for i, run := range f.Runs {
			file.Runs = append(file.Runs, &Run{Config: run, Name: run.Name, Index: i})
		}
		r.suite.Files = append(r.suite.Files, file)
	}
	if len(o.Filter) > 0 && len(r.suite.Files) == 0 {
		return r, diag.List{diag.New(diag.Warning, "No tests were found",
			"The -filter option names none of the test files. Write their paths relative to the working directory.",
			nil)}
	}
	for _, name := range o.Filter {
		if !slices.ContainsFunc(r.suite.Files, func(f *File) bool { return f.Name == name }) {
			diags = append(diags, diag.New(diag.Warning, "Unknown test file", "There is no test file "+name+
				", which the -filter option names.", nil))
		}
	}
	return r, diags
}

// Run executes the suite, and reports whether all of it has passed.
func (r *Runner) Run(ctx context.Context) bool {
	release := r.reportStop()
	r.View.Begin(&r.suite)
	r.suite.Status = Pass
	for _, f := range r.suite.Files {
		if r.cancelled() {
			break
		}
		fr := &fileRunner{Runner: r, file: f, tracks: map[string]*moduleState{}}
		fr.run(ctx)
		if err := fr.close(); err != nil {
			panic("suite: a store in memory cannot be closed: " + err.Error())
		}
		r.suite.Status = max(r.suite.Status, f.Status)
	}
	release()
	if r.cancelled() {
		return false
	}
	r.View.End(&r.suite)
	return r.suite.Status == Pass
}

// reportStop informs the view as soon as the suite is asked to stop, until the returned function is called.
func (r *Runner) reportStop() (release func()) {
	var telling sync.WaitGroup
	tell := func(ctx context.Context, fn func()) (forget func()) {
		if ctx == nil {
			return func() {}
		}
		telling.Add(1)
		stop := context.AfterFunc(ctx, func() {
			defer telling.Done()
			fn()
		})
		return func() {
			if stop() {
				telling.Done()
			}
		}
	}
	first, second := tell(r.Stop.Stopping, r.showStopped), tell(r.Stop.Leaving, r.showCancelled)
	return func() {
		first()
		second()
		telling.Wait()
	}
}

// showStopped informs the view, once, that the suite was asked to stop.
func (r *Runner) showStopped() { r.saidStopped.Do(r.View.Interrupted) }

// showCancelled informs the view, once, that the suite was asked to end at once.
func (r *Runner) showCancelled() {
	r.showStopped()
	r.saidCancelled.Do(r.View.Cancelled)
}

// cancelled reports whether the suite must end at once.
func (r *Runner) cancelled() bool { return r.Stop.Leaving != nil && r.Stop.Leaving.Err() != nil }
