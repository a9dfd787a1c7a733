package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/migration"
	"github.com/millipede-iac/millipede/install/lock"
	"github.com/millipede-iac/millipede/install/providers"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/view"
)

const initUsage = `
Usage: coordinator [global options] init [options]

  Prepares the directory for the other commands: records where the state is kept, installs the modules that the
  configuration calls and the providers that it requires, and writes the dependency lock file. It can be run again at
  any time, and never deletes configuration or state.

Options:
  -upgrade              Select the newest modules and providers that the constraints allow, regardless of the lock file.
  -get=false            Install no modules.
  -from-module=SOURCE   Copy a module into this directory first, which must be empty. SOURCE can be any source that
                        a module block can have.
  -plugin-dir=DIR       Install providers only from this directory. May be given several times.
  -test-directory=DIR   The directory of test files, whose modules and providers are installed too. The default is tests.
  -lockfile=readonly    Fail if the lock file would have to change.
  -backend=false, -cloud=false
                        Do not change the initialized backend. Both options mean the same.
  -backend-config=FILE, -backend-config='NAME=VALUE'
                        Arguments for the backend in addition to those in its block. May be given several times;
                        alone and empty, it removes those that were given before.
  -reconfigure          Use the present backend configuration, with the state that it already has.
  -migrate-state        Migrate the state to the presently configured backend.
  -force-copy           Migrate without asking (implies -migrate-state, unless -reconfigure is given).
  -input=false          Never ask for anything.
` + lockHelp + `  -var 'NAME=VALUE', -var-file=FILE
                        Variables that module sources or the backend depend on. May be given several times.
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
	var sf viewFlags
	var vars variableFlags
	var o initOptions
	f := a.NewFlags()
	sf.RegisterJSON(f)
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
	a.registerRemoteVersion(f)
	if code, done := a.Parse(f, initUsage, args); done {
		return code
	}
	o.input = vars.Input
	s, diags := a.newStreamScreen(sf, nil)
	diags = diags.Append(noArguments(f), o.check(given(f, "backend") && given(f, "cloud")))
	if diags.HasErrors() {
		return s.End(diags)
	}
	wd, diags := a.Estate.Configuration(vars.Variables)
	wd.TestDir = *testDir
	s.From(wd.Sources)
	i := &initialisation{screen: s, options: o, wd: wd}
	if !diags.HasErrors() {
		diags = diags.Append(i.run(ctx))
	}
	return s.End(diags)
}

// given reports whether a flag was given.
func given(f *flag.FlagSet, name string) bool {
	found := false
	f.Visit(func(set *flag.Flag) { found = found || set.Name == name })
	return found
}

// check reports options that exclude each other. twice says that both -backend and -cloud were given.
func (o *initOptions) check(twice bool) diag.List {
	switch {
	case twice:
		return diag.Errors("Wrong combination of options", "The -backend and -cloud options mean the same; give only "+
			"one of them.", nil)
	case o.migrate && o.reconfigure:
		return diag.Errors("Wrong combination of options",
			"The -migrate-state and -reconfigure options exclude each other.", nil)
	case o.lockfile != "" && o.lockfile != "readonly":
		return diag.Errors("Invalid lockfile mode", fmt.Sprintf("The only mode is -lockfile=readonly, not %q.",
			o.lockfile), nil)
	case o.lockfile != "" && o.upgrade:
		return diag.Errors("Wrong combination of options", "The -upgrade flag conflicts with -lockfile=readonly: "+
			"with it the lock file may change.", nil)
	}
	return nil
}

// initialisation is one run of init.
type initialisation struct {
	*screen
	options initOptions
	wd      *estate.Configuration

	signed bool // some package is signed
}

func (i *initialisation) run(ctx context.Context) diag.List {
	if i.options.fromModule != "" {
		if diags := i.copyModule(ctx); diags.HasErrors() {
			return diags
		}
	}
	if !i.wd.HasFiles() {
		i.Say(i.App.Ink(i.Flags).Success("Millipede initialized in an empty directory!") + `

