package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/gocty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

// CLIConfig is what the user's CLI configuration says about providers (.tofurc, .terraformrc, TF_CLI_CONFIG_FILE).
type CLIConfig struct {
	// Methods are the places to look in, in order; nil when the file names none, so the implied ones count.
	Methods []Method
	// DevOverrides are directories that take the place of installed packages.
	DevOverrides map[addr.Provider]string
	// CacheDir is where packages are shared between working directories; empty for none.
	CacheDir string
}

// MethodKind is a way to get packages.
type MethodKind byte

// The ways.
const (
	FilesystemMirror MethodKind = iota + 1
	NetworkMirror
	Direct
)

// Method is one place to look for packages.
type Method struct {
	Kind MethodKind
	// Location is the directory or the URL of a mirror.
	Location         string
	Include, Exclude []string
}

// Covers tells whether a provider is to be looked for with this method.
func (m Method) Covers(p addr.Provider) bool {
	if slices.ContainsFunc(m.Exclude, func(pattern string) bool { return matches(pattern, p) }) {
		return false
	}
	return len(m.Include) == 0 || slices.ContainsFunc(m.Include, func(pattern string) bool { return matches(pattern, p) })
}

// matches tells whether a pattern such as registry.example.com/*/* covers a provider.
func matches(pattern string, p addr.Provider) bool {
	parts := strings.Split(pattern, "/")
	if len(parts) == 2 {
		parts = append([]string{addr.DefaultHost}, parts...)
	}
	if len(parts) != 3 {
		return false
	}
	for i, have := range []string{p.Host, p.Namespace, p.Type} {
		if parts[i] != "*" && parts[i] != have {
			return false
		}
	}
	return true
}

// LoadCLIConfig reads the CLI configuration that the environment names, or the one in the home directory. Its warnings
// concern the user's machine and not the configuration: a command shows them on standard error, once. One of them is
// that the file which TF_CLI_CONFIG_FILE names does not exist.
func LoadCLIConfig(getenv func(string) string) (*CLIConfig, diag.List) {
	c := &CLIConfig{}
	var diags diag.List
	name, named := cliConfigFile(getenv)
	if name != "" {
		text, err := os.ReadFile(name)
		switch {
		case err == nil:
			diags = diags.Append(c.parse(name, text))
		case errors.Is(err, fs.ErrNotExist) && named:
			diags = diags.Append(diag.New(diag.Warning, "Unable to open CLI configuration file",
				fmt.Sprintf("The CLI configuration file at %q does not exist.", name), nil))
		case errors.Is(err, fs.ErrNotExist):
		default:
			diags = diags.Append(diag.New(diag.Error, "Error reading CLI configuration file", err.Error()+".", nil))
		}
	}
	if dir := getenv("TF_PLUGIN_CACHE_DIR"); dir != "" {
		c.CacheDir = dir
	}
	return c, diags
}

func cliConfigFile(getenv func(string) string) (name string, named bool) {
	for _, v := range []string{"TF_CLI_CONFIG_FILE", "TERRAFORM_CONFIG"} {
		if name := getenv(v); name != "" {
			return name, true
		}
	}
	home := getenv("HOME")
	if runtime.GOOS == "windows" {
		home = getenv("APPDATA")
	}
	if home == "" {
		return "", false
	}
	candidates := []string{filepath.Join(home, ".tofurc"), filepath.Join(home, ".terraformrc")}
	if runtime.GOOS == "windows" {
		candidates = []string{filepath.Join(home, "tofu.rc"), filepath.Join(home, "terraform.rc")}
	} else if xdg := getenv("XDG_CONFIG_HOME"); xdg != "" {
		candidates = append(candidates, filepath.Join(xdg, "opentofu", "tofurc"))
	}
	for _, c := range candidates {
		if _, err := os.Stat(c); err == nil {
			return c, false
		}
	}
	return "", false
}

func (c *CLIConfig) parse(name string, text []byte) diag.List {
	parse := hclparse.NewParser().ParseHCL
	if strings.HasSuffix(name, ".json") {
		parse = hclparse.NewParser().ParseJSON
	}
	file, hclDiags := parse(text, name)
	var diags diag.List
	diags = diags.Append(hclDiags)
	if file == nil || hclDiags.HasErrors() {
		return diags
	}
	content, _, hclDiags := file.Body.PartialContent(&hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{{Name: "plugin_cache_dir"}},
		Blocks:     []hcl.BlockHeaderSchema{{Type: "provider_installation"}},
	})
	diags = diags.Append(hclDiags)
	if a := content.Attributes["plugin_cache_dir"]; a != nil {
		v, more := a.Expr.Value(nil)
		diags = diags.Append(more)
		if !more.HasErrors() && v.Type() == cty.String && !v.IsNull() {
			c.CacheDir = expand(v.AsString())
		}
	}
	for i, b := range content.Blocks {
		if i > 0 {
			diags = diags.Append(diag.New(diag.Error, "Invalid provider_installation block", "There can be only one provider_installation block.", b.DefRange.Ptr()))
			break
		}
		diags = diags.Append(c.installation(b.Body))
	}
	return diags
}

