package providers

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/millipede-iac/millipede/install/cliconfig"
	"github.com/millipede-iac/millipede/install/lock"
	"github.com/millipede-iac/millipede/install/services"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

const platform = "linux_amd64"

var (
	foo   = addr.Provider{Host: addr.DefaultHost, Namespace: "acme", Type: "foo"}
	clock = addr.Provider{Host: addr.DefaultHost, Namespace: "hashicorp", Type: "time"}
)

// world is a working directory with a mirror and a home directory beside it.
type world struct {
	t                  *testing.T
	mirror, work, home string
	events             []string
}

func newWorld(t *testing.T) *world {
	dir := t.TempDir()
	w := &world{t: t, mirror: filepath.Join(dir, "mirror"), work: filepath.Join(dir, "work"),
		home: filepath.Join(dir, "home")}
	for _, d := range []string{w.mirror, w.work, w.home} {
		w.ok(os.MkdirAll(d, 0o755))
	}
	return w
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// unpacked puts a package into a mirror as a directory; content determines its hash.
func (w *world) unpacked(mirror string, p addr.Provider, version, platform, content string) string {
	dir := packageDir(mirror, p, version, platform)
	w.ok(os.MkdirAll(dir, 0o755))
	w.ok(os.WriteFile(filepath.Join(dir, "terraform-provider-"+p.Type+"_v"+version), []byte(content), 0o755))
	return dir
}

// packed puts a package into a mirror as an archive.
func (w *world) packed(mirror string, p addr.Provider, version, platform, content string) string {
	return w.archive(mirror, p, version, platform, map[string]string{"terraform-provider-" + p.Type + "_v" +
		version: content})
}

func (w *world) archive(mirror string, p addr.Provider, version, platform string, files map[string]string) string {
	dir := filepath.Join(mirror, p.Host, p.Namespace, p.Type)
	w.ok(os.MkdirAll(dir, 0o755))
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, content := range files {
		h := &zip.FileHeader{Name: name, Method: zip.Deflate}
		h.SetMode(0o755)
		f, err := z.CreateHeader(h)
		w.ok(err)
		_, err = f.Write([]byte(content))
		w.ok(err)
	}
	w.ok(z.Close())
	name := filepath.Join(dir, fmt.Sprintf("terraform-provider-%s_%s_%s.zip", p.Type, version, platform))
	w.ok(os.WriteFile(name, b.Bytes(), 0o644))
	return name
}

func (w *world) env() environ.Variables {
	return environ.Variables{"HOME=" + w.home, "XDG_DATA_DIRS=" + filepath.Join(w.home, "none")}
}

// options install these providers from the world's mirror.
func (w *world) options(required map[addr.Provider][]string) Options {
	return Options{
		Required: required, Locks: &lock.Locks{}, WorkDir: w.work, DataDir: filepath.Join(w.work, ".terraform"),
		CLI: &cliconfig.Config{Methods: []cliconfig.Method{{Kind: cliconfig.FilesystemMirror,
			Location: w.mirror}}},
		Platform: platform, Env: w.env(),
		Report: func(e Event) {
			name := map[EventKind]string{Finding: "finding", Reusing: "reusing", Present: "present",
				Installing: "installing", Installed: "installed", Linked: "linked", Builtin: "builtin"}[e.Kind]
			if e.Shared {
				name += " shared"
			}
			w.events = append(w.events, strings.TrimRight(name+" "+e.Provider.Type+" "+e.Version+e.Constraints, " "))
		},
	}
}

// nowhere can connect to no host.
func nowhere(t *testing.T) *services.Services {
	t.Helper()
	refuse := roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("no network here") })
	return services.New(services.Options{Config: &cliconfig.Config{}, Transport: refuse})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (w *world) install(o Options) *lock.Locks {
	w.t.Helper()
	w.events = nil
	locks, diags := Install(w.t.Context(), o)
	if len(diags) > 0 {
		w.t.Fatal(diags.Err())
	}
	return locks
}

