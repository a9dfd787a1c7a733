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

// file has the parts of a Go file that the rules check.
type file struct {
	path    string // from the root of the module, with slashes
	folder  string // the package's path in the module; "." is its root
	name    string // of the package
	comment string // on the package
	imports []string
	// the names that it uses from other packages, as "path/of/package.Name"; "path/of/package.*" for all exported names
	uses []string
	// its uses of the process that need no name, as "path/of/package.Name without ..."
	inherits  []string
	functions []function
	lines     int
	test      bool
	generated bool
}

// function is a function or a method with a body.
type function struct {
	receiver string // the type, without a star; empty for a function
	name     string
	lines    int
}

// read returns all Go files of the module with the given root, for every platform, in the order of their paths. Nested
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
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, p, text, parser.SkipObjectResolution|parser.ParseComments)
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
	f.uses, f.inherits = uses(parsed, f.imports)
	for _, d := range parsed.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			f.functions = append(f.functions, function{receiver: receiver(fn), name: fn.Name.Name,
				lines: set.Position(fn.End()).Line - set.Position(fn.Pos()).Line + 1})
		}
	}
	return f, nil
}

// receiver returns the type that a method belongs to; empty for a function.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	of := fn.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	switch of := of.(type) {
	case *ast.Ident:
		return of.Name
	case *ast.IndexExpr: // a type with a parameter
		if name, ok := of.X.(*ast.Ident); ok {
			return name.Name
		}
	}
	return "?"
}

// uses returns the exported identifiers that a file uses of the packages that it imports, sorted, without duplicates,
// and the uses that read the process's environment because none was passed; see inherited. A local variable with the
// name of a package counts as that package.
func uses(parsed *ast.File, imports []string) (out, inherits []string) {
	named := map[string]string{} // the packages by the names that they have in the file
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
		if f, ok := n.(*ast.FuncDecl); ok && f.Body != nil {
			inherits = append(inherits, inherited(f.Body, named)...)
		}
		return true
	})
	slices.Sort(out)
	slices.Sort(inherits)
	return slices.Compact(out), slices.Compact(inherits)
}

// inherited returns the calls in a function that fall back on the process: temporary files without a directory, and
// programs whose directory or environment the function does not set.
func inherited(body *ast.BlockStmt, named map[string]string) (out []string) {
	set := map[string]bool{}  // "variable.Field", for each field that is assigned to
	var commands []*ast.Ident // the variables that hold programs
	var kept []*ast.CallExpr  // the calls that made them
	starts := map[*ast.CallExpr]string{}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			switch name := callee(n, named); name {
			case "os.MkdirTemp", "os.CreateTemp":
				if first, ok := n.Args[0].(*ast.BasicLit); ok && first.Value == `""` {
					out = append(out, name+" without a directory")
				}
			case "os/exec.Command", "os/exec.CommandContext":
				starts[n] = name
			}
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				if field, ok := to.(*ast.SelectorExpr); ok {
					if x, ok := field.X.(*ast.Ident); ok {
						set[x.Name+"."+field.Sel.Name] = true
					}
				}
				variable, isVariable := to.(*ast.Ident)
				if len(n.Rhs) != len(n.Lhs) || !isVariable {
					continue
				}
				if call, ok := n.Rhs[i].(*ast.CallExpr); ok && strings.HasPrefix(callee(call, named), "os/exec.Command") {
					commands, kept = append(commands, variable), append(kept, call)
				}
			}
		}
		return true
	})
	for i, variable := range commands {
		if set[variable.Name+".Dir"] && set[variable.Name+".Env"] {
			delete(starts, kept[i])
		}
	}
	for _, name := range starts {
		out = append(out, name+" without Dir and Env")
	}
	return out
}

// callee names the function of another package that is called; empty for others.
func callee(call *ast.CallExpr, named map[string]string) string {
	if s, ok := call.Fun.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok && named[x.Name] != "" {
			return named[x.Name] + "." + s.Sel.Name
		}
	}
	return ""
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
