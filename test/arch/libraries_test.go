package arch

import (
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

func TestEveryLibraryHasItsReasonInTheDocuments(t *testing.T) {
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	var required []string
	for _, r := range mod.Require {
		required = append(required, r.Mod.Path)
	}
	page, err := os.ReadFile("../../docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := read(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	importers := map[string]string{} // a file for each library
	for _, f := range files {
		for _, path := range f.imports {
			if m := libraryOf(path, required); m != "" {
				importers[m] = f.path
			}
		}
	}
	for m, importer := range importers {
		if !strings.Contains(string(page), "\n| `"+m+"` | ") {
			t.Errorf("%s imports from %s, which has no line in docs/dependencies.md", importer, m)
		}
	}
	for line := range strings.Lines(string(page)) {
		if m, ok := strings.CutPrefix(line, "| `"); ok {
			if m, _, _ = strings.Cut(m, "`"); !slices.Contains(required, m) {
				t.Errorf("docs/dependencies.md has a line for %s, which go.mod does not require", m)
			}
		}
	}
}

// libraryOf returns the module that an imported package is from; "" for the standard library and for ours.
func libraryOf(path string, required []string) string {
	var longest string
	for _, m := range required {
		if within(path, m) && len(m) > len(longest) {
			longest = m
		}
	}
	return longest
}

func TestAPackageIsFromTheLongestModulePathThatFits(t *testing.T) {
	required := []string{"example.com/a", "example.com/a/b", "example.com/abc"}
	for path, want := range map[string]string{
		"example.com/a/b/c": "example.com/a/b",
		"example.com/a/c":   "example.com/a",
		"example.com/ab":    "",
		"fmt":               "",
	} {
		if got := libraryOf(path, required); got != want {
			t.Errorf("%s is from %q, want %q", path, got, want)
		}
	}
}