// fails installs, and returns the errors.
func (w *world) fails(o Options) diag.List {
	w.t.Helper()
	_, diags := Install(w.t.Context(), o)
	if !diags.HasErrors() {
		w.t.Fatal("nothing failed")
	}
	return diags
}

func (w *world) has(l diag.List, summary string, parts ...string) {
	w.t.Helper()
	for _, d := range l {
		if d.Summary == summary &&
			!slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(d.Detail, p) }) {
			return
		}
	}
	w.t.Errorf("no %q with %q in: %v", summary, parts, l.Err())
}

func (w *world) happened(want ...string) {
	w.t.Helper()
	if !slices.Equal(w.events, want) {
		w.t.Errorf("it happened:\n  %s\nwanted:\n  %s", strings.Join(w.events, "\n  "), strings.Join(want, "\n  "))
	}
}

func (w *world) isLink(path string, want bool) {
	w.t.Helper()
	info, err := os.Lstat(path)
	w.ok(err)
	if is := info.Mode()&os.ModeSymlink != 0; is != want {
		w.t.Errorf("%s is a link: %v", path, is)
	}
}

func requires(p addr.Provider, constraints ...string) map[addr.Provider][]string {
	return map[addr.Provider][]string{p: constraints}
}

func TestAnUnpackedPackageIsLinked(t *testing.T) {
	w := newWorld(t)
	w.unpacked(w.mirror, clock, "0.9.0", platform, "a")
	w.unpacked(w.mirror, clock, "0.10.0", platform, "b")
	w.unpacked(w.mirror, clock, "0.11.0-beta1", platform, "c")
	o := w.options(requires(clock, ">= 0.9"))
	o.Locks = w.install(o)
	w.happened("finding time >= 0.9.0", "installing time 0.10.0", "installed time 0.10.0")
	dir := InstallDir(o.DataDir, clock, "0.10.0", platform)
	w.isLink(dir, true)
	packages, diags := Selected(o)
	if len(diags) > 0 || packages[clock].Version != "0.10.0" || packages[clock].Executable != filepath.Join(dir,
		"terraform-provider-time_v0.10.0") {
		t.Errorf("selected: %+v, %v", packages, diags.Err())
	}
	w.install(o)
	w.happened("reusing time", "present time 0.10.0")
	o.Upgrade = true
	w.install(o)
	w.happened("finding time >= 0.9.0", "present time 0.10.0")
}

// OpenTofu records the hash of the content alone, also for archives of filesystem mirrors.
func TestAPackedPackageIsUnpackedAndLockedByItsContent(t *testing.T) {
	w := newWorld(t)
	w.packed(w.mirror, foo, "1.2.3", platform, "foo\n")
	o := w.options(requires(foo))
	o.Locks = w.install(o)
	w.happened("finding foo", "installing foo 1.2.3", "installed foo 1.2.3")
	w.isLink(InstallDir(o.DataDir, foo, "1.2.3", platform), false)
	fromArchive := o.Locks.Get(foo).Hashes
	if len(fromArchive) != 1 || !strings.HasPrefix(fromArchive[0], "h1:") {
		t.Errorf("hashes: %q", fromArchive)
	}
	other := newWorld(t)
	other.unpacked(other.mirror, foo, "1.2.3", platform, "foo\n")
	if fromDir := other.install(other.options(requires(foo))).Get(foo).Hashes; !slices.Equal(fromDir, fromArchive) {
		t.Errorf("unpacked the package has the hash %q, packed %q", fromDir, fromArchive)
	}
}

func TestAnArchivesOwnHashIsAccepted(t *testing.T) {
	w := newWorld(t)
	zh, err := hashFile(w.packed(w.mirror, foo, "1.2.3", platform, "foo"))
	w.ok(err)
	o := w.options(requires(foo))
	locked := *w.install(o).Get(foo)
	h1 := locked.Hashes[0]
	w.ok(os.RemoveAll(o.DataDir))
	locked.Hashes = []string{zh}
	o.Locks.Set(foo, &locked)
	if got := w.install(o).Get(foo).Hashes; !slices.Equal(got, []string{h1, zh}) {
		t.Errorf("hashes: %q", got)
	}
}

