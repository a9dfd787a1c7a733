package recorded_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/millipede-iac/millipede/state/recorded"
)

func open(t testing.TB, name string) *bbolt.DB {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(t.TempDir(), name), 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.View(func(tx *bbolt.Tx) error {
			for err := range tx.Check() {
				// bbolt itself loses track of pages of a bucket that is changed and deleted in one transaction.
				if !strings.Contains(err.Error(), "unreachable unfreed") {
					t.Error(err)
				}
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// dump prints the content of a file.
func dump(t testing.TB, db *bbolt.DB) string {
	t.Helper()
	var out strings.Builder
	var bucket func(indent string, b *bbolt.Bucket) error
	bucket = func(indent string, b *bbolt.Bucket) error {
		fmt.Fprintf(&out, " #%d\n", b.Sequence())
		return b.ForEach(func(k, v []byte) error {
			fmt.Fprintf(&out, "%s%q", indent, k)
			if v == nil {
				return bucket(indent+"  ", b.Bucket(k))
			}
			fmt.Fprintf(&out, " = %q\n", v)
			return nil
		})
	}
	err := db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			fmt.Fprintf(&out, "%q", name)
			return bucket("  ", b)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// change makes one random change; it may fail, and then has no effect.
func change(r *rand.Rand, tx *recorded.Tx) error {
	name := func() []byte { return []byte{byte('a' + r.IntN(3))} }
	key := func() []byte { return fmt.Appendf(nil, "k%d", r.IntN(12)) }
	if r.IntN(12) == 0 {
		return tx.DeleteBucket(name())
	}
	b, err := tx.CreateBucketIfNotExists(name())
	if err != nil {
		return err
	}
	for r.IntN(2) == 0 {
		inner := b.Bucket(name())
		if inner == nil {
			if inner, err = b.CreateBucket(name()); err != nil {
				return err
			}
		}
		b = inner
	}
	for range 1 + r.IntN(4) {
		switch r.IntN(9) {
		case 0:
			err = b.Delete(key())
		case 1:
			err = b.DeleteBucket(name())
		case 2:
			_, err = b.NextSequence()
		case 3:
			err = b.SetSequence(r.Uint64N(1000))
		case 4:
			_, err = b.CreateBucketIfNotExists(name())
		case 5:
			err = b.Put(key(), nil)
		case 6:
			b.GrowsAtItsEnd()
			err = b.Put(key(), bytes.Repeat([]byte("long "), r.IntN(2000)))
		default:
			err = b.Put(key(), key())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func TestRecordedTransactionsGiveAnEqualCopyWhenReplayed(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			from, to := open(t, "from"), open(t, "to")
			for n := range 40 {
				a, err := recorded.Try(from)
				if err != nil {
					t.Fatal(err)
				}
				for range 1 + r.IntN(10) {
					_ = change(r, a.Tx) // what fails changes nothing, here as there
				}
				if r.IntN(5) == 0 {
					if err := a.Rollback(); err != nil {
						t.Fatal(err)
					}
					continue
				}
				changes, position := bytes.Clone(a.Changes()), fmt.Append(nil, n)
				if err := errors.Join(a.SetOwn("at", position), a.Commit(), a.Rollback()); err != nil {
					t.Fatal(err)
				}
				if err := recorded.Replay(to, changes, "at", position); err != nil {
					t.Fatal(err)
				}
				if a, b := dump(t, from), dump(t, to); a != b {
					t.Fatalf("after %d transactions the store has\n%s\nand the copy\n%s", n+1, a, b)
				}
			}
		})
	}
}

func TestATransactionThatChangesNothingRecordsNothing(t *testing.T) {
	db := open(t, "db")
	if err := recorded.Update(db, func(tx *recorded.Tx) error {
		b, err := tx.CreateBucket([]byte("a"))
		if err != nil {
			return err
		}
		return b.Put([]byte("k"), []byte("v"))
	}); err != nil {
		t.Fatal(err)
	}
	a, err := recorded.Try(db)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Rollback()
	b, err := a.Tx.CreateBucketIfNotExists([]byte("a"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Tx.CreateBucket([]byte("a")); err == nil {
		t.Error("a bucket was created twice")
	}
	if err := b.DeleteBucket([]byte("none")); err == nil {
		t.Error("a bucket was deleted that is not there")
	}
	k, v := b.Cursor().First()
	if string(k) != "k" || string(v) != "v" || len(a.Changes()) > 0 {
		t.Errorf("read %q = %q, recorded %x", k, v, a.Changes())
	}
}

// record returns the changes of a transaction on a file with the bucket "there".
func record(t testing.TB, db *bbolt.DB, f func(tx *recorded.Tx) error) []byte {
	t.Helper()
	a, err := recorded.Try(db)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Rollback()
	if err := f(a.Tx); err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(a.Changes())
}

// sample makes a change of each kind.
func sample(tx *recorded.Tx) error {
	there, err := tx.CreateBucketIfNotExists([]byte("there"))
	if err != nil {
		return err
	}
	inner, err := there.CreateBucket([]byte("in"))
	if err != nil {
		return err
	}
	_, err = inner.NextSequence()
	return errors.Join(err, inner.Put([]byte("k"), []byte("v")), inner.Delete([]byte("x")),
		there.DeleteBucket([]byte("in")), there.SetSequence(7))
}

func TestTheCodingOfChangesIsTheOneOfTheDocument(t *testing.T) {
	db := open(t, "db")
	if err := recorded.Update(db, func(tx *recorded.Tx) error {
		_, err := tx.CreateBucket([]byte("there"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	const want = "0100057468657265" + // enter 0, "there"
		"020102696e" + // create 1, "in"
		"060201" + // sequence 2, 1
		"0402016b0176" + // put 2, "k", "v"
		"05020178" + // delete 2, "x"
		"030102696e" + // drop 1, "in"
		"0100057468657265" + // enter 0, "there"
		"060107" // sequence 1, 7
	if got := hex.EncodeToString(record(t, db, sample)); got != want {
		t.Errorf("the changes are coded as\n%s, and the document says\n%s", got, want)
	}
}

func TestChangesThatDoNotFitLeaveTheCopyAsItWas(t *testing.T) {
	db := open(t, "db")
	if err := recorded.Replay(db, nil, "at", []byte("1")); err != nil {
		t.Fatal(err)
	}
	before := dump(t, db)
	for name, changes := range map[string]string{
		"a bucket that is not there":      "0100057468657265",
		"a number that nobody has":        "0401016b0176",
		"the root as a bucket":            "0400016b0176",
		"cut off in a name":               "02000574",
		"cut off after what fits":         "0200017404",
		"an unknown kind":                 "02000174" + "0900",
		"the copy's own bucket":           "010004006c6f67",
		"creating the copy's own bucket":  "020004006c6f67",
		"dropping the copy's own bucket":  "030004006c6f67",
		"a bucket that was dropped since": "02000174" + "03000174" + "0401016b0176",
		"a length that nobody has":        "0200ffffffffffffffffff01",
	} {
		t.Run(name, func(t *testing.T) {
			data, err := hex.DecodeString(changes)
			if err != nil {
				t.Fatal(err)
			}
			if err := recorded.Replay(db, data, "at", []byte("2")); !errors.Is(err, recorded.ErrChanges) {
				t.Errorf("%v", err)
			}
			if after := dump(t, db); after != before {
				t.Errorf("the copy has\n%s, and had\n%s", after, before)
			}
		})
	}
	if own, err := recorded.Own(db, "at"); string(own) != "1" || err != nil {
		t.Errorf("the position is %q, %v", own, err)
	}
}

func FuzzReplayTakesAnyBytes(f *testing.F) {
	db := open(f, "db")
	f.Add(record(f, db, sample))
	f.Add([]byte{opCreate, 0, 1, 't'})
	if err := recorded.Update(db, func(tx *recorded.Tx) error {
		_, err := tx.CreateBucket([]byte("there"))
		return err
	}); err != nil {
		f.Fatal(err)
	}
	before := dump(f, db)
	f.Fuzz(func(t *testing.T, changes []byte) {
		err := recorded.Replay(db, changes, "at", nil)
		if err != nil && !errors.Is(err, recorded.ErrChanges) {
			t.Fatalf("an error of another kind: %v", err)
		}
		if err != nil && dump(t, db) != before {
			t.Fatal("the copy was changed all the same")
		}
		before = dump(t, db)
	})
}

const opCreate = 2
