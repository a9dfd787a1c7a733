package store_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/state/log"
	"github.com/millipede-iac/millipede/state/log/mem"
	"github.com/millipede-iac/millipede/state/seal"
)

// inLog is a depot beside a log.
type inLog struct{ files *log.Files }

func (d inLog) Keep(name, path string) error  { return d.files.Keep(context.Background(), name, path) }
func (d inLog) Fetch(name, path string) error { return d.files.Fetch(context.Background(), name, path) }
func (d inLog) Drop(name string) error        { return d.files.Drop(context.Background(), name) }
func (d inLog) Extend(name string, offset int64, data []byte) error {
	return d.files.Extend(context.Background(), name, offset, data)
}
func (d inLog) Names() ([]string, error) { return d.files.Names(context.Background()) }

func TestFilesThatTheDirectoryHasLostComeFromTheDepot(t *testing.T) {
	s := open(t)
	s.KeepIn(inLog{&log.Files{Transport: mem.New().Join(), Now: time.Now}})
	text := strings.Repeat("text ", 100_000)
	if _, err := s.Write("states/one", strings.NewReader(text), 1<<20); err != nil {
		t.Fatal(err)
	}
	l, err := s.OpenLog("logs/one")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Write([]byte("a line\n")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.End(), l.Close()); err != nil {
		t.Fatal(err)
	}
	lose := func() {
		t.Helper()
		if err := errors.Join(os.RemoveAll(filepath.Join(s.Dir(), "states")),
			os.RemoveAll(filepath.Join(s.Dir(), "logs"))); err != nil {
			t.Fatal(err)
		}
	}
	lose()
	if got, err := s.ReadAll("states/one"); err != nil || string(got) != text {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	lose()
	if got, err := s.ReadPart("states/one", 5, 4); err != nil || string(got) != "text" {
		t.Errorf("%q, %v", got, err)
	}
	if r, err := s.ReadLog("logs/one"); err != nil || r.Size() != 7 {
		t.Errorf("%v", err)
	} else if err := r.Close(); err != nil {
		t.Error(err)
	}
	lose()
	if text := backedUp(t, s); !strings.Contains(text, "states/one") || !strings.Contains(text, "logs/one") {
		t.Errorf("a backup has only %s", text)
	}
	if err := s.Remove("states/one"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ReadAll("states/one"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a file that was removed: %v", err)
	}
}

// What a machine had written to the log of a phase in progress was lost with it.
func TestALogThatIsWrittenIsInTheDepotBeforeItsEnd(t *testing.T) {
	l := mem.New()
	key, err := seal.NewKey(seal.NewSecret())
	if err != nil {
		t.Fatal(err)
	}
	first, m := openWith(t, key), l.Join()
	first.KeepIn(inLog{&log.Files{Transport: m, Now: time.Now, Epoch: 1}})
	var logs []*store.Log
	for _, name := range []string{"logs/one", "logs/two"} {
		one, err := first.OpenLog(name)
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, one)
	}
	text := func(s *store.Store, name string) string {
		t.Helper()
		r, err := s.ReadLog(name)
		if errors.Is(err, store.ErrNotFound) {
			return ""
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := r.ReadAt(t.Context(), 0, 1<<20)
		if err := errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	reads := func(epoch uint64, name, want string) {
		t.Helper()
		got := ""
		for range 100 {
			other := openWith(t, key) // of another machine
			other.KeepIn(inLog{&log.Files{Transport: l.Join(), Now: time.Now, Epoch: epoch}})
			if got = text(other, name); got == want {
				return
			}
			<-time.After(50 * time.Millisecond)
		}
		t.Errorf("%s is %q, and not %q", name, got, want)
	}
	write := func(one *store.Log, line string) {
		t.Helper()
		if _, err := one.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	m.Cut() // what cannot be kept is tried again, of all logs
	write(logs[0], "a\n")
	write(logs[1], "b\n")
	<-time.After(300 * time.Millisecond)
	m.Heal()
	reads(2, "logs/one", "a\n")
	reads(2, "logs/two", "b\n")
	write(logs[0], "c\n")
	reads(2, "logs/one", "a\nc\n")

	second := openWith(t, key)
	second.KeepIn(inLog{&log.Files{Transport: l.Join(), Now: time.Now, Epoch: 2}})
	went, err := second.OpenLog("logs/one")
	if err != nil {
		t.Fatal(err)
	}
	write(went, "d\n")
	write(logs[0], "of a member that does not lead any more\n")
	reads(3, "logs/one", "a\nc\nd\n")
	if err := went.End(); err != nil {
		t.Fatal(err)
	}
	reads(3, "logs/one", "a\nc\nd\n")
	if err := logs[0].End(); !errors.Is(err, log.ErrDeposed) {
		t.Errorf("the end of a log that another member has ended: %v", err)
	}
	reads(3, "logs/one", "a\nc\nd\n")
}

// backedUp returns the names in a backup.
func backedUp(t *testing.T, s *store.Store) (names string) {
	t.Helper()
	var out bytes.Buffer
	if err := s.Backup(t.Context(), &out, "1", time.Now(), noHomes{}); err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(&out); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names += h.Name + " "
	}
}

// noHomes are the homes of a service without workspaces.
type noHomes struct{}

func (noHomes) Freeze(_ context.Context, _ string, cut func() error, _ func(name, file string) error) error {
	return cut()
}

func (noHomes) Remove(string) (bool, error) { return true, nil }
