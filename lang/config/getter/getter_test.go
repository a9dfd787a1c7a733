package getter

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ulikunitz/xz"

	"github.com/millipede-iac/millipede/provider/cliconfig"
	"github.com/millipede-iac/millipede/provider/services"
	"github.com/millipede-iac/millipede/test/registry"
)

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// server is a web server, and a getter that trusts it.
func server(t *testing.T) (*registry.Registry, *Getter) {
	t.Helper()
	t.Setenv("NETRC", filepath.Join(t.TempDir(), "none"))
	r, err := registry.New()
	ok(t, err)
	t.Cleanup(r.Close)
	return r, New(services.New(services.Options{Config: &cliconfig.Config{}, Transport: r.Transport(), Wait: time.Millisecond}))
}

// has checks that the package has main.tf with this text.
func has(t *testing.T, dir, want string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "main.tf"))
	if err != nil || strings.TrimSpace(string(text)) != want {
		t.Errorf("the package has %q, %v", text, err)
	}
}

// repository makes a git repository with a commit of text, tagged v1, and one more on the branch that is checked out.
func repository(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git here")
	}
	dir := t.TempDir()
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	t.Setenv("GIT_CONFIG_SYSTEM", os.DevNull)
	for _, name := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+name+"_NAME", "test")
		t.Setenv("GIT_"+name+"_EMAIL", "test@example.com")
	}
	git(t, dir, "init", "--quiet", "--initial-branch=trunk")
	for _, text := range []string{"one", "two"} {
		ok(t, os.WriteFile(filepath.Join(dir, "main.tf"), []byte(text), 0o644))
		ok(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o755))
		ok(t, os.WriteFile(filepath.Join(dir, "sub", "main.tf"), []byte("sub "+text), 0o644))
		git(t, dir, "add", ".")
		git(t, dir, "commit", "--quiet", "-m", text)
		if text == "one" {
			git(t, dir, "tag", "v1")
			git(t, dir, "branch", "old/branch")
		}
	}
	return dir
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestARepositoryIsClonedAtTheRefAskedFor(t *testing.T) {
	dir := repository(t)
	first := git(t, dir, "rev-parse", "v1")
	for query, want := range map[string]string{
		"": "two", "?ref=v1": "one", "?ref=old/branch": "one", "?ref=" + first: "one", "?ref=" + first[:9]: "one",
		"?depth=1": "two", "?depth=1&ref=v1": "one", "?ref=trunk": "two",
	} {
		_, g := server(t)
		into := filepath.Join(t.TempDir(), "into")
		ok(t, g.Get(t.Context(), "git::file://"+dir+query, into))
		has(t, into, want)
		if strings.Contains(query, "depth") {
			if n := git(t, into, "rev-list", "--count", "HEAD"); n != "1" {
				t.Errorf("%s: %s commits", query, n)
			}
		}
	}
}

func TestARepositoryOverHTTPIsCloned(t *testing.T) {
	dir := repository(t)
	out, err := exec.Command("git", "--exec-path").Output()
	ok(t, err)
	backend := filepath.Join(strings.TrimSpace(string(out)), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Skip("git has no HTTP backend here")
	}
	web := httptest.NewServer(&cgi.Handler{Path: backend, Env: []string{
		"GIT_PROJECT_ROOT=" + filepath.Dir(dir), "GIT_HTTP_EXPORT_ALL=1",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
	}})
	defer web.Close()
	_, g := server(t)
	into := filepath.Join(t.TempDir(), "into")
	ok(t, g.Get(t.Context(), "git::"+web.URL+"/"+filepath.Base(dir)+"/.git?ref=v1", into))
	has(t, into, "one")
}

func TestSubmodulesComeAlong(t *testing.T) {
	inner := repository(t)
	outer := repository(t)
	git(t, outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "file://"+inner, "inner")
	git(t, outer, "commit", "--quiet", "-m", "submodule")
	t.Setenv("GIT_CONFIG_COUNT", "1")
	t.Setenv("GIT_CONFIG_KEY_0", "protocol.file.allow")
	t.Setenv("GIT_CONFIG_VALUE_0", "always")
	_, g := server(t)
	into := filepath.Join(t.TempDir(), "into")
	ok(t, g.Get(t.Context(), "git::file://"+outer, into))
	has(t, filepath.Join(into, "inner"), "two")
}

