package cliconfig

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

// loadText loads a CLI configuration from text, in an environment.
func loadText(t *testing.T, text string, environ map[string]string) (*Config, diag.List) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "rc")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(func(v string) string {
		if v == "TF_CLI_CONFIG_FILE" {
			return name
		}
		return environ[v]
	}, nil)
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
	home, err := os.UserHomeDir()
	if err != nil {
		t.Skip(err)
	}
	c, diags := loadText(t, "provider_installation {\n dev_overrides {\n  \"acme/foo\" = \"~/dev\"\n  \"example.com/acme/bar\" = \"dev\"\n }\n direct {}\n}\n", nil)
	if len(diags) > 0 {
		t.Fatal(diags.Err())
	}
	here, err := filepath.Abs("dev")
	if err != nil {
		t.Fatal(err)
	}
	want := map[addr.Provider]string{{Host: addr.DefaultHost, Namespace: "acme", Type: "foo"}: filepath.Join(home, "dev"), {Host: "example.com", Namespace: "acme", Type: "bar"}: here}
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
	if c.Methods == nil || len(c.MethodsOrImplied(t.TempDir(), os.Getenv, nil)) != 0 {
		t.Errorf("got %v", c.Methods)
	}
}

func TestWhatIsWrongInTheFileIsSaid(t *testing.T) {
	for text, want := range map[string]string{
		"provider_installation {\n":                                                   "Error parsing the CLI configuration file",
		"provider_installation = 1\n":                                                 "Invalid CLI configuration",
		"provider_installation \"x\" {}\n":                                            "Invalid CLI configuration",
		"plugin_cache_dir = 1\n":                                                      "Invalid CLI configuration",
		"provider_installation {\n foo {}\n}\n":                                       "Invalid provider_installation method block",
		"provider_installation {\n filesystem_mirror {}\n}\n":                         "Invalid provider_installation method block",
		"provider_installation {\n network_mirror {}\n}\n":                            "Invalid provider_installation method block",
		"provider_installation {\n direct {\n  path = \"x\"\n }\n}\n":                 "Invalid provider_installation method block",
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
	c, diags := Load(func(v string) string { return map[string]string{"TF_CLI_CONFIG_FILE": name}[v] }, nil)
	if len(diags) != 1 || diags[0].Severity != diag.Warning || diags[0].Summary != "Unable to open CLI configuration file" || c.Methods != nil {
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
		c, diags := Load(func(v string) string {
			return map[string]string{"HOME": home, "APPDATA": home, "XDG_CONFIG_HOME": filepath.Join(home, ".config")}[v]
		}, nil)
		if len(diags) > 0 || c.CacheDir != "/x" {
			t.Errorf("%s: got %+v, %v", file, c, diags)
		}
	}
}
