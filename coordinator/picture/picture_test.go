package picture

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/coordinator/timeline"
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
	files := map[string][]byte{"package.json": []byte(`{"type":"module"}`)}
	for name, piece := range map[string]timeline.Piece{"shape.json": timeline.Shape, "outline.json": timeline.Outline} {
		var text bytes.Buffer
		if err := sprawling().Write(&text, piece); err != nil {
			t.Fatal(err)
		}
		files[name] = text.Bytes()
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), node, "--test", "modules.test.js")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

// sprawling is a run with all that its outline must treat as the modules do: nested modules, small and large blocks in
// turns, keys with quotes and dots, junctions behind few and behind many, and numbers that are not indexes.
func sprawling() *timeline.Model {
	m := &timeline.Model{Head: timeline.Head{Run: "r", Ended: timeline.None}}
	add := func(module, name string, after ...int) int {
		v := timeline.Vertex{Number: 2*len(m.Vertices) + 5, Module: module, Address: name, After: after, Type: "fleet_vm",
			Action: "create", Status: timeline.Status("furqwsd"[len(m.Vertices)*7%11%7]), Failure: "a text that is not drawn",
			Ready: timeline.None, Started: timeline.None, Ended: timeline.None}
		if name == "" {
			v.Status = timeline.Junction
		} else if module != "" {
			v.Address = module + "." + name
		}
		m.Vertices = append(m.Vertices, v)
		return v.Number
	}
	main := add("", "fleet_network.main")
	var subnets []int
	for zone := range 40 {
		module := fmt.Sprintf("module.zone[%d]", zone)
		inner := fmt.Sprintf(`%s.module.inner["a.module.b\"]"]`, module)
		subnets = append(subnets, add(module, "fleet_subnet.a", main, 4711)) // of which one does not exist
		few := add("", "", subnets[0], subnets[zone])
		for i := range 80 * (1 + zone%2) {
			add(inner, fmt.Sprintf(`fleet_vm.node["%d [x] \" ."]`, i), few)
			add(module, fmt.Sprintf("fleet_disk.disk[%d]", i), subnets[zone])
			add("", fmt.Sprintf("fleet_rule.all[%d]", 1000*zone+i), subnets[zone])
		}
	}
	many := add("", "", subnets...)
	all := add("", "", many, main)
	for i := range 180 { // blocks that are unfolded as long as there is room
		add("module.last", fmt.Sprintf("fleet_name.of%d[%d]", i/3, i%3), all)
	}
	var some []int
	for i := range 12 {
		some = append(some, add("", fmt.Sprintf("fleet_zone.single%d", i)))
	}
	add("", "fleet_zone.after", add("", "", some...))
	add("", "fleet_zone.between", add("", "", some[:7]...))
	return m
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

// The name of a resource is shown as text, regardless of its characters.
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
