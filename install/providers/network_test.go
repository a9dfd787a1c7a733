package providers

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/install/cliconfig"
	"github.com/millipede-iac/millipede/install/services"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/test/stage/registry"
)

// remote returns a registry with acme/foo 1.2.3, and options that install it from there.
func remote(t *testing.T) (*world, *registry.Registry, Options, addr.Provider) {
	t.Helper()
	w := newWorld(t)
	r, err := registry.New()
	w.ok(err)
	t.Cleanup(r.Close)
	r.Provider("acme/foo", "1.2.3", platform, "foo")
	r.Provider("acme/foo", "1.2.3", "darwin_arm64", "foo for another platform")
	p := addr.Provider{Host: r.Host(), Namespace: "acme", Type: "foo"}
	o := w.options(requires(p))
	o.CLI = &cliconfig.Config{Retries: 1, Timeout: time.Minute, DownloadRetries: 2}
	o.Services = services.New(services.Options{Config: o.CLI, Version: "1.12.6", Transport: r.Transport(),
		Wait: time.Millisecond})
	return w, r, o, p
}

func TestARegistrysPackageIsLockedByAllItsSignedChecksums(t *testing.T) {
	w, r, o, p := remote(t)
	var auth *Authentication
	o.Report = func(e Event) {
		if e.Kind == Installed {
			auth = e.Authentication
			if e.Incomplete {
				t.Error("the lock file is said to be incomplete")
			}
		}
	}
	locks := w.install(o)
	if auth.String() != "signed" || auth.KeyID != r.KeyID() {
		t.Errorf("authenticated: %+v", auth)
	}
	got := locks.Get(p).Hashes
	if len(got) != 3 || !strings.HasPrefix(got[0], "h1:") || !strings.HasPrefix(got[1], "zh:") ||
		!strings.HasPrefix(got[2], "zh:") {
		t.Errorf("hashes: %q", got)
	}
	o.Locks = locks
	r.Requests()
	w.install(o)
	if asked := r.Requests(); len(asked) > 0 {
		t.Errorf("what is installed was asked for: %q", asked)
	}
}

func TestWhatARegistryGivesWrongIsRefused(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	text := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, s)
		}
	}
	other := registry.Zip(map[string]string{"terraform-provider-foo": "evil"})
	cut := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100000")
		w.Write([]byte("PK"))
	}
	for claim, c := range map[string]struct {
		part    string
		serve   http.HandlerFunc
		summary string
		detail  string
	}{
		"a package with another hash": {".zip",
			func(w http.ResponseWriter, _ *http.Request) { w.Write(other) }, "Failed to install provider",
			"archive has incorrect checksum"},
		"checksums that are not those signed": {"SHA256SUMS",
			text(strings.Repeat("0", 64) + "  terraform-provider-foo_1.2.3_linux_amd64.zip\n"),
			"Failed to install provider", "checksum list has unexpected SHA-256 hash"},
		"a signature that is none": {"SHA256SUMS.sig", text("nonsense"), "Failed to install provider",
			"not signed with a valid signing key"},
		"no signature": {"SHA256SUMS.sig", status(404), "Failed to install provider",
			"failed to retrieve cryptographic signature"},
		"a download that is cut each time": {".zip", cut, "Failed to install provider", "the connection was cut"},
		"a package that is gone":           {".zip", status(404), "Failed to install provider", "404 Not Found"},
		"errors of the server each time": {"/versions", status(503), "Failed to resolve provider packages",
			"503 Service Unavailable"},
		"a refusal": {"/versions", status(403), "Failed to resolve provider packages",
			"requires authentication credentials"},
		"an unknown provider": {"/versions", status(404), "Failed to query available provider " +
			"packages", "does not have a provider named"},
		"versions that are none": {"/versions", text(`{"versions":[{"version":"one"}]}`),
			"Failed to resolve provider packages", `invalid version string "one"`},
		"an answer that is no JSON": {"/versions", text(`<html>`), "Failed to resolve provider packages",
			"cannot be read"},
		"no package for the platform": {"/download/", status(404), "Incompatible provider version",
			"There is no package of the provider"},
		"another platform's package": {"/download/", text(`{"os":"plan9","arch":"arm"}`),
			"Failed to install provider", "incorrect target plan9_arm"},
		"another protocol": {"/download/",
			text(`{"protocols":["4.0"],"os":"linux","arch":"amd64"}`), "Incompatible provider version",
			"The newest version that does is 1.2.3"},
		"a hash that is none": {"/download/", text(`{"os":"linux","arch":"amd64","shasum":"1"}`),
			"Failed to install provider", `invalid SHA256 hash "1"`},
		"a host without a registry of providers": {"/.well-known/", text(`{"modules.v1":"/x/"}`),
			"Invalid provider registry host", "does not offer a provider registry"},
		"a host with a registry of the future": {"/.well-known/", text(`{"providers.v9":"/x/"}`),
			"Invalid provider registry host", "of another version"},
		"a host that fails": {"/.well-known/", status(500), "Failed to resolve provider packages",
			"could not connect to"},
	} {
		t.Run(claim, func(t *testing.T) {
			w, r, o, p := remote(t)
			r.Misbehave(c.part, -1, c.serve)
			w.has(w.fails(o), c.summary, c.detail)
			if _, err := os.Stat(InstallDir(o.DataDir, p, "1.2.3", platform)); err == nil {
				t.Error("something was installed")
			}
		})
	}
}

