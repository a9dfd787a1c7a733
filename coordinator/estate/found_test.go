package estate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/querying"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/schema"
)

var foundType = &querying.Managed{
	Block: &schema.Block{Attributes: map[string]*schema.Attribute{
		"name": {Type: cty.String, Required: true}, "region": {Type: cty.String, Optional: true},
		"id": {Type: cty.String, Computed: true},
	}},
	Type:     cty.Object(map[string]cty.Type{"name": cty.String, "region": cty.String, "id": cty.String}),
	Identity: cty.Object(map[string]cty.Type{"name": cty.String}),
}

// listAt returns an instance of the list block "my_thing" "all".
func listAt(key addr.Key, local addr.LocalProvider, providerKey addr.Key) *querying.List {
	return &querying.List{
		Addr: addr.Resource{Mode: addr.List, Type: "my_thing", Name: "all"}.Absolute(addr.RootInstance).Instance(key),
		Type: "my_thing", Local: local, Managed: foundType,
		Provider: addr.ProviderConfig{Provider: addr.DefaultProvider("my"), Alias: local.Alias}.
			Instance(addr.RootInstance, providerKey),
	}
}

func foundObject(name, region string) *querying.Object {
	of := cty.NullVal(cty.String)
	if region != "" {
		of = cty.StringVal(region)
	}
	return &querying.Object{Identity: cty.ObjectVal(map[string]cty.Value{"name": cty.StringVal(name)}), Config: cty.NilVal,
		Value: cty.ObjectVal(map[string]cty.Value{"name": cty.StringVal(name), "region": of, "id": cty.StringVal("i")})}
}

func TestFoundObjectsAreWrittenByRegionUnderFreeNames(t *testing.T) {
	dir := t.TempDir()
	e := testEstate(t, dir)
	f, diags := e.FoundFiles("found/")
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	taken := addr.Resource{Mode: addr.Managed, Type: "my_thing", Name: "all_1"}
	f.Avoid(&config.Module{Resources: map[addr.Resource]*config.Resource{taken: {}}})
	plain, keyed := addr.LocalProvider{Name: "my"}, addr.LocalProvider{Name: "my", Alias: "by"}
	for _, o := range []*querying.Object{foundObject("a", "eu"), foundObject("b", "us/1"), foundObject("c", "eu"),
		foundObject("a", "eu")} {
		f.Add(listAt(addr.NoKey, plain, addr.NoKey), o)
	}
	resource, imports := f.Add(listAt(addr.StringKey("x y"), keyed, addr.StringKey("k")), foundObject("d", ""))
	if !strings.Contains(resource, `resource "my_thing" "all_x_y_0"`) ||
		!strings.Contains(imports, `provider = my.by["k"]`) {
		t.Errorf("got\n%s\n%s", resource, imports)
	}
	if entries, err := filepath.Glob(filepath.Join(dir, "found", "*.tf")); err != nil || len(entries) > 0 {
		t.Errorf("before the end there are %v, %v", entries, err)
	}
	names, diags := f.Close(true)
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	if want := []string{"found/eu_my_thing.tf", "found/global_my_thing.tf", "found/us_1_my_thing.tf"}; !slices.Equal(
		names, want) {
		t.Errorf("written are %v, want %v", names, want)
	}
	text, err := os.ReadFile(filepath.Join(dir, "found", "eu_my_thing.tf"))
	if err != nil {
		t.Fatal(err)
	}
	const want = `# __generated__ by OpenTofu
# Look these resources through, and move them to where they belong.

# __generated__ by OpenTofu
import {
  to = my_thing.all_0
  identity = {
    name = "a"
  }
}

resource "my_thing" "all_0" {
  name   = "a"
  region = "eu"
}

# __generated__ by OpenTofu
import {
  to = my_thing.all_3
  identity = {
    name = "c"
  }
}

resource "my_thing" "all_3" {
  name   = "c"
  region = "eu"
}
`
	if string(text) != want {
		t.Errorf("got\n%s", text)
	}
}

// Each file was open until the end of the query, and providers name the regions: a provider with many exhausted the
// descriptors of the process.
func TestRegionsThatAProviderNamesOpenFewFilesAndOnlySoMany(t *testing.T) {
	dir := t.TempDir()
	f, diags := testEstate(t, dir).FoundFiles("found/")
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	f.most = 50
	list := listAt(addr.NoKey, addr.LocalProvider{Name: "my"}, addr.NoKey)
	open := func() (n int) {
		for _, to := range f.files {
			if to.file != nil {
				n++
			}
		}
		return n
	}
	for i := range f.most {
		f.Add(list, foundObject(fmt.Sprint("a", i), fmt.Sprint("r", i)))
	}
	f.Add(list, foundObject("b", "r0")) // continues a file that was closed
	if n := open(); n != 1 || f.err != nil {
		t.Fatalf("%d files are open, %v", n, f.err)
	}
	text, err := os.ReadFile(f.files[filepath.Join("found", "r1_my_thing.tf")].partial)
	if err != nil || strings.Count(string(text), "import {") != 1 {
		t.Errorf("a file is %q, %v", text, err)
	}
	f.Add(list, foundObject("c", "one more"))
	text, err = os.ReadFile(f.files[filepath.Join("found", "r0_my_thing.tf")].partial)
	if err != nil || strings.Count(string(text), "import {") != 2 || strings.Count(string(text), generatedHead) != 1 {
		t.Errorf("a file that was continued is %q, %v", text, err)
	}
	if _, diags := f.Close(true); len(diags) != 1 || !strings.Contains(diags[0].Detail, ": 50. Write") {
		t.Errorf("one file more than there may be: %v", diags)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "found")); err != nil || len(left) > 0 {
		t.Errorf("%d files are left, %v", len(left), err)
	}
}

func TestAQueryThatFailsWritesNothing(t *testing.T) {
	dir := t.TempDir()
	f, diags := testEstate(t, dir).FoundFiles("found.tf")
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	f.Add(listAt(addr.NoKey, addr.LocalProvider{Name: "my"}, addr.NoKey), foundObject("a", ""))
	if names, diags := f.Close(false); len(names) > 0 || diags.HasErrors() {
		t.Errorf("written are %v, %v", names, diags)
	}
	if entries, err := os.ReadDir(dir); err != nil || slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return strings.Contains(e.Name(), "found")
	}) {
		t.Errorf("left are %v, %v", entries, err)
	}
}

func TestAFileOfTheUserIsNotOverwritten(t *testing.T) {
	dir := t.TempDir()
	e := testEstate(t, dir)
	for _, name := range []string{"mine.tf", "global_my_thing.tf"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, diags := e.FoundFiles("mine.tf"); len(diags) != 1 || diags[0].Summary != "Target generated file already exists" {
		t.Errorf("a file: %v", diags)
	}
	f, diags := e.FoundFiles(".")
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	f.Add(listAt(addr.NoKey, addr.LocalProvider{Name: "my"}, addr.NoKey), foundObject("a", ""))
	if _, diags := f.Close(true); len(diags) != 1 || !strings.Contains(diags[0].Detail, "already exists") {
		t.Errorf("a directory: %v", diags)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "global_my_thing.tf")); err != nil || string(text) != "mine" {
		t.Errorf("the file is %q, %v", text, err)
	}
}
