package disk

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// The test program writes in ways that survive a power cut, and in ways that do not.
func TestMain(m *testing.M) {
	if dir := os.Getenv("DISK_WRITER"); dir != "" {
		if err := write(dir); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// write does three syncs.
func write(dir string) error {
	in := func(name string) string { return filepath.Join(dir, name) }
	f, err := os.Create(in("synced"))
	if err != nil {
		return err
	}
	_, e1 := f.WriteString("one")
	e2 := f.Sync()
	_, e3 := f.WriteString(" two")
	e4 := os.WriteFile(in("never-synced"), []byte("x"), 0o600)
	e5 := os.WriteFile(in("draft"), []byte("x"), 0o600)
	e6 := os.Rename(in("draft"), in("renamed-before-its-sync"))
	g, e7 := os.OpenFile(in("each-write"), os.O_CREATE|os.O_WRONLY|os.O_SYNC, 0o600)
	_, e8 := g.WriteString("all")
	h, e9 := os.Create(in("draft2"))
	_, e10 := h.WriteString("whole")
	e11 := h.Sync()
	e12 := os.Rename(in("draft2"), in("renamed-behind-its-sync"))
	e13 := os.Remove(in("before"))
	e14 := f.Sync()
	return errors.Join(e1, e2, e3, e4, e5, e6, e7, e8, e9, e10, e11, e12, e13, e14, f.Close(), g.Close(), h.Close())
}

func TestTheDiskHasWhatWasSyncedWhenThePowerIsCut(t *testing.T) {
	for claim, c := range map[string]struct {
		cut  Cut
		want map[string]string
	}{
		"before the first sync": {Cut{Sync: 1}, map[string]string{"before": "b"}},
		"after the first sync":  {Cut{Sync: 1, After: true}, map[string]string{"before": "b", "synced": "one"}},
		"before the second sync": {Cut{Sync: 2}, map[string]string{"before": "b", "synced": "one",
			"renamed-before-its-sync": "", "each-write": "all"}},
		"before the third sync": {Cut{Sync: 3}, map[string]string{"synced": "one", "renamed-before-its-sync": "",
			"each-write": "all", "renamed-behind-its-sync": "whole"}},
		"never": {Cut{}, map[string]string{"synced": "one two", "renamed-before-its-sync": "",
			"each-write": "all", "renamed-behind-its-sync": "whole"}},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "before"), []byte("b"), 0o600); err != nil {
			t.Fatal(err)
		}
		program := exec.Command(os.Args[0])
		program.Env = append(os.Environ(), "DISK_WRITER="+dir)
		out, err := Run(program, dir, c.cut)
		if errors.Is(err, ErrUnsupported) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		if out.WasCut != (c.cut.Sync > 0) || out.Code > 0 {
			t.Errorf("%s: %+v", claim, out)
		}
		if err := out.Restore(dir); err != nil {
			t.Fatal(err)
		}
		image, err := read(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(maps.Keys(image)); !slices.Equal(got, slices.Sorted(maps.Keys(c.want))) {
			t.Errorf("%s: the disk has %v", claim, got)
		}
		for name, content := range c.want {
			if string(image[name]) != content {
				t.Errorf("%s: %s is %q", claim, name, image[name])
			}
		}
	}
}
