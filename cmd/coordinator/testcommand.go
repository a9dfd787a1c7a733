package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/suite"
	"github.com/millipede-iac/millipede/install/providers"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	statemem "github.com/millipede-iac/millipede/state/mem"
	"github.com/millipede-iac/millipede/state/tfstate"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
)

const testUsage = `
Usage: coordinator [global options] test [options]

  Runs the tests of the configuration in this directory: the files *.tftest.hcl and *.tofutest.hcl (and their
  JSON forms) here and in the directory tests. Each run plans or applies the configuration, or another module, with a
  state of its own, and checks its assertions about the result. The objects of a file's runs are destroyed at the
  end of the file.

  Tests create real infrastructure, unless their providers are mocked. Make sure that it is gone afterwards.

Options:
  -filter=FILE          Run only this test file. The path is relative to the working directory. May be given
                        several times.
  -test-directory=DIR   Look for test files in this directory besides the working directory. The default is
                        tests.
  -verbose              Show the plan of each run, or the state after it.
  -junit-xml=FILE       Also write a report in JUnit's format to a file.
  -parallelism=N        How many operations may run at the same time.
  -var 'NAME=VALUE', -var-file=FILE
                        Values for variables, unless a test file has its own. May be given several times.
` + jsonHelp

// erroredTestState is the file for the state of objects that a test could not destroy.
const erroredTestState = "errored_test.tfstate"

// testFlags are the flags of the test command.
type testFlags struct {
	show        viewFlags
	vars        variableFlags
	filter      []string
	dir, junit  string
	verbose     bool
	parallelism parallelismFlag
}

func runTest(ctx context.Context, a *app, args []string) int {
	var tf testFlags
	f := a.NewFlags()
	tf.show.RegisterJSON(f)
	tf.vars.registerValues(f)
	f.Func("filter", "", func(s string) error {
		tf.filter = append(tf.filter, s)
		return nil
	})
	f.StringVar(&tf.dir, testDirFlag, config.DefaultTestDir, "")
	f.StringVar(&tf.junit, "junit-xml", "", "")
	f.BoolVar(&tf.verbose, "verbose", false, "")
	tf.parallelism.register(f)
	if code, done := a.Parse(f, testUsage, args); done {
		return code
	}
	s, diags := a.newStreamScreen(tf.show, nil)
	diags = diags.Append(noArguments(f))
	if diags.HasErrors() {
		return s.End(diags)
	}
	wd, diags := a.Estate.Configuration(estate.Variables{List: tf.vars.List, TestDir: tf.dir})
	s.From(wd.Sources)
	if !diags.HasErrors() {
		wd.RunsOnly = true
		diags = diags.Append(wd.Load())
	}
	if diags.HasErrors() {
		return s.End(diags)
	}
	t := &testRun{screen: s, wd: wd, flags: tf}
	return t.run(ctx, diags)
}

// testRun is one execution of the test command.
type testRun struct {
	*screen
	wd    *estate.Configuration
	flags testFlags
	view  document.TestViews
	// problem collects errors that occur while the tests run.
	problem diag.List
}

// run opens the dependencies of the tests, runs them, and returns the exit code.
func (t *testRun) run(ctx context.Context, diags diag.List) int {
	t.view = t.views()
	e, more := t.App.Estate.OpenEngine(ctx, estate.EngineOptions{
		Tree: t.wd.Tree, Loader: t.wd.Loader, Observer: coordinator.Silent{}, Parallelism: t.flags.parallelism.value,
		Note:       func(string) {}, // the view reports interrupts when the suite has noticed them
		AnyVersion: true,            // as in OpenTofu, tests use the installed versions
	})
	o := suite.Options{
		Tree: t.wd.Tree, Given: t.wd.Given, Filter: t.flags.filter, Verbose: t.flags.verbose,
		View: t.view, NewStore: newTestStore,
	}
	switch {
	case providers.AllUnavailable(more):
		o.Session, o.Refusal = &operation.Session{Now: time.Now}, more
	case more.HasErrors():
		return t.End(diags.Append(more))
	default:
		o.Session, o.Stop = e.Session, e.Stop
		diags = diags.Append(more)
	}
	runner, more := suite.New(o)
	t.Diagnostics(diags.Append(more))  // warnings
	release := t.App.Interrupts.Hold() // the objects of the tests must be destroyed
	passed := runner.Run(t.App.Interrupts.Leaving)
	release()
	if e != nil {
		t.problem = t.problem.Append(e.Close())
	}
	code := t.End(t.problem)
	if !passed {
		return 1
	}
	return code
}