The directory has no configuration files. You may begin working with Millipede
immediately by creating some.`)
		return nil
	}
	root, problems := i.wd.LoadRoot(false)
	// The test files of the root module belong to it: if one of them cannot be read, the command ends before it prepares
	// or installs anything.
	if problems = problems.Append(i.wd.TestErrors()); problems.HasErrors() {
		return problems
	}
	// Its warnings are repeated for the whole configuration.
	var diags diag.List
	var prior *state.State
	if i.options.backend {
		if diags = i.App.Estate.SetUpEncryption(ctx, root); diags.HasErrors() {
			return diags
		}
		if root.Module.Cloud != nil {
			i.heading("Initializing cloud backend...")
		} else {
			i.heading("Initializing the backend...")
		}
		if diags = diags.Append(i.prepareBackend(ctx, root)); diags.HasErrors() {
			return i.modulesAlone(ctx, root, diags)
		}
		var more diag.List
		if prior, more = i.App.Estate.Snapshot(ctx, root); more.HasErrors() { // its providers are required too
			return diags.Append(more)
		}
	}
	if diags = diags.Append(i.modules(ctx, root)); diags.HasErrors() {
		return diags
	}
	if diags = diags.Append(i.providers(ctx, prior)); diags.HasErrors() {
		return diags
	}
	i.Diagnostics(diags)
	i.done()
	return nil
}

// heading shows the heading of a section.
func (i *initialisation) heading(text string) {
	i.Print("\n" + i.App.Ink(i.Flags).Bold(text) + "\n")
	if i.Stream != nil {
		i.Stream.Info(text)
	}
}

func (i *initialisation) done() {
	i.Print("\n")
	i.Say(i.App.Ink(i.Flags).Success("Millipede has been successfully initialized!"))
	if !i.App.Automated() {
		i.Print("\n")
		i.Say(fmt.Sprintf(`Run "%[1]s plan" to see what would change, then "%[1]s apply".

