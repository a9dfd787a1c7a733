package getter

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ulikunitz/xz"

	"github.com/millipede-iac/millipede/install/cliconfig"
	"github.com/millipede-iac/millipede/install/services"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/internal/unpacking"
	"github.com/millipede-iac/millipede/test/stage/registry"
)

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// server is a web server, and a getter that trusts it, in the environment of the test with more variables.
func server(t *testing.T, more ...string) (*registry.Registry, *Getter) {
	t.Helper()
	env := environ.Variables(os.Environ()).With("NETRC=" + filepath.Join(t.TempDir(), "none")).With(more...)
	r, err := registry.New()
	ok(t, err)
	t.Cleanup(r.Close)
	return r, New(services.New(services.Options{Config: &cliconfig.Config{}, Transport: r.Transport(),
		Wait: time.Millisecond}), env, false)
}

// has checks that the package has main.tf with this text.
func has(t *testing.T, dir, want string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "main.tf"))
	if err != nil || strings.TrimSpace(string(text)) != want {
		t.Errorf("the package has %q, %v", text, err)
	}
}

// tarball packs files and links with one of the compressors of tar archives.
func tarball(t *testing.T, compress string, headers ...*tar.Header) []byte {
	t.Helper()
	var plain bytes.Buffer
	w := tar.NewWriter(&plain)
	for _, h := range headers {
		content := "one"
		if h.Typeflag == 0 {
			h.Typeflag, h.Size, h.Mode = tar.TypeReg, int64(len(content)), 0o644
		} else {
			content = ""
		}
		ok(t, w.WriteHeader(h))
		_, err := w.Write([]byte(content))
		ok(t, err)
	}
	ok(t, w.Close())
	var out bytes.Buffer
	switch compress {
	case "gz":
		z := gzip.NewWriter(&out)
		_, err := z.Write(plain.Bytes())
		ok(t, err)
		ok(t, z.Close())
	case "xz":
		z, err := xz.NewWriter(&out)
		ok(t, err)
		_, err = z.Write(plain.Bytes())
		ok(t, err)
		ok(t, z.Close())
	case "bz2":
		if _, err := exec.LookPath("bzip2"); err != nil {
			t.Skip("there is no bzip2 here, and Go can only read what it makes")
		}
		cmd := exec.Command("bzip2", "-c")
		cmd.Stdin, cmd.Stdout = &plain, &out
		ok(t, cmd.Run())
	}
	return out.Bytes()
}

func TestArchivesAreUnpacked(t *testing.T) {
	file := func() *tar.Header { return &tar.Header{Name: "main.tf"} }
	for name, content := range map[string]func(*testing.T) []byte{
		"m.zip":     func(*testing.T) []byte { return registry.Zip(map[string]string{"main.tf": "one"}) },
		"m.tar.gz":  func(t *testing.T) []byte { return tarball(t, "gz", file()) },
		"m.tgz":     func(t *testing.T) []byte { return tarball(t, "gz", file()) },
		"m.tar.xz":  func(t *testing.T) []byte { return tarball(t, "xz", file()) },
		"m.tar.bz2": func(t *testing.T) []byte { return tarball(t, "bz2", file()) },
	} {
		t.Run(name, func(t *testing.T) {
			r, g := server(t)
			archive := content(t)
			r.File("/"+name, archive)
			r.File("/plain", archive)
			kind := strings.TrimPrefix(name, "m.")
			dir := t.TempDir()
			onDisk := filepath.Join(dir, name)
			ok(t, os.WriteFile(onDisk, archive, 0o644))
			for i, address := range []string{
				r.URL("/" + name), r.URL("/plain?archive=" + kind),
				r.URL(fmt.Sprintf("/%s?checksum=sha256:%x", name, sha256.Sum256(archive))), "file://" + onDisk,
			} {
				into := filepath.Join(dir, fmt.Sprint(i))
				ok(t, g.Get(t.Context(), address, into))
				has(t, into, "one")
			}
			ok(t, Unpack(onDisk, filepath.Join(dir, "sniffed")))
			has(t, filepath.Join(dir, "sniffed"), "one")
		})
	}
}

func TestNothingLeadsOutOfAnArchive(t *testing.T) {
	for claim, headers := range map[string][]*tar.Header{
		"a name":          {{Name: "../evil"}},
		"a link":          {{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "../.."}},
		"an absolute one": {{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "/etc"}},
	} {
		r, g := server(t)
		r.File("/m.tgz", tarball(t, "gz", headers...))
		dir := t.TempDir()
		if err := g.Get(t.Context(), r.URL("/m.tgz"), filepath.Join(dir, "a", "into")); err == nil ||
			!strings.Contains(err.Error(), "leads out of it") {
			t.Errorf("%s: %v", claim, err)
		}
		if _, err := os.Lstat(filepath.Join(dir, "a", "evil")); err == nil {
			t.Errorf("%s was written", claim)
		}
	}
	r, g := server(t)
	r.File("/m.tgz", tarball(t, "gz", &tar.Header{Name: "main.tf"}, &tar.Header{Name: "link.tf",
		Typeflag: tar.TypeSymlink, Linkname: "main.tf"}))
	into := filepath.Join(t.TempDir(), "into")
	ok(t, g.Get(t.Context(), r.URL("/m.tgz"), into))
	if text, err := os.ReadFile(filepath.Join(into, "link.tf")); err != nil || string(text) != "one" {
		t.Errorf("a link within the archive: %q, %v", text, err)
	}
}

