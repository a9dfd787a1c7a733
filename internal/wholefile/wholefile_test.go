package wholefile_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/millipede-iac/millipede/internal/wholefile"
)

var errHalf = errors.New("half of it")

func TestAFileIsReplacedWholeOrNotAtAll(t *testing.T) {
	for name, write := range map[string]func(string, os.FileMode, func(io.Writer) error) error{
		"Write": wholefile.Write, "Durable": wholefile.Durable, "Syncer": new(wholefile.Syncer).Durable,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "f")
			holds := func(want string, mode os.FileMode) {
				t.Helper()
				got, err := os.ReadFile(path)
				if err != nil || string(got) != want {
					t.Errorf("the file holds %q (%v), want %q", got, err, want)
				}
				info, err := os.Stat(path)
				if err != nil {
					t.Fatal(err)
				}
				if runtime.GOOS != "windows" && info.Mode().Perm() != mode {
					t.Errorf("its mode is %v, want %v", info.Mode().Perm(), mode)
				}
				if entries, _ := os.ReadDir(dir); len(entries) != 1 {
					t.Errorf("the directory has %v", entries)
				}
			}
			if err := write(path, wholefile.Public, wholefile.Bytes([]byte("first"))); err != nil {
				t.Fatal(err)
			}
			holds("first", wholefile.Public)
			err := write(path, wholefile.Private, func(w io.Writer) error {
				_, err := io.WriteString(w, "sec")
				holdsStill, _ := os.ReadFile(path)
				if string(holdsStill) != "first" {
					t.Errorf("while it is written, the file holds %q", holdsStill)
				}
				return errors.Join(err, errHalf)
			})
			if !errors.Is(err, errHalf) {
				t.Errorf("the error is %v", err)
			}
			holds("first", wholefile.Public)
			if err := write(path, wholefile.Private, wholefile.Bytes([]byte("third"))); err != nil {
				t.Fatal(err)
			}
			holds("third", wholefile.Private)
			if err := write(filepath.Join(dir, "none", "f"), wholefile.Private, wholefile.Bytes(nil)); err == nil {
				t.Error("a directory was made")
			}
		})
	}
}

func TestFilesOfADirectoryAreWrittenAtTheSameTime(t *testing.T) {
	dir := t.TempDir()
	var files wholefile.Syncer
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			path := filepath.Join(dir, strconv.Itoa(i%16))
			if err := files.Durable(path, wholefile.Private, wholefile.Bytes([]byte("text"))); err != nil {
				t.Error(err)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != "text" {
				t.Errorf("the file holds %q (%v)", got, err)
			}
		})
	}
	group.Wait()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 16 {
		t.Errorf("the directory has %v (%v)", entries, err)
	}
	gone := filepath.Join(dir, "none", "f")
	if err := files.Durable(gone, wholefile.Private, wholefile.Bytes(nil)); err == nil {
		t.Error("a file was made durable in a directory that does not exist")
	}
}
