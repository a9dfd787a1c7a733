package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/service/store"
)

// bbolt allocates 16 MiB in advance once a file has that size. The free space was compared with the whole file, and was
// less than half of it although two thirds of the records had been deleted.
func TestAFileIsCompactedWhateverItHasAllocatedInAdvance(t *testing.T) {
	dir := t.TempDir()
	reopen := func(change func(*store.Tx) error) (size int64) {
		t.Helper()
		s, err := store.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Update(change); err != nil {
			t.Error(err)
		}
		info, err := os.Stat(filepath.Join(dir, "service.db"))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		return info.Size()
	}
	const all, most = 68, 46
	name := func(i int) string { return fmt.Sprintf("c%02d", i) }
	full := reopen(func(tx *store.Tx) error {
		for i := range all {
			c := city{ID: name(i), Name: name(i) + strings.Repeat("x", 250_000), Country: "a"}
			if err := plain.Put(tx, &c); err != nil {
				return err
			}
		}
		return nil
	})
	reopen(func(tx *store.Tx) error {
		for i := range most {
			if err := plain.Delete(tx, name(i)); err != nil {
				return err
			}
		}
		return nil
	})
	if now := reopen(func(*store.Tx) error { return nil }); now > full/2 {
		t.Errorf("the file had %d bytes, and now has %d", full, now)
	}
}

// plain has cities without indexes.
var plain = store.Table[city]{Name: "plain", ID: func(c *city) string { return c.ID }}
