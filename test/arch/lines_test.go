package arch

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxColumns is how long a line may be, in code and in documents.
const maxColumns = 120

// TestLinesFitTheScreen checks the texts that people read: code, except rows of tables in tests, generated files and
// literals that would be less readable in parts; and the project's documents, except tables and examples.
func TestLinesFitTheScreen(t *testing.T) {
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		}
		code := strings.HasSuffix(p, ".go") && !strings.HasSuffix(p, ".pb.go")
		document := strings.HasSuffix(p, ".md") && !strings.HasPrefix(p, "test/")
		if d.IsDir() || !code && !document {
			return nil
		}
		text, err := fs.ReadFile(root, p)
		if err != nil {
			return err
		}
		for _, line := range longLines(string(text), code, strings.HasSuffix(p, "_test.go")) {
			t.Errorf("%s:%d has more than %d columns", p, line, maxColumns)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// longLines returns the numbers of the lines that are too long, and need not be. In tests, the row of a table may be
// long: a line that begins with a string and ends with a comma.
func longLines(text string, code, test bool) (out []int) {
	raw, example := map[int]bool{}, false
	if code {
		raw = rawLines(text)
	}
	for i, line := range strings.Split(text, "\n") {
		if !code && strings.HasPrefix(line, "```") {
			example = !example
		}
		row := test && strings.HasPrefix(strings.TrimLeft(line, "\t"), `"`) && strings.HasSuffix(line, ",")
		shown := code && !raw[i+1] && !row && !strings.Contains(line, "//nolint") ||
			!code && !example && !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "    ")
		if shown && utf8.RuneCountInString(line) > maxColumns {
			out = append(out, i+1)
		}
	}
	return out
}

// rawLines are the lines that a raw string has a part of.
func rawLines(text string) map[int]bool {
	out := map[int]bool{}
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, []byte(text), nil, 0)
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return out
		}
		if tok == token.STRING && strings.HasPrefix(literal, "`") {
			first := file.Line(pos)
			for i := range strings.Count(literal, "\n") + 1 {
				out[first+i] = true
			}
		}
	}
}

func TestALongLineIsSeen(t *testing.T) {
	long := strings.Repeat("x", maxColumns)
	for text, want := range map[string]int{
		"package p\n\n// " + long:             1,
		"package p\n\nvar v = `" + long + "`": 0,
		"package p\n":                         0,
	} {
		if got := longLines(text, true, false); len(got) != want {
			t.Errorf("%.30q: %v", text, got)
		}
	}
	if got := longLines("package p\n\n// "+long+"\n\t\""+long+"\": 1,\n", true, true); len(got) != 1 {
		t.Errorf("a test: %v", got)
	}
	if got := longLines("# t\n\n"+long+"x\n| "+long+"\n```\n"+long+"x\n```\n", false, false); len(got) != 1 {
		t.Errorf("a document: %v", got)
	}
}
