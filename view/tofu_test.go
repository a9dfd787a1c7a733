package view_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/view"
)

var record = flag.Bool("record", false, "record again what OpenTofu (TOFU, with TF_CLI_CONFIG_FILE naming the mirror "+
	"of test/providers) answers in testdata/tofu")

// The files of testdata/tofu are configurations, one or two steps of each, with the output of OpenTofu 1.12.6: its
// plan as JSON, with the providers' schemas, and as text with and without colours.
//
//	go test -run OpenTofu -record
func TestPlansReadAsOpenTofuWritesThem(t *testing.T) {
	for name, a := range recordings(t) {
		t.Run(name, func(t *testing.T) {
			if *record {
				recordAnswers(t, a)
				if err := os.WriteFile(filepath.Join("testdata", "tofu", name+".txtar"), txtar.Format(a),
					0o644); err != nil {
					t.Fatal(err)
				}
			}
			mode := plan.Normal
			switch strings.TrimSpace(string(a.Comment)) {
			case "-destroy":
				mode = plan.Destroy
			case "-refresh-only":
				mode = plan.RefreshOnly
			}
			p, schemas := planOf(t, content(a, "plan.json"), content(a, "schemas.json"))
			p.Mode = mode
			for name, ink := range map[string]view.Ink{"plan.txt": false, "plan.colour": true} {
				var b bytes.Buffer
				if err := view.PlanText(&b, p, schemas, view.TextOptions{Ink: ink}); err != nil {
					t.Fatal(err)
				}
				want, got := strings.TrimSuffix(string(content(a, name)), "\n"),
					strings.TrimSuffix(escaped(b.String()), "\n")
				if d := cmp.Diff(inOurWords(want), inOurWords(got)); d != "" {
					t.Errorf("%s: -OpenTofu +Millipede\n%s", name, d)
				}
			}
		})
	}
}

// recordings returns the files of testdata/tofu by name.
func recordings(t *testing.T) map[string]*txtar.Archive {
	files, err := filepath.Glob("testdata/tofu/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no recordings", err)
	}
	out := map[string]*txtar.Archive{}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(file), ".txtar")] = a
	}
	return out
}

// escaped replaces escape characters by a symbol that a text file can contain.
func escaped(s string) string { return strings.ReplaceAll(s, "\x1b", "␛") }

// explains matches the explanatory sentences between attributes.
var explains = regexp.MustCompile(
	`sensitive|last "tofu apply"|changes in this plan:|after applying|once this change|display in UI|` +
		`contents will not|lifecycle.destroy`)

// inOurWords removes explanatory sentences, whose wording is our own. It keeps lines that begin without
// indentation, are short and end without a full stop; indented lines; and the phrases listed here.
func inOurWords(s string) string {
	var kept []string
	for line := range strings.SplitSeq(s, "\n") {
		line = strings.TrimRight(line, " ")
		bare := colours.ReplaceAllString(line, "")
		short := len(bare) < 70 && !strings.HasSuffix(bare, ".") && !strings.HasSuffix(bare, "symbols:")
		if (short || strings.HasPrefix(bare, " ") || phrases.MatchString(bare)) && !explains.MatchString(bare) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

var (
	colours = regexp.MustCompile(`␛\[[0-9;]*m`)
	phrases = regexp.MustCompile(`^(Plan: |No changes\. )`)
)

func content(a *txtar.Archive, name string) []byte {
	for _, f := range a.Files {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}

func setContent(a *txtar.Archive, name string, data []byte) {
	for i := range a.Files {
		if a.Files[i].Name == name {
			a.Files[i].Data = data
			return
		}
	}
	a.Files = append(a.Files, txtar.File{Name: name, Data: data})
}

// recordAnswers applies 1.tf, if there is one, runs drift.sh, plans 2.tf with the flags in the comment, and stores
// the output.
func recordAnswers(t *testing.T, a *txtar.Archive) {
	tofu := os.Getenv("TOFU")
	if tofu == "" {
		t.Fatal("TOFU does not name a binary")
	}
	dir := t.TempDir()
	cloud := filepath.Join(dir, "cloud")
	command := func(name string, args ...string) []byte {
		t.Helper()
		c := exec.Command(name, args...)
		c.Dir = dir
		c.Env = append(os.Environ(), "FLEET_CLOUD="+cloud, "TF_IN_AUTOMATION=")
		var stdout, stderr bytes.Buffer
		c.Stdout, c.Stderr = &stdout, &stderr
		if err := c.Run(); err != nil {
			t.Fatalf("%s %v: %v\n%s%s", name, args, err, stdout.String(), stderr.String())
		}
		return stdout.Bytes()
	}
	use := func(name string) {
		if err := os.WriteFile(filepath.Join(dir, "main.tf"), content(a, name), 0o644); err != nil {
			t.Fatal(err)
		}
		command(tofu, "init", "-no-color")
	}
	for _, f := range a.Files {
		if !strings.Contains(f.Name, "/") {
			continue
		}
		file := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if content(a, "1.tf") != nil {
		use("1.tf")
		command(tofu, "apply", "-no-color", "-auto-approve")
	}
	if script := content(a, "drift.sh"); script != nil {
		command("sh", "-c", string(script))
	}
	use("2.tf")
	command(tofu, append([]string{"plan", "-no-color", "-out=p"}, strings.Fields(string(a.Comment))...)...)
	setContent(a, "plan.json", indented(t, command(tofu, "show", "-json", "p")))
	setContent(a, "schemas.json", usedSchemas(t, command(tofu, "providers", "schema", "-json"),
		content(a, "plan.json")))
	setContent(a, "plan.txt", []byte(escaped(string(command(tofu, "show", "-no-color", "p")))))
	setContent(a, "plan.colour", []byte(escaped(string(command(tofu, "show", "p")))))
}

func indented(t *testing.T, data []byte) []byte {
	var b bytes.Buffer
	if err := json.Indent(&b, bytes.TrimSpace(data), "", " "); err != nil {
		t.Fatal(err)
	}
	return append(b.Bytes(), '\n')
}

// usedSchemas reduces the providers' schemas to those that the plan needs.
func usedSchemas(t *testing.T, data, planJSON []byte) []byte {
	var all jsonSchemas
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	for _, p := range all.Schemas {
		for _, m := range []map[string]jsonSchema{p.Managed, p.Data} {
			for name := range m {
				if !bytes.Contains(planJSON, []byte(`"`+name+`"`)) {
					delete(m, name)
				}
			}
		}
	}
	out, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, '\n')
}