func TestAServerMayNameAnotherSource(t *testing.T) {
	r, g := server(t)
	r.File("/m.zip", registry.Zip(map[string]string{"main.tf": "one", "top/sub/main.tf": "sub"}))
	r.File("/page", []byte(`<html><head><meta name="other" content="x"><META name="terraform-get" content="`+
		r.URL("/m.zip//top/sub")+`"></head></html>`))
	r.Misbehave("/header", -1, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Query().Get("terraform-get") != "1" {
			w.WriteHeader(http.StatusBadRequest)
		}
		w.Header().Set("X-Terraform-Get", "./m.zip")
		w.WriteHeader(http.StatusNoContent)
	})
	r.Misbehave("/loop", -1, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Terraform-Get",
			r.URL("/loop"))
	})
	r.Misbehave("/redirect", -1, func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, "/m.zip",
			http.StatusFound)
	})
	r.File("/nothing", []byte("<html><body>hello</body></html>"))
	dir := t.TempDir()
	for path, want := range map[string]string{"/page": "sub", "/header": "one", "/redirect.zip": "one"} {
		into := filepath.Join(dir, path)
		ok(t, g.Get(t.Context(), r.URL(path), into))
		has(t, into, want)
	}
	for path, want := range map[string]string{"/loop": "too many servers", "/nothing": "no source URL was returned",
		"/gone": "bad response code: 404"} {
		if err := g.Get(t.Context(), r.URL(path), filepath.Join(dir, path)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestWhatCannotBeFetchedIsSaid(t *testing.T) {
	r, g := server(t)
	r.File("/m.zip", registry.Zip(map[string]string{"main.tf": "one"}))
	r.File("/broken.zip", []byte("nonsense"))
	dir := t.TempDir()
	ok(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o644))
	for address, want := range map[string]string{
		"s3::https://s3.amazonaws.com/b":            "does not name a bucket and an object",
		"gcs::https://www.googleapis.com/x":         "an address in Google Cloud Storage is",
		"foo::https://example.com/m":                `download not supported for scheme "foo"`,
		"file://" + dir + "/nothing":                "source path error",
		"file://" + dir + "/file":                   "source path must be a directory",
		r.URL("/gone.zip"):                          "404 Not Found",
		r.URL("/broken.zip"):                        "the archive cannot be read",
		r.URL("/m.zip?checksum=sha256:00"):          "checksums did not match",
		r.URL("/m.zip?checksum=00"):                 "unsupported checksum type",
		r.URL("/m.zip?checksum=crc32:00"):           "unsupported checksum type",
		r.URL("/m.zip?checksum=file:https://x/sum"): "a file of checksums is not supported",
	} {
		if err := g.Get(t.Context(), address, filepath.Join(dir, "into", fmt.Sprint(len(address)))); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// Only the text of a link's target was checked: through a link to the directory itself, another link could lead out of
// the module, and files outside of it were read.
func TestALinkThroughLinksDoesNotLeadOutOfTheArchive(t *testing.T) {
	link := func(name, to string) *tar.Header {
		return &tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to}
	}
	for claim, tt := range map[string]struct {
		entries []*tar.Header
		refused bool
	}{
		"through itself": {[]*tar.Header{link("s", "."), link("evil", "s/s/../../..")}, true},
		"before it":      {[]*tar.Header{link("evil", "s/s/../../.."), link("s", ".")}, true},
		"through a deeper one": {
			[]*tar.Header{{Name: "a/b/main.tf"}, link("d", "a/b"), link("a/b/up", "../.."), link("evil", "d/up/../x")},
			true},
		"to nothing": {[]*tar.Header{link("s", "nothing")}, false},
		"within":     {[]*tar.Header{{Name: "a/main.tf"}, link("d", "a"), link("e", "d/main.tf")}, false},
	} {
		t.Run(claim, func(t *testing.T) {
			r, g := server(t)
			r.File("/m.tgz", tarball(t, "gz", tt.entries...))
			err := g.Get(t.Context(), r.URL("/m.tgz"), filepath.Join(t.TempDir(), "into"))
			if tt.refused != (err != nil && strings.Contains(err.Error(), "leads out of it")) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A module's archive of 3 MB became 3 GB on the disk: the unpacked size was not limited.
func TestAModuleUnpacksToNoMoreThanItsBounds(t *testing.T) {
	whole := bounds
	t.Cleanup(func() { bounds = whole })
	bounds = unpacking.Bounds{Bytes: 1000, Entries: 3}
	r, g := server(t)
	r.File("/large.zip", registry.Zip(map[string]string{"main.tf": strings.Repeat("x", 600),
		"b.tf": strings.Repeat("x", 600)}))
	r.File("/many.zip", registry.Zip(map[string]string{"a": "", "b": "", "c": "", "d": ""}))
	for name, want := range map[string]string{"/large.zip": "more than 1000 bytes",
		"/many.zip": "more than 3 entries"} {
		if err := g.Get(t.Context(), r.URL(name), filepath.Join(t.TempDir(), "into")); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAPackageIsFetchedOnce(t *testing.T) {
	r, g := server(t)
	r.File("/m.zip", registry.Zip(map[string]string{"main.tf": "one"}))
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		ok(t, g.Get(t.Context(), r.URL("/m.zip"), filepath.Join(dir, name)))
		has(t, filepath.Join(dir, name), "one")
	}
	if asked := r.Requests(); len(asked) != 1 {
		t.Errorf("asked for %q", asked)
	}
}

func TestADirectoryIsLinked(t *testing.T) {
	_, g := server(t)
	dir := t.TempDir()
	from := filepath.Join(dir, "from")
	ok(t, os.MkdirAll(from, 0o755))
	ok(t, os.WriteFile(filepath.Join(from, "main.tf"), []byte("one"), 0o644))
	for _, name := range []string{"a", "b"} {
		ok(t, g.Get(t.Context(), "file://"+from, filepath.Join(dir, name)))
		if target, err := os.Readlink(filepath.Join(dir, name)); err != nil || target != from {
			t.Errorf("%s leads to %q, %v", name, target, err)
		}
	}
}

// The credentials that .netrc has for a machine were sent to any port of it.
func TestTheUsersNetrcIsUsedForItsPort(t *testing.T) {
	name := filepath.Join(t.TempDir(), "netrc")
	r, g := server(t, "NETRC="+name)
	host, _, _ := strings.Cut(r.Host(), ":")
	ok(t, os.WriteFile(name, []byte("machine "+host+"\nlogin other\npassword wrong\nmachine "+r.Host()+
		"\nlogin me\npassword secret\n"), 0o600))
	var user, password string
	r.Misbehave("/m.zip", -1, func(w http.ResponseWriter, req *http.Request) {
		user, password, _ = req.BasicAuth()
		w.Write(registry.Zip(map[string]string{"main.tf": "one"}))
	})
	ok(t, g.Get(t.Context(), r.URL("/m.zip"), filepath.Join(t.TempDir(), "into")))
	if user != "me" || password != "secret" {
		t.Errorf("the server saw %q %q", user, password)
	}
	ok(t, os.WriteFile(name, []byte("machine "+host+"\nlogin me\npassword secret\n"), 0o600))
	_, g = server(t, "NETRC="+name)
	user, password = "not asked", "not asked"
	ok(t, g.Get(t.Context(), r.URL("/m.zip"), filepath.Join(t.TempDir(), "into")))
	if user != "" || password != "" {
		t.Errorf("another port saw %q %q", user, password)
	}
}

// A .netrc that could not be reached was taken for none: the server then refused the request, and nothing said why its
// password had not been sent.
func TestANetrcThatCannotBeReachedIsReported(t *testing.T) {
	name := filepath.Join(t.TempDir(), "netrc")
	ok(t, os.Symlink(name, name))
	r, g := server(t, "NETRC="+name)
	err := g.Get(t.Context(), r.URL("/m.zip"), filepath.Join(t.TempDir(), "into"))
	if err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("got %v", err)
	}
	for _, none := range []string{filepath.Join(t.TempDir(), "none"), t.TempDir()} {
		r, g := server(t, "NETRC="+none)
		r.Misbehave("/m.zip", -1, func(w http.ResponseWriter, _ *http.Request) {
			w.Write(registry.Zip(map[string]string{"main.tf": "one"}))
		})
		ok(t, g.Get(t.Context(), r.URL("/m.zip"), filepath.Join(t.TempDir(), "into")))
	}
}

func TestASubdirectoryMayBeAPattern(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"repo-abc/x", "repo-abc/y1", "repo-abc/y2"} {
		ok(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	if got, err := Subdir(dir, "*/x"); err != nil || got != filepath.Join(dir, "repo-abc", "x") {
		t.Errorf("got %s, %v", got, err)
	}
	for _, sub := range []string{"*/z", "*/y*"} {
		if got, err := Subdir(dir, sub); err == nil {
			t.Errorf("%s: got %s", sub, got)
		}
	}
}

func TestAnInterruptEndsTheWork(t *testing.T) {
	r, g := server(t)
	ctx, cancel := context.WithCancel(t.Context())
	r.Misbehave("/m.zip", -1, func(_ http.ResponseWriter, req *http.Request) {
		cancel()
		<-req.Context().Done()
	})
	if err := g.Get(ctx, r.URL("/m.zip"), filepath.Join(t.TempDir(), "into")); ctx.Err() == nil || err == nil {
		t.Errorf("got %v", err)
	}
}
