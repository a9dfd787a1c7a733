package loop

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTheLoopHasNoGoroutineNoClockAndNoIO(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	impure := []string{"bufio", "io", "math/rand", "math/rand/v2", "net", "net/http", "os", "runtime", "sync",
		"sync/atomic", "syscall"}
	clock := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}
	errs := []string{"Canceled", "DeadlineExceeded"} // of package context
	looked := 0
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		looked++
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if slices.Contains(impure, strings.Trim(i.Path.Value, `"`)) {
				t.Errorf("%s imports %s", path, i.Path.Value)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt, *ast.SendStmt, *ast.SelectStmt:
				t.Errorf("%s: %T", files.Position(n.Pos()), n)
			case *ast.SelectorExpr:
				x, ok := n.X.(*ast.Ident)
				switch {
				case !ok:
				case x.Name == "time" && slices.Contains(clock, n.Sel.Name), x.Name == "context" &&
					!slices.Contains(errs, n.Sel.Name):
					t.Errorf("%s: %s.%s", files.Position(n.Pos()), x.Name, n.Sel.Name)
				}
			}
			return true
		})
	}
	if looked < 10 {
		t.Errorf("only %d files were looked at", looked)
	}
}