// expand replaces a leading ~ and environment variables, as in paths that people write.
func expand(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			path = filepath.Join(home, rest)
		}
	}
	return os.ExpandEnv(path)
}

func (c *CLIConfig) installation(body hcl.Body) diag.List {
	content, hclDiags := body.Content(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "filesystem_mirror"}, {Type: "network_mirror"}, {Type: "direct"}, {Type: "dev_overrides"},
	}})
	var diags diag.List
	diags = diags.Append(hclDiags)
	c.Methods = []Method{}
	for _, b := range content.Blocks {
		if b.Type == "dev_overrides" {
			diags = diags.Append(c.overrides(b.Body))
			continue
		}
		var raw struct {
			Path    string   `hcl:"path,optional"`
			URL     string   `hcl:"url,optional"`
			Include []string `hcl:"include,optional"`
			Exclude []string `hcl:"exclude,optional"`
			Rest    hcl.Body `hcl:",remain"`
		}
		more := gohcl.DecodeBody(b.Body, nil, &raw)
		diags = diags.Append(more)
		if more.HasErrors() {
			continue
		}
		m := Method{Include: raw.Include, Exclude: raw.Exclude}
		switch b.Type {
		case "filesystem_mirror":
			m.Kind, m.Location = FilesystemMirror, expand(raw.Path)
			if raw.Path == "" {
				diags = diags.Append(diag.New(diag.Error, "Invalid provider_installation method block", "A filesystem_mirror block needs the argument path.", b.DefRange.Ptr()))
			}
		case "network_mirror":
			m.Kind, m.Location = NetworkMirror, raw.URL
			if raw.URL == "" {
				diags = diags.Append(diag.New(diag.Error, "Invalid provider_installation method block", "A network_mirror block needs the argument url.", b.DefRange.Ptr()))
			}
		default:
			m.Kind = Direct
		}
		c.Methods = append(c.Methods, m)
	}
	return diags
}

func (c *CLIConfig) overrides(body hcl.Body) diag.List {
	attrs, hclDiags := body.JustAttributes()
	var diags diag.List
	diags = diags.Append(hclDiags)
	for name, a := range attrs {
		p, more := addr.ParseProviderSource(name)
		diags = diags.Append(more.WithSubject(a.NameRange.Ptr()))
		v, hclDiags := a.Expr.Value(nil)
		diags = diags.Append(hclDiags)
		var dir string
		if err := gocty.FromCtyValue(v, &dir); err != nil {
			diags = diags.Append(diag.New(diag.Error, "Invalid dev_overrides entry", "Each entry of dev_overrides is the directory of a provider's package, as a string.", a.Expr.Range().Ptr()))
			continue
		}
		if more.HasErrors() {
			continue
		}
		if c.DevOverrides == nil {
			c.DevOverrides = map[addr.Provider]string{}
		}
		abs, err := filepath.Abs(expand(dir))
		if err != nil {
			abs = expand(dir)
		}
		c.DevOverrides[p] = abs
	}
	return diags
}

// methods returns where to look, the implied places when nothing is configured: local directories first, then the
// provider's registry for what none of them has.
func (c *CLIConfig) methods(workDir string, getenv func(string) string) []Method {
	if c.Methods != nil {
		return c.Methods
	}
	dirs := []string{filepath.Join(workDir, "terraform.d", "plugins")}
	if home := getenv("HOME"); home != "" {
		dirs = append(dirs, filepath.Join(home, ".terraform.d", "plugins"))
		data := getenv("XDG_DATA_HOME")
		if data == "" {
			data = filepath.Join(home, ".local", "share")
		}
		dirs = append(dirs, filepath.Join(data, "opentofu", "plugins"), filepath.Join(data, "terraform", "plugins"))
	}
	system := getenv("XDG_DATA_DIRS")
	if system == "" {
		system = "/usr/local/share:/usr/share"
	}
	for _, d := range filepath.SplitList(system) {
		dirs = append(dirs, filepath.Join(d, "opentofu", "plugins"), filepath.Join(d, "terraform", "plugins"))
	}
	direct := Method{Kind: Direct}
	var out []Method
	for _, d := range dirs {
		found := providersIn(d)
		if len(found) == 0 {
			continue
		}
		m := Method{Kind: FilesystemMirror, Location: d}
		for _, p := range found {
			m.Include = append(m.Include, p.String())
			direct.Exclude = append(direct.Exclude, p.String())
		}
		out = append(out, m)
	}
	return append(out, direct)
}