func TestAPackageThatIsNotTheLockedOneIsRefused(t *testing.T) {
	w := newWorld(t)
	w.packed(w.mirror, foo, "1.2.3", platform, "foo")
	w.unpacked(w.mirror, clock, "0.9.0", platform, "time")
	o := w.options(map[addr.Provider][]string{foo: nil, clock: nil})
	o.Locks = w.install(o)
	w.packed(w.mirror, foo, "1.2.3", platform, "evil")
	w.ok(os.RemoveAll(o.DataDir))
	diags := w.fails(o)
	w.has(diags, "Failed to install provider", "Error while installing acme/foo v1.2.3: the current package for",
		"doesn't match any of the checksums")
	if _, err := os.Stat(InstallDir(o.DataDir, foo, "1.2.3", platform)); err == nil {
		t.Error("what does not match was unpacked")
	}
	w.unpacked(w.mirror, clock, "0.9.0", platform, "evil")
	w.has(w.fails(o), "Failed to install provider",
		"Error while installing hashicorp/time v0.9.0: the local package for")
	_, diags = Selected(o)
	w.has(diags, "Required plugins are not installed", "hashicorp/time 0.9.0 (in", "does not match any of the "+
		"checksums", "there is no package for registry.opentofu.org/acme/foo 1.2.3")
}

// A package that somebody had changed in the data directory was unpacked again without a message, so that nobody
// noticed the change. OpenTofu does not replace it, so that it can be examined.
func TestAnInstalledPackageThatWasChangedIsLeftToBeLookedAt(t *testing.T) {
	w := newWorld(t)
	w.packed(w.mirror, foo, "1.2.3", platform, "foo")
	o := w.options(requires(foo))
	o.Locks = w.install(o)
	exe := filepath.Join(InstallDir(o.DataDir, foo, "1.2.3", platform), "terraform-provider-foo_v1.2.3")
	w.ok(os.WriteFile(exe, []byte("damaged"), 0o755))
	for _, locks := range []*lock.Locks{o.Locks, {}} { // also when no lock file has the expected hash
		o.Locks = locks
		w.has(w.fails(o), "Failed to install provider", "existing cached package at "+filepath.Dir(exe),
			"local modifications")
	}
	if text, err := os.ReadFile(exe); err != nil || string(text) != "damaged" {
		t.Errorf("the plugin is %q", text)
	}
	w.ok(os.RemoveAll(filepath.Dir(exe)))
	w.install(o)
}

// If the package that the lock file selects was installed, no source was asked, not even a mirror that the user had
// named. OpenTofu asks it, and fails if it does not have the version.
func TestAMirrorThatHasNotGotTheSelectedVersionIsHeeded(t *testing.T) {
	w := newWorld(t)
	dir := w.unpacked(w.mirror, clock, "0.9.0", platform, "x")
	o := w.options(requires(clock))
	o.Locks = w.install(o)
	other := filepath.Join(w.home, "other")
	w.unpacked(other, clock, "0.10.0", platform, "x")
	mirror := []cliconfig.Method{{Kind: cliconfig.FilesystemMirror, Location: other}}
	o.CLI = &cliconfig.Config{Methods: mirror}
	w.has(w.fails(o), "Failed to resolve provider packages", "previously selected version 0.9.0 is not available")
	o.Methods = Directories([]string{other})
	w.has(w.fails(o), "Failed to resolve provider packages", "previously selected version 0.9.0 is not available")
	w.isLink(InstallDir(o.DataDir, clock, "0.9.0", platform), true)
	w.ok(os.RemoveAll(dir))
}

