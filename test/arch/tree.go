package arch

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// file is what the rules look at in a Go file.
type file struct {
	path      string // from the root of the module, with slashes
	folder    string // the package's path in the module; "." is its root
	name      string // of the package
	comment   string // on the package
	imports   []string
	lines     int
	test      bool
	generated bool
}

// read returns all Go files of the module whose root is given, for every platform, in order of their paths. Nested
// modules, hidden folders and testdata are not part of it.
func read(root fs.FS) ([]file, error) {
	var files []file
	err := fs.WalkDir(root, ".", func(p string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !entry.IsDir():
			if path.Ext(p) != ".go" {
				return nil
			}
			f, err := readFile(root, p)
			files = append(files, f)
			return err
		case p == ".":
			return nil
		case strings.HasPrefix(entry.Name(), ".") || strings.HasPrefix(entry.Name(), "_") || entry.Name() == "testdata":
			return fs.SkipDir
		}
		if _, err := fs.Stat(root, path.Join(p, "go.mod")); err == nil {
			return fs.SkipDir
		}
		return nil
	})
	return files, err
}

func readFile(root fs.FS, p string) (file, error) {
	text, err := fs.ReadFile(root, p)
	if err != nil {
		return file{}, err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), p, text, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return file{}, err
	}
	f := file{
		path:      p,
		folder:    path.Dir(p),
		name:      parsed.Name.Name,
		comment:   parsed.Doc.Text(),
		lines:     bytes.Count(text, []byte("\n")),
		test:      strings.HasSuffix(p, "_test.go"),
		generated: ast.IsGenerated(parsed),
	}
	for _, i := range parsed.Imports {
		imported, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return file{}, err
		}
		f.imports = append(f.imports, imported)
	}
	return f, nil
}

// folders returns the production files of each folder, and the folders in order.
func folders(files []file) (order []string, of map[string][]file) {
	of = map[string][]file{}
	for _, f := range files {
		if f.test {
			continue
		}
		if of[f.folder] == nil {
			order = append(order, f.folder)
		}
		of[f.folder] = append(of[f.folder], f)
	}
	slices.Sort(order)
	return order, of
}
