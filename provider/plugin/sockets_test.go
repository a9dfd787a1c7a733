package plugin

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// temporary creates a directory for temporary files, and returns a function that lists its entries. Its name is short,
// as paths of sockets must be.
func temporary(t *testing.T) func() []string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("TMPDIR", dir)
	return func() []string {
		found, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
}

// Each process has a socket in the directory for temporary files, which was not removed when process and host were
// killed: after some hundred kills there were hundreds.
func TestSocketsThatAKilledHostHasLeftAreRemovedByTheNextOne(t *testing.T) {
	list := temporary(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	killed := exec.Command(self)
	killed.Env = append(os.Environ(), roleVariable+"=host a plugin")
	out, err := killed.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // it has a plugin
		t.Fatal(err)
	}

	living := newHost(t, Options{})
	l := acquire(t, living, playing(t, "serve 6"), "", nil)
	if left := list(); len(left) != 2 {
		t.Errorf("two hosts that live have the directories %q", left)
	}
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed.Wait() // an error, since it was killed
	if left := list(); len(left) != 2 {
		t.Errorf("after the kill there are %q", left)
	}

	next := NewHost(Options{Env: temporaryFiles()})
	acquire(t, next, playing(t, "serve 6"), "", nil)
	if left := list(); len(left) != 2 { // that of the one that lives, and its own
		t.Errorf("the next host leaves %q", left)
	}
	if pid(t, l) == 0 {
		t.Error("the plugin of the host that lives has no number")
	}
	next.Close()
	living.Close()
	if left := list(); len(left) != 0 {
		t.Errorf("hosts that are closed leave %q", left)
	}
}

func TestADirectoryThatIsNotLockedYetIsNotTakenForRemains(t *testing.T) {
	list := temporary(t)
	base := os.TempDir()
	for _, name := range []string{socketsName + "1", "other"} {
		if err := os.Mkdir(filepath.Join(base, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	removeRemains(base, time.Now())
	if left := list(); len(left) != 2 {
		t.Errorf("there is only %q", left)
	}
	removeRemains(base, time.Now().Add(2*beginsWithin))
	if left := list(); len(left) != 1 || filepath.Base(left[0]) != "other" {
		t.Errorf("later there is %q", left)
	}
}

// The path of a socket had two directories below the one for temporary files, so plugins did not start where the path
// of that had 72 to 88 characters: OpenTofu puts the socket into it directly. With more than 90 characters, plugins of
// OpenTofu do not start either.
func TestPluginsStartHoweverLongThePathForTemporaryFilesIs(t *testing.T) {
	temporary(t)
	root := os.TempDir() + "/"
	for _, length := range []int{longestBase, longestBase + 1, 80, longestPlain, 88, 90, 91, 150} {
		dir := root + strings.Repeat("d", length-len(root))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv("TMPDIR", dir)
		h := NewHost(Options{Env: temporaryFiles()})
		if pid(t, acquire(t, h, playing(t, "serve 6"), "", nil)) == 0 {
			t.Errorf("with %d characters the plugin has no number", length)
		}
		h.Close()
		if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
			t.Errorf("with %d characters %q is left, %v", length, left, err)
		}
	}
}
