package view_test

import (
	"encoding/json"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/view/document"
)

func TestPlansInJSONAreAsOpenTofuWritesThem(t *testing.T) {
	for name, a := range recordings(t) {
		t.Run(name, func(t *testing.T) {
			p, schemas := planOf(t, content(a, "plan.json"), content(a, "schemas.json"))
			p.Prior = state.Empty()
			got, err := document.PlanJSON(p, treeOf(t, a), schemas)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(comparable(t, content(a, "plan.json")), comparable(t, got)); d != "" {
				t.Errorf("-OpenTofu +Millipede\n%s", d)
			}
		})
	}
}

// comparable decodes a plan's JSON and removes what a recording cannot contain.
func comparable(t *testing.T, data []byte) map[string]any {
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"prior_state", "timestamp", "variables", "checks"} {
		delete(out, name)
	}
	// Here OpenTofu loses which attributes of replaced objects are sensitive by their schemas.
	if values, ok := out["planned_values"].(map[string]any); ok {
		withoutSensitive(values["root_module"].(map[string]any))
		outputs, _ := values["outputs"].(map[string]any)
		for _, o := range outputs {
			delete(o.(map[string]any), "type") // JSON does not distinguish objects from maps
		}
	}
	for _, list := range []string{"resource_changes", "resource_drift"} {
		changes, _ := out[list].([]any)
		for _, c := range changes {
			c := c.(map[string]any)["change"].(map[string]any)
			for _, form := range []string{"before_sensitive", "after_sensitive"} {
				c[form] = withoutEmpty(c[form]) // nor whether something unknown is a list
			}
		}
	}
	return out
}

func withoutEmpty(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	for k, e := range m {
		switch e := withoutEmpty(e).(type) {
		case map[string]any:
			if len(e) == 0 {
				delete(m, k)
			}
		case []any:
			if len(e) == 0 {
				delete(m, k)
			}
		}
	}
	return m
}

func withoutSensitive(module map[string]any) {
	resources, _ := module["resources"].([]any)
	for _, r := range resources {
		delete(r.(map[string]any), "sensitive_values")
	}
	children, _ := module["child_modules"].([]any)
	for _, c := range children {
		withoutSensitive(c.(map[string]any))
	}
}

// treeOf loads the configuration of a recording.
func treeOf(t *testing.T, a *txtar.Archive) *config.Tree {
	files := fstest.MapFS{}
	for _, f := range a.Files {
		switch {
		case f.Name == "2.tf":
			files["main.tf"] = &fstest.MapFile{Data: f.Data}
		case strings.Contains(f.Name, "/"):
			files[f.Name] = &fstest.MapFile{Data: f.Data}
		}
	}
	tree, diags := config.NewLoader(memory{files}).LoadTree(config.TreeOptions{Locator: beside{}})
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	return tree
}

// memory is a file system in memory.
type memory struct{ fs fstest.MapFS }

func (m memory) ReadFile(name string) ([]byte, error) {
	return m.fs.ReadFile(filepath.ToSlash(filepath.Clean(name)))
}

func (m memory) ReadDir(name string) ([]fs.DirEntry, error) {
	return m.fs.ReadDir(filepath.ToSlash(filepath.Clean(name)))
}

// beside finds modules in their directories.
type beside struct{}

func (beside) Locate(r config.ModuleRequest) (config.Installed, diag.List) {
	return config.Installed{Dir: filepath.Join(r.Parent.SourceDir, r.Call.Source)}, nil
}

func TestThePriorStateHasTheOutputsAsFarAsThePlanKnowsThem(t *testing.T) {
	const text = `
output "new" { value = 1 }
output "unknown" { value = 1 }
output "null" { value = null }
`
	tree := treeOf(t, &txtar.Archive{Files: []txtar.File{{Name: "2.tf", Data: []byte(text)}}})
	output := func(name string, after cty.Value) *plan.OutputChange {
		return &plan.OutputChange{Name: name, Action: plan.Update, Before: cty.NullVal(cty.DynamicPseudoType),
			After: after}
	}
	prior := state.Empty()
	outputs := func(p *plan.Plan) map[string]any {
		var form struct {
			Prior *struct {
				Values struct{ Outputs map[string]any }
			} `json:"prior_state"`
		}
		b, err := document.PlanJSON(p, tree, values.NewSchemas(nil))
		if err == nil {
			err = json.Unmarshal(b, &form)
		}
		if err != nil {
			t.Fatal(err)
		}
		if form.Prior == nil {
			return nil
		}
		return form.Prior.Values.Outputs
	}
	if got := outputs(&plan.Plan{Prior: prior,
		Outputs: []*plan.OutputChange{output("unknown", cty.UnknownVal(cty.String))}}); got != nil {
		t.Errorf("the prior state of nothing has %v", got)
	}
	for _, name := range []string{"unknown", "null", "gone"} {
		prior.Outputs[name] = &state.Output{Value: cty.StringVal("before")}
	}
	got := outputs(&plan.Plan{Prior: prior, Outputs: []*plan.OutputChange{
		output("new", cty.NumberIntVal(1)), output("unknown", cty.UnknownVal(cty.String)),
		output("null", cty.NullVal(cty.DynamicPseudoType)),
		{Name: "gone", Action: plan.Delete, Before: cty.StringVal("before"), After: cty.NullVal(cty.DynamicPseudoType)},
	}})
	before := map[string]any{"sensitive": false, "type": "string", "value": "before"}
	want := map[string]any{"new": map[string]any{"sensitive": false, "type": "number", "value": 1.0}, "unknown": before,
		"gone": before}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if len(prior.Outputs) != 3 {
		t.Errorf("the plan's own state was changed to %v", prior.Outputs)
	}
}
