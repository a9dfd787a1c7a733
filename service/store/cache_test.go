package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/service/store"
)

type letter struct{ ID, Text string }

var letters = store.Table[letter]{Name: "letter", ID: func(l *letter) string { return l.ID }}

func send(t *testing.T, s *store.Store, id string, size int) {
	t.Helper()
	if err := s.Update(func(tx *store.Tx) error {
		return letters.Put(tx, &letter{ID: id, Text: strings.Repeat("x", size)})
	}); err != nil {
		t.Fatal(err)
	}
}

// Each request decoded its actor, the workspace and the run again, and each step of the queue all workspaces of runs.
func TestARecordThatIsLookedAtIsThatOfTheTransaction(t *testing.T) {
	s := open(t)
	// The file must not grow while a view of it is open in the same test, or each would wait for the other.
	send(t, s, "z", 1_000_000)
	send(t, s, "z", 0)
	put(t, s, city{"a", "Rome", "it", 3}, city{"b", "Pisa", "it", 1})
	var first *city
	err := s.View(func(before *store.Tx) error {
		var err error
		if first, err = cities.Look(before, "a"); err != nil || first.Name != "Rome" {
			t.Errorf("%+v, %v", first, err)
		}
		put(t, s, city{"a", "Roma", "it", 2}) // by somebody else, meanwhile
		return s.View(func(after *store.Tx) error {
			for range 2 {
				if c, err := cities.Look(after, "a"); err != nil || c.Name != "Roma" {
					t.Errorf("after the change: %+v, %v", c, err)
				}
				if c, err := cities.Look(before, "a"); err != nil || c.Name != "Rome" {
					t.Errorf("in the view that began before the change: %+v, %v", c, err)
				}
			}
			x, err := cities.LookUp(after, "name", "it", "Pisa")
			y, again := cities.Look(after, "b")
			if err != nil || again != nil || x != y {
				t.Errorf("the record was decoded twice: %v, %v", err, again)
			}
			all, err := cities.LookAll(after, "country", "it")
			if err != nil || len(all) != 2 || all[0] != x {
				t.Errorf("%v, %v", all, err)
			}
			var through []*city
			for c, err := range cities.LookThrough(after) {
				if err != nil {
					return err
				}
				through = append(through, c)
			}
			if len(through) != 2 || through[0].Name != "Roma" || through[1] != x {
				t.Errorf("%v", through)
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Update(func(tx *store.Tx) error {
		c, err := cities.Look(tx, "b")
		if err != nil {
			return err
		}
		c.Size = 7 // it is the change's own
		return cities.Delete(tx, "a")
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.View(func(tx *store.Tx) error {
		if c, err := cities.Look(tx, "b"); err != nil || c.Size != 1 {
			t.Errorf("%+v, %v", c, err)
		}
		if _, err := cities.Look(tx, "a"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a deleted record: %v", err)
		}
		if _, err := cities.LookUp(tx, "name", "it", "Oslo"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a record that never existed: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsKeptOfRecordsIsBounded(t *testing.T) {
	s := open(t)
	const n, size = 150, 60_000 // over twice of what is kept
	for i := range n {
		send(t, s, fmt.Sprint(i), size)
	}
	for range 2 {
		err := s.View(func(tx *store.Tx) error {
			for i := range n {
				if l, err := letters.Look(tx, fmt.Sprint(i)); err != nil || len(l.Text) != size {
					return fmt.Errorf("%d: %w", i, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if kept := s.CachedBytes(); kept > 4<<20 || kept < 2<<20 {
		t.Errorf("the cache has %d bytes", kept)
	}
}
