package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

// DefaultTestDir is the directory of test files, besides those in the directory of the module itself.
const DefaultTestDir = "tests"

// TestFile is a file of tests: runs that are executed one after the other on states of their own.
type TestFile struct {
	// Name is the path of the file, relative to the module that it tests.
	Name string
	// Variables are the values that runs give to variables, unless they have their own.
	Variables map[string]hcl.Expression
	// Providers are the provider and mock_provider blocks, which replace those of the module under test; a
	// mock_provider block has Mock set. If both exist for one configuration, Providers contains the provider block
	// and Mocks the other one; the run determines which of them is used.
	Providers map[addr.LocalProvider]*ProviderConfig
	Mocks     map[addr.LocalProvider]*ProviderConfig
	Overrides Overrides
	Runs      []*TestRun

	variables hcl.Range
}

// Provider returns the provider or mock_provider block to which a run's providers argument refers, or nil.
func (f *TestFile) Provider(l addr.LocalProvider) *ProviderConfig {
	if p := f.Providers[l]; p != nil {
		return p
	}
	return f.Mocks[l]
}

// Check checks the file beyond its syntax. Its runs are checked separately.
func (f *TestFile) Check() diag.List { return f.Overrides.duplicates() }

var testFileSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
	{Type: "run", LabelNames: []string{"name"}},
	{Type: "provider", LabelNames: []string{"name"}},
	{Type: "mock_provider", LabelNames: []string{"name"}},
	{Type: "variables"},
	{Type: "override_resource"},
	{Type: "override_data"},
	{Type: "override_module"},
}}

// LoadTests parses the test files of the module in dir: those in dir itself, and those in testDir below it, sorted
// by name. The modules of the runs are not loaded.
func (l *Loader) LoadTests(dir, testDir string) ([]*TestFile, diag.List) {
	names, diags := l.listTests(dir, testDir)
	var files []*TestFile
	for i, p := range l.parseAll(names) {
		diags = append(diags, p.diags...)
		f, more := decodeTestFile(p.body)
		diags = append(diags, more...)
		rel, err := filepath.Rel(dir, names[i])
		if err != nil {
			rel = names[i]
		}
		f.Name = filepath.ToSlash(rel)
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b *TestFile) int { return strings.Compare(a.Name, b.Name) })
	return files, diags
}

// listTests finds test files. A .tofutest file replaces the .tftest file of the same name.
func (l *Loader) listTests(dir, testDir string) ([]string, diag.List) {
	var names []string
	var diags diag.List
	below := filepath.Join(dir, filepath.FromSlash(testDir))
	dirs := []string{below, dir}
	if below == filepath.Clean(dir) {
		dirs = dirs[:1]
	}
	for _, in := range dirs {
		entries, err := l.fs.ReadDir(in)
		switch {
		case err == nil:
		case !errors.Is(err, fs.ErrNotExist):
			return nil, diag.Errors("Failed to read test directory",
				fmt.Sprintf("The directory %s cannot be read: %s.", in, err), nil)
		case in == below && testDir != DefaultTestDir:
			diags = append(diags, diag.New(diag.Warning, "Test directory does not exist",
				fmt.Sprintf("There is no directory %s, which was asked for.", in), nil))
		}
		present := map[string]bool{}
		for _, e := range entries {
			present[e.Name()] = !e.IsDir()
		}
		for _, e := range entries {
			name := e.Name()
			is, rival := testFileName(name)
			if is && !e.IsDir() && !ignoredFile(name) && !present[rival] {
				names = append(names, filepath.Join(in, name))
			}
		}
	}
	return names, diags
}

// testFileName reports whether a file of this name contains tests, and the name of the file that would replace it.
func testFileName(name string) (is bool, rival string) {
	for _, ext := range []string{".hcl", ".json"} {
		if stem, ok := strings.CutSuffix(name, ".tftest"+ext); ok {
			return true, stem + ".tofutest" + ext
		}
		if strings.HasSuffix(name, ".tofutest"+ext) {
			return true, ""
		}
	}
	return false, ""
}

