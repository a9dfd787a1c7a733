package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/state/log"
	"github.com/millipede-iac/millipede/state/log/mem"
	"github.com/millipede-iac/millipede/state/recorded"
	"github.com/millipede-iac/millipede/state/seal"
)

type kept struct{ ID, Name string }

var keptTable = store.Table[kept]{Name: "kept", ID: func(k *kept) string { return k.ID },
	Unique: map[string]func(*kept) string{"name": func(k *kept) string { return k.Name }}}

// Sixteen writers had an entry of the log each, and waited for each other's.
func TestRecordsAreInTheLogAndChangesOfConcurrentWritersShareItsEntries(t *testing.T) {
	key, err := seal.NewKey(seal.NewSecret())
	if err != nil {
		t.Fatal(err)
	}
	logKey, err := log.Key([]byte("secret"), log.ID{1}, "records")
	if err != nil {
		t.Fatal(err)
	}
	l := mem.New()
	first := true
	open := func() *store.Store {
		t.Helper()
		s, err := store.OpenOptions(t.TempDir(), key, store.Options{Log: func(path string) (recorded.Log, error) {
			w, err := log.Open(t.Context(), path, log.Options{Transport: l.Join(), Incarnation: log.ID{1}, Store: "records",
				Member: "alice", Key: logKey, First: first})
			if err != nil {
				return nil, err
			}
			return w, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		first = false
		return s
	}
	s := open()
	before := l.Last()
	const writers, each = 16, 20
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range each {
				if err := s.Update(func(tx *store.Tx) error {
					id := fmt.Sprint(w, "-", i)
					return keptTable.Put(tx, &kept{id, "name " + id})
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if entries := l.Last() - before; entries < each || entries > writers*each {
		t.Errorf("%d changes are in %d entries", writers*each, entries)
	}
	refused := errors.New("refused")
	at := l.Last()
	if err := s.Update(func(tx *store.Tx) error {
		if err := keptTable.Put(tx, &kept{"x", "y"}); err != nil {
			return err
		}
		return refused
	}); !errors.Is(err, refused) || l.Last() != at {
		t.Errorf("a refused change: %v, and %d entries", err, l.Last()-at)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	again := open() // in an empty directory
	n := 0
	if err := again.View(func(tx *store.Tx) error {
		for k, err := range keptTable.All(tx) {
			if err != nil {
				return err
			}
			n++
			if k.Name != "name "+k.ID {
				t.Errorf("%+v", k)
			}
		}
		return nil
	}); err != nil || n != writers*each {
		t.Errorf("%d records, %v", n, err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
