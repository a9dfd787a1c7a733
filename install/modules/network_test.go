package modules

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opentofu/svchost"

	"github.com/millipede-iac/millipede/install/cliconfig"
	"github.com/millipede-iac/millipede/install/services"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/test/stage/registry"
)

// online returns a registry with versions of acme/net/aws, and services that reach it as example.com.
func online(t *testing.T) (*registry.Registry, *services.Services) {
	t.Helper()
	r, err := registry.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	r.File("/m.zip", registry.Zip(map[string]string{
		"main.tf": `module "inner" { source = "./sub" }`, "sub/main.tf": `output "x" { value = 1 }`,
		"out/main.tf": `module "x" { source = "../../beside" }`,
	}))
	for _, v := range []string{"1.0.0", "1.2.0", "2.0.0", "2.1.0-beta1"} {
		r.Module("acme/net/aws", v, r.URL("/m.zip"))
	}
	c := &cliconfig.Config{Timeout: time.Minute,
		Hosts: map[svchost.Hostname]map[string]any{"example.com": {services.Modules: r.URL("/v1/modules/")}}}
	return r, services.New(services.Options{Config: c, Transport: r.Transport(), Wait: time.Millisecond})
}

// get installs the module of one module block; the log lists the downloads.
func get(t *testing.T, s *services.Services, block string) (base string, result Result, log []string, diags diag.List) {
	t.Helper()
	base = write(t, map[string]string{"main.tf": "variable \"v\" {\n  default = \"~> 1.0\"\n}\nmodule \"a\" {\n" +
		block + "\n}\n"})
	result, diags = install(base, ".", Options{Sources: Network(NetworkOptions{Services: s, Base: base,
		Downloading: func(r config.ModuleRequest, from, version string) {
			log = append(log, strings.TrimSpace(fmt.Sprintf("%s: %s %s", r.Path, from, version)))
		}})})
	return base, result, log, diags
}

func TestARegistrysNewestAcceptableVersionIsRecordedAsOpenTofuDoes(t *testing.T) {
	for constraint, want := range map[string]string{
		"": "2.0.0", `version = "~> 1.0"`: "1.2.0", `version = var.v`: "1.2.0",
		`version = "2.1.0-beta1"`: "2.1.0-beta1", `version = ">= 2.0.0"`: "2.0.0", `version = "v1.0.0"`: "1.0.0",
	} {
		_, s := online(t)
		base, _, log, diags := get(t, s, "source = \"example.com/acme/net/aws\"\n"+constraint)
		if diags.HasErrors() {
			t.Fatal(constraint, diags.Err())
		}
		if got := strings.Join(log, "; "); got != "module.a: example.com/acme/net/aws "+want {
			t.Errorf("%s: %s", constraint, got)
		}
		text, err := os.ReadFile(filepath.Join(base, ".terraform/modules/modules.json"))
		if err != nil {
			t.Fatal(err)
		}
		if wanted := `{"Modules":[{"Key":"","Source":"","Dir":"."},{"Key":"a","Source":"example.com/acme/net/aws",` +
			`"Version":"` + want + `","Dir":".terraform/modules/a"},` +
			`{"Key":"a.inner","Source":"./sub","Dir":".terraform/modules/a/sub"}]}`; string(text) != wanted {
			t.Errorf("manifest\n%s, want\n%s", text, wanted)
		}
	}
}

func TestADirectoryOfAPackageIsTheModule(t *testing.T) {
	r, s := online(t)
	for _, source := range []string{"example.com/acme/net/aws//sub", r.URL("/m.zip//sub"), r.URL("/m.zip//su*")} {
		_, result, _, diags := get(t, s, fmt.Sprintf("source = %q", source))
		if diags.HasErrors() || result.Tree.Modules["a"].SourceDir != filepath.FromSlash(".terraform/modules/a/sub") {
			t.Errorf("%s: %v", source, diags.Err())
		}
	}
}

