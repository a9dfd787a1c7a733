package reach_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/millipede-iac/millipede/internal/reach"
)

// places makes a directory that may be read, with links, and a secret beside it.
func places(t *testing.T) (inside, secret string) {
	t.Helper()
	base := t.TempDir()
	inside, secret = filepath.Join(base, "inside"), filepath.Join(base, "secret")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(inside, "sub"), 0o700), os.WriteFile(secret, []byte("secret"), 0o600),
		os.WriteFile(filepath.Join(inside, "sub", "a"), []byte("a"), 0o600),
		os.Symlink("sub/a", filepath.Join(inside, "near")), os.Symlink("../secret", filepath.Join(inside, "far")),
		os.Symlink("/", filepath.Join(inside, "root")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return inside, secret
}

func TestOnlyFilesBelowTheDirectoriesAreReached(t *testing.T) {
	inside, secret := places(t)
	files := reach.Below(inside)
	for _, name := range []string{"sub/a", "near", "sub/../near"} {
		if text, err := files.ReadFile(filepath.Join(inside, name), 10); err != nil || string(text) != "a" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if _, err := files.Stat(filepath.Join(inside, "gone")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	entries, err := files.ReadDir(inside)
	if err != nil || len(entries) != 4 || entries[0].Name() != "far" {
		t.Errorf("the entries are %v, %v", entries, err)
	}
	for _, name := range []string{
		secret, secret + "-missing", filepath.Join(inside, "far"), filepath.Join(inside, "root", "etc"),
		inside + "-beside", "/proc/self/environ", filepath.Dir(inside),
	} {
		_, opened := files.Open(name)
		_, described := files.Stat(name)
		_, listed := files.ReadDir(name)
		for _, err := range []error{opened, described, listed} {
			if !errors.Is(err, reach.ErrOutside) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestASingleFileIsReachedInAddition(t *testing.T) {
	inside, secret := places(t)
	files := reach.Below(inside)
	if text, err := files.With(secret).ReadFile(secret, 10); err != nil || string(text) != "secret" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := files.Open(secret); !errors.Is(err, reach.ErrOutside) {
		t.Errorf("the original reaches it, too: %v", err)
	}
}

func TestWithoutFilesEverythingIsReached(t *testing.T) {
	_, secret := places(t)
	var files *reach.Files
	if text, err := files.With("/x").ReadFile(secret, 10); err != nil || string(text) != "secret" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := files.ReadDir(filepath.Dir(secret)); err != nil {
		t.Error(err)
	}
}