func decodeTestFile(body hcl.Body) (*TestFile, diag.List) {
	d := &decoder{}
	f := &TestFile{Providers: map[addr.LocalProvider]*ProviderConfig{}, Mocks: map[addr.LocalProvider]*ProviderConfig{}}
	for _, b := range d.content(body, testFileSchema).Blocks {
		switch b.Type {
		case "run":
			f.Runs = appendIf(f.Runs, d.testRun(b))
		case "variables":
			if f.Variables != nil {
				d.err(b.DefRange, `Multiple "variables" blocks`,
					"A test file has one variables block. The first is at %s.", f.variables)
				continue
			}
			f.Variables, f.variables = d.testVariables(b), b.DefRange
		case "provider":
			if p := d.provider(b); p != nil {
				f.Providers[p.Local()] = p
			}
		case "mock_provider":
			d.addMock(f, b)
		default:
			d.addOverride(&f.Overrides, b)
		}
	}
	return f, d.diags
}

// testVariables decodes a variables block.
func (d *decoder) testVariables(b *hcl.Block) map[string]hcl.Expression {
	attrs, more := b.Body.JustAttributes()
	d.add(more)
	out := make(map[string]hcl.Expression, len(attrs))
	for name, attr := range attrs {
		out[name] = attr.Expr
	}
	return out
}

func (d *decoder) addMock(f *TestFile, b *hcl.Block) {
	before := len(d.diags)
	p := d.mockProvider(b)
	if p == nil || d.diags[before:].HasErrors() {
		return
	}
	if _, dup := f.Mocks[p.Local()]; dup {
		d.err(p.Range, "Duplicated `mock_provider` block", "There is a mock_provider block for %s already.", p.Local())
		return
	}
	f.Mocks[p.Local()] = p
}

// loadTests loads the test files of the tree's root module, and the modules that their runs test.
func (b *treeBuilder) loadTests() diag.List {
	files, diags := b.loader.LoadTests(b.options.Dir, b.options.TestDir)
	if diags.HasErrors() {
		return diags
	}
	b.tree.Tests = files
	for _, f := range files {
		for _, r := range f.Runs {
			if r.Module != nil {
				diags = append(diags, b.testModule(f, r)...)
			}
		}
	}
	return diags
}

// testModule loads the module of a run as the root of a separate tree.
func (b *treeBuilder) testModule(f *TestFile, r *TestRun) diag.List {
	root := b.tree.Root
	diags := root.evaluateCall(r.Module)
	if r.Module.parsed.Kind == 0 {
		return diags
	}
	locator := within{b.options.Locator, testModulePath(f, r)}
	at, more := locator.Locate(ModuleRequest{Parent: root, Call: r.Module, Source: r.Module.parsed})
	diags = append(diags, more...)
	if at.Dir == "" {
		return diags
	}
	options := b.options
	options.Dir, options.Locator, options.TestDir = at.Dir, locator, ""
	options.Variable = func(v *Variable) (cty.Value, diag.List) { return r.staticValue(root, v) }
	sub := &treeBuilder{loader: b.loader, options: options, modules: b.modules,
		tree: &Tree{Modules: map[addr.Module]*Node{}}}
	more = sub.load(at)
	if !more.HasErrors() && sub.tree.Root != nil {
		more = append(more, checkImports(sub.tree)...)
	}
	diags = append(diags, more...)
	if sub.tree.Root == nil || more.HasErrors() {
		return diags
	}
	r.Tree = sub.tree
	m := sub.tree.Root.Module
	if m.Backend != nil {
		diags = append(diags, ignoredBackend(m.Backend))
	}
	if len(m.Imports) > 0 {
		diags = append(diags, misplacedImport(m.Imports[0], r.Name))
	}
	return diags
}

// testModulePath returns the path of a run's module in the manifest. OpenTofu uses the same names.
func testModulePath(f *TestFile, r *TestRun) addr.Module {
	path := []string{"test"}
	dir, base := filepath.Split(filepath.FromSlash(f.Name))
	if dir = filepath.ToSlash(filepath.Clean(dir)); dir != "." {
		path = append(path, strings.Split(dir, "/")...)
	}
	return addr.ModuleOf(append(path, strings.TrimSuffix(base, ".tftest.hcl"), r.Name)...)
}