func TestWhatGitCannotDoIsSaid(t *testing.T) {
	dir := repository(t)
	for address, want := range map[string]string{
		"git::file://" + dir + "?ref=nope":              `invalid ref: "nope"`,
		"git::file://" + dir + "?ref=--upload-pack=x":   `invalid ref: "--upload-pack=x"`,
		"git::file://" + dir + "/nothing":               "git clone: exit status 128",
		"git::file://" + dir + "?ref=abcdef123&depth=1": "requires 'ref' to be a branch or tag name",
		"git::file://" + dir + "?sshkey=%21":            "has to be in base64",
	} {
		_, g := server(t)
		into := filepath.Join(t.TempDir(), "into")
		if err := g.Get(t.Context(), address, into); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// The key is given to the ssh of the user, whatever that is: here a program that looks whether it got it.
func TestAnSSHKeyIsHandedOver(t *testing.T) {
	repository(t)
	dir := t.TempDir()
	script := "#!/bin/sh\nwhile [ $# -gt 0 ]; do [ \"$1\" = -i ] && cat \"$2\" > " + dir + "/seen; shift; done\nexit 1\n"
	ok(t, os.WriteFile(filepath.Join(dir, "ssh"), []byte(script), 0o755))
	t.Setenv("GIT_SSH_COMMAND", filepath.Join(dir, "ssh"))
	_, g := server(t)
	key := base64.StdEncoding.EncodeToString([]byte("the key"))
	if err := g.Get(t.Context(), "git::ssh://git@127.0.0.1/x.git?sshkey="+key, filepath.Join(dir, "into")); err == nil {
		t.Fatal("it cloned something")
	}
	if seen, err := os.ReadFile(filepath.Join(dir, "seen")); err != nil || string(seen) != "the key" {
		t.Errorf("ssh got %q, %v", seen, err)
	}
}

// tarball packs files and links with one of the programs that tar archives are compressed with.
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
				r.URL("/" + name), r.URL("/plain?archive=" + kind), r.URL(fmt.Sprintf("/%s?checksum=sha256:%x", name, sha256.Sum256(archive))), "file://" + onDisk,
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
		if err := g.Get(t.Context(), r.URL("/m.tgz"), filepath.Join(dir, "a", "into")); err == nil || !strings.Contains(err.Error(), "leads out of it") {
			t.Errorf("%s: %v", claim, err)
		}
		if _, err := os.Lstat(filepath.Join(dir, "a", "evil")); err == nil {
			t.Errorf("%s was written", claim)
		}
	}
	r, g := server(t)
	r.File("/m.tgz", tarball(t, "gz", &tar.Header{Name: "main.tf"}, &tar.Header{Name: "link.tf", Typeflag: tar.TypeSymlink, Linkname: "main.tf"}))
	into := filepath.Join(t.TempDir(), "into")
	ok(t, g.Get(t.Context(), r.URL("/m.tgz"), into))
	if text, err := os.ReadFile(filepath.Join(into, "link.tf")); err != nil || string(text) != "one" {
		t.Errorf("a link within the archive: %q, %v", text, err)
	}
}

func TestAServerMayNameAnotherSource(t *testing.T) {
	r, g := server(t)
	r.File("/m.zip", registry.Zip(map[string]string{"main.tf": "one", "top/sub/main.tf": "sub"}))
	r.File("/page", []byte(`<html><head><meta name="other" content="x"><META name="terraform-get" content="`+r.URL("/m.zip//top/sub")+`"></head></html>`))
	r.Misbehave("/header", -1, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Query().Get("terraform-get") != "1" {
			w.WriteHeader(http.StatusBadRequest)
		}
		w.Header().Set("X-Terraform-Get", "./m.zip")
		w.WriteHeader(http.StatusNoContent)
	})
	r.Misbehave("/loop", -1, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Terraform-Get", r.URL("/loop")) })
	r.Misbehave("/redirect", -1, func(w http.ResponseWriter, req *http.Request) { http.Redirect(w, req, "/m.zip", http.StatusFound) })
	r.File("/nothing", []byte("<html><body>hello</body></html>"))
	dir := t.TempDir()
	for path, want := range map[string]string{"/page": "sub", "/header": "one", "/redirect.zip": "one"} {
		into := filepath.Join(dir, path)
		ok(t, g.Get(t.Context(), r.URL(path), into))
		has(t, into, want)
	}
	for path, want := range map[string]string{"/loop": "too many servers", "/nothing": "no source URL was returned", "/gone": "bad response code: 404"} {
		if err := g.Get(t.Context(), r.URL(path), filepath.Join(dir, path)); err == nil || !strings.Contains(err.Error(), want) {
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
		"s3::https://s3.amazonaws.com/b/m.zip":      "packages in Amazon S3 cannot be fetched",
		"gcs::https://www.googleapis.com/x":         "packages in Google Cloud Storage cannot be fetched",
		"oci://example.com/m":                       "packages in OCI registries cannot be fetched",
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
		if err := g.Get(t.Context(), address, filepath.Join(dir, "into", fmt.Sprint(len(address)))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
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

func TestTheUsersNetrcIsUsed(t *testing.T) {
	r, g := server(t)
	host, _, _ := strings.Cut(r.Host(), ":")
	name := filepath.Join(t.TempDir(), "netrc")
	ok(t, os.WriteFile(name, []byte("machine "+host+"\nlogin me\npassword secret\n"), 0o600))
	t.Setenv("NETRC", name)
	var user, password string
	r.Misbehave("/m.zip", -1, func(w http.ResponseWriter, req *http.Request) {
		user, password, _ = req.BasicAuth()
		w.Write(registry.Zip(map[string]string{"main.tf": "one"}))
	})
	ok(t, g.Get(t.Context(), r.URL("/m.zip"), filepath.Join(t.TempDir(), "into")))
	if user != "me" || password != "secret" {
		t.Errorf("the server saw %q %q", user, password)
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

// There is no Mercurial in most places: a program in its place notes how it was called.
func TestMercurialIsCalledForItsRepositories(t *testing.T) {
	_, g := server(t)
	if err := g.Get(t.Context(), "hg::https://example.com/m", filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("it cloned something from nowhere")
	}
	dir := t.TempDir()
	script := "#!/bin/sh\necho \"$@\" >> " + dir + "/calls\nfor last; do :; done\n[ \"$1\" = clone ] && mkdir \"$last\"\nexit 0\n"
	ok(t, os.WriteFile(filepath.Join(dir, "hg"), []byte(script), 0o755))
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	into := filepath.Join(dir, "into")
	ok(t, g.Get(t.Context(), "hg::https://example.com/m?rev=v1", into))
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if want := "clone -U -- https://example.com/m " + into + "\nupdate --rev=v1\n"; err != nil || string(calls) != want {
		t.Errorf("called with %q, %v", calls, err)
	}
}
