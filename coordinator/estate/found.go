package estate

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/millipede-iac/millipede/coordinator/querying"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/internal/pattern"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
)

// FoundFiles writes the configuration that imports the objects of a query: to one file, or to a file for each region
// and type in a directory. The files appear when Close is called without errors before. Safe for concurrent use.
type FoundFiles struct {
	estate *Estate
	name   string // as the user has given it
	dir    bool
	most   int // how many files may be written

	mu    sync.Mutex // guards the rest
	taken map[addr.Resource]bool
	next  map[string]int    // the next number, by the beginning of the names
	added map[[16]byte]bool // hashes of the objects: several lists may find one
	files map[string]*foundFile
	open  *foundFile // the one that was written last; nil before the first
	err   error
}

// mostFound is how many files a query writes: providers name the regions.
const mostFound = 5000

// foundFile is a file that is being written, under another name.
type foundFile struct {
	name, partial string
	file          *os.File // while it is open
	buffer        *bufio.Writer
}

// FoundFiles prepares to write configuration to a new file, or to new files in a directory if the name is that of a
// directory or ends in a slash. The new resources get names that the configuration does not use.
func (e *Estate) FoundFiles(name string) (*FoundFiles, diag.List) {
	f := &FoundFiles{estate: e, name: name, most: mostFound, taken: map[addr.Resource]bool{}, next: map[string]int{},
		files: map[string]*foundFile{}, added: map[[16]byte]bool{}}
	info, err := os.Stat(e.path(name))
	f.dir = err == nil && info.IsDir() || strings.HasSuffix(name, "/") ||
		strings.HasSuffix(name, string(filepath.Separator))
	if !f.dir {
		return f, e.CanGenerate(name, plan.Normal)
	}
	if err := os.MkdirAll(e.path(name), 0o777); err != nil {
		return f, diag.Errors("Failed to create the directory of generated files", err.Error()+".", nil)
	}
	return f, nil
}

// Avoid keeps the names of the resources of a module out of the generated blocks.
func (f *FoundFiles) Avoid(m *config.Module) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for r := range m.Resources {
		f.taken[r] = true
	}
}

// Add writes the blocks for an object, and returns them; they are empty for an object that another list has found
// before. Errors are those of Close.
func (f *FoundFiles) Add(l *querying.List, o *querying.Object) (resource, imports string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sum := sha256.Sum256([]byte(l.Provider.Provider.String() + " " + l.Type + " " + l.Key(o)))
	if f.added[[16]byte(sum[:16])] {
		return "", ""
	}
	f.added[[16]byte(sum[:16])] = true
	resource, imports = l.Blocks(o, f.freeName(l))
	if f.err == nil {
		f.err = f.write(f.fileOf(l, o), resource, imports)
	}
	return resource, imports
}

var notInNames = pattern.Lazy(`[^0-9A-Za-z_-]+`)

// freeName returns a name for a new resource: that of the list block with its key, and a number.
func (f *FoundFiles) freeName(l *querying.List) addr.Resource {
	stem := l.Addr.Resource.Name
	if key := strings.Trim(l.Addr.Key.String(), `[]"`); key != "" {
		stem += "_" + notInNames().ReplaceAllString(key, "_")
	}
	for {
		r := addr.Resource{Mode: addr.Managed, Type: l.Type, Name: fmt.Sprintf("%s_%d", stem, f.next[l.Type+"."+stem])}
		f.next[l.Type+"."+stem]++
		if !f.taken[r] {
			f.taken[r] = true
			return r
		}
	}
}

// fileOf returns the name of the file for an object.
func (f *FoundFiles) fileOf(l *querying.List, o *querying.Object) string {
	if !f.dir {
		return f.name
	}
	region := l.Region(o)
	if region == "" {
		region = "global"
	}
	return filepath.Join(f.name, notInNames().ReplaceAllString(region, "_")+"_"+l.Type+".tf")
}

func (f *FoundFiles) write(name, resource, imports string) error {
	to, err := f.turnTo(name)
	if err == nil {
		_, err = fmt.Fprintf(to.buffer, "\n%s\n%s\n\n%s\n", generatedMark, imports, resource)
	}
	return err
}

// turnTo opens a file for writing at its end, and closes the one that was open: at most one is.
func (f *FoundFiles) turnTo(name string) (*foundFile, error) {
	to := f.files[name]
	if to != nil && to == f.open {
		return to, nil
	}
	if err := f.closeOpen(); err != nil {
		return nil, err
	}
	how := os.O_APPEND | os.O_WRONLY
	if to == nil {
		if len(f.files) == f.most {
			return nil, fmt.Errorf("the objects are in more regions, and of more types, than there may be files in %s: %d. "+
				"Write them to one file (-generate-config-out=FILE), or list fewer regions at a time", f.name, f.most)
		}
		if _, err := os.Stat(f.estate.path(name)); !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the file %s already exists, and generated configuration is written only to new files",
				name)
		}
		to = &foundFile{name: name, partial: f.estate.path(filepath.Join(filepath.Dir(name),
			"."+filepath.Base(name)+".partial"))}
		how = os.O_CREATE | os.O_TRUNC | os.O_WRONLY
	}
	var err error
	if to.file, err = os.OpenFile(to.partial, how, 0o666); err != nil {
		return nil, err
	}
	to.buffer, f.open = bufio.NewWriter(to.file), to
	if f.files[name] == nil {
		f.files[name] = to
		fmt.Fprint(to.buffer, generatedHead) // a failure is reported by Flush
	}
	return to, nil
}

// closeOpen closes the file that is open, if any.
func (f *FoundFiles) closeOpen() error {
	if f.open == nil {
		return nil
	}
	to := f.open
	f.open = nil
	err := errors.Join(to.buffer.Flush(), to.file.Close())
	to.file, to.buffer = nil, nil
	return err
}

// Close closes the files. With keep they get their names, and the names are returned, sorted; otherwise they are
// removed.
func (f *FoundFiles) Close(keep bool) ([]string, diag.List) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := errors.Join(f.err, f.closeOpen())
	names := slices.Sorted(maps.Keys(f.files))
	for _, name := range names {
		partial := f.files[name].partial
		if keep && err == nil {
			err = os.Rename(partial, f.estate.path(name))
			continue
		}
		if more := os.Remove(partial); err == nil {
			err = more
		}
	}
	if err != nil {
		return nil, diag.Errors("Failed to write generated configuration", err.Error()+".", nil)
	}
	if !keep {
		names = nil
	}
	return names, nil
}
