package addr

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/millipede-iac/millipede/lang/diag"
)

func traversal(t testing.TB, text string) hcl.Traversal {
	t.Helper()
	trav, diags := hclsyntax.ParseTraversalAbs([]byte(text), "test.tf", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatalf("%s: %s", text, diags)
	}
	return trav
}

func mustInstance(t testing.TB, text string) Instance {
	t.Helper()
	i, diags := ParseInstance(text)
	if diags.HasErrors() {
		t.Fatalf("%s: %s", text, diags.Err())
	}
	return i
}

func summaries(l diag.List) string {
	var out []string
	for _, d := range l {
		out = append(out, d.Summary)
	}
	return strings.Join(out, "; ")
}

func TestAnInstancePrintsAsItWasParsed(t *testing.T) {
	for _, text := range []string{
		"a_b.c", "a_b.c[0]", "a_b.c[10]", `a_b.c["x"]`, `a_b.c["x y/z.[]"]`, `a_b.c["q\"\\\n\t"]`, `a_b.c["$${x}"]`,
		`a_b.c["ü"]`, "data.a.b", "data.a.b[1]", "ephemeral.a.b", `module.m.a.b`, `module.m[0].data.a.b`,
		`module.m["k.k"].module.n.a.b["z"]`, `module.m["$${x}"].module.n.a.b["z"]`, "a-b.c-d", "_a._b",
	} {
		i, diags := ParseInstance(text)
		if diags.HasErrors() {
			t.Errorf("%s: %s", text, diags.Err())
			continue
		}
		if got := i.String(); got != text {
			t.Errorf("%s prints as %s", text, got)
		}
		if steps := i.Module.Steps(); ModuleInstanceOf(steps...) != i.Module {
			t.Errorf("%s: the module does not survive being taken apart", text)
		}
	}
}

