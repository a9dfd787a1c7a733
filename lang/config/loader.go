package config

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/internal/bounds"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/internal/reach"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/syntax"
)

// FS is the file system with the configuration. Names are as diagnostics show them: relative to the working
// directory (possibly with ..) or absolute, with the separators of the system.
type FS interface {
	// ReadFile returns the content of a file.
	ReadFile(name string) ([]byte, error)
	// ReadDir returns the entries of a directory, sorted by name.
	ReadDir(name string) ([]fs.DirEntry, error)
}

// OS is the file system of the machine.
type OS struct {
	// Base is the directory to which relative names refer; empty for the process's working directory.
	Base string
	// Files are the files that may be read; nil is all of them. With Files, Base is not empty.
	Files *reach.Files
}

// ReadFile implements FS.
func (o OS) ReadFile(name string) ([]byte, error) {
	text, err := o.Files.ReadFile(o.path(name), bounds.Text)
	return text, environ.Named(err, name)
}

// ReadDir implements FS.
func (o OS) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := o.Files.ReadDir(o.path(name))
	return entries, environ.Named(err, name)
}

func (o OS) path(name string) string {
	if o.Base == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(o.Base, name)
}

// Loader parses configuration files, and keeps their text so that diagnostics can show it. It is safe for
// concurrent use.
type Loader struct {
	fs FS

	mu    sync.Mutex // guards files
	files map[string]*hcl.File
}

// NewLoader returns a loader that reads from fsys.
func NewLoader(fsys FS) *Loader {
	return &Loader{fs: fsys, files: map[string]*hcl.File{}}
}

// Sources returns the files parsed so far, by the names that source ranges have. The map is the caller's.
func (l *Loader) Sources() map[string]*hcl.File {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[string]*hcl.File, len(l.files))
	for name, f := range l.files {
		out[name] = f
	}
	return out
}

// AddSource lets diagnostics show text that was not read from a file, such as the value of an option.
func (l *Loader) AddSource(name string, text []byte) {
	l.keep(name, &hcl.File{Body: hcl.EmptyBody(), Bytes: text})
}

func (l *Loader) keep(name string, f *hcl.File) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.files[name] = f
}

// HasConfig reports whether the directory contains configuration files.
func (l *Loader) HasConfig(dir string) bool {
	files, diags := l.list(dir)
	return !diags.HasErrors() && len(files.primary)+len(files.override) > 0
}

// LoadModule parses the files of one directory into a module. Expressions that depend on its callers (the sources of
// the modules that it calls) are not evaluated. The module is nil only if the directory cannot be read.
func (l *Loader) LoadModule(dir string) (*Module, diag.List) { return l.loadModule(dir, false) }

// loadModule is LoadModule, with the query files of the directory if queries is set.
func (l *Loader) loadModule(dir string, queries bool) (*Module, diag.List) {
	names, diags := l.list(dir)
	if diags.HasErrors() {
		return nil, diags
	}
	parsed := l.parseAll(append(names.primary[:len(names.primary):len(names.primary)], names.override...))
	var primary, override []*file
	for i, p := range parsed {
		diags = append(diags, p.diags...)
		f, more := decodeFile(p.body, i >= len(names.primary))
		diags = append(diags, more...)
		if i < len(names.primary) {
			primary = append(primary, f)
		} else {
			override = append(override, f)
		}
	}
	m, more := l.assembleWith(dir, primary, override, queries)
	m.Files = append(append(names.primary, names.override...), m.Files...)
	m.problems = onlyIncompatible(append(slices.Clip(diags), more...))
	m.storageProblems = m.problems
	if more.HasErrors() {
		_, more = assemble(dir, storageOnly(primary), storageOnly(override))
		m.storageProblems = onlyIncompatible(append(slices.Clip(diags), more...))
	}
	return m, m.problems
}

