package cloud

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func open(dir string) *Cloud {
	return Open(dir, rand.Reader, func() time.Time { return time.Unix(0, 7) })
}

func create(t *testing.T, c *Cloud, name string) Object {
	t.Helper()
	o, err := c.Create("thing", name, "eu", map[string]any{"size": "small"})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestAnObjectLivesInItsFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cloud")
	c, other := open(dir), open(dir)
	o := create(t, c, "../a b")
	got, err := other.Get("thing", o.ID)
	if err != nil || got.Name != "../a b" || got.Region != "eu" || got.Attributes["size"] != "small" ||
		got.Serial != o.Serial || got.Revision != 1 {
		t.Fatalf("another process sees %+v, %v", got, err)
	}
	if o, err = other.Update(o, map[string]any{"size": "big"}); err != nil || o.Revision != 2 || o.Created != 7 {
		t.Fatalf("updated to %+v, %v", o, err)
	}
	if got, err = c.Refresh(o); err != nil || got.Attributes["size"] != "big" {
		t.Fatalf("refreshed to %+v, %v", got, err)
	}
	if err := c.Delete("thing", o.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Get("thing", o.ID); !errors.Is(err, ErrGone) {
		t.Errorf("getting a deleted object: %v", err)
	}
	if _, err := other.Update(o, nil); !errors.Is(err, ErrGone) {
		t.Errorf("updating a deleted object: %v", err)
	}
	if err := other.Delete("thing", o.ID); !errors.Is(err, ErrGone) {
		t.Errorf("deleting a deleted object: %v", err)
	}
}

func TestObjectsAreFoundByName(t *testing.T) {
	c := open(t.TempDir())
	for _, name := range []string{"a", "a", "a-b", "b"} {
		create(t, c, name)
	}
	for name, want := range map[string]int{"a": 2, "a-b": 1, "c": 0} {
		if got, err := c.ByName("thing", name); err != nil || len(got) != want {
			t.Errorf("%d objects are called %q, want %d (%v)", len(got), name, want, err)
		}
	}
	if all, err := c.All("thing"); err != nil || len(all) != 4 {
		t.Errorf("there are %d objects, want 4 (%v)", len(all), err)
	}
}

func TestManyCreateAtOnce(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 4 {
		c := open(dir)
		all.Go(func() {
			for i := range 50 {
				if _, err := c.Create("thing", fmt.Sprint(i), "", nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if objects, err := open(dir).All("thing"); err != nil || len(objects) != 200 {
		t.Errorf("there are %d objects, want 200 (%v)", len(objects), err)
	}
}

func TestTurnsAreSharedByAllProcesses(t *testing.T) {
	dir := t.TempDir()
	for name, clouds := range map[string][]*Cloud{
		"a directory": {open(dir), open(dir)}, "no directory": {open("")},
	} {
		taken := 0
		for range 4 {
			for _, c := range clouds {
				mine, err := c.TakeTurn("fail a/b", 3)
				if err != nil {
					t.Fatal(err)
				}
				if mine {
					taken++
				}
			}
		}
		if taken != 3 {
			t.Errorf("with %s, %d turns were taken, want 3", name, taken)
		}
	}
}

func TestACloudThatForgetsBelievesTheCaller(t *testing.T) {
	c := open("")
	o := create(t, c, "a")
	if got, err := c.Update(o, nil); err != nil || got.Revision != 2 || got.ID != o.ID {
		t.Errorf("updated to %+v, %v", got, err)
	}
	if _, err := c.Get("thing", o.ID); !errors.Is(err, ErrGone) {
		t.Errorf("getting: %v", err)
	}
	if err := c.Delete("thing", o.ID); err != nil {
		t.Error(err)
	}
}

func TestADamagedFileIsAnError(t *testing.T) {
	dir := t.TempDir()
	c := open(dir)
	o := create(t, c, "a")
	if err := os.WriteFile(filepath.Join(dir, "thing", o.ID+".json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get("thing", o.ID); err == nil || errors.Is(err, ErrGone) {
		t.Errorf("getting: %v", err)
	}
}
