package modules

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/internal/reach"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
)

// write makes files below a new directory, and returns that.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	base := t.TempDir()
	for name, text := range files {
		name = filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return base
}

func install(base, dir string, o Options) (Result, diag.List) {
	o.Base = base
	o.Loader = config.NewLoader(config.OS{Base: base})
	return Install(context.Background(), dir, o)
}

func summaries(l diag.List) string {
	var out []string
	for _, d := range l {
		out = append(out, d.Summary)
	}
	return strings.Join(out, "; ")
}

func TestLocalModulesAreRecordedAsOpenTofuDoes(t *testing.T) {
	base := write(t, map[string]string{
		"main.tf":         `module "b" { source = "./mods/b" }` + "\n" + `module "a" { source = "./mods/a/" }`,
		"mods/a/main.tf":  `module "inner" { source = "../b" }`,
		"mods/b/main.tf":  `output "x" { value = 1 }`,
		"unused/other.tf": `output "x" { value = 1 }`,
	})
	var done []string
	r, diags := install(base, ".",
		Options{Done: func(m addr.Module, _ config.Installed) { done = append(done, m.String()) }})
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	got, err := os.ReadFile(filepath.Join(base, ".terraform/modules/modules.json"))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"Modules":[{"Key":"","Source":"","Dir":"."},{"Key":"a","Source":"./mods/a","Dir":"mods/a"},` +
		`{"Key":"a.inner","Source":"../b","Dir":"mods/b"},{"Key":"b","Source":"./mods/b","Dir":"mods/b"}]}`
	if string(got) != want {
		t.Errorf("manifest\n%s, want\n%s", got, want)
	}
	if n := r.Tree.Modules["a.inner"]; n == nil || n.SourceDir != filepath.Join("mods", "b") {
		t.Errorf("the tree has %v", n)
	}
	if got := strings.Join(done, " "); got != "module.a module.a.module.inner module.b" {
		t.Errorf("installed %s", got)
	}

	done = nil
	if _, diags := install(base, ".",
		Options{Done: func(m addr.Module, _ config.Installed) {
			done = append(done,
				m.String())
		}}); diags.HasErrors() || done != nil {
		t.Errorf("a second installation did %v, %v", done, diags.Err())
	}

	m, _ := config.ReadManifest(config.OS{Base: base}, ".terraform")
	tree, diags := config.NewLoader(config.OS{Base: base}).LoadTree(config.TreeOptions{Locator: m})
	if diags.HasErrors() || len(tree.Modules) != 4 {
		t.Errorf("what was installed does not load: %v", diags.Err())
	}
}

func TestWithoutModulesNothingIsWritten(t *testing.T) {
	base := write(t, map[string]string{"main.tf": `output "x" { value = 1 }`})
	if _, diags := install(base, ".", Options{}); diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	if _, err := os.Stat(filepath.Join(base, ".terraform")); !os.IsNotExist(err) {
		t.Error("there is a data directory")
	}
}

func TestAMissingDirectoryIsSaidAndNothingIsRecorded(t *testing.T) {
	base := write(t, map[string]string{"main.tf": `module "a" { source = "./gone" }`})
	_, diags := install(base, ".", Options{})
	if got := summaries(diags); got != "Unreadable module directory" {
		t.Error(got)
	}
	if _, err := os.Stat(filepath.Join(base, ".terraform")); !os.IsNotExist(err) {
		t.Error("there is a manifest")
	}
}

func TestWithoutANetworkOnlyLocalModulesAreInstalled(t *testing.T) {
	for _, source := range []string{"hashicorp/consul/aws", "git::https://example.com/x.git", "github.com/a/b"} {
		base := write(t, map[string]string{"main.tf": `module "a" { source = "` + source + `" }`})
		_, diags := install(base, ".", Options{})
		if got := summaries(diags); got != "Remote module sources not supported" {
			t.Errorf("%s: %s", source, got)
		}
	}
}

func TestWhatOpenTofuInstalledIsUsed(t *testing.T) {
	base := write(t, map[string]string{
		"main.tf":                      "module \"a\" {\n  source = \"acme/x/y\"\n  version = \"~> 1.0\"\n}",
		".terraform/modules/a/main.tf": `output "x" { value = 1 }`,
		".terraform/modules/modules.json": `{"Modules":[{"Key":"","Source":"","Dir":"."},{"Key":"a",` +
			`"Source":"registry.opentofu.org/acme/x/y","Version":"1.2.0","Dir":".terraform/modules/a"}]}`,
		".terraform/modules/stale/main.tf": ``,
	})
	r, diags := install(base, ".", Options{})
	if diags.HasErrors() || r.Tree.Modules["a"].Version != "1.2.0" {
		t.Fatal(diags.Err())
	}
}

// copier is a source that writes a fixed module.
type copier struct {
	base  string
	calls int
}

func (c *copier) Fetch(_ context.Context, r config.ModuleRequest, into string) (config.Installed, diag.List) {
	c.calls++
	if err := os.MkdirAll(filepath.Join(c.base, into), 0o755); err != nil {
		return config.Installed{}, diag.List(nil).Append(err)
	}
	if err := os.WriteFile(filepath.Join(c.base, into, "main.tf"), []byte(`output "x" { value = 1 }`),
		0o644); err != nil {
		return config.Installed{}, diag.List(nil).Append(err)
	}
	return config.Installed{Version: "1.5.0", Dir: into}, nil
}

func TestASourceFetchesOnceUntilAskedToUpgrade(t *testing.T) {
	base := write(t, map[string]string{"main.tf": "module \"a\" {\n  source = \"acme/x/y\"\n  version = \"~> 1.0\"\n}"})
	c := &copier{base: base}
	for i, upgrade := range []bool{false, false, true} {
		_, diags := install(base, ".", Options{Sources: map[config.SourceKind]Source{config.RegistrySource: c},
			Upgrade: upgrade})
		if diags.HasErrors() {
			t.Fatal(i, diags.Err())
		}
	}
	if c.calls != 2 {
		t.Errorf("fetched %d times", c.calls)
	}
}

func TestAModuleThatCallsItselfIsRefused(t *testing.T) {
	base := write(t, map[string]string{"main.tf": `module "a" { source = "./." }`})
	_, diags := install(base, ".", Options{})
	if got := summaries(diags); got != "Modules are nested too deeply" {
		t.Error(got)
	}
}

func TestInterruptedInstallationKeepsTheManifest(t *testing.T) {
	base := write(t, map[string]string{"main.tf": `module "a" { source = "./a" }`, "a/main.tf": ``})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, diags := Install(ctx, ".", Options{Base: base, Loader: config.NewLoader(config.OS{Base: base})})
	if got := summaries(diags); got != "Module installation was interrupted" {
		t.Error(got)
	}
	if _, err := os.Stat(filepath.Join(base, ".terraform")); !os.IsNotExist(err) {
		t.Error("there is a manifest")
	}
}

// A local source such as "../../.." was followed to wherever it led, and so was a manifest in the uploaded directory,
// so that a run in a service loaded directories of the service.
func TestConfinedModulesAreThoseOfTheConfiguration(t *testing.T) {
	base := write(t, map[string]string{
		"in/main.tf": `module "a" { source = "../out" }`, "out/main.tf": `output "x" { value = 1 }`,
		"good/main.tf": `module "a" { source = "./sub" }`, "good/sub/main.tf": `output "x" { value = file("y") }`,
		"sly/main.tf": "module \"a\" {\n  source = \"acme/x/y\"\n  version = \"~> 1.0\"\n}",
		"sly/.terraform/modules/modules.json": `{"Modules":[{"Key":"","Source":"","Dir":"."},{"Key":"a",` +
			`"Source":"registry.opentofu.org/acme/x/y","Version":"1.2.0","Dir":"../out"}]}`,
	})
	for dir, want := range map[string]string{"in": "Unreadable module directory", "good": "",
		"sly": "Remote module sources not supported"} {
		root := filepath.Join(base, dir)
		files := reach.Below(root)
		_, diags := Install(t.Context(), ".", Options{Base: root, Files: files,
			Loader: config.NewLoader(config.OS{Base: root, Files: files})})
		if got := summaries(diags); got != want {
			t.Errorf("%s: %s", dir, got)
		}
	}
	root := filepath.Join(base, "sly")
	files := config.OS{Base: root, Files: reach.Below(root)}
	if _, diags := config.NewLoader(files).LoadModule("../out"); summaries(diags) != "Failed to read module directory" {
		t.Errorf("a manifest leads out: %s", summaries(diags))
	}
}
