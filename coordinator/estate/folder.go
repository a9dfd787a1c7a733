package estate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/millipede-iac/millipede/coordinator/layout"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/internal/bounds"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/internal/wholefile"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
)

// folder is the directory of an estate, with the files that say where everything else is.
type folder struct{ Options }

// base is the directory to which names refer; empty is the working directory of the process.
func (e *folder) base() string {
	if e.Here {
		return ""
	}
	return e.Dir
}

// path returns the path of a file of the estate.
func (e *folder) path(name string) string {
	if e.Here || name == "" {
		return name
	}
	return environ.Path(e.Dir, name)
}

// read reads a file of the estate. Errors contain its name as the user wrote it.
func (e *folder) read(name string, limit int64) ([]byte, error) {
	text, err := bounds.ReadFile(e.path(name), limit)
	return text, environ.Named(err, name)
}

// dataName returns the data directory as users know it.
func (e *folder) dataName() string {
	if d := e.Environ.Get("TF_DATA_DIR"); d != "" {
		return d
	}
	return ".terraform"
}

// dataDir returns the directory of installed modules and providers.
func (e *folder) dataDir() string { return e.path(e.dataName()) }

// Directory returns Millipede's own files in this directory.
func (e *folder) Directory() layout.Directory {
	if e.Home != nil {
		return *e.Home
	}
	return layout.At(e.base(), e.Environ.Get("TF_DATA_DIR"))
}

// Workspace returns the selected workspace.
func (e *folder) Workspace() string {
	if w := e.Environ.Get("TF_WORKSPACE"); w != "" {
		return w
	}
	text, err := bounds.ReadFile(filepath.Join(e.dataDir(), "environment"), bounds.Text)
	if w := strings.TrimSpace(string(text)); err == nil && w != "" {
		return w
	}
	return journal.DefaultWorkspace
}

// SelectWorkspace records the selected workspace.
func (e *folder) SelectWorkspace(name string) error {
	if err := os.MkdirAll(e.dataDir(), 0o755); err != nil {
		return err
	}
	return wholefile.Write(filepath.Join(e.dataDir(), "environment"), wholefile.Public, wholefile.Bytes([]byte(name)))
}

// Rules reads millipede.hcl, if there is one. If a loader is given, it gets the text for diagnostics.
func (e *folder) Rules(loader *config.Loader) (*placement.Rules, diag.List) {
	text, err := e.read(placement.FileName, bounds.Text)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, diag.Errors("Failed to read "+placement.FileName, err.Error()+".", nil)
	}
	if loader != nil {
		loader.AddSource(placement.FileName, text)
	}
	return placement.Parse(text, placement.FileName)
}
