package main

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/config/fetch"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/cliconfig"
	"github.com/millipede-iac/millipede/state"
)

const initUsage = `
Usage: coordinator [global options] init [options]

  Prepares the directory for the other commands: records where the state is kept, installs the modules that the
  configuration calls and the providers that it requires, and writes the dependency lock file. It can be run again at
  any time, and never deletes configuration or state.

Options:
  -upgrade              Select the newest modules and providers that the constraints allow, whatever the lock file says.
  -get=false            Install no modules.
  -from-module=SOURCE   Copy a module into this directory first, which has to be empty. It may come from anywhere that
                        the source of a module block may name.
  -plugin-dir=DIR       Install providers from this directory alone. May be given often.
  -test-directory=DIR   Where test files lie, whose modules and providers are installed too. The default is tests.
  -lockfile=readonly    Fail when the lock file would have to change.
  -backend=false, -cloud=false
                        Leave the backend as it was prepared before. Both mean the same.
  -backend-config=FILE, -backend-config='NAME=VALUE'
                        Arguments for the backend beside those in its block. May be given often.
  -reconfigure          Use the backend as it is configured now, with the state that is there.
  -migrate-state        Bring the state to the backend that is configured now.
  -force-copy           Do not ask before that (implies -migrate-state, unless -reconfigure is given).
  -input=false          Never ask for anything.
` + lockHelp + `  -var 'NAME=VALUE', -var-file=FILE
                        Variables that module sources or the backend depend on. May be given often.
` + remoteVersionHelp + jsonHelp

// initOptions are the flags of init.
type initOptions struct {
	upgrade, get, backend, reconfigure, migrate, force bool
	fromModule, lockfile                               string
	backendConfig, pluginDirs                          []string
	input                                              bool
	state                                              stateFlags
}

func runInit(ctx context.Context, a *app, args []string) int {
	var sf showFlags
	var vars variableFlags
	var o initOptions
	f := a.newFlags()
	sf.register(f)
	vars.register(f)
	o.state.registerLock(f)
	f.BoolVar(&o.upgrade, "upgrade", false, "")
	f.BoolVar(&o.get, "get", true, "")
	f.BoolVar(&o.backend, "backend", true, "")
	f.BoolVar(&o.backend, "cloud", true, "")
	f.BoolVar(&o.reconfigure, "reconfigure", false, "")
	f.BoolVar(&o.migrate, "migrate-state", false, "")
	f.BoolVar(&o.force, "force-copy", false, "")
	f.StringVar(&o.fromModule, "from-module", "", "")
	testDir := f.String(testDirFlag, config.DefaultTestDir, "")
	f.StringVar(&o.lockfile, "lockfile", "", "")
	list := func(name string, to *[]string) {
		f.Func(name, "", func(s string) error {
			*to = append(*to, s)
			return nil
		})
	}
	list("backend-config", &o.backendConfig)
	list("plugin-dir", &o.pluginDirs)
	registerRemoteVersion(f)
	if code, done := a.parse(f, initUsage, args); done {
		return code
	}
	o.input = vars.input
	s, diags := a.newStreamScreen(sf, nil)
	diags = diags.Append(noArguments(f), o.check(given(f, "backend") && given(f, "cloud")))
	if diags.HasErrors() {
		return s.end(diags)
	}
	wd, diags := a.newWorkdir(vars)
	wd.testDir = *testDir
	s.from(wd.loader.Sources)
	i := &initialisation{screen: s, options: o, wd: wd}
	if !diags.HasErrors() {
		diags = diags.Append(i.run(ctx))
	}
	return s.end(diags)
}

// given tells whether a flag was on the command line.
func given(f *flag.FlagSet, name string) bool {
	found := false
	f.Visit(func(set *flag.Flag) { found = found || set.Name == name })
	return found
}

