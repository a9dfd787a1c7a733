// Package cliconfig reads the CLI configuration: the settings of a user that do not belong to one configuration.
// They are in .tofurc or .terraformrc, in the directory of *.tfrc files, and in environment variables.
//
// It connects to no host and installs nothing; it only says where to look for providers and with which credentials.
package cliconfig

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/opentofu/svchost"

	"github.com/millipede-iac/millipede/internal/bounds"
	"github.com/millipede-iac/millipede/internal/cloud/oci"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

// Config is the whole of the CLI configuration.
type Config struct {
	// Methods are the places to look for providers in, in order; nil if no file contains any, so that the implied
	// ones are used.
	Methods []Method
	// Unclear are the errors that leave it unknown where providers may come from: a file that cannot be read, or a mistake
	// in a provider_installation block. If there are any, nothing is installed from Methods or from the implied sources,
	// because the user may have meant to forbid these.
	Unclear diag.List
	// DevOverrides are directories that replace installed packages.
	DevOverrides map[addr.Provider]string
	// CacheDir is the cache of packages that working directories share; empty for none.
	CacheDir string
	// CacheMayBreakLockFile allows using packages in CacheDir that the lock file does not cover.
	CacheMayBreakLockFile bool

	// Hosts are the services of hosts for which discovery is not used.
	Hosts map[svchost.Hostname]map[string]any
	// EnvironmentTokens are the TF_TOKEN_... variables; Credentials are those of the files, for hosts that have no
	// variable.
	EnvironmentTokens map[svchost.Hostname]string
	Credentials       map[svchost.Hostname]Credentials
	// Helper is the program that provides the credentials of all other hosts; nil for none.
	Helper *Helper
	// OCI are the credentials for OCI registries.
	OCI oci.Policy
	// CredentialsFile is the file that login writes.
	CredentialsFile string

	// Retries is the number of retries of a request to a registry; Timeout bounds each of them.
	Retries int
	Timeout time.Duration
	// DownloadRetries is the number of retries of the download of a provider package.
	DownloadRetries int

	defaultsForOCI bool // an oci_default_credentials block was read
	// dir is the directory to which relative names refer; env is the environment that was read, in which helpers
	// run too.
	dir string
	env environ.Variables
}

// Environ returns the environment in which the configuration was read, and Dir the directory to which relative
// names refer.
func (c *Config) Environ() environ.Variables { return c.env }
func (c *Config) Dir() string                { return c.dir }

// Credentials are those of one host.
type Credentials struct {
	Token string
	// File is the file that contains them.
	File string
}

// Helper is a credentials helper: a program that stores credentials elsewhere.
type Helper struct {
	Name string
	Args []string
	// Program is its path; empty when it is not installed.
	Program string
}

// The defaults, which are OpenTofu's.
const (
	defaultRetries         = 1
	defaultTimeout         = 10 * time.Second
	defaultDownloadRetries = 2
)

// Load reads the CLI configuration: the file named by the environment, or else the one in the home directory and
// the *.tfrc files in the configuration directory; then variables. Its warnings concern the user's machine and not
// a configuration: a command shows them on standard error, once. dir is the directory to which relative names in
// the environment, and those of development overrides, refer: the directory in which the command was run.
func Load(dir string, env environ.Variables) (*Config, diag.List) {
	p := newUserDirs(env)
	c := &Config{dir: dir, env: env, Retries: defaultRetries, Timeout: defaultTimeout,
		DownloadRetries: defaultDownloadRetries}
	var diags diag.List
	name, named := p.mainFile()
	if name != "" {
		diags = c.read(name, named)
	}
	if !named {
		for _, name := range p.directoryFiles() {
			diags = diags.Append(c.read(name, false))
		}
	}
	if p.config != "" {
		c.CredentialsFile = filepath.Join(p.config, credentialsFileName)
	}
	c.environment()
	if c.Helper != nil {
		c.Helper.Program = p.helper(c.Helper.Name)
	}
	return c, diags
}

// read adds the content of one file.
func (c *Config) read(name string, named bool) diag.List {
	text, err := bounds.ReadFile(environ.Path(c.dir, name), bounds.Text)
	switch {
	case err == nil:
		return c.parse(name, text)
	case errors.Is(err, fs.ErrNotExist) && named:
		return diag.List{diag.New(diag.Warning, "Unable to open CLI configuration file",
			fmt.Sprintf("The CLI configuration file at %q does not exist.", name), nil)}
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		c.Unclear = c.Unclear.Append(diag.Errors("Error reading CLI configuration file", err.Error()+".", nil))
		return c.Unclear[len(c.Unclear)-1:]
	}
}

// environment adds the settings in variables; they take precedence over the files.
func (c *Config) environment() {
	getenv := c.env.Get
	if dir := getenv("TF_PLUGIN_CACHE_DIR"); dir != "" {
		c.CacheDir = dir
	}
	if v := getenv("TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE"); v != "" && v != "0" {
		c.CacheMayBreakLockFile = true
	}
	positive := func(name string, set func(int)) {
		if n, err := strconv.Atoi(getenv(name)); err == nil && n > 0 {
			set(n)
		}
	}
	positive("TF_REGISTRY_DISCOVERY_RETRY", func(n int) { c.Retries = n })
	positive("TF_REGISTRY_CLIENT_TIMEOUT", func(n int) { c.Timeout = time.Duration(n) * time.Second })
	positive("TF_PROVIDER_DOWNLOAD_RETRY", func(n int) { c.DownloadRetries = n })
	for _, entry := range c.env {
		name, token, _ := strings.Cut(entry, "=")
		encoded, ok := strings.CutPrefix(name, "TF_TOKEN_")
		if host, err := tokenHost(encoded); ok && err == nil {
			if c.EnvironmentTokens == nil {
				c.EnvironmentTokens = map[svchost.Hostname]string{}
			}
			c.EnvironmentTokens[host] = token
		}
	}
}

