package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/state/log"
	"github.com/millipede-iac/millipede/state/log/mem"
)

// inLog is a depot beside a log.
type inLog struct{ files *log.Files }

func (d inLog) Keep(name, path string) error  { return d.files.Keep(context.Background(), name, path) }
func (d inLog) Fetch(name, path string) error { return d.files.Fetch(context.Background(), name, path) }
func (d inLog) Drop(name string) error        { return d.files.Drop(context.Background(), name) }

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
	if err := s.Remove("states/one"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ReadAll("states/one"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a file that was removed: %v", err)
	}
}
