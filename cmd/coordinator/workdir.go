package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/millipede-iac/millipede/bounds"
	"github.com/millipede-iac/millipede/cmd/hosting"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/cliconfig"
	"github.com/millipede-iac/millipede/provider/install"
	"github.com/millipede-iac/millipede/provider/lock"
	"github.com/millipede-iac/millipede/provider/plugin"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/wire"
)

// dataDir is where installed modules and providers lie.
func (a *app) dataDir() string {
	if d := a.getenv("TF_DATA_DIR"); d != "" {
		return d
	}
	return ".terraform"
}

// workspace is the selected workspace.
func (a *app) workspace() string {
	if w := a.getenv("TF_WORKSPACE"); w != "" {
		return w
	}
	text, err := bounds.ReadFile(filepath.Join(a.dataDir(), "environment"), bounds.Text)
	if w := strings.TrimSpace(string(text)); err == nil && w != "" {
		return w
	}
	return "default"
}

// workdir is the configuration in the working directory, with the root variables that were given.
type workdir struct {
	app    *app
	loader *config.Loader
	given  *config.GivenValues
	tree   *config.Tree
	// testDir is where test files lie; empty for commands that have nothing to do with them.
	testDir string
	// dir is where the root module is; empty is the working directory.
	dir string
}

// root is the directory of the root module.
func (w *workdir) root() string {
	if w.dir == "" {
		return "."
	}
	return w.dir
}

// newWorkdir collects the root variables; nothing is loaded yet.
func (a *app) newWorkdir(vars variableFlags) (*workdir, diag.List) {
	return a.openWorkdir(vars, config.VariableOptions{Environ: a.environ, Flags: vars.list})
}

// newTestWorkdir is newWorkdir with test files, and values for variables beside them.
func (a *app) newTestWorkdir(vars variableFlags, testDir string) (*workdir, diag.List) {
	w, diags := a.openWorkdir(vars, config.VariableOptions{Environ: a.environ, Flags: vars.list, TestDir: testDir})
	w.testDir = testDir
	return w, diags
}

func (a *app) openWorkdir(vars variableFlags, o config.VariableOptions) (*workdir, diag.List) {
	w := &workdir{app: a, loader: config.NewLoader(config.OS{})}
	if vars.input && a.getenv("TF_INPUT") != "0" && a.getenv("TF_INPUT") != "false" {
		o.Ask = a.ask
	}
	given, diags := w.loader.CollectVariables(o)
	w.given = given
	return w, diags
}

// load loads the configuration with the modules that init installed.
func (w *workdir) load() diag.List {
	manifest, diags := config.ReadManifest(config.OS{}, w.app.dataDir())
	if diags.HasErrors() {
		return diags
	}
	tree, more := w.loader.LoadTree(config.TreeOptions{
		Dir: w.dir, Variable: w.given.Static, Workspace: w.app.workspace(), Locator: manifest, TestDir: w.testDir, Base: w.app.dir, Env: w.app.environ,
	})
	w.tree = tree
	return diags.Append(more)
}

// inputs evaluates the given values for the variables that the root module declares. The user is asked for what is
// missing.
func (w *workdir) inputs() (map[string]values.Input, diag.List) {
	final, diags := w.given.Final(w.tree.Root.Module.Variables)
	return inputsOf(final), diags
}

// givenInputs is inputs without what is missing: nobody is asked, and nothing is said about it.
func (w *workdir) givenInputs() (map[string]values.Input, diag.List) {
	given, diags := w.given.Given(w.tree.Root.Module.Variables)
	return inputsOf(given), diags
}

// inputsOf says of each value where it comes from.
func inputsOf(given map[string]config.VariableValue) map[string]values.Input {
	out := make(map[string]values.Input, len(given))
	for name, v := range given {
		out[name] = values.InputOf(name, v)
	}
	return out
}