// A mirror whose directory did not exist counted as an empty one, and the next method was used instead.
func TestAMirrorThatDoesNotExistEndsTheSearch(t *testing.T) {
	w := newWorld(t)
	w.unpacked(w.mirror, clock, "0.9.0", platform, "x")
	o := w.options(requires(clock))
	none := filepath.Join(w.home, "nowhere")
	o.CLI.Methods = append([]cliconfig.Method{{Kind: cliconfig.FilesystemMirror, Location: none}}, o.CLI.Methods...)
	w.has(w.fails(o), "Failed to resolve provider packages", "cannot search "+none)
	o.Methods = Directories([]string{none, w.mirror}) // of the option -plugin-dir any may be missing
	w.install(o)
}

// The search for packages followed all symbolic links, so a mirror offered providers that OpenTofu does not find there.
// It follows only the link to the mirror and those to unpacked packages.
func TestDirectoriesWithinAMirrorAreNoLinks(t *testing.T) {
	for linked, found := range map[string]bool{
		"": true, "HOST": false, "HOST/NAMESPACE": false, "HOST/NAMESPACE/TYPE": false,
		"HOST/NAMESPACE/TYPE/0.9.0": false, "HOST/NAMESPACE/TYPE/0.9.0/PLATFORM": true,
	} {
		t.Run(linked, func(t *testing.T) {
			w := newWorld(t)
			w.unpacked(w.mirror, clock, "0.9.0", platform, "x")
			path := strings.NewReplacer("HOST", clock.Host, "NAMESPACE", clock.Namespace, "TYPE", clock.Type,
				"PLATFORM", platform).Replace(linked)
			place, real := filepath.Join(w.mirror, filepath.FromSlash(path)), filepath.Join(w.home, "real")
			w.ok(os.Rename(place, real))
			w.ok(os.Symlink(real, place))
			if got := len(inMirror(w.mirror, clock)) == 1; got != found {
				t.Errorf("the package is found: %v, want %v", got, found)
			}
			if got := len(providersIn(w.mirror)) == 1; got != found {
				t.Errorf("the provider is found: %v, want %v", got, found)
			}
		})
	}
}

// Errors in the sources of the CLI configuration were reported, and then providers were installed from the remaining
// ones. While it is not clear what the user wanted to forbid, no source may be asked, and nothing installed.
func TestNothingIsInstalledWhileItIsNotClearWhereFrom(t *testing.T) {
	w := newWorld(t)
	w.unpacked(w.mirror, clock, "0.9.0", platform, "x")
	o := w.options(requires(clock))
	o.CLI.Unclear = diag.Errors("Invalid URL for provider installation source", "It is not https.", nil)
	w.has(w.fails(o), "Providers cannot be installed with this CLI configuration", "Invalid URL for provider "+
		"installation source")
	if _, err := os.Stat(o.DataDir); err == nil {
		t.Error("something was installed")
	}
	o.Required = requires(addr.BuiltinTerraform)
	w.install(o) // it comes from nowhere
	o.Required, o.Methods = requires(clock), Directories([]string{w.mirror})
	w.install(o)
}

