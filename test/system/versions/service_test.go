package versions

import (
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/state/bolt"
	"github.com/millipede-iac/millipede/state/features"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/test/stage/site"
)

// A service of the next version took the data for itself when it was started: there was no way back.
func TestAServiceGoesBackOneVersionUntilItsUpgradeIsFinished(t *testing.T) {
	const count = 40
	s := site.New(t, "")
	next := site.Build(t, "./cmd/coordinator", fmt.Sprintf(
		"-ldflags=-X github.com/millipede-iac/millipede/state/features.built=%d-%d", features.Newest, features.Newest+1))
	v := s.NewService()
	v.Start()
	space := v.Workspace("net")
	v.Ends(v.Apply(space, site.Slow(2, 10)).ID, client.RunApplied)
	s.Env = v.Environ()
	served := func(program string) {
		t.Helper()
		if err := v.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		site.Exit(t, v.Process)
		v.Alter = func(c *exec.Cmd) { c.Path = program }
		v.Start()
	}
	level := func(path string) int {
		t.Helper()
		to := filepath.Join(t.TempDir(), "state.db")
		if err := bolt.Copy(path, to); err != nil {
			t.Fatal(err)
		}
		o, err := bolt.OpenOptions(to, journal.LockInfo{}, 0, bolt.Options{Unannounced: true,
			Levels: features.Levels{Oldest: 1, Newest: 99}})
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		return o.Features().Level
	}

	// Forward with a run under way, and back with it.
	r := v.Apply(space, site.Slow(count, 300))
	underWay := func(finished int) {
		t.Helper()
		site.Eventually(t, "the apply is under way", func() bool { return s.Finished("create") >= finished })
	}
	underWay(4)
	served(next)
	underWay(10)
	served(site.Built.Coordinator)
	v.Ends(r.ID, client.RunApplied)
	s.CreatedOnce(count)

	// The new one again, for good.
	served(next)
	var stores []string
	home := filepath.Join(v.Data, "workspaces", space.ID)
	err := filepath.WalkDir(home, func(path string, _ fs.DirEntry, err error) error {
		if filepath.Base(path) == "state.db" {
			stores = append(stores, path)
		}
		return err
	})
	if err != nil || len(stores) != 1 {
		t.Fatal(stores, err)
	}
	v.Ends(v.Apply(space, site.Slow(count-1, 10)).ID, client.RunApplied)
	if got := level(stores[0]); got != features.Newest {
		t.Errorf("before the upgrade is finished, the store of the workspace has level %d", got)
	}
	newer := fmt.Sprint("level ", features.Newest+1)
	if text := s.Must("service", "finish-upgrade", "-address="+v.Address); !strings.Contains(text, newer) {
		t.Errorf("finishing the upgrade says %q", text)
	}
	v.Ends(v.Apply(space, site.Slow(count-2, 10)).ID, client.RunApplied)
	if got := level(stores[0]); got != features.Newest+1 {
		t.Errorf("after that, the store of the workspace has level %d", got)
	}
	if check := s.Run("upgrade", "check", "-no-color", "-address="+v.Address); check.Code != 1 ||
		!strings.Contains(check.Text, newer) {
		t.Errorf("the version before is checked with exit status %d:\n%s", check.Code, check.Text)
	}
	if err := v.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	site.Exit(t, v.Process)
	v.Alter = nil
	v.Begin()
	if code := site.Exit(t, v.Process); code == 0 || !strings.Contains(v.Output(), "features of a newer version") ||
		!strings.Contains(v.Output(), newer) {
		t.Errorf("the version before ends with exit status %d:\n%s", code, v.Output())
	}
}
