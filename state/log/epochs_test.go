package log_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/state/log"
	"github.com/millipede-iac/millipede/state/log/mem"
)

// keeping is a directory and a log, with the files of members that write in different epochs.
type keeping struct {
	*testing.T
	l    *mem.Log
	path string
}

func newKeeping(t *testing.T) *keeping {
	return &keeping{t, mem.New(), filepath.Join(t.TempDir(), "file")}
}

// in returns the files of a member that writes in an epoch, whose clock shows a time.
func (k *keeping) in(epoch uint64, seconds int64) *log.Files {
	return &log.Files{Transport: k.l.Join(), Epoch: epoch, Now: func() time.Time { return time.Unix(seconds, 0) }}
}

func (k *keeping) keep(f *log.Files, content string) error {
	k.Helper()
	if err := os.WriteFile(k.path, []byte(content), 0o600); err != nil {
		k.Fatal(err)
	}
	return f.Keep(k.Context(), "a", k.path)
}

// has checks what anybody fetches; empty means that there is no file.
func (k *keeping) has(want string) {
	k.Helper()
	_ = os.Remove(k.path)
	err := k.in(0, 1).Fetch(k.Context(), "a", k.path)
	got, _ := os.ReadFile(k.path)
	if want == "" && !errors.Is(err, fs.ErrNotExist) || want != "" && err != nil || string(got) != want {
		k.Errorf("the file has %q (%v), and should have %q", got, err, want)
	}
}

func TestWhatADeposedMemberDoesToAFileHasNoEffect(t *testing.T) {
	k := newKeeping(t)
	old, now := k.in(1, 2e9), k.in(2, 1e9) // the clock of the later one is behind
	if err := errors.Join(k.keep(old, "old"), k.keep(now, "new")); err != nil {
		t.Fatal(err)
	}
	k.has("new")
	if err := k.keep(old, "late"); !errors.Is(err, log.ErrDeposed) {
		t.Errorf("the deposed member keeps a file: %v", err)
	}
	k.has("new")
	if err := old.Drop(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	k.has("new")
	if err := now.Drop(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	k.has("")
}

// A member that is deposed between looking and sending has its parts stored after those of the next one.
func TestAFileThatADeposedMemberWasKeepingIsNotTheFile(t *testing.T) {
	k := newKeeping(t)
	now := k.in(2, 1e9)
	if err := k.keep(k.in(1, 1e9), "first"); err != nil {
		t.Fatal(err)
	}
	old := k.in(1, 2e9)
	between := &during{Transport: old.Transport}
	between.put = func() {
		between.put = func() {}
		if err := k.keep(now, "new"); err != nil {
			t.Error(err)
		}
	}
	old.Transport = between
	path := filepath.Join(t.TempDir(), "late")
	if err := os.WriteFile(path, []byte("late"), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = old.Keep(t.Context(), "a", path) // it may not notice
	k.has("new")
	if err := k.keep(now, "newer"); err != nil {
		t.Fatal(err)
	}
	k.has("newer")
	if names, err := k.l.Join().List(t.Context(), "file/a/"); err != nil || len(names) != 1 {
		t.Errorf("what nobody needs is still there: %q, %v", names, err)
	}
}

// during calls put before a part is stored.
type during struct {
	log.Transport
	put func()
}

func (d *during) Put(ctx context.Context, name string, part []byte) error {
	d.put()
	return d.Transport.Put(ctx, name, part)
}

func TestAFileThatGrowsIsWhatThePiecesOfItsNewestEpochAre(t *testing.T) {
	k := newKeeping(t)
	old, now := k.in(1, 1), k.in(2, 1)
	extend := func(f *log.Files, offset int64, data string) {
		t.Helper()
		if err := f.Extend(t.Context(), "a", offset, []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	k.has("")
	extend(old, 0, "one ")
	extend(old, 4, "two ")
	extend(old, 12, "four")
	k.has("one two ") // the third piece is missing
	extend(now, 0, "one two three")
	extend(old, 8, "zwei")
	k.has("one two three")
	extend(now, 13, " four")
	k.has("one two three four")
	if err := old.Shed(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	k.has("one two three four")
	if err := k.keep(now, "whole"); err != nil {
		t.Fatal(err)
	}
	k.has("whole")
	if err := now.Shed(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	k.has("whole")
	if names, err := k.l.Join().List(t.Context(), "tail/"); err != nil || len(names) != 0 {
		t.Errorf("pieces were left: %q, %v", names, err)
	}
}

func TestALargePieceIsStoredInParts(t *testing.T) {
	k := newKeeping(t)
	f := k.in(1, 1)
	large := bytes.Repeat([]byte("0123456789"), log.MaxPart/4)
	if err := f.Extend(t.Context(), "a", 0, large); err != nil {
		t.Fatal(err)
	}
	if err := f.Extend(t.Context(), "a", int64(len(large)), []byte("end")); err != nil {
		t.Fatal(err)
	}
	k.has(string(large) + "end")
}

func TestAPieceThatWasModifiedIsNoticed(t *testing.T) {
	k := newKeeping(t)
	f := k.in(1, 1)
	if err := f.Extend(t.Context(), "a", 0, []byte("line")); err != nil {
		t.Fatal(err)
	}
	names, err := f.Transport.List(t.Context(), "tail/a/")
	if err != nil || len(names) != 1 {
		t.Fatalf("%q, %v", names, err)
	}
	if err := f.Transport.Put(t.Context(), names[0], []byte("lime")); err != nil {
		t.Fatal(err)
	}
	if err := f.Fetch(t.Context(), "a", k.path); !errors.Is(err, log.ErrEntry) {
		t.Errorf("%v", err)
	}
}
