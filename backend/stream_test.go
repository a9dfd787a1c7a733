package backend_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/millipede-iac/millipede/backend"
)

// The backup was read as a whole before it was written, because the backend of a configuration without encryption is
// wrapped as well: with a state of 280 MB, a destroy needed 750 MB.
func TestALargeSnapshotIsReplacedWithoutBeingInMemory(t *testing.T) {
	const size = 32 << 20
	dir := t.TempDir()
	before := bytes.Repeat([]byte(" "), size)
	if err := os.WriteFile(filepath.Join(dir, backend.DefaultPath), before, 0o600); err != nil {
		t.Fatal(err)
	}
	b := backend.Encrypted(backend.NewLocal(backend.LocalOptions{Dir: dir}), nil)
	local := backend.Plain(b).(backend.Streaming)
	var was, is runtime.MemStats
	runtime.ReadMemStats(&was)
	err := local.WriteFrom(t.Context(), ws, func(w io.Writer) error {
		_, err := w.Write([]byte("{}"))
		return err
	})
	runtime.ReadMemStats(&is)
	if err != nil {
		t.Fatal(err)
	}
	if n := is.TotalAlloc - was.TotalAlloc; n > size/8 {
		t.Errorf("%d bytes were allocated to replace a snapshot of %d", n, size)
	}
	if backup, err := os.ReadFile(filepath.Join(dir, backend.DefaultPath+".backup")); err != nil ||
		!bytes.Equal(backup, before) {
		t.Errorf("the backup has %d bytes, %v", len(backup), err)
	}
}