If modules, required providers or the backend change, run "%[1]s init"
again. Other commands remind you of it if necessary.`, diag.Program()))
	}
}

// copyModule copies a module into this directory, which must be empty.
func (i *initialisation) copyModule(ctx context.Context) diag.List {
	i.Say(fmt.Sprintf("Copying configuration from %q...", i.options.fromModule))
	return i.wd.Populate(ctx, i.options.fromModule)
}

// modules installs the modules that the configuration calls, and loads the whole configuration.
func (i *initialisation) modules(ctx context.Context, root *config.Node) diag.List {
	if !i.options.get {
		return i.wd.Load()
	}
	if len(root.Module.Calls) > 0 || i.wd.TestsCallModules() {
		text := "Initializing modules..."
		if i.options.upgrade {
			text = "Upgrading modules..."
		}
		i.Print(i.App.Ink(i.Flags).Bold(text) + "\n")
		if i.Stream != nil {
			i.Stream.Info(text)
		}
	}
	return i.wd.Install(ctx, i.options.upgrade, i.fetching())
}

// modulesAlone installs the modules although the backend could not be initialized: as in OpenTofu, commands
// like validate then work. Errors in the modules come first.
func (i *initialisation) modulesAlone(ctx context.Context, root *config.Node, failed diag.List) diag.List {
	if !i.options.get || ctx.Err() != nil {
		return failed
	}
	if diags := i.modules(ctx, root); diags.HasErrors() {
		return diags
	}
	return failed
}

// fetching shows the installation of modules.
func (s *screen) fetching() estate.Fetching {
	return estate.Fetching{
		Downloading: func(r config.ModuleRequest, from, version string) {
			name := strings.Join(r.Path.Path(), ".")
			s.Say("Downloading " + strings.TrimSpace(from+" "+version) + " for " + name + "...")
		},
		Done: func(m addr.Module, at config.Installed) {
			text := strings.Join(m.Path(), ".") + " in " + at.Dir
			s.Print("- " + text + "\n")
			s.Message("", "installing "+text, nil)
		},
	}
}

// prepareBackend records the backend of the configuration, and reports its actions on states.
func (i *initialisation) prepareBackend(ctx context.Context, root *config.Node) diag.List {
	o := i.options
	options := migration.Options{
		Arguments: o.backendConfig, Reconfigure: o.reconfigure, Migrate: o.migrate, Force: o.force,
		Lock: o.state.Lock, LockTimeout: o.state.LockTimeout, CanAsk: i.App.InputAllowed(o.input) && i.ForPeople(),
		Confirm: func(question, what string) (bool, diag.List) {
			return i.Confirm(question, what, i.App.InputAllowed(o.input))
		},
		Moving: func() { i.Say("Backend configuration changed! The state is being migrated.") },
		Name:   i.workspaceName, Choose: i.chooseWorkspace,
	}
	states := i.wd.Storage(root, estate.Variables{})
	change, diags := migration.Prepare(ctx, states, options)
	if !diags.HasErrors() {
		diags = diags.Append(migration.SelectExisting(ctx, states, options))
	}
	ink := i.App.Ink(i.Flags)
	switch {
	case !change.Changed:
	case diags.HasErrors():
	case change.Now == backend.Cloud:
		i.Print("\n")
		i.Say(ink.Success("The service of the cloud block is configured. Millipede will automatically\nuse it unless " +
			"the block changes."))
	case change.Now != "":
		i.Print("\n")
		i.Say(ink.Success(fmt.Sprintf("Successfully configured the backend %q! Millipede will automatically\nuse "+
			"this backend unless the backend configuration changes.", change.Now)))
	case change.Was != "":
		i.Print("\n")
		i.Say(fmt.Sprintf("Successfully unset the backend %q. The state is now stored next to the configuration.",
			change.Was))
	}
	return diags
}

// workspaceName asks for the name of a workspace of a service.
func (i *initialisation) workspaceName(question, what string) (string, diag.List) {
	name, diags := i.Enter(question, what)
	if diags.HasErrors() {
		return "", diags
	}
	return name, estate.CheckWorkspaceName(name)
}

// chooseWorkspace asks which of several workspaces to select.
func (i *initialisation) chooseWorkspace(missing string, names []string) (string, diag.List) {
	var list strings.Builder
	for n, name := range names {
		fmt.Fprintf(&list, "\n    %d. %s", n+1, name)
	}
	answer, diags := i.Enter(fmt.Sprintf("The currently selected workspace (%s) does not exist.", missing),
		"These workspaces exist; enter the number of the one to select:"+list.String())
	if diags.HasErrors() {
		return "", diags
	}
	number, err := strconv.Atoi(answer)
	if err != nil || number < 1 || number > len(names) {
		return "", diag.Errors("Failed to select a workspace", fmt.Sprintf("%q is not a number from 1 to %d.",
			answer, len(names)), nil)
	}
	return names[number-1], nil
}

// providers installs the providers of the configuration and the state, and reports changes of the lock file.
func (i *initialisation) providers(ctx context.Context, prior *state.State) diag.List {
	locks, diags := i.App.Estate.InstallProviders(ctx, i.wd.Tree, estate.ProvidersOf(prior), estate.InstallOptions{
		Upgrade: i.options.upgrade, Dirs: i.options.pluginDirs, ReadOnly: i.options.lockfile != "",
		Report: func(e providers.Event) {
			i.steps(view.InstallText)(e)
			if a := e.Authentication; e.Kind == providers.Installed && a != nil && !a.SigningSkipped && a.KeyID != "" {
				i.signed = true
			}
		},
		Begin: func() { i.heading("Initializing provider plugins...") },
	})
	if i.signed {
		i.Print("\n")
		i.Say("Providers are signed by their developers. What that means is explained " +
			"at\nhttps://opentofu.org/docs/cli/plugins/signing/")
	}
	if !locks.Written {
		return diags
	}
	i.Print("\n")
	if locks.Fresh {
		i.Say(fmt.Sprintf("Millipede has created a lock file %s to record the provider\nselections made above. Keep it in "+
			"version control, so that the same selections\nare made wherever the configuration is initialized.",
			i.App.Ink(i.Flags).Bold(lock.FileName)))
	} else {
		i.Say(fmt.Sprintf("Millipede has made some changes to the provider dependency selections recorded\nin %s. Review "+
			"them, and commit them if you intended to make\nthem.", lock.FileName))
	}
	return diags
}
