package service_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/store"
)

// keptHomes removes directories, unless busy names them.
type keptHomes struct {
	store.Homes
	dir  string
	busy []string
}

func (k *keptHomes) Remove(workspace string) (bool, error) {
	if slices.Contains(k.busy, workspace) {
		return false, nil
	}
	return true, os.RemoveAll(filepath.Join(k.dir, "workspaces", workspace))
}

func TestADeletedWorkspaceLeavesNoDirectory(t *testing.T) {
	kept := &keptHomes{}
	h := servicetest.New(t, func(o *service.Options) { o.Homes = kept })
	kept.dir = h.Dir()
	home := func(id string) string { return filepath.Join(h.Dir(), "workspaces", id) }
	one, two, three := h.NewWorkspace("one"), h.NewWorkspace("two"), h.NewWorkspace("three")
	for _, dir := range []string{one.ID, two.ID, three.ID, "ws-of-a-crash", "mine"} {
		if err := os.MkdirAll(home(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	kept.busy = []string{two.ID}
	for _, id := range []string{one.ID, two.ID} {
		if err := h.Workspaces.Delete(h.Admin, id, true); err != nil {
			t.Fatal(err)
		}
	}
	there := func(want ...string) {
		t.Helper()
		var names []string
		entries, err := os.ReadDir(filepath.Join(h.Dir(), "workspaces"))
		for _, e := range entries {
			names = append(names, e.Name())
		}
		slices.Sort(want)
		if err != nil || !slices.Equal(names, want) {
			t.Errorf("there are %v, %v; not %v", names, err, want)
		}
	}
	there(two.ID, three.ID, "ws-of-a-crash", "mine")
	kept.busy = nil
	if err := h.Service.SweepHomes(t.Context()); err != nil {
		t.Fatal(err)
	}
	there(three.ID, "mine")
}