// within is a locator of modules whose recorded paths have a prefix.
type within struct {
	Locator
	prefix addr.Module
}

// Locate implements Locator.
func (w within) Locate(r ModuleRequest) (Installed, diag.List) {
	if r.Path.IsRoot() {
		r.Path = w.prefix
	} else {
		r.Path = w.prefix + "." + r.Path
	}
	return w.Locator.Locate(r)
}

// testRequirements adds the providers that test files use, with the version constraints on each.
func (t *Tree) testRequirements(add func(addr.Provider, []string)) {
	for _, f := range t.Tests {
		for p, constraints := range t.TestProviders(f) {
			add(p, constraints)
		}
		for _, r := range f.Runs {
			if r.Tree == nil {
				continue
			}
			for p, constraints := range r.Tree.Requirements() {
				add(p, constraints)
			}
		}
	}
}

// TestProviders returns the providers of a test file's own provider blocks, with their version constraints.
func (t *Tree) TestProviders(f *TestFile) map[addr.Provider][]string {
	out := map[addr.Provider][]string{}
	for _, l := range slices.SortedFunc(maps.Keys(f.Providers), compareLocal) {
		is := t.testProviderType(f, l.Name)
		if v := f.Providers[l].Version; v != "" {
			out[is] = append(out[is], v)
		} else if _, ok := out[is]; !ok {
			out[is] = nil
		}
	}
	return out
}

// testProviderType returns the provider of a local name in a test file, as the first run that uses it resolves it.
func (t *Tree) testProviderType(f *TestFile, name string) addr.Provider {
	for _, r := range f.Runs {
		m := t.Root.Module
		if r.Tree != nil {
			m = r.Tree.Root.Module
		}
		for _, p := range r.Providers {
			if p.InParent.Name == name {
				return m.ProviderFor(p.InChild.Name)
			}
		}
		if _, known := m.Required[name]; known && len(r.Providers) == 0 {
			return m.ProviderFor(name)
		}
	}
	return t.Root.Module.ProviderFor(name)
}

// named reports whether the file has a provider block of the name, with any alias.
func (f *TestFile) named(name string) bool {
	for _, blocks := range []map[addr.LocalProvider]*ProviderConfig{f.Providers, f.Mocks} {
		for l := range blocks {
			if l.Name == name {
				return true
			}
		}
	}
	return false
}

// hasRuns reports whether a test file has runs.
func (t *Tree) hasRuns() bool {
	return slices.ContainsFunc(t.Tests, func(f *TestFile) bool { return len(f.Runs) > 0 })
}

// checkTestProviders checks that a provider block of a test file resolves to the same provider in every run.
func checkTestProviders(t *Tree) diag.List {
	d := &decoder{}
	for _, f := range t.Tests {
		for _, r := range f.Runs {
			m := t.Root.Module
			if r.Tree != nil {
				m = r.Tree.Root.Module
			}
			for _, p := range r.Providers {
				if is := t.testProviderType(f, p.InParent.Name); f.named(p.InParent.Name) &&
					is != m.ProviderFor(p.InChild.Name) {
					d.mismatch(f, p.InParentRange, p.InParent, is, p.InChild.Name, m)
				}
			}
			if len(r.Providers) > 0 {
				continue
			}
			for _, l := range slices.SortedFunc(maps.Keys(f.Providers), compareLocal) {
				if is := t.testProviderType(f, l.Name); m.Required[l.Name] != nil && is != m.ProviderFor(l.Name) {
					d.mismatch(f, f.Providers[l].Range, l, is, l.Name, m)
				}
			}
		}
	}
	return d.diags
}

func (d *decoder) mismatch(f *TestFile, at hcl.Range, l addr.LocalProvider, is addr.Provider, name string, m *Module) {
	d.err(at, "Provider type mismatch", "%s stands for %s in %s, and a run uses it for %q, which is %s in its module.",
		l, is.Display(), f.Name, name, m.ProviderFor(name).Display())
}