// storageOnly removes from files everything that neither configures where the state is stored nor can be referred
// to by that configuration.
func storageOnly(files []*file) []*file {
	out := make([]*file, len(files))
	for i, f := range files {
		out[i] = &file{engine: f.engine, backends: f.backends, clouds: f.clouds, encryption: f.encryption,
			variables: f.variables, locals: f.locals}
	}
	return out
}

// ParseFile parses one file of the configuration syntax, such as millipede.hcl or a -backend-config file; JSON
// when its name says so. The body is empty, never nil, when the file cannot be parsed.
func (l *Loader) ParseFile(name string) (hcl.Body, diag.List) {
	p := l.parse(name)
	return p.body, p.diags
}

// parsed is the syntax tree of one file.
type parsed struct {
	body  hcl.Body
	diags diag.List
}

// parseAll parses files in parallel, and returns them in the order of the names.
func (l *Loader) parseAll(names []string) []parsed {
	out := make([]parsed, len(names))
	if len(names) == 1 {
		out[0] = l.parse(names[0])
		return out
	}
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, name := range names {
		group.Go(func() error {
			out[i] = l.parse(name)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		panic(err) // parse returns no errors, only diagnostics
	}
	return out
}

func (l *Loader) parse(name string) parsed {
	text, err := l.fs.ReadFile(name)
	if err != nil {
		return parsed{hcl.EmptyBody(), diag.Errors("Failed to read file",
			fmt.Sprintf("The file %q cannot be read: %s.", name, err), nil)}
	}
	f, hclDiags := parseSyntax(name, text, strings.HasSuffix(name, ".json"))
	if f == nil || f.Body == nil {
		f = &hcl.File{Body: hcl.EmptyBody(), Bytes: text}
	}
	l.keep(name, f)
	return parsed{f.Body, diag.List(nil).Append(hclDiags)}
}

func parseSyntax(name string, text []byte, isJSON bool) (*hcl.File, hcl.Diagnostics) {
	if isJSON {
		return syntax.ParseJSON(text, name)
	}
	return syntax.ParseConfig(text, name, hcl.InitialPos)
}

// dirFiles are the configuration files of a directory.
type dirFiles struct{ primary, override []string }

// list finds the configuration files of a directory. Hidden files, editors' backup files, and .tf files that have a
// .tofu file of the same name are left out.
func (l *Loader) list(dir string) (dirFiles, diag.List) {
	entries, err := l.fs.ReadDir(dir)
	if err != nil {
		return dirFiles{}, diag.Errors("Failed to read module directory",
			fmt.Sprintf("The module directory %s does not exist, or cannot be read.", dir), nil)
	}
	present := make(map[string]bool, len(entries))
	for _, e := range entries {
		present[e.Name()] = !e.IsDir()
	}
	var out dirFiles
	for _, e := range entries {
		name := e.Name()
		stem, rival := fileStem(name)
		if e.IsDir() || stem == "" || ignoredFile(name) || present[rival] && !ignoredFile(rival) {
			continue
		}
		path := filepath.Join(dir, name)
		if stem == "override" || strings.HasSuffix(stem, "_override") {
			out.override = append(out.override, path)
		} else {
			out.primary = append(out.primary, path)
		}
	}
	return out, nil
}

// fileStem returns the name of a configuration file without its extension ("" for other files), and for a .tf
// file the name of the .tofu file that would take its place.
func fileStem(name string) (stem, rival string) {
	for _, json := range []string{"", ".json"} {
		if stem, ok := strings.CutSuffix(name, ".tf"+json); ok {
			return stem, stem + ".tofu" + json
		}
		if stem, ok := strings.CutSuffix(name, ".tofu"+json); ok {
			return stem, ""
		}
	}
	return "", ""
}

func isTofuFile(name string) bool {
	return strings.HasSuffix(name, ".tofu") || strings.HasSuffix(name, ".tofu.json")
}

// ignoredFile reports whether a file is hidden or left behind by an editor.
func ignoredFile(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") ||
		strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#")
}