func TestARegistryMayServeThePackageItself(t *testing.T) {
	r, s := online(t)
	for _, answer := range []string{`{"location":"/m.zip"}`, `{"location":"/m.zip","use_registry_credentials":true}`,
		`{"location":"/m.zip","use_registry_credentials":false}`} {
		r.Misbehave("/download", 1, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) })
		if _, result, _, diags := get(t, s, `source = "example.com/acme/net/aws"`); diags.HasErrors() ||
			result.Tree.Modules["a"].Version != "2.0.0" {
			t.Errorf("%s: %v", answer, diags.Err())
		}
	}
}

func TestWhatKeepsAModuleAwayIsSaid(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	text := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, s) }
	}
	const source = `source = "example.com/acme/net/aws"`
	for claim, c := range map[string]struct {
		block, part string
		serve       http.HandlerFunc
		want        string
	}{
		"an unknown module": {`source = "example.com/acme/nope/aws"`, "", nil, "Module not found"},
		"no version that will do": {source + "\nversion = \"> 3\"", "", nil, "Unresolvable module version " +
			"constraint"},
		"no versions": {source, "/versions", text(`{"modules":[{"versions":[]}]}`),
			"Module has no versions"},
		"an answer without a module": {source, "/versions", text(`{}`), "Invalid response from remote module registry"},
		"an answer that is no JSON":  {source, "/versions", text(`<`), "Error accessing remote module registry"},
		"a registry that fails":      {source, "/versions", status(500), "Error accessing remote module registry"},
		"a refusal":                  {source, "/versions", status(401), "Error accessing remote module registry"},
		"a location that is none": {source, "/download", text(`{"location":"nowhere"}`),
			"Error accessing remote module registry"},
		"no location":            {source, "/download", status(204), "Error accessing remote module registry"},
		"a version that is gone": {source, "/download", status(404), "Error accessing remote module registry"},
		"a package that is gone": {source, "/m.zip", status(404), "Failed to download module"},
		"a missing directory": {`source = "example.com/acme/net/aws//nope"`, "", nil,
			"Module subdirectory not found"},
		"a pattern without a match": {`source = "https://HOST/m.zip//n*"`, "", nil, "Failed to expand subdir globs"},
		"a store that is unknown": {`source = "s3::https://s3.amazonaws.com/b/m.zip"`, "", nil,
			"Failed to download module"},
		"a way out of the package": {`source = "example.com/acme/net/aws//out"`, "", nil,
			"Local module path escapes module package"},
	} {
		t.Run(claim, func(t *testing.T) {
			r, s := online(t)
			if c.part != "" {
				r.Misbehave(c.part, -1, c.serve)
			}
			base, _, _, diags := get(t, s, strings.ReplaceAll(c.block, "HOST", r.Host()))
			if got := summaries(diags); got != c.want {
				t.Errorf("%s: %v", got, diags.Err())
			}
			if _, err := os.Stat(filepath.Join(base, ".terraform/modules/modules.json")); err == nil {
				t.Error("there is a manifest")
			}
		})
	}
}

func TestAWrongVersionOfARegistryIsLeftOut(t *testing.T) {
	r, s := online(t)
	r.Misbehave("/versions", 1, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"modules":[{"versions":[{"version":"one"},{"version":"1.0.0"}]}]}`)
	})
	_, result, _, diags := get(t, s, `source = "example.com/acme/net/aws"`)
	if summaries(diags) != "Invalid response from remote module registry" || diags.HasErrors() ||
		result.Tree.Modules["a"].Version != "1.0.0" {
		t.Error(diags)
	}
}

func TestAModuleThatIsCalledTwiceIsAskedForOnce(t *testing.T) {
	r, s := online(t)
	base := write(t, map[string]string{"main.tf": `
module "a" { source = "example.com/acme/net/aws" }
module "b" { source = "example.com/acme/net/aws" }
`})
	_, diags := install(base, ".", Options{Sources: Network(NetworkOptions{Services: s, Base: base})})
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	counts := map[string]int{}
	for _, path := range r.Requests() {
		counts[path]++
	}
	if counts["/m.zip"] != 1 || counts["/v1/modules/acme/net/aws/versions"] != 1 {
		t.Errorf("asked for %v", counts)
	}
}
