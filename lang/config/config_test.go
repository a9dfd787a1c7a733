package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
)

func TestABlockIsDecodedInFull(t *testing.T) {
	tree := mustLoad(t, map[string]string{"main.tf": `
provider "acme" {
  alias = "eu"
}
resource "acme_thing" "a" {
  provider   = acme.eu
  count      = 2
  depends_on = [acme_thing.b]
  size       = 3
  count_     = 1
  lifecycle {
    create_before_destroy = true
    prevent_destroy       = false
    ignore_changes        = [tags["a"], size]
    replace_triggered_by  = [acme_thing.b.id]
    precondition {
      condition     = acme_thing.b.id != ""
      error_message = "no"
    }
  }
  provisioner "local-exec" {
    when       = destroy
    on_failure = continue
    command    = "x"
  }
  connection {
    host = "h"
  }
  _ {
    for_each = "an argument of the resource"
  }
}
resource "acme_thing" "b" {}
data "acme_thing" "c" {
  for_each = toset(["x"])
}
ephemeral "acme_thing" "d" {
  lifecycle {
    enabled = false
  }
}
`})
	m := tree.Root.Module
	r := m.Resources[addr.Resource{Mode: addr.Managed, Type: "acme_thing", Name: "a"}]
	if r == nil || r.Count == nil || r.ForEach != nil || !r.CreateBeforeDestroy || !r.CreateBeforeDestroySet ||
		r.PreventDestroy == nil ||
		len(r.IgnoreChanges) != 2 || len(r.TriggersReplace) != 1 || len(r.Preconditions) != 1 ||
		len(r.DependsOn) != 1 || r.Connection == nil {
		t.Fatalf("%+v", r)
	}
	if p := r.Provisioners; len(p) != 1 || !p[0].Destroy || !p[0].Continue || p[0].Type != "local-exec" {
		t.Errorf("provisioners %+v", p)
	}
	if r.Provider != (addr.LocalProvider{Name: "acme", Alias: "eu"}) || r.Source.Display() != "hashicorp/acme" {
		t.Errorf("provider %s, source %s", r.Provider, r.Source)
	}
	attrs, _ := r.Config.JustAttributes() // complains about the blocks, although they are decoded
	if got := slices.Sorted(maps.Keys(attrs)); strings.Join(got, " ") != "count_ for_each size" {
		t.Errorf("arguments %s", got)
	}
	if d := m.Resources[addr.Resource{Mode: addr.Data, Type: "acme_thing", Name: "c"}]; d == nil || d.ForEach == nil {
		t.Error("no data source")
	}
	if e := m.Resources[addr.Resource{Mode: addr.Ephemeral, Type: "acme_thing", Name: "d"}]; e == nil ||
		e.Enabled == nil {
		t.Error("no ephemeral resource")
	}
	if r := m.Required["acme"]; r == nil || !r.Implied {
		t.Error("the implied provider is not listed")
	}
}

func TestOverridesReplaceArgumentsAndBlockTypes(t *testing.T) {
	tree := mustLoad(t, map[string]string{
		"main.tf": "resource \"a_b\" \"c\" {\n  keep = 1\n  change = 1\n  blk {}\n  blk {}\n  other {}\n  dyn {}\n}\n",
		"z_override.tf": "resource \"a_b\" \"c\" {\n  change = 2\n  add = 3\n  blk {\n    x = 1\n  }\n  dynamic " +
			"\"dyn\" {\n    for_each = []\n    content {}\n  }\n" +
			"  lifecycle {\n    ignore_changes = all\n  }\n}\n",
		"override.tf": "resource \"a_b\" \"c\" {\n  change = 9\n}\n",
	})
	r := tree.Root.Module.Resources[addr.Resource{Mode: addr.Managed, Type: "a_b", Name: "c"}]
	content, more := r.Config.Content(&hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{{Name: "keep", Required: true}, {Name: "change"}, {Name: "add"}},
		Blocks:     []hcl.BlockHeaderSchema{{Type: "blk"}, {Type: "other"}, {Type: "dyn"}},
	})
	if more.HasErrors() || !r.IgnoreAll {
		t.Fatal(more, r.IgnoreAll)
	}
	var got []string
	for _, name := range slices.Sorted(maps.Keys(content.Attributes)) {
		v, _ := content.Attributes[name].Expr.Value(nil)
		got = append(got, name+"="+v.AsBigFloat().String())
	}
	for _, b := range content.Blocks {
		got = append(got, b.Type)
	}
	if s := strings.Join(got, " "); s != "add=3 change=2 keep=1 other blk dynamic" {
		t.Error(s)
	}
}

