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
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/tfstate"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
)

// recordedState is a state that OpenTofu 1.12.6 made, with the output of its commands that show it.
type recordedState struct {
	*txtar.Archive
	state   *state.State
	schemas *values.Schemas
}

func recordedStates(t *testing.T) map[string]recordedState {
	files, err := filepath.Glob("testdata/tofu-states/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no recordings", err)
	}
	out := map[string]recordedState{}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if *record {
			recordState(t, a)
			if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		s, diags := tfstate.Parse(content(a, "terraform.tfstate"))
		if diags.HasErrors() {
			t.Fatal(diags.Err())
		}
		_, schemas := planOf(t, []byte("{}"), content(a, "schemas.json"))
		out[filepath.Base(file)] = recordedState{a, s, schemas}
	}
	return out
}

func recordState(t *testing.T, a *txtar.Archive) {
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
		t.Helper()
		c := exec.Command(os.Getenv("TOFU"), args...)
		c.Dir = dir
		c.Env = append(os.Environ(), "FLEET_CLOUD="+filepath.Join(dir, "cloud"))
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return out
	}
	tofu("init")
	tofu("apply", "-auto-approve")
	if bytes.Contains(content(a, "main.tf"), []byte(`"fleet_machine" "t"`)) {
		tofu("taint", "fleet_machine.t")
		setContent(a, "instance.txt", tofu("state", "show", "-no-color", "fleet_nested.c"))
		setContent(a, "output.txt", tofu("output", "-no-color"))
		setContent(a, "output.json", tofu("output", "-json"))
	}
	file, err := os.ReadFile(filepath.Join(dir, "terraform.tfstate"))
	if err != nil {
		t.Fatal(err)
	}
	setContent(a, "terraform.tfstate", file)
	setContent(a, "show.json", indented(t, tofu("show", "-json")))
	setContent(a, "show.txt", tofu("show", "-no-color"))
	setContent(a, "show.colour", []byte(escaped(string(tofu("show")))))
	setContent(a, "schemas.json", usedSchemas(t, tofu("providers", "schema", "-json"), file))
}

func TestStatesReadAsOpenTofuWritesThem(t *testing.T) {
	for name, r := range recordedStates(t) {
		for file, ink := range map[string]view.Ink{"show.txt": false, "show.colour": true} {
			var b bytes.Buffer
			if err := view.StateText(&b, r.state, r.schemas, view.TextOptions{Ink: ink}); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(withoutWords(string(content(r.Archive, file))),
				withoutWords(escaped(b.String()))); d != "" {
				t.Errorf("%s: %s: -OpenTofu +Millipede\n%s", name, file, d)
			}
		}
		if want := content(r.Archive, "instance.txt"); want != nil {
			var b bytes.Buffer
			a, _ := addr.ParseInstance("fleet_nested.c")
			if err := view.InstanceText(&b, r.state, a, r.schemas, view.TextOptions{}); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), b.String()); d != "" {
				t.Errorf("state show: -OpenTofu +Millipede\n%s", d)
			}
			if d := cmp.Diff(string(content(r.Archive, "output.txt")),
				view.OutputsText(r.state, view.TextOptions{})); d != "" {
				t.Errorf("output: -OpenTofu +Millipede\n%s", d)
			}
			got, err := document.OutputsJSON(r.state)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(content(r.Archive, "output.json")), string(got)); d != "" {
				t.Errorf("output -json: -OpenTofu +Millipede\n%s", d)
			}
		}
	}
}

// withoutWords removes explanations.
func withoutWords(s string) string {
	var kept []string
	for line := range strings.SplitSeq(s, "\n") {
		if !explains.MatchString(line) || strings.Contains(line, "(sensitive value)") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

func TestStatesInJSONAreAsOpenTofuWritesThem(t *testing.T) {
	for name, r := range recordedStates(t) {
		got, err := document.StateJSON(r.state, r.schemas, r.state.EngineVersion)
		if err != nil {
			t.Fatal(err)
		}
		var x, y any
		if err := json.Unmarshal(content(r.Archive, "show.json"), &x); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(got, &y); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(x, y); d != "" {
			t.Errorf("%s: -OpenTofu +Millipede\n%s", name, d)
		}
	}
}
