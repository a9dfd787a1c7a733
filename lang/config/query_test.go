package config

import (
	"fmt"
	"slices"
	"testing"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

func loadQueries(files map[string]string, queries bool) (*Tree, diag.List) {
	m := newMemory(files)
	return NewLoader(m).LoadTree(TreeOptions{Locator: beside{m}, Queries: queries})
}

const oneList = `list "a_b" "c" {
  provider = a
}`

func TestQueryFilesAreLoadedOnlyForQueries(t *testing.T) {
	files := map[string]string{
		"main.tf": "", "a.tfquery.hcl": oneList, "b.tfquery.json": `{"list": {"a_b": {"j": {"provider": "a"}}}}`,
		"c.tfquery.hcl": "broken", "c.tofuquery.hcl": `locals { x = 1 }`, ".d.tfquery.hcl": "broken", "e.tfquery": "broken",
	}
	tree, diags := loadQueries(files, false)
	if diags.HasErrors() || len(tree.Root.Module.Resources) > 0 {
		t.Errorf("without queries: %v, %v", tree.Root.Module.Resources, diags)
	}
	if tree, diags = loadQueries(files, true); diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	var names []string
	for r := range tree.Root.Module.Resources {
		names = append(names, r.String())
	}
	slices.Sort(names)
	if fmt.Sprint(names) != "[list.a_b.c list.a_b.j]" || tree.Root.Module.Locals["x"] == nil {
		t.Errorf("got %v and %v", names, tree.Root.Module.Locals)
	}
}

func TestAQueryFileMayRepeatNothingOfTheConfiguration(t *testing.T) {
	_, diags := loadQueries(map[string]string{"main.tf": `variable "x" {}`, "a.tfquery.hcl": "\nvariable \"x\" {}"}, true)
	if len(diags) != 1 || diags[0].Summary != "Duplicate variable declaration" ||
		diags[0].Subject.Filename != "a.tfquery.hcl" {
		t.Errorf("got %v", diags)
	}
}

func TestMistakesInQueryFiles(t *testing.T) {
	for sentence, c := range map[string]struct {
		text, says string
		line       int
	}{
		"a block of the configuration":   {`resource "a" "b" {}`, "Unsupported block type", 1},
		"a list without a provider":      {"list \"a_b\" \"c\" {\n}", "Missing required argument", 1},
		"a list with one label":          {"list \"a_b\" {\n}", "Missing name for list", 1},
		"a name that is none":            {"list \"a_b\" \"c d\" {\n provider = a\n}", "Invalid list block name", 1},
		"a type that is none":            {"list \"a b\" \"c\" {\n provider = a\n}", "Invalid resource type name", 1},
		"an argument outside of config":  {"list \"a_b\" \"c\" {\n provider = a\n region = 1\n}", "Unsupported argument", 3},
		"two config blocks":              {"list \"a_b\" \"c\" {\n provider = a\n config {}\n config {}\n}", "Duplicate config block", 4},
		"count and for_each":             {"list \"a_b\" \"c\" {\n provider = a\n count = 1\n for_each = {}\n}", `Invalid combination of "count" and "for_each"`, 3},
		"a provider in quotes and a dot": {"list \"a_b\" \"c\" {\n provider = 1\n}", "Invalid provider configuration reference", 2},
		"two lists of one name":          {oneList + "\n" + oneList, `Duplicate list "a_b" configuration`, 4},
		"no expression":                  {"list \"a_b\" \"c\" {\n provider = a\n limit =\n}", "Invalid expression", 3},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, diags := loadQueries(map[string]string{"main.tf": "", "q.tfquery.hcl": c.text}, true)
			if !diags.HasErrors() || diags[0].Summary != c.says || diags[0].Subject == nil ||
				diags[0].Subject.Start.Line != c.line {
				t.Errorf("got %v", diags)
			}
		})
	}
}

func TestAListBlockHasItsArguments(t *testing.T) {
	tree, diags := loadQueries(map[string]string{"main.tf": "", "q.tfquery.hcl": `list "a_b" "c" {
  provider         = x.y
  include_resource = true
  limit            = 7
  config {
    z = 1
  }
}
provider "x" {
  alias = "y"
}`}, true)
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	r := tree.Root.Module.Resources[addr.Resource{Mode: addr.List, Type: "a_b", Name: "c"}]
	attrs, _ := r.Config.JustAttributes()
	if r.Provider.String() != "x.y" || r.Source.String() != addr.DefaultProvider("x").String() || r.Limit == nil ||
		r.IncludeResource == nil || attrs["z"] == nil || r.ConfigRange.Start.Line != 5 {
		t.Errorf("got %+v", r)
	}
}
