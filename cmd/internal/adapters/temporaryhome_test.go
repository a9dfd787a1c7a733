package adapters

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/wire/jet"
)

// A command without a store has its server in a temporary directory. If the command was killed, the directory remained
// for ever.
func TestTheServersOfKilledCommandsAreRemovedByTheNextOne(t *testing.T) {
	base, later := t.TempDir(), time.Now().Add(2*locksWithin)
	place := func(name string) (dir string) {
		dir = filepath.Join(base, temporaryPrefix+name)
		if err := os.MkdirAll(temporaryHome(dir).Messages(), 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	lock := func(dir string) string { return filepath.Join(temporaryHome(dir).Messages(), "lock") }
	place("of-somebody-else")
	young := place("young")
	if err := errors.Join(os.WriteFile(lock(place("killed")), nil, 0o600), os.WriteFile(lock(young), nil, 0o600),
		os.Chtimes(young, later, later)); err != nil {
		t.Fatal(err)
	}
	alive, err := jet.EmbedVolatile(temporaryHome(place("alive")).Messages(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := alive.Close(); err != nil {
			t.Error(err)
		}
	}()
	removeRemains(base, later)
	var left []string
	entries, err := os.ReadDir(base)
	for _, e := range entries {
		left = append(left, e.Name()[len(temporaryPrefix):])
	}
	if want := []string{"alive", "of-somebody-else", "young"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("there are %q (%v), want %q", left, err, want)
	}
}
