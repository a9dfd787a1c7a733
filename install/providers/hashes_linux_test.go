package providers

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Each phase of a service's run hashed the packages of its providers twice: an eighth of the service's CPU time. A
// changed file must be detected nevertheless, even if it has the former size and time.
func TestAPackageIsHashedAgainWhenItHasChanged(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "terraform-provider-x")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		then := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		if err := os.Chtimes(file, then, then); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "package")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	write("one")
	later := time.Now().Add(time.Hour)
	h := NewHashes(func() time.Time { return later })
	of := func() string {
		t.Helper()
		h1, err := h.of(link)
		if err != nil {
			t.Fatal(err)
		}
		return h1
	}
	first, err := (*Hashes)(nil).of(link)
	if got := of(); err != nil || got != first || got != h.known[dir].h1 {
		t.Fatalf("%v: it is %s, and %s with a memory", err, first, got)
	}
	remembered := h.known[dir]
	remembered.h1 = "remembered"
	h.known[dir] = remembered
	if got := of(); got != "remembered" {
		t.Errorf("it was hashed again: %s", got)
	}
	write("two")
	if got := of(); got == "remembered" || got == first {
		t.Errorf("a change does not show: %s", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "other"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	second := of()
	if err := os.Symlink(file, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	write("six") // the target of a link may change unnoticed
	if got := of(); got == second {
		t.Errorf("a change behind a link does not show: %s", got)
	}

	later = time.Now()
	h = NewHashes(func() time.Time { return later })
	if err := os.Remove(filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if of(); len(h.known) > 0 {
		t.Error("a hash is remembered while the files may still change at the same time")
	}
}