// status returns a handler that answers with a status alone.
func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func TestWhatPassesIsTriedAgain(t *testing.T) {
	for claim, c := range map[string]struct {
		part  string
		serve http.HandlerFunc
	}{
		"too many requests":    {"/versions", status(http.StatusTooManyRequests)},
		"a server that fails":  {"/download/", status(http.StatusBadGateway)},
		"discovery that fails": {"/.well-known/", status(http.StatusServiceUnavailable)},
		"a package not sent":   {".zip", status(http.StatusInternalServerError)},
		"a download that is cut": {".zip", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100000")
			w.Write([]byte("PK"))
		}},
		"a connection that is closed": {".zip",
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		t.Run(claim, func(t *testing.T) {
			w, r, o, _ := remote(t)
			r.Misbehave(c.part, 1, c.serve)
			w.install(o)
		})
	}
}

// The time after which a server permits another request is respected: the pause of the options would be far longer
// here.
func TestRetryAfterIsKept(t *testing.T) {
	w, r, o, _ := remote(t)
	o.Services = services.New(services.Options{Config: o.CLI, Transport: r.Transport(), Wait: time.Hour})
	r.Misbehave("/versions", 1, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	w.install(o)
}

func TestRedirectsAreFollowed(t *testing.T) {
	w, r, o, p := remote(t)
	var at atomic.Value
	at.Store("")
	r.Misbehave("/download/", 1, func(w http.ResponseWriter, req *http.Request) {
		at.Store(req.URL.Path)
		http.Redirect(w, req, req.URL.Path, http.StatusFound)
	})
	r.Misbehave(".zip", 1, func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, req.URL.Path,
			http.StatusFound)
	})
	if locks := w.install(o); locks.Get(p) == nil || at.Load() == "" {
		t.Errorf("selected %v", locks.Sorted())
	}
}

func TestTheTokenOfAHostGoesToItsRegistry(t *testing.T) {
	w, r, o, p := remote(t)
	r.Require("secret")
	w.has(w.fails(o), "Failed to resolve provider packages", "requires authentication credentials", "TF_TOKEN_")
	rc := filepath.Join(w.home, "rc")
	w.ok(os.WriteFile(rc, []byte(r.HostBlock("registry.example.com")), 0o600))
	cli, diags := cliconfig.Load(w.work, environ.Variables{"TF_CLI_CONFIG_FILE=" + rc,
		"TF_TOKEN_registry_example_com=secret"})
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	p.Host = "registry.example.com"
	o.Required, o.CLI = requires(p), cli
	o.Services = services.New(services.Options{Config: cli, Transport: r.Transport(), Wait: time.Millisecond})
	w.install(o)
	r.Require("another")
	o.Locks, o.DataDir = nil, o.DataDir+"2"
	w.has(w.fails(o), "Failed to resolve provider packages", "rejected the given authentication credentials")
}

