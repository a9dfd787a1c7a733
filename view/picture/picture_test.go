package picture

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/view/timeline"
)

func TestTheModulesComputeWhatTheyShow(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed; the browser tests draw with the same modules")
	}
	dir := t.TempDir()
	copied := append([]string{"../testdata/modules.test.js"}, order...)
	for _, name := range copied {
		text, err := os.ReadFile(filepath.Join("assets", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type":"module"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, "--test", "modules.test.js")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

// The report puts all modules into one scope: two names that are the same would be an error in the browser alone.
func TestTheModulesFitIntoOne(t *testing.T) {
	text := bundle()
	if strings.Contains(text, "\nimport ") || strings.Contains(text, "\nexport ") {
		t.Error("the bundle imports or exports something")
	}
	if strings.Contains(text, "</script") {
		t.Error("the bundle ends its own element")
	}
	names := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^(?:const|let|function|class) (\w+)`).FindAllStringSubmatch(text, -1) {
		if names[m[1]] {
			t.Errorf("%s is declared twice", m[1])
		}
		names[m[1]] = true
	}
	if !names["mount"] || !names["Run"] {
		t.Errorf("there are %v", names)
	}
	files, err := assets.ReadDir("assets")
	if err != nil || len(files) != len(order)+1 {
		t.Errorf("%d assets, %d modules (%v)", len(files), len(order), err)
	}
}

// Whatever a resource is called, it is text.
func TestAReportHoldsNoHTMLOfOthers(t *testing.T) {
	const evil = `</script><script>alert("1")</script><img src=x onerror=alert(1)>`
	m := &timeline.Model{Head: timeline.Head{Run: "r", Command: "apply", Workspace: evil, Who: evil, Outcome: "failed"},
		Vertices: []timeline.Vertex{{Number: 1, Address: `a.b["` + evil + `"]`, Status: timeline.Failed, Failure: evil,
			Worker: evil}}}
	var b bytes.Buffer
	if err := (&Report{Model: m, Parts: map[int]string{1: evil}}).Write(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "<script>") || strings.Contains(b.String(), "<img") {
		t.Error("a report says something else than text")
	}
	if n := strings.Count(b.String(), "<script"); n != 4 {
		t.Errorf("there are %d scripts", n)
	}
}
