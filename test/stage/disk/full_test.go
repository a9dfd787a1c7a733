package disk

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestAVolumeIsFullUntilItIsFreed(t *testing.T) {
	dir := t.TempDir()
	v, err := Mount(dir, 1<<20)
	if errors.Is(err, ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	name := filepath.Join(dir, "x")
	if err := v.Fill(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, make([]byte, 8<<10), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("writing to a full disk: %v", err)
	}
	if err := v.Free(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, make([]byte, 8<<10), 0o600); err != nil {
		t.Error(err)
	}
}