// The default registry has providers without keys; any other has to sign.
func TestProvidersWithoutAKeyAreForTheDefaultRegistryAlone(t *testing.T) {
	w, r, o, _ := remote(t)
	r.Unsigned()
	w.has(w.fails(o), "Failed to install provider", "not signed with a valid signing key")
	var auth *Authentication
	o.Report = func(e Event) {
		if e.Kind == Installed {
			auth = e.Authentication
		}
	}
	rc := filepath.Join(w.home, "rc")
	w.ok(os.WriteFile(rc, []byte(r.HostBlock(addr.DefaultHost)), 0o600))
	cli, diags := cliconfig.Load(w.work, environ.Variables{"TF_CLI_CONFIG_FILE=" + rc})
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	o.CLI, o.Required = cli, requires(foo)
	o.Services = services.New(services.Options{Config: cli, Transport: r.Transport(), Wait: time.Millisecond})
	if got := w.install(o).Get(foo).Hashes; len(got) != 3 || !auth.SigningSkipped ||
		auth.String() != "signing skipped" {
		t.Errorf("hashes %q, %+v", got, auth)
	}
	o.Locks, o.DataDir = nil, o.DataDir+"2"
	o.Env = o.Env.With("OPENTOFU_ENFORCE_GPG_VALIDATION=true")
	w.has(w.fails(o), "Failed to install provider", "not signed with a valid signing key")
}