func TestAnOverriddenEncryptionBlockIsMergedByLabels(t *testing.T) {
	tree := mustLoad(t, map[string]string{
		"main.tf": "terraform {\n  encryption {\n    key_provider \"a\" \"x\" {\n      p = 1\n      q = 1\n    " +
			"}\n    state {\n      method = method.m.x\n    }\n  }\n}\n",
		"override.tf": "terraform {\n  encryption {\n    key_provider \"a\" \"x\" {\n      q = 2\n    }\n    " +
			"key_provider \"a\" \"y\" {}\n  }\n}\n",
	})
	content, more := tree.Root.Module.Encryption.Content(encryptionSchema)
	if more.HasErrors() || len(content.Blocks) != 3 {
		t.Fatal(more, len(content.Blocks))
	}
	attrs, _ := content.Blocks[0].Body.JustAttributes()
	if p, _ := attrs["p"].Expr.Value(nil); !p.RawEquals(cty.NumberIntVal(1)) {
		t.Error("what the override does not mention is lost")
	}
	if q, _ := attrs["q"].Expr.Value(nil); !q.RawEquals(cty.NumberIntVal(2)) {
		t.Error("the override does not count")
	}
}

func TestModulesAreSharedUnlessTheirSourcesDiffer(t *testing.T) {
	tree := mustLoad(t, map[string]string{
		"main.tf": "module \"a\" {\n  source = \"./m\"\n}\nmodule \"b\" {\n  source = \"./m\"\n}\n" +
			"module \"c\" {\n  source = \"./v\"\n  dir = \"m\"\n}\nmodule \"d\" {\n  source = \"./v\"\n  dir = " +
			"\"n\"\n}\n",
		"m/main.tf":   "resource \"x_y\" \"z\" {}\n",
		"v/main.tf":   "variable \"dir\" {}\nmodule \"w\" {\n  source = \"./${var.dir}\"\n}\n",
		"v/m/main.tf": "",
		"v/n/main.tf": "",
	})
	if tree.Modules["a"].Module != tree.Modules["b"].Module {
		t.Error("the same files were decoded twice")
	}
	for path, want := range map[addr.Module]string{"c.w": "v/m", "d.w": "v/n"} {
		if n := tree.Modules[path]; n == nil || n.SourceDir != want {
			t.Errorf("%s is %+v", path, n)
		}
	}
	if got := tree.Modules["c"].Module.Calls["w"].Source + tree.Modules["d"].Module.Calls["w"].Source; got != "./m./n" {
		t.Error(got)
	}
}

func TestModuleSourcesAreToldApart(t *testing.T) {
	for text, want := range map[string]string{
		"./a":                                     "local ./a",
		"./a/../b/":                               "local ./b",
		"../a":                                    "local ../a",
		`.\a\b`:                                   "local ./a/b",
		"./":                                      "local ./.",
		"hashicorp/consul/aws":                    "registry registry.opentofu.org/hashicorp/consul/aws",
		"example.com/a/b/c//sub":                  "registry example.com/a/b/c//sub",
		"github.com/a/b":                          "remote git::https://github.com/a/b.git",
		"github.com/a/b//x/y?ref=v1":              "remote git::https://github.com/a/b.git//x/y?ref=v1",
		"github.com/a/b/x":                        "remote git::https://github.com/a/b.git//x",
		"git@github.com:a/b.git":                  "remote git::ssh://git@github.com/a/b.git",
		"git::https://x.example/a.git//s":         "remote git::https://x.example/a.git//s",
		"https://x.example/a.zip":                 "remote https://x.example/a.zip",
		"s3-eu-west-1.amazonaws.com/a/b":          "remote s3::https://s3-eu-west-1.amazonaws.com/a/b",
		"a.s3-eu-west-1.amazonaws.com/b//c":       "remote s3::https://s3-eu-west-1.amazonaws.com/a/b//c",
		"a.s3.eu-west-1.amazonaws.com/b":          "remote s3::https://s3.eu-west-1.amazonaws.com/a/b",
		"www.googleapis.com/storage/v1/a/b/c.zip": "remote gcs::https://www.googleapis.com/storage/v1/a/b/c.zip",
		"s3::https://s3.amazonaws.com/a/b":        "remote s3::https://s3.amazonaws.com/a/b",
		"/abs/dir":                                "remote file:///abs/dir",
	} {
		s, err := ParseModuleSource(text, false)
		kind := map[SourceKind]string{LocalSource: "local", RegistrySource: "registry", RemoteSource: "remote"}[s.Kind]
		if err != nil || kind+" "+s.Text != want {
			t.Errorf("%s: %s %s %v", text, kind, s.Text, err)
		}
	}
	for text, registry := range map[string]bool{"": false, "a": false, "a/b": false, "./a": true,
		"https://x.example/a.zip": true, "git::https://x//../y": false} {
		if s, err := ParseModuleSource(text, registry); err == nil {
			t.Errorf("%q is %+v", text, s)
		}
	}
}

