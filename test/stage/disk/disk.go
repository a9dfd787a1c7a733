// Package disk simulates the content of a disk after a power failure: the files of a process as it has synced them.
//
// The process runs under ptrace, so it needs no preparation and links nothing. Each time one of its threads is about to
// sync a file, the package records the file's content of that moment; when the call has succeeded, the simulated disk
// has this content. Data that was written and never synced is lost. Names behave as in file systems that journal
// metadata: making, renaming and removing files take effect in order, and the name of a new file exists after its first
// sync. So tests find writes that were acknowledged without a sync, and files that were renamed before their content
// was synced. They do not find a missing sync of a directory, partly written sectors, or disks that report a sync too
// early. Writes to mapped memory are not seen; Millipede has none.
//
// A Volume is a small disk that can be full for a while.
package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ErrUnsupported says that this system or its settings do not let a process trace another one, or mount a disk.
var ErrUnsupported = errors.New("this cannot be done here")

// Cut says when the power is cut: when the Nth sync is about to begin, or, if After is set, when it is done and its
// caller does not know yet. 0 means never.
type Cut struct {
	Sync  int
	After bool
}

// Outcome is the result of a process.
type Outcome struct {
	// Syncs counts the syncs that began; WasCut says that the power failed. Otherwise the process has ended with Code.
	Syncs  int
	WasCut bool
	Code   int
	// Image is the content of the disk by path, relative to the watched directory.
	Image map[string][]byte
}

// Restore gives a directory exactly the content of the image.
func (o Outcome) Restore(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	for name, content := range o.Image {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// read is the content of all files in a directory, which are taken to be on the disk.
func read(dir string) (map[string][]byte, error) {
	image := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		image[within(dir, path)] = content
		return err
	})
	return image, err
}

// within returns the path relative to the directory; empty if it is not inside.
func within(dir, path string) string {
	rest, in := strings.CutPrefix(path, dir+"/")
	if !in {
		return ""
	}
	return rest
}
