package applying

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"

	"github.com/millipede-iac/millipede/internal/bounds"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/internal/reach"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/provisioner"
	"github.com/millipede-iac/millipede/wire"
)

// The files that a provisioner copies to another machine, or runs there, are named by their paths on the coordinator's
// machine, and the worker may be elsewhere. So they are sent with the task, which is sealed.

const (
	// attachMost is the maximum size of the files in a task, in bytes. Larger files are found only by a worker on
	// the same machine.
	attachMost = 256 << 20
	// attachDepth bounds the depth of directories, because links may form a cycle.
	attachDepth = 64
)

var errTooLarge = errors.New("too large to travel")

// attach adds the files of a provisioner. A file that does not exist here is left to the worker, where another
// resource may have created it.
func (a *Applier) attach(p *wire.Provisioner) diag.List {
	block := provisioner.Block(p.Type)
	config, err := coding.DecodeValue(p.Config, block.ImpliedType())
	if err != nil || config.IsNull() {
		return nil // the worker reports it
	}
	found := attachment{from: a.Files}
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
		return diag.Errors(p.Type+" provisioner error", fmt.Sprintf("The source of the copy cannot be read: %s.", err),
			nil)
	}
	return nil
}

// attachment collects files, following links.
type attachment struct {
	from  *reach.Files
	files []wire.File
	size  int64
}

func (a *attachment) add(name, below string, depth int) error {
	info, err := a.from.Stat(name)
	if err != nil {
		return err
	}
	if depth > attachDepth {
		return fmt.Errorf("%s is %d directories deep: does a link lead back to one of its own parents?", name, depth)
	}
	if info.IsDir() {
		a.files = append(a.files, wire.File{Path: below, Dir: true})
		entries, err := a.from.ReadDir(name)
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
	data, err := a.from.ReadFile(name, bounds.Content)
	a.files = append(a.files, wire.File{Path: below, Data: data})
	return err
}
