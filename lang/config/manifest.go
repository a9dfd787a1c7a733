package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	goversion "github.com/hashicorp/go-version"
	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

// Manifest records where the modules of a tree are installed: the content of .terraform/modules/modules.json,
// which OpenTofu reads and writes too.
type Manifest map[addr.Module]Installed

// Installed is one installed module.
type Installed struct {
	// Source is the normalized source address, without its secrets; empty for the root.
	Source string
	// Version is the version of a registry module, else empty.
	Version string
	// Dir is the directory of the module, relative to the working directory.
	Dir string
}

// manifestFile is the form of the file. Its field names are part of the format.
type manifestFile struct {
	Modules []manifestEntry `json:"Modules"`
}

type manifestEntry struct {
	Key     string `json:"Key"`
	Source  string `json:"Source"`
	Version string `json:"Version,omitempty"`
	Dir     string `json:"Dir"`
}

// ErrNotInstalled is the Extra of a diagnostic about a module that is not installed as the configuration calls it.
var ErrNotInstalled = errors.New("module not installed")

// notInstalled returns the diagnostic about such a module. init installs it.
func notInstalled(summary, detail string, at *hcl.Range) *diag.Diagnostic {
	d := diag.New(diag.Error, summary, detail+` Run "init" to install the modules that the configuration calls.`, at)
	d.Extra = ErrNotInstalled
	return d
}

// ManifestPath returns the path of the manifest in the data directory (.terraform, or TF_DATA_DIR).
func ManifestPath(dataDir string) string { return filepath.Join(dataDir, "modules", "modules.json") }

// ReadManifest reads the manifest in the data directory. If there is none, nothing is installed.
func ReadManifest(fsys FS, dataDir string) (Manifest, diag.List) {
	name := ManifestPath(dataDir)
	text, err := fsys.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, nil
	}
	var m Manifest
	if err == nil {
		m, err = ParseManifest(text)
	}
	if err != nil {
		return nil, diag.Errors("Failed to read modules manifest file",
			fmt.Sprintf("The list of installed modules cannot be read from %s: %s. Delete the file and run init again.",
				name, err), nil)
	}
	return m, nil
}

// ParseManifest parses the content of the file.
func ParseManifest(text []byte) (Manifest, error) {
	m := Manifest{}
	if len(text) == 0 {
		return m, nil
	}
	var file manifestFile
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	for _, e := range file.Modules {
		if _, dup := m[addr.Module(e.Key)]; dup {
			return nil, fmt.Errorf("the module %q is there twice", e.Key)
		}
		if e.Version != "" {
			if _, err := goversion.NewVersion(e.Version); err != nil {
				return nil, fmt.Errorf("the version of module %q: %w", e.Key, err)
			}
		}
		if source, err := ParseModuleSource(e.Source, false); err == nil {
			e.Source = Shown(source.Text)
		}
		m[addr.Module(e.Key)] = Installed{e.Source, e.Version, filepath.FromSlash(e.Dir)}
	}
	return m, nil
}

// Encode returns the content of the file.
func (m Manifest) Encode() []byte {
	file := manifestFile{Modules: []manifestEntry{}}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		e := m[key]
		file.Modules = append(file.Modules, manifestEntry{string(key), e.Source, e.Version, filepath.ToSlash(e.Dir)})
	}
	text, err := json.Marshal(file)
	if err != nil {
		panic(err) // only strings: cannot fail
	}
	return text
}

// Locate implements Locator: it finds installed modules, and returns an error for those that do not match the
// request.
func (m Manifest) Locate(r ModuleRequest) (Installed, diag.List) {
	at := r.Call.Range
	e, ok := m[r.Path]
	if !ok {
		return Installed{}, diag.List{notInstalled("Module not installed", "This module has not been installed.", &at)}
	}
	source := at
	if r.Call.SourceExpr != nil {
		source = r.Call.SourceRange
	}
	var diags diag.List
	if r.Source.Kind != 0 && Shown(r.Source.Text) != e.Source {
		diags = append(diags, notInstalled("Module source has changed", fmt.Sprintf("The module was installed from %q, "+
			"and its source is %q now.", e.Source, Shown(r.Source.Text)), &source))
	}
	if !r.Accepts(e.Version) {
		diags = append(diags, notInstalled("Module version requirements have changed", fmt.Sprintf("The installed "+
			"version is %q, which %q does not allow.", e.Version, r.Call.Version), &source))
	}
	return e, diags
}