// check complains about options that exclude each other. twice tells that both -backend and -cloud were given.
func (o *initOptions) check(twice bool) diag.List {
	switch {
	case twice:
		return diag.Errors("Wrong combination of options", "The -backend and -cloud options mean the same; give only one of them.", nil)
	case o.migrate && o.reconfigure:
		return diag.Errors("Wrong combination of options", "The -migrate-state and -reconfigure options exclude each other.", nil)
	case o.lockfile != "" && o.lockfile != "readonly":
		return diag.Errors("Invalid lockfile mode", fmt.Sprintf("The only mode is -lockfile=readonly, not %q.", o.lockfile), nil)
	case o.lockfile != "" && o.upgrade:
		return diag.Errors("Wrong combination of options", "The -upgrade flag conflicts with -lockfile=readonly: with it the lock file may change.", nil)
	}
	return nil
}

// initialisation is one run of init.
type initialisation struct {
	*screen
	options initOptions
	wd      *workdir

	incomplete []string // the providers that the lock file has checksums of for this platform alone
	signed     bool     // some package has a signature
}

func (i *initialisation) run(ctx context.Context) diag.List {
	if i.options.fromModule != "" {
		if diags := i.copyModule(ctx); diags.HasErrors() {
			return diags
		}
	}
	if !i.wd.loader.HasConfig(".") {
		i.say(i.app.ink(i.flags.viewFlags).Success("Millipede initialized in an empty directory!") + `

The directory has no configuration files. You may begin working with Millipede
immediately by creating some.`)
		return nil
	}
	root, problems := i.wd.loadRoot(false)
	if problems.HasErrors() {
		return problems
	}
	// Its warnings come again with those of the whole configuration.
	var diags diag.List
	var prior *state.State
	if i.options.backend {
		if _, diags = i.app.encryption(ctx, root); diags.HasErrors() {
			return diags
		}
		i.heading("Initializing the backend...")
		if diags = diags.Append(i.prepareBackend(ctx, root)); diags.HasErrors() {
			return diags
		}
		var more diag.List
		if prior, more = i.prior(ctx, root); more.HasErrors() {
			return diags.Append(more)
		}
	}
	if diags = diags.Append(i.modules(ctx, root)); diags.HasErrors() {
		return diags
	}
	if diags = diags.Append(i.providers(ctx, i.app.succeeded(i.wd.tree, prior))); diags.HasErrors() {
		return diags
	}
	i.diagnostics(diags)
	i.done()
	return nil
}

// heading begins a part.
func (i *initialisation) heading(text string) {
	i.print("\n" + i.app.ink(i.flags.viewFlags).Bold(text) + "\n")
	if i.stream != nil {
		i.stream.Info(text)
	}
}

// item tells of one thing that was done.
func (i *initialisation) item(format string, args ...any) {
	i.step(fmt.Sprintf(format, args...))
}

func (i *initialisation) done() {
	i.print("\n")
	i.say(i.app.ink(i.flags.viewFlags).Success("Millipede has been successfully initialized!"))
	if !i.app.automated() {
		i.print("\n")
		i.say(fmt.Sprintf(`Run "%[1]s plan" to see what would change, then "%[1]s apply".

When modules, required providers or the backend change, run "%[1]s init"
again. The other commands say so when they notice.`, diag.Program()))
	}
}

// copyModule copies a module into this directory, which must be empty.
func (i *initialisation) copyModule(ctx context.Context) diag.List {
	i.say(fmt.Sprintf("Copying configuration from %q...", i.options.fromModule))
	return fetch.Populate(ctx, i.options.fromModule, i.wd.fetchOptions(fetching{}))
}

// prior returns the state that the snapshot holds: its providers are needed too.
func (i *initialisation) prior(ctx context.Context, root *config.Node) (*state.State, diag.List) {
	b, diags := i.app.openBackend(ctx, root, stateFlags{})
	if diags.HasErrors() {
		return nil, diags
	}
	return i.app.readSnapshot(ctx, b, i.app.workspace(), false)
}