func TestANetworkMirrorServesProvidersOfAllHosts(t *testing.T) {
	w, r, o, p := remote(t)
	r.Provider("acme/foo", "1.3.0", "plan9_arm", "x")
	o.CLI.Methods = []cliconfig.Method{{Kind: cliconfig.NetworkMirror, Location: r.URL("/mirror/")}}
	p.Host = "registry.example.com"
	o.Required = requires(p, "< 1.3")
	incomplete := false
	o.Report = func(e Event) { incomplete = incomplete || e.Incomplete }
	locks := w.install(o)
	if got := locks.Get(p).Hashes; len(got) != 2 || !incomplete {
		t.Errorf("hashes %q, incomplete %v", got, incomplete)
	}
	o.Required, o.Locks = requires(p), nil
	w.has(w.fails(o), "Incompatible provider version", "The provider mirror at "+r.URL("/mirror/"))

	o.CLI.Methods[0].TrustAllHashes, o.Required = true, requires(p, "< 1.3")
	o.DataDir += "2"
	if got := w.install(o).Get(p).Hashes; len(got) != 3 {
		t.Errorf("hashes of a trusted mirror: %q", got)
	}
	other := addr.Provider{Host: p.Host, Namespace: "acme", Type: "other"}
	o.Required = requires(other)
	w.has(w.fails(o), "Failed to query available provider packages", "provider mirror at "+r.URL("/mirror/"))
	r.Misbehave("/mirror/", -1, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") })
	w.has(w.fails(o), "Failed to resolve provider packages", "must be application/json")
}

func TestAMirrorWithAWrongHashIsRefused(t *testing.T) {
	w, r, o, _ := remote(t)
	o.CLI.Methods = []cliconfig.Method{{Kind: cliconfig.NetworkMirror, Location: r.URL("/mirror/")}}
	r.Misbehave(".zip", -1, func(w http.ResponseWriter, _ *http.Request) {
		w.Write(registry.Zip(map[string]string{"terraform-provider-foo": "evil"}))
	})
	w.has(w.fails(o), "Failed to install provider", "provider package doesn't match the expected checksum")
}

// Two processes that share a cache download once: the second waits for the first.
func TestTwoInstallationsWithOneCacheDownloadOnce(t *testing.T) {
	w, r, o, p := remote(t)
	o.Locks = w.install(o)
	o.CLI.CacheDir = filepath.Join(w.home, "cache")
	o.Report = nil
	r.Requests()
	done := make(chan error, 4)
	for i := range 4 {
		mine := o
		mine.DataDir = filepath.Join(w.home, fmt.Sprint("data", i))
		go func() {
			_, diags := Install(t.Context(), mine)
			done <- diags.Err()
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	asked := slices.DeleteFunc(r.Requests(), func(path string) bool { return !strings.HasSuffix(path, ".zip") })
	if len(asked) != 1 {
		t.Errorf("downloaded %q", asked)
	}
	w.isLink(InstallDir(filepath.Join(w.home, "data3"), p, "1.2.3", platform), true)
}

func TestWarningsOfARegistryAreShown(t *testing.T) {
	w, r, o, _ := remote(t)
	r.Warn("it is old")
	_, diags := Install(t.Context(), o)
	w.has(diags, "Additional provider information from registry", "it is old")
}

func TestLockingAndMirroringAskTheRegistry(t *testing.T) {
	w, r, o, p := remote(t)
	o.Methods = []cliconfig.Method{{Kind: cliconfig.Direct}}
	locks, diags := Checksums(t.Context(), o, []string{"darwin_arm64", platform})
	if diags.HasErrors() || len(locks.Get(p).Hashes) != 4 {
		t.Fatalf("got %q, %v", locks.Get(p).Hashes, diags.Err())
	}
	dir := filepath.Join(w.home, "mirror")
	if diags := Mirror(t.Context(), o, dir, []string{"darwin_arm64", platform}); diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	o.Locks, o.Methods = locks, Directories([]string{dir})
	w.install(o)
	r.Misbehave(".zip", -1, status(http.StatusNotFound))
	o.Methods = []cliconfig.Method{{Kind: cliconfig.Direct}}
	w.has(Mirror(t.Context(), o, dir, []string{platform}), "Cannot download provider release", "404")
	_, diags = Checksums(t.Context(), o, []string{platform})
	w.has(diags, "Could not retrieve providers for locking", "404")
}

func TestTheLockFileSaysWhichVersionIsCopied(t *testing.T) {
	w, r, o, p := remote(t)
	o.Locks = w.install(o)
	r.Provider("acme/foo", "1.4.0", platform, "newer")
	dir := filepath.Join(w.home, "mirror")
	if diags := Mirror(t.Context(), o, dir, []string{platform}); diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	if found, err := filepath.Glob(filepath.Join(dir, p.Host, "acme", "foo", "*.zip")); err != nil || len(found) != 1 ||
		!strings.Contains(found[0], "1.2.3") {
		t.Errorf("copied %q, %v", found, err)
	}
	o.Required = requires(p, ">= 1.4")
	w.has(Mirror(t.Context(), o, dir, []string{platform}), "Inconsistent dependency lock file", "1.2.3")
	_, diags := Checksums(t.Context(), o, []string{platform})
	w.has(diags, "Could not retrieve providers for locking", "1.2.3")
	other := addr.Provider{Host: p.Host, Namespace: "acme", Type: "other"}
	o.Required = requires(other)
	w.has(Mirror(t.Context(), o, dir, []string{platform}), "Provider not found in lockfile", "acme/other")
}

func TestAnInterruptEndsADownload(t *testing.T) {
	w, r, o, p := remote(t)
	ctx, cancel := context.WithCancel(t.Context())
	r.Misbehave(".zip", -1, func(_ http.ResponseWriter, req *http.Request) {
		cancel()
		<-req.Context().Done()
	})
	_, diags := Install(ctx, o)
	w.has(diags, "Provider installation was canceled")
	if _, err := os.Stat(InstallDir(o.DataDir, p, "1.2.3", platform)); err == nil {
		t.Error("something was installed")
	}
}
