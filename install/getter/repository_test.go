package getter

import (
	"encoding/base64"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/registry"
)

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

// The key is passed to the user's ssh program: here a program that checks whether it got the key.
func TestAnSSHKeyIsHandedOver(t *testing.T) {
	repository(t)
	dir := t.TempDir()
	script := "#!/bin/sh\nwhile [ $# -gt 0 ]; do [ \"$1\" = -i ] && cat \"$2\" > " + dir +
		"/seen; shift; done\nexit 1\n"
	ok(t, os.WriteFile(filepath.Join(dir, "ssh"), []byte(script), 0o755))
	_, g := server(t, "GIT_SSH_COMMAND="+filepath.Join(dir, "ssh"))
	key := base64.StdEncoding.EncodeToString([]byte("the key"))
	if err := g.Get(t.Context(), "git::ssh://git@127.0.0.1/x.git?sshkey="+key, filepath.Join(dir, "into")); err == nil {
		t.Fatal("it cloned something")
	}
	if seen, err := os.ReadFile(filepath.Join(dir, "seen")); err != nil || string(seen) != "the key" {
		t.Errorf("ssh got %q, %v", seen, err)
	}
}

// Most machines do not have Mercurial: a replacement records how it was called.
func TestMercurialIsCalledForItsRepositories(t *testing.T) {
	_, g := server(t)
	if err := g.Get(t.Context(), "hg::https://example.com/m", filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("it cloned something from nowhere")
	}
	dir := t.TempDir()
	script := "#!/bin/sh\necho \"$@\" >> " + dir + "/calls\nfor last; do :; done\n[ \"$1\" = clone ] && mkdir " +
		"\"$last\"\nexit 0\n"
	ok(t, os.WriteFile(filepath.Join(dir, "hg"), []byte(script), 0o755))
	_, g = server(t, "PATH="+dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	into := filepath.Join(dir, "into")
	ok(t, g.Get(t.Context(), "hg::https://example.com/m?rev=v1", into))
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if want := "clone -U -- https://example.com/m " + into + "\nupdate --rev=v1\n"; err != nil ||
		string(calls) != want {
		t.Errorf("called with %q, %v", calls, err)
	}
}

// net/url drops an argument of a query that has a semicolon in it, without an error. So a ref with one was ignored, and
// the default branch was checked out; a checksum with one was not compared.
func TestASemicolonInAQueryDropsNothing(t *testing.T) {
	dir := repository(t)
	git(t, dir, "tag", "v1;x", "v1")
	for query, want := range map[string]string{"?ref=v1;x": "one", "?ref=v1%3Bx": "one"} {
		_, g := server(t)
		into := filepath.Join(t.TempDir(), "into")
		ok(t, g.Get(t.Context(), "git::file://"+dir+query, into))
		has(t, into, want)
	}
	_, g := server(t)
	err := g.Get(t.Context(), "git::file://"+dir+"?ref=v1;depth=1", filepath.Join(t.TempDir(), "into"))
	if err == nil || !strings.Contains(err.Error(), `invalid ref: "v1;depth=1"`) {
		t.Errorf("a ref that does not exist gives %v", err)
	}
	r, g := server(t)
	r.File("/m.zip", registry.Zip(map[string]string{"main.tf": "one"}))
	err = g.Get(t.Context(), r.URL("/m.zip")+"?checksum=sha256:00;x", filepath.Join(t.TempDir(), "into"))
	if err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("a checksum that is none gives %v", err)
	}
}
