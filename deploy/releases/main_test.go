package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

// The program under test is the test itself: Go has recorded its modules, too.
func TestTheDocumentNamesTheProgramAndEachModuleOnce(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "spdx.json")
	if err := run(out, []string{self}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if d.SPDXVersion != "SPDX-2.3" || len(d.Packages) < 2 || d.Packages[0].Checksums[0].Algorithm != "SHA256" {
		t.Errorf("the document is %s", text)
	}
	seen := map[string]bool{"SPDXRef-DOCUMENT": true}
	for _, p := range d.Packages {
		if seen[p.SPDXID] || !regexp.MustCompile(`^SPDXRef-[A-Za-z0-9.-]+$`).MatchString(p.SPDXID) {
			t.Errorf("the ID %s is there twice, or has other characters than SPDX permits", p.SPDXID)
		}
		seen[p.SPDXID] = true
	}
	for _, r := range d.Relationships {
		if !seen[r.Of] || !seen[r.To] {
			t.Errorf("a relationship names what is not there: %+v", r)
		}
	}
}

func TestAReplacedModuleIsTheOneThatIsInTheProgram(t *testing.T) {
	d := describe("p", nil, &debug.BuildInfo{GoVersion: "go1.26.0", Deps: []*debug.Module{{Path: "a.example/x",
		Version: "v1.0.0", Replace: &debug.Module{Path: "b.example/x", Version: "v1.0.1"}}}})
	if got := d.Packages[2]; got.Name != "b.example/x" || got.ExternalRefs[0].Locator != "pkg:golang/b.example/x@v1.0.1" {
		t.Errorf("the module is %+v", got)
	}
}

func TestAFileThatGoHasNotBuiltIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(path+".json", []string{path}); err == nil || !strings.Contains(err.Error(), "not a program that Go") {
		t.Error(err)
	}
}

func TestTheNotesOfAVersionAreItsPartOfTheChangelog(t *testing.T) {
	out, err := exec.Command("./notes", "v0.1.0").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "The first version") || strings.Contains(string(out), "## ") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := exec.Command("./notes", "v9.9.9").CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "nothing about 9.9.9") {
		t.Errorf("a version without notes: %v: %s", err, out)
	}
}

func TestTheUnitsOfPackagesStartTheProgramsOfPackages(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("./units", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	units, err := filepath.Glob(filepath.Join(dir, "*.service"))
	if err != nil || len(units) != 3 {
		t.Fatalf("%v %v", units, err)
	}
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "\nExecStart=/usr/bin/") || strings.Contains(string(text), "/usr/local") {
			t.Errorf("%s starts another program", filepath.Base(unit))
		}
	}
}