func TestWhatCannotBeSelectedIsSaid(t *testing.T) {
	w := newWorld(t)
	w.unpacked(w.mirror, clock, "0.9.0", platform, "x")
	w.unpacked(w.mirror, foo, "1.0.0", "darwin_arm64", "x")
	nope := addr.Provider{Host: addr.DefaultHost, Namespace: "acme", Type: "nope"}
	builtin := addr.Provider{Host: addr.BuiltinHost, Namespace: "builtin", Type: "nope"}
	diags := w.fails(w.options(map[addr.Provider][]string{clock: {"> 2"}, foo: nil, nope: nil, builtin: nil,
		addr.BuiltinTerraform: {"1.0"}}))
	if len(diags) != 5 {
		t.Errorf("%d problems", len(diags))
	}
	w.has(diags, "Failed to resolve provider packages", "Could not resolve provider hashicorp/time: no available "+
		"releases match the given constraints > 2.0.0")
	w.has(diags, "Incompatible provider version", "registry.opentofu.org/acme/foo v1.0.0", platform)
	w.has(diags, "Failed to query available provider packages", "acme/nope", "\n  - "+w.mirror)
	w.has(diags, "Invalid dependency on built-in provider", "terraform.io/builtin/nope")
	w.has(diags, "Invalid dependency on built-in provider", "terraform.io/builtin/terraform")

	o := w.options(requires(clock))
	o.Locks = w.install(o)
	o.Required = requires(clock, ">= 0.10")
	w.has(w.fails(o), "Failed to resolve provider packages", "0.9.0", ">= 0.10.0", "init -upgrade")
	_, diags = Selected(o)
	w.has(diags, "Inconsistent dependency lock file",
		`locked version selection 0.9.0 doesn't match the updated version constraints ">= 0.10.0"`)
	o.AnyVersion = true
	packages, diags := Selected(o)
	w.ok(diags.Err())
	if v := packages[clock].Version; v != "0.9.0" {
		t.Errorf("version %q is selected", v)
	}
	o.AnyVersion = false
	o.Required = requires(foo)
	_, diags = Selected(o)
	w.has(diags, "Inconsistent dependency lock file", "provider registry.opentofu.org/acme/foo: required by this "+
		"configuration but no version is selected")

	o.Required = requires(clock)
	w.ok(os.RemoveAll(o.DataDir))
	w.ok(os.RemoveAll(filepath.Join(w.mirror, clock.Host, clock.Namespace)))
	w.unpacked(w.mirror, clock, "0.10.0", platform, "y")
	w.has(w.fails(o), "Failed to resolve provider packages", "previously selected version 0.9.0 is not available")
}

func TestAPackageWithoutAPluginIsRefused(t *testing.T) {
	w := newWorld(t)
	w.archive(w.mirror, foo, "1.0.0", platform, map[string]string{"README": "x", "terraform-provider-foobar_v1": "x"})
	w.has(w.fails(w.options(requires(foo))), "Failed to install provider", "could not find executable file starting "+
		"with terraform-provider-foo")
}

func TestAnArchiveCannotWriteOutsideOfItsDirectory(t *testing.T) {
	w := newWorld(t)
	w.archive(w.mirror, foo, "1.0.0", platform, map[string]string{"terraform-provider-foo": "x", "../../evil": "x"})
	w.has(w.fails(w.options(requires(foo))), "Failed to install provider", "leads out of it")
	entries, err := filepath.Glob(filepath.Join(w.work, ".terraform", "providers", "*", "*", "*", "*", "*"))
	w.ok(err)
	for _, e := range entries {
		if !strings.HasSuffix(e, ".lock") {
			t.Errorf("something is left: %s", e)
		}
	}
}

func TestPluginDirectoriesTakeThePlaceOfAllElse(t *testing.T) {
	w := newWorld(t)
	w.unpacked(w.mirror, clock, "0.10.0", platform, "x")
	other := filepath.Join(w.home, "plugins")
	w.unpacked(other, clock, "0.9.0", platform, "x")
	o := w.options(requires(clock))
	o.Methods = Directories([]string{other})
	if got := w.install(o).Get(clock).Version.String(); got != "0.9.0" {
		t.Errorf("selected %s", got)
	}
}

func TestImpliedMirrorsComeBeforeTheRegistry(t *testing.T) {
	for _, dir := range []string{"work/terraform.d/plugins", "home/.terraform.d/plugins",
		"home/.local/share/terraform/plugins", "home/none/terraform/plugins"} {
		w := newWorld(t)
		w.unpacked(filepath.Join(filepath.Dir(w.work), dir), clock, "0.9.0", platform, "x")
		o := w.options(requires(clock))
		o.CLI = &cliconfig.Config{}
		if got := w.install(o).Get(clock); got == nil || got.Version.String() != "0.9.0" {
			t.Errorf("%s: selected %v", dir, got)
		}
		o.Required = requires(foo)
		o.Services = nowhere(t)
		w.has(w.fails(o), "Failed to resolve provider packages", "Could not resolve provider acme/foo",
			"could not connect to registry.opentofu.org")
	}
}

