package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/state/seal"
)

type city struct {
	ID, Name, Country string
	Size              int
}

var cities = store.Table[city]{
	Name: "city", ID: func(c *city) string { return c.ID },
	Unique: map[string]func(*city) string{"name": func(c *city) string { return store.Join(c.Country, c.Name) }},
	Lists: map[string]func(*city) []string{
		"country": func(c *city) []string { return []string{store.Join(c.Country, fmt.Sprintf("%08d", c.Size))} },
	},
}

func open(t *testing.T) *store.Store {
	t.Helper()
	key, err := seal.NewKey(seal.NewSecret())
	if err != nil {
		t.Fatal(err)
	}
	return openWith(t, key)
}

// openWith returns another empty store with a key.
func openWith(t *testing.T, key *seal.Key) *store.Store {
	t.Helper()
	s, err := store.Open(t.TempDir(), key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func put(t *testing.T, s *store.Store, all ...city) {
	t.Helper()
	if err := s.Update(func(tx *store.Tx) error {
		for _, c := range all {
			if err := cities.Put(tx, &c); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestARecordIsFoundByItsKeyAndByEachIndex(t *testing.T) {
	s := open(t)
	put(t, s, city{"a", "Rome", "it", 3}, city{"b", "Pisa", "it", 1}, city{"c", "Bern", "ch", 1})
	put(t, s, city{"a", "Roma", "it", 2})
	err := s.View(func(tx *store.Tx) error {
		if c, err := cities.Find(tx, "name", "it", "Roma"); err != nil || c.ID != "a" {
			t.Errorf("by its name: %v, %v", c, err)
		}
		if _, err := cities.Find(tx, "name", "it", "Rome"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("by its former name: %v", err)
		}
		if got := fmt.Sprint(cities.List(tx, "country", "it"), cities.Newest(tx, "country", 1, "it"),
			cities.Newest(tx, "country", 9, "ch")); got != "[b a] [a] [c]" {
			t.Error(got)
		}
		if got := cities.Newest(tx, "country", 9, "de"); got != nil {
			t.Error(got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Update(func(tx *store.Tx) error { return cities.Put(tx, &city{"d", "Roma", "it", 9}) })
	if !errors.Is(err, store.ErrTaken) {
		t.Errorf("creating a name twice: %v", err)
	}
	_ = s.Update(func(tx *store.Tx) error { return cities.Delete(tx, "a") })
	_ = s.View(func(tx *store.Tx) error {
		if _, err := cities.Get(tx, "a"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("deleted: %v", err)
		}
		if got := cities.List(tx, "country", "it"); len(got) != 1 {
			t.Error(got)
		}
		return nil
	})
}

func TestAChangeThatFailsLeavesNothing(t *testing.T) {
	s, called := open(t), false
	err := s.Update(func(tx *store.Tx) error {
		tx.After(func() { called = true })
		if err := cities.Put(tx, &city{ID: "a"}); err != nil {
			return err
		}
		return io.ErrNoProgress
	})
	if !errors.Is(err, io.ErrNoProgress) || called {
		t.Errorf("%v, %v", err, called)
	}
	_ = s.View(func(tx *store.Tx) error {
		if _, err := cities.Get(tx, "a"); !errors.Is(err, store.ErrNotFound) {
			t.Error(err)
		}
		return nil
	})
}

func TestTheFilesTellNothingWithoutTheKey(t *testing.T) {
	dir := t.TempDir()
	secret := seal.NewSecret()
	key, _ := seal.NewKey(secret)
	s, err := store.Open(dir, key)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, city{"a", "Rome", "canary-record", 1})
	if _, err := s.Write("states/x", strings.NewReader("canary-file"), 100); err != nil {
		t.Fatal(err)
	}
	l, err := s.OpenLog("logs/x")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(l, "canary-log")
	if err := errors.Join(l.End(), l.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		for _, canary := range []string{"canary-file", "canary-log", `"Size"`} {
			if bytes.Contains(data, []byte(canary)) {
				t.Errorf("%s has %s", path, canary)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	other, _ := seal.NewKey(seal.NewSecret())
	if _, err := store.Open(dir, other); !errors.Is(err, store.ErrKey) {
		t.Errorf("opening the store with another key: %v", err)
	}
	if s, err = store.Open(dir, key); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(dir, key); !errors.Is(err, store.ErrHeld) {
		t.Errorf("opening the store in a second process: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestAFileIsWholeOrNotThere(t *testing.T) {
	s := open(t)
	for _, size := range []int{0, 1, 64 << 10, 64<<10 + 1, 200_000} {
		text := bytes.Repeat([]byte("x"), size)
		w, err := s.Write("f/x", bytes.NewReader(text), 1<<20)
		if err != nil || w.Size != int64(size) {
			t.Fatal(size, w, err)
		}
		if got, err := s.ReadAll("f/x"); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%d bytes: %d, %v", size, len(got), err)
		}
	}
	if _, err := s.Write("f/x", strings.NewReader("too long"), 3); !errors.Is(err, store.ErrTooLarge) {
		t.Error(err)
	}
	if got, err := s.ReadAll("f/x"); err != nil || len(got) != 200_000 {
		t.Errorf("after a refused write: %d, %v", len(got), err)
	}
	path := filepath.Join(s.Dir(), "f", "x")
	if err := os.Truncate(path, 2*(4+40+64<<10)); err != nil { // whole frames, the last ones gone
		t.Fatal(err)
	}
	if _, err := s.ReadAll("f/x"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a truncated file: %v", err)
	}
	if _, err := s.ReadAll("f/y"); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}

func TestALogIsReadWhileItGrows(t *testing.T) {
	s := open(t)
	l, err := s.OpenLog("logs/a")
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	var readers sync.WaitGroup
	results := make([][]byte, 3)
	for i := range results {
		readers.Go(func() {
			for {
				part, err := l.ReadAt(context.Background(), int64(len(results[i])), 1000*(i+1))
				if err != nil || len(part) == 0 {
					return
				}
				results[i] = append(results[i], part...)
			}
		})
	}
	for i := range 500 {
		line := fmt.Sprintf("line %d %s\n", i, strings.Repeat("x", i*7%300))
		want.WriteString(line)
		if _, err := io.WriteString(l, line); err != nil {
			t.Fatal(err)
		}
	}
	large := bytes.Repeat([]byte("y"), 150_000)
	want.Write(large)
	if _, err := l.Write(large); err != nil {
		t.Fatal(err)
	}
	if err := l.End(); err != nil {
		t.Fatal(err)
	}
	readers.Wait()
	for i, got := range results {
		if !bytes.Equal(got, want.Bytes()) {
			t.Errorf("reader %d has %d bytes of %d", i, len(got), want.Len())
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestALogGoesOnBehindWhatACrashCutOff(t *testing.T) {
	s := open(t)
	l, err := s.OpenLog("logs/a")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(l, "one\n")
	fmt.Fprint(l, strings.Repeat("two", 100)+"\n")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.Dir(), "logs", "a")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, info.Size()-3); err != nil {
		t.Fatal(err)
	}
	if l, err = s.OpenLog("logs/a"); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(l, "three\n")
	if err := errors.Join(l.End(), l.Close()); err != nil {
		t.Fatal(err)
	}
	if l, err = s.ReadLog("logs/a"); err != nil {
		t.Fatal(err)
	}
	got, err := l.ReadAt(t.Context(), 0, 100)
	if err != nil || string(got) != "one\nthree\n" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := l.ReadAt(t.Context(), 4, 3); err != nil || string(got) != "thr" {
		t.Errorf("%q, %v", got, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestUpdatesOfManyShareSyncs(t *testing.T) {
	s := open(t)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			if err := s.Update(func(tx *store.Tx) error {
				n, err := tx.Next("city")
				if err != nil {
					return err
				}
				return cities.Put(tx, &city{ID: fmt.Sprint(i), Name: fmt.Sprint(n)})
			}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	seen := map[string]bool{}
	_ = s.View(func(tx *store.Tx) error {
		for c, err := range cities.All(tx) {
			if err != nil {
				t.Error(err)
			}
			seen[c.Name] = true
		}
		return nil
	})
	if len(seen) != 50 {
		t.Errorf("%d numbers for 50 records", len(seen))
	}
}

// io.ReadFull returns the same error for a last part that is not full and for a broken connection: a truncated upload
// was taken for a complete one.
func TestAnUploadThatWasCutIsRefused(t *testing.T) {
	s := open(t)
	cut := io.MultiReader(strings.NewReader("half of it"), iotest.ErrReader(io.ErrUnexpectedEOF))
	if _, err := s.Write("f/x", cut, 1<<20); !errors.Is(err, store.ErrCut) {
		t.Errorf("%v", err)
	}
	if _, err := s.ReadAll("f/x"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a part of the file was stored: %v", err)
	}
}
