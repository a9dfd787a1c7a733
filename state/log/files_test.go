package log_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/state/log"
	"github.com/millipede-iac/millipede/state/log/mem"
)

func TestAFileIsFetchedAsItWasKeptLast(t *testing.T) {
	l := mem.New()
	f := &log.Files{Transport: l.Join(), Now: func() time.Time { return time.Unix(1e9, 0) }} // the clock stands still
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := f.Fetch(t.Context(), "states/one", to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that nobody kept: %v", err)
	}
	for _, content := range [][]byte{nil, []byte("small"), bytes.Repeat([]byte("x"), log.MaxPart),
		bytes.Repeat([]byte("y"), 5*log.MaxPart/2), []byte("at last")} {
		if err := os.WriteFile(from, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Keep(t.Context(), "states/one", from), f.Keep(t.Context(), "states/one/inner", from),
			f.Fetch(t.Context(), "states/one", to)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(to)
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d bytes of %d, %v", len(got), len(content), err)
		}
	}
	if names, err := l.Join().List(t.Context(), "file/states/one/"); err != nil || len(names) != 2 {
		t.Errorf("%q, %v", names, err)
	}
	names, err := f.Names(t.Context())
	if slices.Sort(names); err != nil || !slices.Equal(names, []string{"states/one", "states/one/inner"}) {
		t.Errorf("the files are %q, %v", names, err)
	}
	if err := f.Drop(t.Context(), "states/one"); err != nil {
		t.Fatal(err)
	}
	if err := f.Fetch(t.Context(), "states/one", to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that was dropped: %v", err)
	}
	if err := f.Fetch(t.Context(), "states/one/inner", to); err != nil {
		t.Errorf("another file: %v", err)
	}
}

// A crash between the parts of a file left a file that was half of the new and half of the old one.
func TestAFileThatWasNotKeptWholeIsTheEarlierOne(t *testing.T) {
	l := mem.New()
	m := l.Join()
	now := time.Unix(1e9, 0)
	f := &log.Files{Transport: m, Now: func() time.Time { return now }}
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("earlier"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Keep(t.Context(), "a", path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Repeat([]byte("z"), 3*log.MaxPart), 0o600); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Second)
	crashing := &log.Files{Transport: &fails{Transport: m, after: 2}, Now: f.Now}
	if err := crashing.Keep(t.Context(), "a", path); err == nil {
		t.Fatal("the third part was stored")
	}
	if err := f.Fetch(t.Context(), "a", path); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "earlier" {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// fails stores so many parts, and no more.
type fails struct {
	log.Transport
	after int
}

func (f *fails) Put(ctx context.Context, name string, part []byte) error {
	if f.after--; f.after < 0 {
		return log.ErrUnanswered
	}
	return f.Transport.Put(ctx, name, part)
}