// Directories below the data directories of the desktop were also used under OpenTofu's name, where OpenTofu itself
// does not look; and if a directory had no package at all, the registry was not asked.
func TestOtherDirectoriesAreNoImpliedMirrors(t *testing.T) {
	w := newWorld(t)
	for _, dir := range []string{"home/.local/share/opentofu/plugins", "home/none/opentofu/plugins",
		"opentofu/plugins"} {
		w.unpacked(filepath.Join(filepath.Dir(w.work), dir), clock, "0.9.0", platform, "x")
	}
	w.ok(os.MkdirAll(packageDir(filepath.Join(w.work, "terraform.d", "plugins"), clock, "readme", ""), 0o755))
	o := w.options(requires(clock))
	o.CLI, o.Services = &cliconfig.Config{}, nowhere(t)
	w.has(w.fails(o), "Failed to resolve provider packages", "could not connect to registry.opentofu.org")
}

func TestMirrorsServeOnlyWhatTheyInclude(t *testing.T) {
	w := newWorld(t)
	w.unpacked(w.mirror, clock, "0.9.0", platform, "x")
	other := filepath.Join(w.home, "other")
	w.unpacked(other, clock, "0.10.0", platform, "x")
	o := w.options(requires(clock))
	for _, c := range []struct {
		method cliconfig.Method
		want   string
	}{
		{cliconfig.Method{}, "0.10.0"},
		{cliconfig.Method{Exclude: []string{"hashicorp/*"}}, "0.9.0"},
		{cliconfig.Method{Include: []string{"acme/*"}}, "0.9.0"},
		{cliconfig.Method{Include: []string{"registry.opentofu.org/*/*"}}, "0.10.0"},
		{cliconfig.Method{Include: []string{"*/*/*"}, Exclude: []string{"hashicorp/time"}}, "0.9.0"},
	} {
		c.method.Kind, c.method.Location = cliconfig.FilesystemMirror, other
		o.CLI = &cliconfig.Config{Methods: []cliconfig.Method{{Kind: cliconfig.FilesystemMirror, Location: w.mirror},
			c.method}}
		if got := w.install(o).Get(clock).Version.String(); got != c.want {
			t.Errorf("%+v: selected %s", c.method, got)
		}
	}
}

func TestTheSharedCacheIsFilledOnceAndTrustedByHashOnly(t *testing.T) {
	w := newWorld(t)
	w.packed(w.mirror, foo, "1.2.3", platform, "foo")
	o := w.options(requires(foo))
	o.CLI.CacheDir = filepath.Join(w.home, "cache")
	o.Locks = w.install(o)
	w.happened("finding foo", "installing shared foo 1.2.3", "installed shared foo 1.2.3", "linked shared foo 1.2.3")
	w.isLink(InstallDir(o.DataDir, foo, "1.2.3", platform), true)

	w.ok(os.RemoveAll(o.DataDir))
	w.install(o)
	w.happened("reusing foo", "present shared foo 1.2.3", "linked shared foo 1.2.3")

	exe := filepath.Join(packageDir(o.CLI.CacheDir, foo, "1.2.3", platform), "terraform-provider-foo_v1.2.3")
	w.ok(os.WriteFile(exe, []byte("evil"), 0o755))
	w.ok(os.RemoveAll(o.DataDir))
	w.has(w.fails(o), "Failed to install provider", "existing cached package at "+filepath.Dir(exe))
	if _, err := os.Lstat(InstallDir(o.DataDir, foo, "1.2.3", platform)); err == nil {
		t.Error("the changed package is in use")
	}
}

