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
	path    string // from the root of the module, with slashes
	folder  string // the package's path in the module; "." is its root
	name    string // of the package
	comment string // on the package
	imports []string
	// what it takes from packages, as "path/of/package.Name"; "path/of/package.*" for all that it exports
	uses      []string
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
	parsed, err := parser.ParseFile(token.NewFileSet(), p, text, parser.SkipObjectResolution|parser.ParseComments)
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
	f.uses = uses(parsed, f.imports)
	return f, nil
}

// uses returns the exported identifiers that a file takes from the packages that it imports, sorted, each once. A local
// variable that is named like a package counts as that package.
func uses(parsed *ast.File, imports []string) []string {
	named := map[string]string{} // the packages by the names that they have in the file
	var out []string
	for i, spec := range parsed.Imports {
		name := path.Base(imports[i])
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == "." {
			out = append(out, imports[i]+".*")
		}
		named[name] = imports[i]
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && named[x.Name] != "" {
				out = append(out, named[x.Name]+"."+s.Sel.Name)
			}
		}
		return true
	})
	slices.Sort(out)
	return slices.Compact(out)
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