// newTestStore returns the store of one module's state for the duration of a file.
func newTestStore() journal.Store {
	return statemem.New(statemem.Options{Now: time.Now, NewID: rand.Text, EngineVersion: engineVersion})
}

// views returns all views of the tests.
func (t *testRun) views() document.TestViews {
	var out document.TestViews
	if t.ForPeople() {
		out = append(out, &view.TestText{
			Out: t.App.People(t.screen.Flags), Err: view.Clean(t.App.Stderr, t.Printer.Ink),
			Options:  t.Options(),
			Problems: func(l diag.List) { t.failed(t.Printer.Diagnostics(l)) }, Failed: t.failed,
		})
	}
	if t.Stream != nil {
		out = append(out, document.TestStream{Stream: t.Stream})
	}
	return append(out, &testFiles{testRun: t})
}

// flatName converts the path of a test file to a file name.
func flatName(path string) string { return strings.NewReplacer("/", "_", ".", "_").Replace(path) }

func (t *testRun) failed(err error) {
	if err != nil {
		fmt.Fprintln(t.App.Stderr, err)
	}
}

// testFiles writes the states that tests leave behind to files. It implements suite.View.
type testFiles struct {
	*testRun
	left bool
}

// Begin implements suite.View.
func (t *testFiles) Begin(*suite.Suite) {}

// Ran implements suite.View.
func (t *testFiles) Ran(*suite.File) {}

// Cleaned implements suite.View: it stores the state of objects that could not be destroyed, so that they can
// be destroyed later.
func (t *testFiles) Cleaned(f *suite.File, r *suite.Run, left *state.State, _ diag.List) {
	t.keep(f, r, left)
}

// Abandoned implements suite.View: it stores the state of objects that there was no time to destroy.
func (t *testFiles) Abandoned(a suite.Abandoned) {
	t.keep(a.File, a.Run, a.Main)
	for _, r := range a.File.Runs {
		if s := a.Others[r]; s != nil {
			t.keep(a.File, r, s)
		}
	}
}

func (t *testFiles) keep(f *suite.File, r *suite.Run, left *state.State) {
	if !document.LeftBehind(left) {
		return
	}
	name := erroredTestState
	if t.left { // this command has written one already
		name = fmt.Sprintf("errored_test.%s.%s.tfstate", flatName(f.Name), r.Name)
	}
	t.left = true
	t.Say("\nWriting state to file: " + name)
	var text bytes.Buffer
	err := tfstate.Write(&text, left, engineVersion, tfstate.Indented)
	if err == nil {
		err = os.WriteFile(t.App.Path(name), text.Bytes(), 0o600)
	}
	if err != nil {
		t.Write(t.App.Stderr, text.Bytes())
		t.problem = t.problem.Append(diag.New(diag.Error, "Failed to persist state",
			fmt.Sprintf("The state of objects that %s/%s has left behind cannot be written to %s: %s. It was printed "+
				"instead, as far as possible.", f.Name, r.Name, name, err), nil))
	}
}

// Interrupted implements suite.View.
func (t *testFiles) Interrupted() {}

// Cancelled implements suite.View.
func (t *testFiles) Cancelled() {}

// End implements suite.View.
func (t *testFiles) End(s *suite.Suite) {
	if t.flags.junit == "" {
		return
	}
	var text bytes.Buffer
	err := view.TestJUnit(&text, s, t.wd.Sources())
	if err == nil {
		err = os.WriteFile(t.App.Path(t.flags.junit), text.Bytes(), 0o644)
	}
	if err != nil {
		t.problem = t.problem.Append(diag.New(diag.Error, "Failed to write the JUnit report",
			fmt.Sprintf("Writing %s: %s.", t.flags.junit, err), nil))
	}
}
