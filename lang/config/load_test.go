package config

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/tools/txtar"

	"github.com/millipede-iac/millipede/lang/diag"
)

var update = flag.Bool("update", false, "write what loading finds into testdata/load")

// memory is a file system in memory.
type memory struct{ files fstest.MapFS }

func newMemory(files map[string]string) memory {
	m := memory{fstest.MapFS{}}
	for name, text := range files {
		m.files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

func (m memory) ReadFile(name string) ([]byte, error) {
	return fs.ReadFile(m.files, filepath.ToSlash(filepath.Clean(name)))
}

func (m memory) ReadDir(name string) ([]fs.DirEntry, error) {
	return fs.ReadDir(m.files, filepath.ToSlash(filepath.Clean(name)))
}

// beside returns local modules in the directories of their callers, as if they had been installed.
type beside struct{ files memory }

func (b beside) Locate(r ModuleRequest) (Installed, diag.List) {
	dir := filepath.Join(r.Parent.SourceDir, r.Source.Text)
	if _, err := b.files.ReadDir(dir); r.Source.Kind == LocalSource && err == nil {
		return Installed{Source: r.Source.Text, Dir: dir}, nil
	}
	return Manifest{}.Locate(r)
}

// load loads a tree of files, and the values in its tfvars files.
func load(files map[string]string) (*Tree, diag.List) {
	m := newMemory(files)
	l := NewLoader(m)
	given, diags := l.CollectVariables(VariableOptions{})
	if diags.HasErrors() {
		return nil, diags
	}
	return l.LoadTree(TreeOptions{Variable: given.Static, Locator: beside{m}})
}

// mustLoad is load for configurations without errors.
func mustLoad(t testing.TB, files map[string]string) *Tree {
	t.Helper()
	tree, diags := load(files)
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	return tree
}

func describe(diags diag.List) string {
	var lines []string
	for _, d := range diags {
		at := "-"
		if d.Subject != nil && d.Subject.Filename != "" {
			at = fmt.Sprintf("%s:%d", filepath.ToSlash(d.Subject.Filename), d.Subject.Start.Line)
		}
		lines = append(lines, fmt.Sprintf("%s %s %s\n", d.Severity, at, d.Summary))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// Each file of testdata/load is a configuration with the errors that OpenTofu 1.12.6 reports while loading it; its name
// describes the case. If Millipede knows the place of an error more exactly, the file has Millipede's place.
func TestLoadingFindsWhatOpenTofuFinds(t *testing.T) {
	cases, err := filepath.Glob("testdata/load/*.txtar")
	if err != nil || len(cases) == 0 {
		t.Fatal("no cases", err)
	}
	for _, name := range cases {
		claim := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(name), ".txtar"), "-", " ")
		t.Run(claim, func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			files := map[string]string{}
			want := ""
			for _, f := range archive.Files {
				if f.Name == "want" {
					want = string(f.Data)
				} else {
					files[f.Name] = string(f.Data)
				}
			}
			_, diags := load(files)
			got := describe(diags)
			for _, d := range diags {
				if d.Detail == "" {
					t.Errorf("%s: nothing says what to do", d.Summary)
				}
			}
			if *update {
				archive.Files = slices.DeleteFunc(archive.Files, func(f txtar.File) bool { return f.Name == "want" })
				archive.Files = append(archive.Files, txtar.File{Name: "want", Data: []byte(got)})
				if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("found\n%swant\n%s", got, want)
			}
		})
	}
}
