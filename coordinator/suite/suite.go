// Package suite carries out the test files of a configuration: plans and applies on states of their own, with
// assertions about what comes of them, and the destruction of what they made.
//
// Every run goes through the same session as the plan and apply commands do: the same programs, workers and messages.
// Nothing of it outlives the process, so the states are kept in memory. The package shows nothing: a View is told what
// happens. What must hold is what OpenTofu 1.12 does (website/docs/cli/commands/test there).
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

// Status is what came of a run, a file or the suite: the worst of its parts.
type Status byte

// The statuses, from the best to the worst.
const (
	Pending Status = iota
	Skip
	Pass
	Fail
	Error
)

// String returns the word of the JSON forms.
func (s Status) String() string { return [...]string{"pending", "skip", "pass", "fail", "error"}[s] }

// Suite is all the files that are carried out.
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
	// Took is how long the run went on.
	Took time.Duration
	// Verbose is what the run came to, where that was asked for; else nil.
	Verbose *Verbose
}

// Verbose is the plan of a run, or the state after it when it was applied.
type Verbose struct {
	Plan    *plan.Plan
	State   *state.State // nil for a plan
	Schemas *values.Schemas
	Tree    *config.Tree
}

// View is told what happens. Its methods are called one after the other, but for Interrupted and Cancelled, which
// another goroutine calls.
type View interface {
	// Begin is called once, before anything is carried out.
	Begin(*Suite)
	// Ran is called when all runs of a file are over.
	Ran(*File)
	// Cleaned is called when what a run made was destroyed; left holds what is still there.
	Cleaned(f *File, r *Run, left *state.State, problems diag.List)
	// Interrupted is called when the suite is asked to stop, Cancelled when it is asked again. What existed then is
	// told by Abandoned.
	Interrupted()
	Cancelled()
	Abandoned(Abandoned)
	// End is called once, unless the suite was cancelled.
	End(*Suite)
}

// Abandoned is what a suite left behind that was cancelled.
type Abandoned struct {
	File *File
	Run  *Run
	// Main is the state of the module under test, Others those of other modules by the run that made them last.
	Main   *state.State
	Others map[*Run]*state.State
	// Creating are the addresses of what was about to be created.
	Creating []string
}

// Options say what to carry out.
type Options struct {
	// Session is what each run goes through, but for its configuration, variables and store.
	Session *operation.Session
	Tree    *config.Tree
	Given   *config.GivenValues
	// NewStore returns an empty store; it is closed when its file is over.
	NewStore func() journal.Store
	// Filter names the files to carry out; nil is all.
	Filter  []string
	Verbose bool
	View    View
	// Refusal is why nothing can be carried out: the first run of each file fails with it. The session then needs
	// nothing but a clock.
	Refusal diag.List
	// Stop asks to stop: Stopping after the current run, with everything cleaned up; Leaving at once. It takes the
	// place of the session's. The zero value never asks.
	Stop operation.Stop
}

// Runner is a suite that is carried out once.
type Runner struct {
	Options
	suite Suite

	saidStopped, saidCancelled sync.Once
}

// New returns the runner of a suite, and what is to be said of its files.
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

// Run carries the suite out, and tells whether all of it has passed.
func (r *Runner) Run(ctx context.Context) bool {
	unwatched := r.watch()
	r.View.Begin(&r.suite)
	r.suite.Status = Pass
	for _, f := range r.suite.Files {
		if r.cancelled() {
			break
		}
		fr := &fileRunner{Runner: r, file: f, tracks: map[string]*track{}}
		fr.run(ctx)
		if err := fr.close(); err != nil {
			panic("suite: a store in memory cannot be closed: " + err.Error())
		}
		r.suite.Status = max(r.suite.Status, f.Status)
	}
	unwatched()
	if r.cancelled() {
		return false
	}
	r.View.End(&r.suite)
	return r.suite.Status == Pass
}

// watch tells the view as soon as the suite is asked to stop, until the returned function is called.
func (r *Runner) watch() (unwatched func()) {
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
	first, second := tell(r.Stop.Stopping, r.tellStopped), tell(r.Stop.Leaving, r.tellCancelled)
	return func() {
		first()
		second()
		telling.Wait()
	}
}

// tellStopped tells the view, once, that the suite was asked to stop.
func (r *Runner) tellStopped() { r.saidStopped.Do(r.View.Interrupted) }

// tellCancelled tells the view, once, that the suite was asked to leave at once.
func (r *Runner) tellCancelled() {
	r.tellStopped()
	r.saidCancelled.Do(r.View.Cancelled)
}

// cancelled tells whether the suite is to leave at once.
func (r *Runner) cancelled() bool { return r.Stop.Leaving != nil && r.Stop.Leaving.Err() != nil }
