package bolt_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/state/bolt"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/log"
	"github.com/millipede-iac/millipede/state/log/mem"
	"github.com/millipede-iac/millipede/state/recorded"
	"github.com/millipede-iac/millipede/state/storetest"
)

// logged returns the options of a store in a log.
func logged(t testing.TB, l log.Transport, made *bool) bolt.Options {
	t.Helper()
	key, err := log.Key([]byte("secret"), log.ID{1}, "state")
	if err != nil {
		t.Fatal(err)
	}
	return bolt.Options{Wrapper: &passphrase{now: "a"}, SealNew: true, Unannounced: true,
		NewID: func() string { return fmt.Sprint(time.Now().UnixNano()) },
		Log: func(path string) (recorded.Log, error) {
			w, err := log.Open(t.Context(), path, log.Options{Transport: l, Incarnation: log.ID{1}, Store: "state",
				Member: "alice", Key: key, First: !*made, Boot: "boot"})
			if err != nil {
				return nil, err
			}
			*made = true
			return w, nil
		}}
}

func openLogged(t testing.TB, path string, o bolt.Options) *bolt.Store {
	t.Helper()
	s, err := bolt.OpenOptions(path, journal.LockInfo{}, 0, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// After a crash, the next process has no file at all: everything comes from the log.
func TestAStoreInALogKeepsTheContractEvenIfItsFileIsLost(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Fixture {
		l, made, machines := mem.New(), false, 0
		path := filepath.Join(t.TempDir(), "state.db")
		var all []journal.Store
		open := func() journal.Store {
			s := openLogged(t, path, logged(t, l.Join(), &made))
			all = append(all, s)
			return s
		}
		t.Cleanup(func() {
			for _, s := range all {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
		return storetest.Fixture{Open: open, Crash: func(journal.Store) journal.Store {
			machines++
			path = filepath.Join(t.TempDir(), fmt.Sprint("machine", machines, ".db"))
			return open()
		}}
	})
}

func TestAStoreWhoseLogDoesNotDecideIsClosedForWriting(t *testing.T) {
	l, made := mem.New(), false
	path := filepath.Join(t.TempDir(), "state.db")
	s := openLogged(t, path, logged(t, l.Join(), &made))
	if err := s.PutValue(t.Context(), "b", "k", []byte("1")); err != nil {
		t.Fatal(err)
	}
	other := openLogged(t, filepath.Join(t.TempDir(), "state.db"), logged(t, l.Join(), &made))
	if err := s.PutValue(t.Context(), "b", "k", []byte("2")); !errors.Is(err, log.ErrDeposed) {
		t.Errorf("%v", err)
	}
	if err := s.PutValue(t.Context(), "b", "k", []byte("3")); !errors.Is(err, log.ErrDeposed) {
		t.Errorf("a second time: %v", err)
	}
	if v, err := other.GetValue(t.Context(), "b", "k"); err != nil || string(v) != "1" {
		t.Errorf("%q, %v", v, err)
	}
	if err := errors.Join(s.Close(), other.Close()); err != nil {
		t.Error(err)
	}
}

func TestAStoreInALogThatAnotherProcessHasOpenStaysAsItIs(t *testing.T) {
	l, made := mem.New(), false
	path := filepath.Join(t.TempDir(), "state.db")
	s := openLogged(t, path, logged(t, l.Join(), &made))
	if _, err := bolt.OpenOptions(path, journal.LockInfo{}, 0, logged(t, l.Join(), &made)); !errors.Is(err, log.ErrHeld) {
		t.Errorf("%v", err)
	}
	if err := s.PutValue(t.Context(), "b", "k", []byte("1")); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