// Unpacked packages of a mirror were linked past the shared cache directory, which other programs fill by init and then
// read.
func TestAnUnpackedMirrorFillsTheSharedCache(t *testing.T) {
	w := newWorld(t)
	w.unpacked(w.mirror, clock, "0.9.0", platform, "x")
	o := w.options(requires(clock))
	o.CLI.CacheDir = filepath.Join(w.home, "cache")
	o.Locks = w.install(o)
	w.happened("finding time", "installing shared time 0.9.0", "installed shared time 0.9.0", "linked shared time 0.9.0")
	w.isLink(packageDir(o.CLI.CacheDir, clock, "0.9.0", platform), true)
	w.isLink(InstallDir(o.DataDir, clock, "0.9.0", platform), true)

	w.ok(os.RemoveAll(o.DataDir))
	w.install(o)
	w.happened("reusing time", "present shared time 0.9.0", "linked shared time 0.9.0")

	// The cache may be the mirror.
	w.ok(os.RemoveAll(o.DataDir))
	o.CLI.CacheDir, o.Locks = w.mirror, &lock.Locks{}
	w.install(o)
	w.isLink(packageDir(w.mirror, clock, "0.9.0", platform), false)
}

func TestManyMayInstallTheSameAtOnce(t *testing.T) {
	w := newWorld(t)
	w.packed(w.mirror, foo, "1.2.3", platform, strings.Repeat("foo", 100_000))
	w.unpacked(w.mirror, clock, "0.9.0", platform, "x")
	cache := filepath.Join(w.home, "cache")
	var wg sync.WaitGroup
	for i := range 8 {
		o := w.options(map[addr.Provider][]string{foo: nil, clock: nil})
		o.Report = nil
		o.CLI = &cliconfig.Config{Methods: o.CLI.Methods}
		if i%2 == 0 { // half of them share the cache, all of them the data directory
			o.CLI.CacheDir = cache
		}
		wg.Go(func() {
			locks, diags := Install(t.Context(), o)
			if diags.HasErrors() || len(locks.Sorted()) != 2 {
				t.Errorf("got %v, %v", locks, diags.Err())
			}
		})
	}
	wg.Wait()
	o := w.options(map[addr.Provider][]string{foo: nil, clock: nil})
	o.Locks = w.install(o)
	if _, diags := Selected(o); len(diags) > 0 {
		t.Error(diags.Err())
	}
}

// An override was no reason to install: init left the released version out of the lock file.
func TestOfOverriddenProvidersTheReleasedVersionIsInstalledAndOfReattachedOnesNone(t *testing.T) {
	w := newWorld(t)
	w.unpacked(w.mirror, clock, "0.9.0", platform, "x")
	o := w.options(map[addr.Provider][]string{clock: nil, foo: nil})
	dev := filepath.Join(w.home, "dev")
	w.ok(os.MkdirAll(dev, 0o755))
	o.CLI.DevOverrides = map[addr.Provider]string{clock: dev}
	o.Managed = map[addr.Provider]bool{foo: true}
	if locks := w.install(o); len(locks.Sorted()) != 1 || locks.Get(clock) == nil {
		t.Errorf("selected %v", locks.Sorted())
	}
	_, diags := Selected(o)
	w.has(diags, "Required plugins are not installed", "has no executable that starts with terraform-provider-time")
	exe := filepath.Join(dev, "terraform-provider-time")
	w.ok(os.WriteFile(exe, []byte("1"), 0o755))
	packages, diags := Selected(o)
	first := packages[clock]
	if len(diags) > 0 || len(packages) != 1 || first.Executable != exe || first.Unlocked == "" {
		t.Errorf("selected %+v, %v", packages, diags.Err())
	}
	w.ok(os.WriteFile(exe, []byte("22"), 0o755))
	if packages, _ = Selected(o); packages[clock].Unlocked == first.Unlocked {
		t.Error("another build has the same identity")
	}
}
