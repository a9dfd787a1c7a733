package bolt_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/bolt"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/recorded"
	"github.com/millipede-iac/millipede/state/storetest"
)

func TestTheStoreInAFileKeepsTheContract(t *testing.T) {
	for name, wrapper := range map[string]bolt.Wrapper{"in the clear": nil, "sealed": &passphrase{now: "a"}} {
		t.Run(name, func(t *testing.T) { contract(t, wrapper) })
	}
}

func contract(t *testing.T, wrapper bolt.Wrapper) {
	storetest.Run(t, func(t *testing.T) storetest.Fixture {
		dir := t.TempDir()
		path := filepath.Join(dir, "state.db")
		crashes := 0
		return storetest.Fixture{
			Open: func() journal.Store { return openWith(t, path, wrapper) },
			Crash: func(s journal.Store) journal.Store {
				crashes++
				after := filepath.Join(dir, fmt.Sprint("after", crashes, ".db"))
				data, err := os.ReadFile(s.(*bolt.Store).Path())
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(after, data, 0o600); err != nil {
					t.Fatal(err)
				}
				path = after
				return openWith(t, after, wrapper)
			},
		}
	})
}

// open opens a store and checks the file when the test ends.
func open(t *testing.T, path string) *bolt.Store {
	t.Helper()
	return openWith(t, path, nil)
}

func openWith(t *testing.T, path string, wrapper bolt.Wrapper) *bolt.Store {
	t.Helper()
	ids := 0
	s, err := bolt.OpenOptions(path, journal.LockInfo{Who: "me"}, 0, bolt.Options{
		NewID: func() string {
			ids++
			return fmt.Sprint(filepath.Base(path), "-", os.Getpid(), "-", time.Now().UnixNano(), "-", ids)
		},
		NoSync:  true,
		Wrapper: wrapper,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Check(); err != nil && !errors.Is(err, journal.ErrClosed) {
			t.Error("the file is damaged:", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestASecondProcessIsToldWhoHasTheStore(t *testing.T) {
	if path := os.Getenv("STORE_TO_OPEN"); path != "" {
		s, err := bolt.Open(path, journal.LockInfo{}, 0)
		if err == nil {
			err = s.Close()
		}
		var held *journal.Held
		if errors.As(err, &held) {
			fmt.Printf("held by %s since %s for %s, pid %d\n", held.Holder.Who,
				held.Holder.Created.Format(time.DateOnly), held.Holder.Operation, held.Holder.PID)
		}
		return
	}
	path := filepath.Join(t.TempDir(), "state.db")
	info := journal.LockInfo{Who: "anna@rome", Operation: "apply", Created: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}
	s, err := bolt.Open(path, info, 0)
	if err != nil {
		t.Fatal(err)
	}
	second := func() string {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), "STORE_TO_OPEN="+path)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	want := fmt.Sprintf("held by anna@rome since 2026-01-02 for apply, pid %d\n", os.Getpid())
	if got := second(); !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := second(); strings.Contains(got, "held") {
		t.Errorf("after the first process closed it: %q", got)
	}
	if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
		t.Errorf("the closed store has left the files %v", left)
	}
}

func TestTheFileIsForItsOwnerOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "state.db")
	open(t, path)
	for _, p := range []string{path, path + ".lock.info"} {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", p, info.Mode())
		}
	}
}

func TestAFileOfANewerVersionIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	closed(t, path, nil)
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = recorded.Update(db, func(tx *recorded.Tx) error {
		data, _ := json.Marshal(bolt.Format + 1)
		return tx.Bucket([]byte("meta")).Put([]byte("format"), data)
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := bolt.Open(path, journal.LockInfo{}, 0); !errors.Is(err, bolt.ErrNewer) {
		t.Errorf("the error is %v", err)
	}
}

// If a store was truncated, or one of its pages was overwritten, opening or reading it returns an error or its former
// content. It never ends the process, and never returns another state, with one exception: the first two pages are the
// headers, and if one of them is lost, bbolt uses the other one, which is that of the previous commit.
func TestADamagedFileIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	var changes []state.Change
	for i := range 200 {
		changes = append(changes, setAttrs(i, strings.Repeat("x", 100)))
	}
	closed(t, path, changes)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	used := len(whole)
	n := 0
	for page := 0; page < used; page += os.Getpagesize() {
		for what, harm := range map[string]func([]byte) []byte{
			"cut off at its start":  func(b []byte) []byte { return b[:page] },
			"cut off in its middle": func(b []byte) []byte { return b[:page+os.Getpagesize()/2] },
			"zeroed":                func(b []byte) []byte { clear(b[page : page+os.Getpagesize()]); return b },
			"of another number": func(b []byte) []byte {
				binary.NativeEndian.PutUint64(b[page:], 1<<40)
				return b
			},
			"with too many elements": func(b []byte) []byte {
				binary.NativeEndian.PutUint16(b[page+10:], 0xfff0)
				return b
			},
		} {
			if what == "cut off at its start" && page == 0 {
				continue // an empty file is a new one
			}
			n++ // a file of its own: after a panic in bbolt's Open the file stays locked
			path := filepath.Join(t.TempDir(), fmt.Sprint(n))
			if err := os.WriteFile(path, harm(append([]byte(nil), whole...)), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := bolt.Open(path, journal.LockInfo{}, 0)
			if err == nil {
				var st *state.State
				st, err = s.Load(t.Context(), "default")
				if err == nil && len(st.Addrs()) != 200 && page >= 2*os.Getpagesize() {
					t.Errorf("page %d %s: %d instances are left, but there is no error", page/os.Getpagesize(), what,
						len(st.Addrs()))
				}
				err = errors.Join(err, s.Close())
			}
			if err != nil && !errors.Is(err, bolt.ErrDamaged) {
				t.Errorf("page %d %s: %v", page/os.Getpagesize(), what, err)
			}
		}
	}
	for _, text := range []string{"x", "not a store", strings.Repeat("not a store ", 10000)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := bolt.Open(path, journal.LockInfo{}, 0); !errors.Is(err, bolt.ErrDamaged) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

// closed creates a store with this content and closes it.
func closed(t *testing.T, path string, changes []state.Change) {
	t.Helper()
	s, err := bolt.Open(path, journal.LockInfo{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Commit(t.Context(), journal.Commit{Workspace: "default", Changes: changes, EndVersion: true})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
}
