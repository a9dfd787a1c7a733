package applying

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/millipede-iac/millipede/bounds"
	"github.com/millipede-iac/millipede/coding"
	"github.com/millipede-iac/millipede/environ"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/provisioner"
	"github.com/millipede-iac/millipede/wire"
)

// What a provisioner copies to another machine, or runs there, is named by its path on the user's machine, which is
// that of the coordinator; the worker may be elsewhere. So it travels with the task, sealed as all of that is.

const (
	// attachMost is how many bytes a provisioner takes along. Beyond that only a worker on the same machine finds them.
	attachMost = 256 << 20
	// attachDepth bounds directories, because a link may lead into a circle.
	attachDepth = 64
)

var errTooLarge = errors.New("too large to travel")

// attach adds the files that a provisioner names. What does not exist here is left to the worker: another resource may
// have made it there.
func (a *Applier) attach(p *wire.Provisioner) diag.List {
	block := provisioner.Block(p.Type)
	config, err := coding.DecodeValue(p.Config, block.ImpliedType())
	if err != nil || config.IsNull() {
		return nil // the worker says so
	}
	var found attachment
	for _, name := range provisioner.Files(p.Type, config, a.Env) {
		if err = found.add(environ.Path(a.Dir, name), "", 0); err != nil {
			break
		}
	}
	switch {
	case err == nil:
		p.Files = found.files
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errTooLarge):
	default:
		return diag.Errors(p.Type+" provisioner error", fmt.Sprintf("What is to be copied cannot be read: %s.", err),
			nil)
	}
	return nil
}

// attachment collects files, following links.
type attachment struct {
	files []wire.File
	size  int64
}

func (a *attachment) add(name, below string, depth int) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if depth > attachDepth {
		return fmt.Errorf("%s lies %d directories deep: does a link lead back to where it is?", name, depth)
	}
	if info.IsDir() {
		a.files = append(a.files, wire.File{Path: below, Dir: true})
		entries, err := os.ReadDir(name)
		for _, e := range entries {
			if err := a.add(filepath.Join(name, e.Name()), path.Join(below, e.Name()), depth+1); err != nil {
				return err
			}
		}
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is neither a file nor a directory", name)
	}
	if a.size += info.Size(); a.size > attachMost {
		return errTooLarge
	}
	data, err := bounds.ReadFile(name, bounds.Content)
	a.files = append(a.files, wire.File{Path: below, Data: data})
	return err
}