func TestAManifestIsReadAsItWasWritten(t *testing.T) {
	m := Manifest{"": {Dir: "."}, "a": {"./a", "", "a"}, "a.b": {"registry.opentofu.org/x/y/z", "1.2.3",
		".terraform/modules/a.b"}}
	got, err := ParseManifest(m.Encode())
	if err != nil || !maps.Equal(got, m) {
		t.Errorf("%v %v", got, err)
	}
	for _, text := range []string{"{", `{"Modules":[{"Key":"a"},{"Key":"a"}]}`,
		`{"Modules":[{"Key":"a","Version":"x"}]}`} {
		if _, err := ParseManifest([]byte(text)); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
	empty, err := ParseManifest(nil)
	if err != nil || len(empty) != 0 {
		t.Error(empty, err)
	}
}

func TestWhatIsInstalledHasToBeWhatIsCalled(t *testing.T) {
	files := map[string]string{"main.tf": "module \"a\" {\n  source = \"x/y/z\"\n  version = \"~> 1.0\"\n}\n",
		"m/a.tf": ""}
	for name, c := range map[string]struct {
		manifest Manifest
		want     string
	}{
		"nothing is installed": {Manifest{}, "error main.tf:1 Module not installed\n"},
		"the right version":    {Manifest{"a": {"registry.opentofu.org/x/y/z", "1.4.0", "m"}}, ""},
		"an old version": {Manifest{"a": {"registry.opentofu.org/x/y/z", "0.4.0", "m"}},
			"error main.tf:2 Module version requirements have changed\n"},
		"no version": {Manifest{"a": {"registry.opentofu.org/x/y/z", "", "m"}},
			"error main.tf:2 Module version requirements have changed\n"},
		"another source": {Manifest{"a": {"./m", "1.0.0", "m"}}, "error main.tf:2 Module source has " +
			"changed\n"},
		"the directory is missing": {Manifest{"a": {"registry.opentofu.org/x/y/z", "1.4.0", "gone"}},
			"error main.tf:1 Module not installed\n"},
	} {
		_, diags := NewLoader(newMemory(files)).LoadTree(TreeOptions{Locator: c.manifest})
		if got := describe(diags); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestBackendsAreEvaluatedEarly(t *testing.T) {
	tree := mustLoad(t, map[string]string{"main.tf": "variable \"d\" {\n  default = \"x\"\n}\nlocals {\n  p = " +
		"\"${var.d}/${terraform.workspace}/${path.root}\"\n}\n" +
		"terraform {\n  backend \"local\" {\n    path = upper(local.p)\n  }\n}\n"})
	attrs, _ := tree.Root.Module.Backend.Body.JustAttributes()
	v, diags := tree.Root.Static().Value(attrs["path"].Expr, StaticUse{"backend.local", tree.Root.Module.Backend.Range})
	if diags.HasErrors() || !v.RawEquals(cty.StringVal("X/DEFAULT/.")) {
		t.Errorf("%#v %v", v, diags.Err())
	}
}

func TestDiagnosticsCanShowTheirSource(t *testing.T) {
	l := NewLoader(newMemory(map[string]string{"main.tf": "nope {}\n", "broken.tf": "x = \n"}))
	_, diags := l.LoadModule(".")
	sources := l.Sources()
	for _, d := range diags {
		if f := sources[d.Subject.Filename]; f == nil || !d.Subject.CanSliceBytes(f.Bytes) {
			t.Errorf("%s: no source", d.Summary)
		}
	}
	if !l.HasConfig(".") || NewLoader(newMemory(map[string]string{"a.txt": ""})).HasConfig(".") {
		t.Error("HasConfig")
	}
}

func TestAnUnreadableDirectoryGivesNoTree(t *testing.T) {
	tree, diags := NewLoader(newMemory(nil)).LoadTree(TreeOptions{Dir: "gone", Locator: Manifest{}})
	if tree.Root != nil || describe(diags) != "error - Failed to read module directory\n" {
		t.Error(describe(diags))
	}
}

// FuzzLoadModule checks that whatever a file contains, loading ends, and errors have a place.
func FuzzLoadModule(f *testing.F) {
	for _, seed := range []string{
		"variable \"a\" {\n  type = object({ a = optional(string, 1) })\n  default = {}\n}\n",
		"module \"m\" {\n  source = \"./${local.x}\"\n  providers = { a = b.c[each.key] }\n}\nlocals {\n  x = " +
			"local.x\n}\n",
		"resource \"a_b\" \"c\" {\n  lifecycle {\n    replace_triggered_by = [a.b[count.index]]\n    ignore_changes " +
			"= [\"*\"]\n  }\n  _ {}\n}\n",
		"import {\n  to = module.a[1].b.c[each.key]\n  id = 1\n}\nmoved {\n  from = a.b\n  to = c.d[0]\n}\nremoved " +
			"{\n  from = a.b\n  provisioner \"x\" {\n    when = destroy\n  }\n}\n",
		"terraform {\n  required_providers {\n    a = { configuration_aliases = [a.b] }\n  }\n  encryption {\n    " +
			"state {}\n  }\n}\nprovider \"a\" {\n  alias = \"b\"\n  for_each = toset([\"x\"])\n}\n",
		"check \"a\" {\n  data \"a\" \"b\" {}\n  assert {\n    condition = data.a.b.x\n    error_message = \"\"\n  " +
			"}\n}\nlanguage {\n  compatible_with {\n    opentofu = \">= 1\"\n  }\n}\n",
		`{"resource": {"a": {"b": [{"provider": "a.b[0]", "count": 1}]}}, "import": {"to": "${a}", "id": 1}}`,
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, text []byte, override bool) {
		name := "main.tf"
		if len(text) > 0 && text[0] == '{' {
			name += ".json"
		}
		files := map[string]string{name: string(text)}
		if override {
			files = map[string]string{
				"a.tf": "resource \"a_b\" \"c\" {\n  x = 1\n}\nvariable \"a\" {\n  default = 1\n}\n", "override.tf" +
					strings.TrimPrefix(name, "main.tf"): string(text)}
		}
		tree, diags := load(files)
		for _, d := range diags {
			if d.Summary == "" {
				t.Error("a problem without a name")
			}
		}
		if tree != nil && tree.Root != nil && !diags.HasErrors() {
			tree.Check()
			tree.Requirements()
		}
	})
}

func BenchmarkLoadModule(b *testing.B) {
	const blocks = 10_000
	files := map[string]string{}
	var text strings.Builder
	for i := range blocks {
		fmt.Fprintf(&text, "resource \"test_thing\" \"r%d\" {\n  name  = \"thing-%d\"\n  count = var.n\n  other = "+
			"test_thing.r%d.id\n}\n", i, i, max(i-1, 0))
		if i%1000 == 999 {
			files[fmt.Sprintf("f%d.tf", i)] = text.String()
			text.Reset()
		}
	}
	fsys := newMemory(files)
	b.ReportAllocs()
	for b.Loop() {
		_, diags := NewLoader(fsys).LoadTree(TreeOptions{Locator: Manifest{}})
		if diags != nil {
			b.Fatal(diags.Err())
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/blocks, "µs/block")
}