// modules installs the modules that the configuration calls, and loads all of it.
func (i *initialisation) modules(ctx context.Context, root *config.Node) diag.List {
	if !i.options.get {
		return i.wd.load()
	}
	if len(root.Module.Calls) > 0 || i.testsCall() {
		text := "Initializing modules..."
		if i.options.upgrade {
			text = "Upgrading modules..."
		}
		i.print(i.app.ink(i.flags.viewFlags).Bold(text) + "\n")
		if i.stream != nil {
			i.stream.Info(text)
		}
	}
	return i.wd.install(ctx, i.options.upgrade, i.fetching())
}

// testsCall tells whether test files name modules. What is wrong with the files is found when all is loaded.
func (i *initialisation) testsCall() bool {
	files, _ := i.wd.loader.LoadTests(".", i.wd.testDir)
	return slices.ContainsFunc(files, func(f *config.TestFile) bool {
		return slices.ContainsFunc(f.Runs, func(r *config.TestRun) bool { return r.Module != nil })
	})
}

// fetching shows what the installation of modules does.
func (s *screen) fetching() fetching {
	return fetching{
		downloading: func(r config.ModuleRequest, from, version string) {
			name := strings.Join(r.Path.Path(), ".")
			s.say("Downloading " + strings.TrimSpace(from+" "+version) + " for " + name + "...")
		},
		done: func(m addr.Module, at config.Installed) {
			text := strings.Join(m.Path(), ".") + " in " + at.Dir
			s.print("- " + text + "\n")
			s.message("", "installing "+text, nil)
		},
	}
}

// fetching is who is told what the installation of modules does.
type fetching struct {
	downloading func(r config.ModuleRequest, from, version string)
	done        func(addr.Module, config.Installed)
}

// fetchOptions are how modules are installed.
func (w *workdir) fetchOptions(f fetching) fetch.Options {
	w.app.loadCLIConfig()
	return fetch.Options{
		Loader: w.loader, Base: w.app.dir, Env: w.app.environ, DataDir: w.app.dataDir(), Variable: w.given.Static, Workspace: w.app.workspace(),
		TestDir: w.testDir, Sources: fetch.Network(w.app.services, w.app.dir, w.app.environ, f.downloading), Done: f.done,
	}
}

// install installs modules and loads the configuration.
func (w *workdir) install(ctx context.Context, upgrade bool, f fetching) diag.List {
	o := w.fetchOptions(f)
	o.Upgrade = upgrade
	result, diags := fetch.Install(ctx, ".", o)
	w.tree = result.Tree
	return diags
}

// overridesWarning warns of development overrides; nil when there are none.
func overridesWarning(cli *cliconfig.Config, advice string) *diag.Diagnostic {
	if len(cli.DevOverrides) == 0 {
		return nil
	}
	var lines []string
	for p, dir := range cli.DevOverrides {
		lines = append(lines, fmt.Sprintf("\n - %s in %s", p.Display(), dir))
	}
	slices.Sort(lines)
	return diag.New(diag.Warning, "Provider development overrides are in effect",
		"The CLI configuration takes these providers from other directories than their installed packages:"+strings.Join(lines, "")+"\n\n"+advice, nil)
}

// from tells the screen where the text of files is, for snippets.
func (s *screen) from(sources func() map[string]*hcl.File) {
	s.printer.Sources = sources
	if s.stream != nil {
		s.stream.Sources = sources
	}
}

// loadRoot loads the root module alone: it says where the state is.
func (w *workdir) loadRoot(storageOnly bool) (*config.Node, diag.List) {
	tree, diags := w.loader.LoadTree(config.TreeOptions{
		Variable: w.given.Static, Workspace: w.app.workspace(), Locator: rootOnly{}, StorageOnly: storageOnly,
		Base: w.app.dir, Env: w.app.environ,
	})
	if tree.Root == nil && !diags.HasErrors() {
		panic("a tree without a root and without a problem")
	}
	return tree.Root, diags
}
