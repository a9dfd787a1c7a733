package estate

import (
	"context"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/install/modules"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
)

// Variables are the root variables that were given, in addition to those in the environment and in files.
type Variables struct {
	List []config.VariableFlag
	// Weak are files of values with lower precedence than all others.
	Weak []string
	// Sensitive are the names of variables whose values are sensitive even if the configuration does not say so.
	Sensitive []string
	// Input allows asking the user for missing values.
	Input bool
	// TestDir is the directory of test files, which have values too; empty for operations without tests.
	TestDir string
}

// Configuration is the configuration of an estate, with the given root variables.
type Configuration struct {
	Loader *config.Loader
	Given  *config.GivenValues
	// Tree is set once the configuration is loaded.
	Tree *config.Tree
	// TestDir is the directory of test files; empty for operations without tests.
	TestDir string
	// RunsOnly is as in config.TreeOptions.
	RunsOnly bool
	// Queries loads the query files of the root module, too.
	Queries bool
	// Dir is the directory of the root module; empty is the directory of the estate.
	Dir string

	estate *Estate
	// sensitive are the variables that are sensitive whatever the configuration says.
	sensitive []string
}

// Configuration collects the root variables. It loads nothing.
func (e *Estate) Configuration(vars Variables) (*Configuration, diag.List) {
	c := &Configuration{estate: e, Loader: config.NewLoader(e.filesWith(vars)), TestDir: vars.TestDir,
		sensitive: vars.Sensitive}
	o := config.VariableOptions{Weak: vars.Weak, Environ: e.Environ, Flags: vars.List, TestDir: vars.TestDir}
	if vars.Input && e.InputAllowed() {
		o.Ask = e.Ask
	}
	given, diags := c.Loader.CollectVariables(o)
	c.Given = given
	return c, diags
}

// InputAllowed reports whether the environment allows asking the user.
func (e *folder) InputAllowed() bool {
	return e.Environ.Get("TF_INPUT") != "0" && e.Environ.Get("TF_INPUT") != "false"
}

// files returns the file system of the estate's directory.
func (e *folder) files() config.OS { return config.OS{Base: e.base(), Files: e.Files} }

// filesWith returns the file system of the estate's directory, with the files of values that were given, which may be
// elsewhere. Expressions cannot read those.
func (e *folder) filesWith(vars Variables) config.OS {
	files := e.files()
	for _, name := range vars.Weak {
		files.Files = files.Files.With(e.path(name))
	}
	for _, v := range vars.List {
		if v.File {
			files.Files = files.Files.With(e.path(v.Text))
		}
	}
	return files
}

// Root returns the directory of the root module.
func (c *Configuration) Root() string {
	if c.Dir == "" {
		return "."
	}
	return c.Dir
}

// HasFiles reports whether there is a configuration.
func (c *Configuration) HasFiles() bool { return c.Loader.HasConfig(c.Root()) }

// HasQueries reports whether there are query files.
func (c *Configuration) HasQueries() bool { return c.Loader.HasQueries(c.Root()) }

// TestErrors returns the errors in the test files of the root module.
func (c *Configuration) TestErrors() diag.List {
	_, diags := c.Loader.LoadTests(".", c.TestDir)
	return Errors(diags)
}

// TestsCallModules reports whether test files use modules. Errors in the files are reported when everything is loaded.
func (c *Configuration) TestsCallModules() bool {
	files, _ := c.Loader.LoadTests(".", c.TestDir)
	return slices.ContainsFunc(files, func(f *config.TestFile) bool {
		return slices.ContainsFunc(f.Runs, func(r *config.TestRun) bool { return r.Module != nil })
	})
}

// Sources returns the files that were read, for the source lines of diagnostics.
func (c *Configuration) Sources() map[string]*hcl.File { return c.Loader.Sources() }

// Load loads the configuration with the installed modules.
func (c *Configuration) Load() diag.List {
	manifest, diags := config.ReadManifest(c.estate.files(), c.estate.dataName())
	if diags.HasErrors() {
		return diags
	}
	tree, more := c.Loader.LoadTree(config.TreeOptions{
		Dir: c.Dir, Variable: c.Given.Static, Workspace: c.estate.Workspace(), Locator: manifest, TestDir: c.TestDir,
		Base: c.estate.Dir, Env: c.estate.Environ, Files: c.estate.Files, RunsOnly: c.RunsOnly,
		Queries: c.Queries,
	})
	c.setTree(tree)
	return diags.Append(more)
}

// setTree sets the tree, with the variables of Sensitive marked as if they were declared sensitive.
func (c *Configuration) setTree(tree *config.Tree) {
	c.Tree = tree
	if tree == nil || tree.Root == nil || tree.Root.Module == nil {
		return
	}
	for _, name := range c.sensitive {
		if v := tree.Root.Module.Variables[name]; v != nil {
			v.Sensitive = true
		}
	}
}

