package getter

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/millipede-iac/millipede/internal/environ"
)

// A module with the source "/etc" became a link to that directory, whose files the functions of a run in a service then
// read; a repository or an archive on the service's disks was a module, too.
func TestWhatIsOnTheDisksOfTheMachineIsNoRemotePackage(t *testing.T) {
	dir := repository(t)
	g := New(nil, environ.Variables(os.Environ()), true)
	for _, address := range []string{
		"file://" + dir, "file://localhost" + dir, "git::file://" + dir, "git::file://localhost" + dir, "git::" + dir,
		"hg::file://" + dir, "hg::" + dir, "hg::bundle://x" + dir, "file::" + dir, "git::ext::sh -c true",
	} {
		into := filepath.Join(t.TempDir(), "m")
		if err := g.Get(t.Context(), address, into); !errors.Is(err, errNotRemote) {
			t.Errorf("%s: %v", address, err)
		}
		if _, err := os.Lstat(into); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s left something: %v", address, err)
		}
	}
	if allowed := g.env.Get("GIT_ALLOW_PROTOCOL"); allowed != "git:http:https:ssh" {
		t.Errorf("submodules may come from %s", allowed)
	}
}