func TestOddTextStillMeansTheSame(t *testing.T) {
	for text, want := range map[string]string{
		"a.b[00]":           "a.b[0]",
		"a.b[1e1]":          "a.b[10]",
		` a . b [ "x" ]`:    `a.b["x"]`,
		`module.m [1] .a.b`: "module.m[1].a.b",
		`a.b["\u0041"]`:     `a.b["A"]`,
	} {
		if got := mustInstance(t, text).String(); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}

func TestWhatIsNoInstanceIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":              "Variable name required",
		"a":             "Invalid address",
		"module":        "Invalid address operator",
		"module.m":      "Invalid address",
		"module[0]":     "Invalid address operator",
		"module.m.data": "Invalid address",
		"data.a":        "Invalid address",
		"data.a[0].b":   "Invalid address",
		"a.b.c":         "Invalid address",
		"a.b[0].c":      "Invalid address",
		"a.b[0.5]":      "Invalid address",
		"a.b[true]":     "Index value required",
		`a.b["${x}"]`:   "Template interpolation is not allowed in this context",
		"module.m[0.5]": "Invalid address operator",
	} {
		_, diags := ParseInstance(text)
		if !diags.HasErrors() {
			t.Errorf("%q is accepted", text)
		} else if got := summaries(diags); !strings.Contains(got, want) && !strings.HasPrefix(text, "a.b[") {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func FuzzTheFastScanAgreesWithTheParser(f *testing.F) {
	for _, seed := range []string{"a.b", `module.m["x"].data.a.b[0]`, "module.module.module", `a.b["$"]`,
		"data.data.data", "ephemeral.a.b[01]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		fast, ok := scanInstance(text)
		if !ok {
			return
		}
		trav, diags := parseText(text)
		if diags.HasErrors() {
			t.Fatalf("%q: only the scan accepts it: %s", text, diags.Err())
		}
		slow, diags := ParseTargetTraversal(trav)
		if diags.HasErrors() || slow.AsInstance() != fast {
			t.Fatalf("%q: scan %v, parser %v (%v)", text, fast, slow, diags.Err())
		}
	})
}

func TestReferencesStopWhereTheirSubjectEnds(t *testing.T) {
	for text, want := range map[string]struct {
		subject Named
		rest    int
		end     int // column behind the range
	}{
		"var.a":                {Variable{"a"}, 0, 6},
		"var.a.b[0]":           {Variable{"a"}, 2, 6},
		"local.a":              {Local{"a"}, 0, 8},
		"count.index":          {CountAttr{"index"}, 0, 12},
		"each.value.x":         {ForEachAttr{"value"}, 1, 11},
		"path.module":          {PathAttr{"module"}, 0, 12},
		"terraform.workspace":  {EngineAttr{"terraform", "workspace"}, 0, 20},
		"tofu.workspace":       {EngineAttr{"tofu", "workspace"}, 0, 15},
		"self.id":              {Self{}, 1, 5},
		"a_b.c":                {Resource{Managed, "a_b", "c"}, 0, 6},
		"a_b.c.d":              {ResourceRef{Resource{Managed, "a_b", "c"}, NoKey}, 1, 6},
		"a_b.c[0].d":           {ResourceRef{Resource{Managed, "a_b", "c"}, IntKey(0)}, 1, 9},
		"resource.var.c":       {Resource{Managed, "var", "c"}, 0, 15},
		"data.a.b":             {Resource{Data, "a", "b"}, 0, 9},
		`data.a.b["x"].y.z`:    {ResourceRef{Resource{Data, "a", "b"}, StringKey("x")}, 2, 14},
		"ephemeral.a.b.c":      {ResourceRef{Resource{Ephemeral, "a", "b"}, NoKey}, 1, 14},
		"module.m":             {ModuleCall{"m"}, 0, 9},
		"module.m[0]":          {ModuleCallInstance{"m", IntKey(0)}, 0, 12},
		"module.m.out.x":       {ModuleOutput{ModuleCallInstance{"m", NoKey}, "out"}, 1, 13},
		`module.m["k"].out[1]`: {ModuleOutput{ModuleCallInstance{"m", StringKey("k")}, "out"}, 1, 18},
	} {
		ref, diags := ParseReference(traversal(t, text))
		if diags.HasErrors() {
			t.Errorf("%s: %s", text, diags.Err())
			continue
		}
		if ref.Subject != want.subject || len(ref.Remaining) != want.rest || ref.Range.End.Column != want.end ||
			ref.Range.Start.Column != 1 {
			t.Errorf("%s: %#v, %d steps left, ends at %d", text, ref.Subject, len(ref.Remaining), ref.Range.End.Column)
		}
	}
}

func TestReferencesThatLeadNowhereAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"var":              "Invalid reference",
		"var[0]":           "Invalid reference",
		"count":            "Invalid reference",
		"data":             "Invalid reference",
		"data.a":           "Invalid reference",
		"data[0].b.c":      "Invalid reference",
		"data.a[0].b":      "Invalid reference",
		"resource.a":       "Invalid reference",
		"ephemeral.a":      "Invalid reference",
		"a_b":              "Invalid reference",
		"a_b[0]":           "Invalid reference",
		"module":           "Invalid reference",
		"module.m[0][1]":   "Invalid reference",
		"a_b.c[0.5]":       "Invalid index key",
		"module.m[0.5].x":  "Invalid index key",
		"template.x":       "Reserved symbol name",
		"lazy.x":           "Reserved symbol name",
		"arg.x":            "Reserved symbol name",
		"terraform[\"a\"]": "Invalid reference",
	} {
		ref, diags := ParseReference(traversal(t, text))
		if got := summaries(diags); got != want || ref != nil {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestProviderSourcesAreNormalised(t *testing.T) {
	for text, want := range map[string]string{
		"aws":                               "registry.opentofu.org/hashicorp/aws",
		"Acme/Thing":                        "registry.opentofu.org/acme/thing",
		"example.com/acme/thing":            "example.com/acme/thing",
		"EXAMPLE.com:8443/acme/thing":       "example.com:8443/acme/thing",
		"terraform.io/builtin/terraform":    "terraform.io/builtin/terraform",
		"registry.terraform.io/a/google-be": "registry.terraform.io/a/google-be",
	} {
		p, diags := ParseProviderSource(text)
		if diags.HasErrors() || p.String() != want {
			t.Errorf("%s: %s %v", text, p, diags.Err())
		}
	}
	for text, want := range map[string]string{
		"":                             "Invalid provider source string",
		"a/b/c/d":                      "Invalid provider source string",
		"a//c":                         "Invalid provider source string",
		"a b/c":                        "Invalid provider namespace",
		"a/b!":                         "Invalid provider type",
		"a/terraform-provider-b":       "Invalid provider type",
		"x.example/a/terraform-b":      "Invalid provider type",
		"-bad.example/acme/thing":      "Invalid provider source hostname",
		"example.com/-/thing":          "Invalid provider namespace",
		"example.com/a/opentofu-thing": "Invalid provider type",
	} {
		if _, diags := ParseProviderSource(text); summaries(diags) != want {
			t.Errorf("%s: %q, want %q", text, summaries(diags), want)
		}
	}
}

func TestProviderConfigurationsOfStatesAreRead(t *testing.T) {
	for text, want := range map[string]string{
		`provider["registry.opentofu.org/hashicorp/aws"]`:        "",
		`provider["registry.opentofu.org/hashicorp/aws"].west`:   "",
		`module.a.module.b.provider["example.com/x/y"]`:          "",
		`provider["example.com/x/y"].by_region["eu"]`:            "",
		`module.a["k"].provider["example.com/x/y"].by_region[1]`: "",
		"provider.aws":               `provider["registry.opentofu.org/-/aws"]`,
		"module.a.provider.aws.west": `module.a.provider["registry.opentofu.org/-/aws"].west`,
		"provider.terraform":         `provider["terraform.io/builtin/terraform"]`,
		`provider["aws"]`:            `provider["registry.opentofu.org/hashicorp/aws"]`,
	} {
		if want == "" {
			want = text
		}
		p, diags := ParseProviderInstance(text)
		if diags.HasErrors() || p.String() != want {
			t.Errorf("%s: %s %v", text, p, diags.Err())
		}
	}
	for _, text := range []string{
		"provider", "aws.x", "module.a", `provider[0]`, `provider["a/b"]["x"]`, `provider["a/b"].x.y`,
		`provider["a/b"].x[0].y`, `module.a`,
		`provider["a/b/c/d"]`, "provider.aws.west[0]",
	} {
		if _, diags := ParseProviderInstance(text); !diags.HasErrors() {
			t.Errorf("%s is accepted", text)
		}
	}
	for _, text := range []string{`provider["a/b"].x["y"]`, `module.a[0].provider["a/b"]`} {
		if _, diags := ParseProviderConfig(text); summaries(diags) != "Invalid provider configuration address" {
			t.Errorf("%s: %q", text, summaries(diags))
		}
	}
}

func TestLocalProvidersAreANameAndAnAlias(t *testing.T) {
	for text, want := range map[string]LocalProvider{"aws": {"aws", ""}, "aws.west": {"aws", "west"}} {
		if l, diags := ParseLocalProvider(traversal(t, text)); diags.HasErrors() || l != want {
			t.Errorf("%s: %v %v", text, l, diags.Err())
		}
	}
	for _, text := range []string{"aws[0]", "aws.west.x", "aws.west[0]"} {
		if _, diags := ParseLocalProvider(traversal(t, text)); summaries(
			diags) != "Invalid provider configuration address" {
			t.Errorf("%s: %q", text, summaries(diags))
		}
	}
}

func TestTargetsContainWhatTheyName(t *testing.T) {
	for _, c := range []struct {
		target, instance string
		want             bool
	}{
		{"a.b", "a.b", true},
		{"a.b", "a.b[0]", true},
		{"a.b", `a.b["x"]`, true},
		{"a.b", "a.c", false},
		{"a.b", "data.a.b", false},
		{"a.b", "module.m.a.b", false},
		{"a.b[0]", "a.b[0]", true},
		{"a.b[0]", "a.b[1]", false},
		{"a.b[0]", "a.b", false},
		{"module.m", "module.m.a.b", true},
		{"module.m", "module.m[0].a.b", true},
		{"module.m", `module.m["x"].module.n[1].a.b`, true},
		{"module.m", "module.mm.a.b", false},
		{"module.m", "a.b", false},
		{"module.m[0]", "module.m[0].module.n.a.b", true},
		{"module.m[0]", "module.m[1].a.b", false},
		{"module.m[0]", "module.m.a.b", false},
		{"module.m.module.n", "module.m.module.n[3].a.b", true},
		{"module.m.module.n", "module.m[0].module.n.a.b", false},
		{"module.m.a.b", "module.m.a.b[0]", true},
		{"module.m.a.b", "module.m[0].a.b[0]", false},
		{"module.m[1].a.b", "module.m[1].a.b[0]", true},
	} {
		target, diags := ParseTarget(c.target)
		if diags.HasErrors() {
			t.Fatalf("%s: %s", c.target, diags.Err())
		}
		i := mustInstance(t, c.instance)
		if got := target.Contains(i); got != c.want {
			t.Errorf("%s contains %s: %v", c.target, c.instance, got)
		}
		if c.want && !target.MayContain(i.Config()) {
			t.Errorf("%s contains %s, but is said not to reach the resource", c.target, c.instance)
		}
		if target.String() != c.target {
			t.Errorf("%s prints as %s", c.target, target)
		}
	}
}

func TestWholeResourcesAndModulesAreParsedAlone(t *testing.T) {
	if r, diags := ParseAbsResource("module.m[0].data.a.b"); diags.HasErrors() || r.String() != "module.m[0].data.a.b" {
		t.Error(r, diags.Err())
	}
	for _, text := range []string{"a.b[0]", "module.m", "a"} {
		if _, diags := ParseAbsResource(text); summaries(diags) != "Invalid address" {
			t.Errorf("%s: %q", text, summaries(diags))
		}
	}
	if m, diags := ParseModuleInstance(`module.m["x"].module.n`); diags.HasErrors() ||
		m.String() != `module.m["x"].module.n` {
		t.Error(m, diags.Err())
	}
	for _, text := range []string{"a.b", "module.m.a.b", "module.m[0].x"} {
		if _, diags := ParseModuleInstance(text); summaries(diags) != "Invalid module instance address" {
			t.Errorf("%s: %q", text, summaries(diags))
		}
	}
}

func BenchmarkParseInstance(b *testing.B) {
	text := `module.network["eu-west-1"].module.subnets[3].aws_subnet.private["a"]`
	b.ReportAllocs()
	for b.Loop() {
		if _, diags := ParseInstance(text); diags != nil {
			b.Fatal(diags.Err())
		}
	}
}