// LoadRoot loads only the root module, which configures where the state is stored. With storageOnly nothing else is
// checked.
func (c *Configuration) LoadRoot(storageOnly bool) (*config.Node, diag.List) {
	tree, diags := c.Loader.LoadTree(config.TreeOptions{
		Variable: c.Given.Static, Workspace: c.estate.Workspace(), Locator: rootOnly{}, StorageOnly: storageOnly,
		Base: c.estate.Dir, Env: c.estate.Environ, Files: c.estate.Files,
	})
	if tree.Root == nil && !diags.HasErrors() {
		panic("a tree without a root and without a problem")
	}
	return tree.Root, diags
}

// rootOnly is a locator that leaves out all modules but the root.
type rootOnly struct{}

// Locate implements config.Locator.
func (rootOnly) Locate(config.ModuleRequest) (config.Installed, diag.List) {
	return config.Installed{}, nil
}

// LoadModule loads the module in a directory, without the modules that it calls.
func (c *Configuration) LoadModule(dir string) diag.List {
	tree, diags := c.Loader.LoadTree(config.TreeOptions{Dir: dir, Locator: rootOnly{}, Base: c.estate.Dir,
		Env: c.estate.Environ, Files: c.estate.Files})
	c.Tree = tree
	return diags
}

// loadFor loads the configuration in the directory, or the one of a saved plan. If modules are not installed, it also
// names the providers that are not: init installs both.
func (c *Configuration) loadFor(saved *planfile.Saved) diag.List {
	if saved == nil {
		diags := c.Load()
		if slices.ContainsFunc(diags, func(d *diag.Diagnostic) bool {
			return d.Extra == config.ErrNotInstalled //nolint:errorlint // an Extra is this error itself
		}) {
			diags = diags.Append(c.estate.missingPackages())
		}
		return diags
	}
	manifest := config.Manifest{}
	if len(saved.Config.Manifest) > 0 {
		var err error
		if manifest, err = config.ParseManifest(saved.Config.Manifest); err != nil {
			return diag.Errors("Failed to read the saved plan", err.Error()+".", nil)
		}
	}
	tree, diags := c.Loader.LoadTree(config.TreeOptions{
		Variable: savedVariable(saved.Plan), Workspace: saved.Plan.Workspace, Locator: manifest, Base: c.estate.Dir,
		Env: c.estate.Environ, Files: c.estate.Files,
	})
	c.setTree(tree)
	return diags
}

// SavedConfiguration loads the configuration of a saved plan. sensitive are the names of variables that are
// sensitive in any case.
func (e *Estate) SavedConfiguration(saved *planfile.Saved, sensitive []string) (*Configuration, diag.List) {
	c := &Configuration{estate: e, Loader: config.NewLoader(savedFiles(saved.Config)), sensitive: sensitive}
	return c, Errors(c.loadFor(saved))
}

// Inputs evaluates the given values of the root module's variables. The user is asked for missing ones.
func (c *Configuration) Inputs() (map[string]values.Input, diag.List) {
	final, diags := c.Given.Final(c.Tree.Root.Module.Variables)
	return inputsOf(final), diags
}

// GivenInputs is Inputs without missing values: the user is not asked, and they are not errors.
func (c *Configuration) GivenInputs() (map[string]values.Input, diag.List) {
	given, diags := c.Given.Given(c.Tree.Root.Module.Variables)
	return inputsOf(given), diags
}

// inputsOf adds its origin to each value.
func inputsOf(given map[string]config.VariableValue) map[string]values.Input {
	out := make(map[string]values.Input, len(given))
	for name, v := range given {
		out[name] = values.InputOf(name, v)
	}
	return out
}

// Fetching has callbacks for the installation of modules. Each may be nil.
type Fetching struct {
	Downloading func(r config.ModuleRequest, from, version string)
	Done        func(addr.Module, config.Installed)
}

func (c *Configuration) fetchOptions(f Fetching) modules.Options {
	e := c.estate
	return modules.Options{
		Loader: c.Loader, Base: e.Dir, Env: e.Environ, Files: e.Files, DataDir: e.dataName(), Variable: c.Given.Static,
		Workspace: e.Workspace(), TestDir: c.TestDir, Done: f.Done,
		Sources: modules.Network(modules.NetworkOptions{Services: e.Services, Base: e.Dir, Env: e.Environ,
			RemoteOnly: e.Files != nil, Downloading: f.Downloading}),
	}
}

// Install installs the modules that the configuration calls, and loads all of it.
func (c *Configuration) Install(ctx context.Context, upgrade bool, f Fetching) diag.List {
	o := c.fetchOptions(f)
	o.Upgrade = upgrade
	result, diags := modules.Install(ctx, ".", o)
	c.setTree(result.Tree)
	return diags
}

// Populate copies a module into the directory, which must be empty.
func (c *Configuration) Populate(ctx context.Context, from string) diag.List {
	return modules.Populate(ctx, from, c.fetchOptions(Fetching{}))
}

// Errors returns the errors without the warnings, which the operation on the configuration reports.
func Errors(l diag.List) diag.List {
	return slices.DeleteFunc(slices.Clone(l), func(d *diag.Diagnostic) bool { return d.Severity != diag.Error })
}