// ask prompts for the value of a required variable.
func (a *app) ask(v *config.Variable) (string, error) {
	fmt.Fprint(view.Clean(a.stdout, false), v.Prompt()) // a module's words
	line, err := a.readLine()
	if err != nil && line == "" {
		return "", errors.New("no value was entered")
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// maxLine is how long a line of standard input may be.
const maxLine = 16 << 20

// readLine reads a line of standard input; all prompts share what was read ahead. A stop ends the waiting for a line, with
// operation.ErrInterrupted. Nothing may be read after that, because what comes in then is lost.
func (a *app) readLine() (string, error) {
	if a.interrupts.Asked() {
		return "", operation.ErrInterrupted
	}
	if a.reader == nil {
		a.reader = bufio.NewReader(a.stdin)
	}
	type answer struct {
		line string
		err  error
	}
	got := make(chan answer, 1)
	go func() { // ends with the line; after a stop the end of the process ends it
		var line []byte
		for {
			part, err := a.reader.ReadSlice('\n')
			line = append(line, part...)
			switch {
			case len(line) > maxLine:
				got <- answer{err: fmt.Errorf("a line of standard input is longer than %d MiB", maxLine>>20)}
				return
			case !errors.Is(err, bufio.ErrBufferFull):
				got <- answer{string(line), err}
				return
			}
		}
	}()
	select {
	case read := <-got:
		return read.line, read.err
	case <-a.interrupts.Stopping.Done():
		return "", operation.ErrInterrupted
	}
}

// providers are the packages that a configuration and a state need.
type providers struct {
	packages map[addr.Provider]install.Package
	reattach map[addr.Provider]*plugin.Reattach
	cli      *cliconfig.Config
	locks    *lock.Locks
}

// installOptions are what init and every command that needs providers start from.
func (a *app) installOptions(tree *config.Tree, prior *state.State) (install.Options, map[addr.Provider]*plugin.Reattach, diag.List) {
	reattach, err := plugin.ParseReattach(a.getenv("TF_REATTACH_PROVIDERS"))
	if err != nil {
		return install.Options{}, nil, diag.Errors("Invalid TF_REATTACH_PROVIDERS", err.Error()+".", nil)
	}
	cli := a.loadCLIConfig()
	locks, diags := lock.Read(lock.FileName)
	required := map[addr.Provider][]string{}
	if tree != nil {
		for p, c := range tree.Requirements() {
			required[p] = c
		}
	}
	if prior != nil {
		for _, r := range prior.Resources {
			if p := r.Provider.Provider; required[p] == nil {
				required[p] = []string{}
			}
		}
	}
	managed := map[addr.Provider]bool{}
	for p := range reattach {
		managed[p] = true
	}
	return install.Options{
		Required: required, Locks: locks, CLI: cli, Services: a.services, WorkDir: a.dir, DataDir: a.dataDir(), Platform: hosting.Platform,
		Env: a.environ, Managed: managed,
	}, reattach, diags
}

// selectProviders finds what init installed; with anyVersion also what does not meet the constraints of the configuration.
func (a *app) selectProviders(tree *config.Tree, prior *state.State, anyVersion bool) (*providers, diag.List) {
	o, reattach, diags := a.installOptions(tree, prior)
	if diags.HasErrors() {
		return nil, diags
	}
	if w := overridesWarning(o.CLI, "What they do may differ from every released version, and a state that they have written may not be readable for one."); w != nil {
		diags = diags.Append(w)
	}
	o.AnyVersion = anyVersion
	packages, more := install.Selected(o)
	return &providers{packages: packages, reattach: reattach, cli: o.CLI, locks: o.Locks}, diags.Append(more)
}

// wirePackage describes a selected provider to workers.
func (p *providers) wirePackage(source addr.Provider) wire.Package {
	out := wire.Package{Source: source.String()}
	if r := p.reattach[source]; r != nil {
		out.Unlocked = "reattached-" + r.Network + "-" + r.Address
		return out
	}
	pkg := p.packages[source]
	out.Version, out.Hashes, out.Unlocked = pkg.Version, pkg.Hashes, pkg.Unlocked
	return out
}

// share puts the packages where remote workers find them. Each is uploaded once.
func (p *providers) share(ctx context.Context, blobs wire.Blobs) diag.List {
	var diags diag.List
	for source := range p.reattach {
		diags = diags.Append(diag.New(diag.Error, "Reattached provider with remote workers",
			fmt.Sprintf("TF_REATTACH_PROVIDERS names a process of %s on this machine, which workers elsewhere cannot reach. Run without -nats (and MILLIPEDE_NATS).", source.Display()), nil))
	}
	for source, pkg := range p.packages {
		if err := sharePackage(ctx, blobs, wire.PackageName(p.wirePackage(source), hosting.Platform), pkg.Dir); err != nil {
			diags = diags.Append(diag.New(diag.Error, "Failed to share a provider package with the workers",
				fmt.Sprintf("Uploading %s %s: %s.", source.Display(), pkg.Version, err), nil))
		}
	}
	return diags
}

// succession returns the changes that take over a state that Terraform has written; see state.Succession. The environment can
// turn that off.
func (a *app) succession(tree *config.Tree, st *state.State) []state.Change {
	if st == nil || a.getenv("OPENTOFU_STATEFILE_PROVIDER_ADDRESS_TRANSLATION") == "0" {
		return nil
	}
	required := map[addr.Provider][]string{}
	if tree != nil {
		required = tree.Requirements()
	}
	return state.Succession(st, func(p addr.Provider) bool { _, named := required[p]; return named })
}

// succeeded is a state with those changes; it is changed in place.
func (a *app) succeeded(tree *config.Tree, st *state.State) *state.State {
	if changes := a.succession(tree, st); len(changes) > 0 {
		st.Apply(changes...)
	}
	return st
}

// exists tells whether a file is there.
func exists(name string) bool {
	_, err := os.Stat(name)
	return !errors.Is(err, fs.ErrNotExist)
}
