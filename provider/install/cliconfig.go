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

	"github.com/hashicorp/hcl"
	"github.com/hashicorp/hcl/hcl/ast"
	"github.com/hashicorp/hcl/hcl/token"
	hcl2 "github.com/hashicorp/hcl/v2"

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

// parse reads the content of the file, which is in the first version of HCL: keys may be quoted.
func (c *CLIConfig) parse(name string, text []byte) diag.List {
	file, err := hcl.ParseBytes(text)
	if err != nil {
		return diag.Errors("Error parsing the CLI configuration file", fmt.Sprintf("The file %s cannot be parsed: %s.", name, err), nil)
	}
	r := &reader{name: name}
	root, ok := file.Node.(*ast.ObjectList)
	if !ok {
		return diag.Errors("Error parsing the CLI configuration file", fmt.Sprintf("The file %s holds no settings.", name), nil)
	}
	installations := 0
	for _, item := range root.Items {
		switch keyOf(item) {
		case "plugin_cache_dir":
			if dir, ok := r.text(item); ok {
				c.CacheDir = expand(dir)
			}
		case "provider_installation":
			if installations++; installations > 1 {
				r.fail(item, "Invalid provider_installation block", "There can be only one provider_installation block.")
				continue
			}
			c.installation(r, item)
		}
	}
	return r.diags
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

func (c *CLIConfig) installation(r *reader, block *ast.ObjectItem) {
	const invalid = "Invalid provider_installation method block"
	c.Methods = []Method{}
	for _, item := range r.body(block) {
		kind := keyOf(item)
		if kind == "dev_overrides" {
			c.overrides(r, item)
			continue
		}
		m := Method{}
		needed := ""
		switch kind {
		case "filesystem_mirror":
			m.Kind, needed = FilesystemMirror, "path"
		case "network_mirror":
			m.Kind, needed = NetworkMirror, "url"
		case "direct":
			m.Kind = Direct
		default:
			r.fail(item, invalid, fmt.Sprintf("There is no installation method %q.", kind))
			continue
		}
		for _, arg := range r.body(item) {
			switch name := keyOf(arg); name {
			case "include":
				m.Include = r.texts(arg)
			case "exclude":
				m.Exclude = r.texts(arg)
			case needed:
				m.Location, _ = r.text(arg)
			default:
				r.fail(arg, invalid, fmt.Sprintf("A %s block has no argument %q.", kind, name))
			}
		}
		if needed != "" && m.Location == "" {
			r.fail(item, invalid, fmt.Sprintf("A %s block needs the argument %s.", kind, needed))
		}
		if m.Kind == FilesystemMirror {
			m.Location = expand(m.Location)
		}
		c.Methods = append(c.Methods, m)
	}
}

func (c *CLIConfig) overrides(r *reader, block *ast.ObjectItem) {
	for _, item := range r.body(block) {
		p, diags := addr.ParseProviderSource(keyOf(item))
		r.diags = append(r.diags, diags.WithSubject(r.at(item))...)
		dir, ok := r.text(item)
		if !ok || diags.HasErrors() {
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
}

// reader takes settings out of a file, and collects what is wrong with them.
type reader struct {
	name  string
	diags diag.List
}

func keyOf(item *ast.ObjectItem) string {
	if len(item.Keys) == 0 {
		return ""
	}
	key, _ := item.Keys[0].Token.Value().(string) // the parser makes no other keys
	return key
}

func (r *reader) at(item *ast.ObjectItem) *hcl2.Range {
	pos := hcl2.Pos{Line: item.Pos().Line, Column: item.Pos().Column, Byte: item.Pos().Offset}
	return &hcl2.Range{Filename: r.name, Start: pos, End: pos}
}

func (r *reader) fail(item *ast.ObjectItem, summary, detail string) {
	r.diags = append(r.diags, diag.New(diag.Error, summary, detail, r.at(item)))
}

// body returns what is in a block.
func (r *reader) body(item *ast.ObjectItem) []*ast.ObjectItem {
	object, ok := item.Val.(*ast.ObjectType)
	if !ok || len(item.Keys) != 1 {
		r.fail(item, "Invalid CLI configuration", fmt.Sprintf("%s has to be a block without labels.", keyOf(item)))
		return nil
	}
	return object.List.Items
}

// text returns the value of an argument that is a string.
func (r *reader) text(item *ast.ObjectItem) (string, bool) {
	literal, ok := item.Val.(*ast.LiteralType)
	if ok && (literal.Token.Type == token.STRING || literal.Token.Type == token.HEREDOC) {
		if s, ok := literal.Token.Value().(string); ok {
			return s, true
		}
	}
	r.fail(item, "Invalid CLI configuration", fmt.Sprintf("The value of %q has to be a string.", keyOf(item)))
	return "", false
}

// texts returns the value of an argument that is a list of strings.
func (r *reader) texts(item *ast.ObjectItem) []string {
	var out []string
	if err := hcl.DecodeObject(&out, item.Val); err != nil {
		r.fail(item, "Invalid CLI configuration", fmt.Sprintf("The value of %q has to be a list of strings.", keyOf(item)))
	}
	return out
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
