package cliconfig

import (
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/opentofu/svchost"

	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

// loadText loads a CLI configuration from text, in an environment.
func loadText(t *testing.T, text string, variables map[string]string) (*Config, diag.List) {
	t.Helper()
	dir := t.TempDir()
	name := filepath.Join(dir, "rc")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(dir, environ.Of(variables).With("TF_CLI_CONFIG_FILE="+name))
}

func TestTheMethodsAreReadInTheirOrder(t *testing.T) {
	c, diags := loadText(t, `
plugin_cache_dir = "/cache"
disable_checkpoint = true
credentials "example.com" {
  token = "x"
}
provider_installation {
  filesystem_mirror {
    path    = "/mirror"
    include = ["example.com/*/*"]
  }
  network_mirror {
    url = "https://example.com/"
  }
  direct {
    exclude = ["acme/*"]
  }
}
`, nil)
	want := []Method{
		{Kind: FilesystemMirror, Location: "/mirror", Include: []string{"example.com/*/*"}},
		{Kind: NetworkMirror, Location: "https://example.com/"},
		{Kind: Direct, Exclude: []string{"acme/*"}},
	}
	if len(diags) > 0 || c.CacheDir != "/cache" || !reflect.DeepEqual(c.Methods, want) {
		t.Errorf("got %+v, %v", c, diags.Err())
	}
}

func TestDevelopmentOverridesAreAbsolute(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	rc := filepath.Join(t.TempDir(), "rc")
	if err := os.WriteFile(rc, []byte("provider_installation {\n dev_overrides {\n  \"acme/foo\" = \"~/dev\"\n  "+
		"\"example.com/acme/bar\" = \"dev\"\n }\n direct {}\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, diags := Load(dir, environ.Variables{"HOME=" + home, "TF_CLI_CONFIG_FILE=" + rc})
	if len(diags) > 0 {
		t.Fatal(diags.Err())
	}
	want := map[addr.Provider]string{{Host: addr.DefaultHost, Namespace: "acme", Type: "foo"}: filepath.Join(home,
		"dev"), {Host: "example.com", Namespace: "acme", Type: "bar"}: filepath.Join(dir, "dev")}
	if !reflect.DeepEqual(c.DevOverrides, want) {
		t.Errorf("got %v", c.DevOverrides)
	}
}

func TestTheFileMayBeJSON(t *testing.T) {
	c, diags := loadText(t, `{"plugin_cache_dir": "/cache"}`, nil)
	if len(diags) > 0 || c.CacheDir != "/cache" {
		t.Errorf("got %+v, %v", c, diags.Err())
	}
}

func TestTheEnvironmentsCacheDirectoryComesFirst(t *testing.T) {
	c, diags := loadText(t, "plugin_cache_dir = \"/file\"\n", map[string]string{"TF_PLUGIN_CACHE_DIR": "/environment"})
	if len(diags) > 0 || c.CacheDir != "/environment" {
		t.Errorf("got %q, %v", c.CacheDir, diags.Err())
	}
}

func TestABlockWithoutMethodsTurnsTheImpliedOnesOff(t *testing.T) {
	c, _ := loadText(t, "provider_installation {}\n", nil)
	if c.Methods == nil || len(c.MethodsOrImplied(nil, nil)) != 0 {
		t.Errorf("got %v", c.Methods)
	}
}

func TestWhatIsWrongInTheFileIsSaid(t *testing.T) {
	for text, want := range map[string]string{
		"provider_installation {\n": "Error parsing the CLI " +
			"configuration file",
		// HCL's first parser recurses, too.
		"a = " + strings.Repeat("[", 100_000):                                         "Error parsing the CLI configuration file",
		"provider_installation = 1\n":                                                 "Invalid CLI configuration",
		"provider_installation \"x\" {}\n":                                            "Invalid CLI configuration",
		"plugin_cache_dir = 1\n":                                                      "Invalid CLI configuration",
		"provider_installation {\n foo {}\n}\n":                                       "Invalid provider_installation method block",
		"provider_installation {\n filesystem_mirror {}\n}\n":                         "Invalid provider_installation method block",
		"provider_installation {\n network_mirror {}\n}\n":                            "Invalid provider_installation method block",
		"provider_installation {}\nprovider_installation {}\n":                        "Invalid provider_installation block",
		"provider_installation {\n dev_overrides {\n \"a/b/c/d\" = \"x\"\n }\n}\n":    "Invalid provider source string",
		"provider_installation {\n dev_overrides {\n \"acme/foo\" = [\"x\"]\n }\n}\n": "Invalid CLI configuration",
	} {
		_, diags := loadText(t, text, nil)
		if len(diags) == 0 || diags[0].Severity != diag.Error || diags[0].Summary != want {
			t.Errorf("%q: got %v, want %q", text, diags.Err(), want)
		}
	}
}

func TestANamedFileThatDoesNotExistIsAWarning(t *testing.T) {
	name := filepath.Join(t.TempDir(), "none")
	c, diags := Load("", environ.Variables{"TF_CLI_CONFIG_FILE=" + name})
	if len(diags) != 1 || diags[0].Severity != diag.Warning ||
		diags[0].Summary != "Unable to open CLI configuration file" || c.Methods != nil {
		t.Errorf("got %v, %v", c, diags)
	}
}

func TestTheFileInTheHomeDirectoryIsFound(t *testing.T) {
	for _, file := range []string{".tofurc", ".terraformrc", ".config/opentofu/tofurc"} {
		home := t.TempDir()
		name := filepath.Join(home, file)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("plugin_cache_dir = \"/x\"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c, diags := Load("", environ.Variables{"HOME=" + home, "APPDATA=" + home, "XDG_CONFIG_HOME=" +
			filepath.Join(home, ".config")})
		if len(diags) > 0 || c.CacheDir != "/x" {
			t.Errorf("%s: got %+v, %v", file, c, diags)
		}
	}
}

// home creates files in a home directory, and loads the CLI configuration of its owner.
func home(t *testing.T, files map[string]string, variables ...string) (*Config, diag.List, string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c, diags := Load(dir, environ.Variables{"HOME=" + dir, "APPDATA=" + dir}.With(variables...))
	return c, diags, dir
}

func TestTheFilesOfTheDirectoryAreRead(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the names are those of Unix")
	}
	c, diags, dir := home(t, map[string]string{
		".tofurc": "credentials \"a.example.com\" {\n  token = " +
			"\"main\"\n}\nplugin_cache_dir = \"/main\"\n",
		".terraform.d/credentials.tfrc.json": `{"credentials": {"b.example.com": {"token": "json"}, "a.example.com": {"token": "other"}}}`,
		".terraform.d/hosts.tfrc": "host \"c.example.com\" {\n  services = {\n    \"modules.v1\" = " +
			"\"https://c.example.com/\"\n  }\n}\nplugin_cache_dir = \"/other\"\n",
		".terraform.d/helper.tfrc":             "credentials_helper \"store\" {\n  args = [\"x\"]\n}\n",
		".terraform.d/ignored":                 "nonsense {{{",
		".terraform.d/plugins/" + helperName(): "",
	})
	if len(diags) > 0 {
		t.Fatal(diags.Err())
	}
	if c.Credentials["a.example.com"].Token != "other" || c.Credentials["b.example.com"].Token != "json" ||
		c.CacheDir != "/main" {
		t.Errorf("got %+v", c)
	}
	if c.Hosts["c.example.com"]["modules.v1"] != "https://c.example.com/" {
		t.Errorf("hosts: %v", c.Hosts)
	}
	if c.Helper == nil || c.Helper.Program != filepath.Join(dir, ".terraform.d/plugins", helperName()) ||
		!reflect.DeepEqual(c.Helper.Args, []string{"x"}) {
		t.Errorf("helper: %+v", c.Helper)
	}
	if c.CredentialsFile != filepath.Join(dir, ".terraform.d/credentials.tfrc.json") {
		t.Errorf("login writes to %s", c.CredentialsFile)
	}
}

func helperName() string { return "terraform-credentials-store" }

func TestANamedFileLeavesTheDirectoryOut(t *testing.T) {
	name := filepath.Join(t.TempDir(), "rc")
	if err := os.WriteFile(name, []byte("plugin_cache_dir = \"/named\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, diags, _ := home(t, map[string]string{".terraform.d/x.tfrc": "plugin_cache_dir = " +
		"\"/x\"\nplugin_cache_may_break_dependency_lock_file = true\n"}, "TF_CLI_CONFIG_FILE="+name)
	if len(diags) > 0 || c.CacheDir != "/named" || c.CacheMayBreakLockFile {
		t.Errorf("got %+v, %v", c, diags.Err())
	}
}

func TestTokensAreTakenFromTheEnvironment(t *testing.T) {
	c, diags, _ := home(t, nil, "TF_TOKEN_app_example_com=a", "TF_TOKEN_my__host_example_com=b",
		"TF_TOKEN_xn____caf__dma_fr=c", "TF_TOKEN_café.example.com=d", "TF_TOKEN_=e")
	want := map[svchost.Hostname]string{"app.example.com": "a", "my-host.example.com": "b", "xn--caf-dma.fr": "c",
		"xn--caf-dma.example.com": "d"}
	if len(diags) > 0 || !reflect.DeepEqual(c.EnvironmentTokens, want) {
		t.Errorf("got %v, %v", c.EnvironmentTokens, diags.Err())
	}
}

func TestVariablesSayHowRegistriesAreAsked(t *testing.T) {
	text := map[string]string{".tofurc": "registry_protocols {\n  retry_count = 0\n  request_timeout_seconds = " +
		"5\n}\nplugin_cache_may_break_dependency_lock_file = true\n"}
	c, _, _ := home(t, text)
	if c.Retries != 0 || c.Timeout != 5*time.Second || c.DownloadRetries != 2 || !c.CacheMayBreakLockFile {
		t.Errorf("the file: %+v", c)
	}
	c, _, _ = home(t, text, "TF_REGISTRY_DISCOVERY_RETRY=3", "TF_REGISTRY_CLIENT_TIMEOUT=7",
		"TF_PROVIDER_DOWNLOAD_RETRY=9")
	if c.Retries != 3 || c.Timeout != 7*time.Second || c.DownloadRetries != 9 {
		t.Errorf("the environment: %+v", c)
	}
	c, _, _ = home(t, nil, "TF_REGISTRY_DISCOVERY_RETRY=x", "TF_REGISTRY_CLIENT_TIMEOUT=-1",
		"TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE=0")
	if c.Retries != 1 || c.Timeout != 10*time.Second || c.CacheMayBreakLockFile {
		t.Errorf("nonsense: %+v", c)
	}
}

func TestMethodsHaveTheirOwnRetries(t *testing.T) {
	c, diags := loadText(t, "provider_installation {\n network_mirror {\n  url = \"https://example.com/\"\n  "+
		"download_retry_count = 5\n  trust_all_hashes = true\n }\n direct {\n  download_retry_count = 0\n }\n}\n", nil)
	if len(diags) > 0 || len(c.Methods) != 2 || *c.Methods[0].Retries != 5 || !c.Methods[0].TrustAllHashes ||
		*c.Methods[1].Retries != 0 {
		t.Errorf("got %+v, %v", c.Methods, diags.Err())
	}
}

func TestWhatIsWrongAboutHostsAndMirrorsIsSaid(t *testing.T) {
	for text, want := range map[string]string{
		"host \"no host!\" {}\n": "Invalid hostname in " +
			"the CLI configuration",
		"credentials \"no host!\" {}\n": "Invalid hostname in " +
			"the CLI configuration",
		"credentials_helper \"a\" {}\ncredentials_helper \"b\" {}\n": "No more than one " +
			"credentials_helper block may be specified",
		"registry_protocols {}\nregistry_protocols {}\n":  "Duplicate registry_protocols block",
		"registry_protocols {\n retry_count = \"x\"\n}\n": "Invalid registry_protocols block",
		"provider_installation {\n network_mirror {\n  url = \"http://example.com/\"\n }\n}\n": "Invalid URL for " +
			"provider installation source",
		"provider_installation {\n direct {\n  include = [\"a\"]\n }\n}\n":                  "Invalid provider_installation method block",
		"provider_installation {\n direct {\n  include = [\"*/a/*\"]\n }\n}\n":              "Invalid provider_installation method block",
		"provider_installation {\n direct {\n  include = [\"a/*/b\", \"*/x\"]\n }\n}\n":     "Invalid provider_installation method block",
		"provider_installation {\n direct {}\n dev_overrides {\n  \"a/b\" = \"c\"\n }\n}\n": "Invalid provider_installation method block",
		"provider_installation {\n oci_mirror {}\n}\n":                                      "Invalid provider_installation method block",
	} {
		_, diags := loadText(t, text, nil)
		if len(diags) == 0 || diags[0].Severity != diag.Error || diags[0].Summary != want {
			t.Errorf("%q: got %v, want %q", text, diags.Err(), want)
		}
	}
}

func TestAnArgumentThatNobodyKnowsIsAWarning(t *testing.T) {
	c, diags := loadText(t, "provider_installation {\n direct {\n  path = \"x\"\n }\n}\n", nil)
	if len(c.Methods) != 1 || len(diags) != 1 || diags[0].Severity != diag.Warning || diags[0].Subject.Start.Line != 3 {
		t.Errorf("got %+v, %v", c.Methods, diags)
	}
}
