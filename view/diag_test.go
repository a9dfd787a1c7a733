package view_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
)

// problems is OpenTofu 1.12.6's output for a configuration with mistakes: as JSON, as text with and without
// colours.
type problems struct {
	*txtar.Archive
	list []*document.Diagnostic
}

// mistaken returns the recordings of testdata/tofu-diags by name.
func mistaken(t *testing.T) map[string]problems {
	files, err := filepath.Glob("testdata/tofu-diags/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no recordings", err)
	}
	out := map[string]problems{}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if *record {
			recordProblems(t, a)
			if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		p := problems{Archive: a}
		for line := range bytes.Lines(content(a, "messages.json")) {
			var m struct{ Diagnostic *document.Diagnostic }
			if err := json.Unmarshal(line, &m); err != nil {
				t.Fatal(err)
			}
			if m.Diagnostic != nil {
				p.list = append(p.list, m.Diagnostic)
			}
		}
		out[filepath.Base(file)] = p
	}
	return out
}

func recordProblems(t *testing.T, a *txtar.Archive) {
	dir := t.TempDir()
	for _, f := range a.Files {
		if !strings.HasSuffix(f.Name, ".tf") {
			continue
		}
		name := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tofu := func(args ...string) []byte {
		c := exec.Command(os.Getenv("TOFU"), args...)
		c.Dir = dir
		out, _ := c.CombinedOutput() // planning fails
		return []byte(escaped(string(out)))
	}
	tofu("init")
	setContent(a, "messages.json", tofu("plan", "-json"))
	setContent(a, "plain", tofu("plan", "-no-color"))
	setContent(a, "coloured", tofu("plan"))
}

func TestProblemsReadAsOpenTofuWritesThem(t *testing.T) {
	for file, a := range mistaken(t) {
		for name, p := range map[string]*view.Printer{"plain": {}, "coloured": {Ink: true}} {
			whole := string(content(a.Archive, name))
			for _, d := range a.list {
				if text := escaped(p.Text(d)); !strings.Contains(whole, text) {
					t.Errorf("%s: %s: OpenTofu did not write\n%s\nbut\n%s", file, name, text, whole)
				}
			}
		}
	}
}

func TestSnippetsAreCutAsOpenTofuCutsThem(t *testing.T) {
	for _, a := range mistaken(t) {
		sources := map[string]*hcl.File{}
		for _, f := range a.Files {
			if strings.HasSuffix(f.Name, ".tf") {
				file, diags := hclparse.NewParser().ParseHCL(f.Data, f.Name)
				if diags.HasErrors() {
					t.Fatal(diags)
				}
				sources[f.Name] = file
			}
		}
		for _, want := range a.list {
			if want.Range == nil {
				continue
			}
			pos := func(p document.Position) hcl.Pos { return hcl.Pos{Line: p.Line, Column: p.Column, Byte: p.Byte} }
			subject := &hcl.Range{Filename: want.Range.Filename, Start: pos(want.Range.Start), End: pos(want.Range.End)}
			got := document.DiagnosticJSON(diag.New(diag.Error, want.Summary, want.Detail, subject), sources)
			if want.Snippet.Code != got.Snippet.Code && strings.Contains(want.Snippet.Code, got.Snippet.Code) {
				continue // OpenTofu shows more lines, whose range the recording does not contain
			}
			want.Snippet.Values, want.Snippet.FunctionCall = got.Snippet.Values, nil
			if d := cmp.Diff(want.Snippet, got.Snippet); d != "" {
				t.Errorf("%s: -OpenTofu +Millipede\n%s", want.Summary, d)
			}
		}
	}
}