// tokenHost decodes the host in the name of a variable: two underscores are a hyphen, one is a dot. The host may be
// written in Unicode or as punycode.
func tokenHost(encoded string) (svchost.Hostname, error) {
	host := strings.ReplaceAll(strings.ReplaceAll(encoded, "__", "-"), "_", ".")
	return svchost.ForComparison(svchost.ForDisplay(host))
}

// credentialsFileName is the name of the file in the configuration directory that login writes.
const credentialsFileName = "credentials.tfrc.json"

// userDirs are the directories of a user: config for settings, data for installed programs.
type userDirs struct {
	env          environ.Variables
	home, config string
	data         []string
}

func newUserDirs(env environ.Variables) userDirs {
	getenv := env.Get
	p := userDirs{env: env, home: getenv("HOME")}
	if runtime.GOOS == "windows" {
		p.home = getenv("APPDATA")
	}
	if p.home == "" {
		return p
	}
	name := ".terraform.d"
	if runtime.GOOS == "windows" {
		name = "terraform.d"
	}
	p.config = filepath.Join(p.home, name)
	p.data = []string{p.config}
	if xdg := getenv("XDG_CONFIG_HOME"); xdg != "" && !exists(p.config) {
		p.config = filepath.Join(xdg, "opentofu")
	}
	if xdg := getenv("XDG_DATA_HOME"); xdg != "" {
		p.data = append(p.data, filepath.Join(xdg, "opentofu"))
	}
	return p
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// mainFile returns the file to read first; named is set if a variable names it.
func (p userDirs) mainFile() (name string, named bool) {
	for _, v := range []string{"TF_CLI_CONFIG_FILE", "TERRAFORM_CONFIG"} {
		if name := p.env.Get(v); name != "" {
			return name, true
		}
	}
	if p.home == "" {
		return "", false
	}
	candidates := []string{filepath.Join(p.home, ".tofurc"), filepath.Join(p.home, ".terraformrc")}
	if runtime.GOOS == "windows" {
		candidates = []string{filepath.Join(p.home, "tofu.rc"), filepath.Join(p.home, "terraform.rc")}
	} else if xdg := p.env.Get("XDG_CONFIG_HOME"); xdg != "" {
		candidates = append(candidates, filepath.Join(xdg, "opentofu", "tofurc"))
	}
	if i := slices.IndexFunc(candidates, exists); i >= 0 {
		return candidates[i], false
	}
	return "", false
}

// directoryFiles returns the files of the configuration directory, sorted by name. Without a directory there are none.
func (p userDirs) directoryFiles() []string {
	entries, err := os.ReadDir(p.config)
	if p.config == "" || err != nil {
		return nil // the directory is optional
	}
	var out []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".tfrc") || strings.HasSuffix(e.Name(), ".tfrc.json") {
			out = append(out, filepath.Join(p.config, e.Name()))
		}
	}
	return out
}

// helper returns the program of a credentials helper: terraform-credentials-NAME in a plugin directory.
func (p userDirs) helper(name string) string {
	file := "terraform-credentials-" + name
	if runtime.GOOS == "windows" {
		file += ".exe"
	}
	for _, dir := range p.data {
		for _, sub := range []string{"", runtime.GOOS + "_" + runtime.GOARCH} {
			if path := filepath.Join(dir, "plugins", sub, file); exists(path) {
				return path
			}
		}
	}
	return ""
}

// MethodsOrImplied returns the sources of providers. If none are configured, these are OpenTofu's implied sources:
// local directories, then the provider's registry for providers that none of them has. The directory
// terraform.d/plugins is relative to the configuration. held returns the providers that have packages in a directory.
func (c *Config) MethodsOrImplied(env environ.Variables, held func(dir string) []addr.Provider) []Method {
	if c.Methods != nil {
		return c.Methods
	}
	dirs := []string{filepath.Join("terraform.d", "plugins")}
	for _, d := range newUserDirs(env).data {
		dirs = append(dirs, filepath.Join(d, "plugins"))
	}
	data := filepath.SplitList(cmp.Or(env.Get("XDG_DATA_DIRS"), "/usr/local/share:/usr/share"))
	if home := env.Get("HOME"); home != "" {
		data = append([]string{cmp.Or(env.Get("XDG_DATA_HOME"), filepath.Join(home, ".local", "share"))}, data...)
	}
	for _, d := range data { // here OpenTofu has kept Terraform's name
		dirs = append(dirs, filepath.Join(d, "terraform", "plugins"))
	}
	direct := Method{Kind: Direct}
	var out []Method
	seen := map[string]bool{}
	for _, d := range dirs {
		found := held(d)
		if len(found) == 0 || seen[d] {
			continue
		}
		seen[d] = true
		m := Method{Kind: FilesystemMirror, Location: d}
		for _, p := range found {
			m.Include = append(m.Include, p.String())
			direct.Exclude = append(direct.Exclude, p.String())
		}
		out = append(out, m)
	}
	return append(out, direct)
}

// merge copies the entries of more into m, which it creates if it is nil.
func merge[K comparable, V any](m *map[K]V, more map[K]V) {
	if *m == nil && len(more) > 0 {
		*m = map[K]V{}
	}
	maps.Copy(*m, more)
}
