package values

import (
	"slices"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

func object(pairs ...any) cty.Value {
	m := map[string]cty.Value{}
	for i := 0; i < len(pairs); i += 2 {
		switch v := pairs[i+1].(type) {
		case string:
			m[pairs[i].(string)] = cty.StringVal(v)
		case cty.Value:
			m[pairs[i].(string)] = v
		}
	}
	return cty.ObjectVal(m)
}

func TestARegionIsWhatAnObjectNamesOpenly(t *testing.T) {
	for sentence, c := range map[string]struct {
		v    cty.Value
		want string
	}{
		"its region":              {object("region", "eu"), "eu"},
		"its location":            {object("location", "us"), "us"},
		"the region first":        {object("location", "us", "region", "eu"), "eu"},
		"the location of no":      {object("location", "us", "region", cty.NullVal(cty.String)), "us"},
		"no sensitive one":        {object("region", cty.StringVal("eu").Mark(marks.Sensitive)), ""},
		"no unknown one":          {object("region", cty.UnknownVal(cty.String)), ""},
		"no number":               {object("region", cty.Zero), ""},
		"none of a null object":   {cty.NullVal(cty.EmptyObject), ""},
		"none of what is no more": {cty.NilVal, ""},
		"none of other types":     {cty.StringVal("eu"), ""},
	} {
		if got := Region(c.v); got != c.want {
			t.Errorf("%s: %q, want %q", sentence, got, c.want)
		}
	}
}

func TestMarksAreTheSameWhenTheSamePartsAreSensitive(t *testing.T) {
	secret := cty.StringVal("x").Mark(marks.Sensitive)
	for sentence, c := range map[string]struct {
		a, b cty.Value
		want bool
	}{
		"neither has any":  {object("a", "x"), object("a", "y"), true},
		"the same part":    {object("a", secret), object("a", secret), true},
		"one has one more": {object("a", secret, "b", "x"), object("a", secret, "b", secret), false},
		"another part":     {object("a", secret, "b", "x"), object("a", "x", "b", secret), false},
		"an element of a tuple": {
			cty.TupleVal([]cty.Value{secret, cty.Zero}),
			cty.TupleVal([]cty.Value{cty.StringVal("x"), cty.Zero.Mark(marks.Sensitive)}), false,
		},
	} {
		if got := SameMarks(c.a, c.b); got != c.want {
			t.Errorf("%s: %t", sentence, got)
		}
	}
}

func TestAPathIsWrittenAsInTheLanguage(t *testing.T) {
	for want, p := range map[string]cty.Path{
		".a.b":          cty.GetAttrPath("a").GetAttr("b"),
		".a[3].b":       cty.GetAttrPath("a").IndexInt(3).GetAttr("b"),
		`.a["k\"q"]`:    cty.GetAttrPath("a").IndexString(`k"q`),
		".a[...].b":     cty.GetAttrPath("a").Index(object("x", "y")).GetAttr("b"),
		".a[...]":       cty.GetAttrPath("a").Index(cty.UnknownVal(cty.String)),
		"":              nil,
		".a[1.5]":       cty.GetAttrPath("a").Index(cty.NumberFloatVal(1.5)),
		`.a["x"]["y"]`:  cty.GetAttrPath("a").IndexString("x").IndexString("y"),
		`.tags["a[0]"]`: cty.GetAttrPath("tags").IndexString("a[0]"),
	} {
		if got := FormatPath(p); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if PathKey(cty.GetAttrPath("a").IndexInt(0)) == PathKey(cty.GetAttrPath("a").IndexString("0")) {
		t.Error("different paths have the same key")
	}
}

func TestPathsSurviveTheWireAndWhatIsNoneIsAnError(t *testing.T) {
	want := []cty.Path{cty.GetAttrPath("a").IndexInt(3), cty.GetAttrPath("b").IndexString("k")}
	coded, err := EncodePaths(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodePaths(coded)
	if err != nil || !slices.EqualFunc(got, want, cty.Path.Equals) {
		t.Errorf("%v became %v: %v", want, got, err)
	}
	if _, err := DecodePaths([][]byte{{0xc1}}); err == nil {
		t.Error("invalid data was decoded as a path")
	}
}

func TestIgnoreChangesAreThePathsThatTheyName(t *testing.T) {
	code := load(t, `resource "fake_thing" "a" {
  lifecycle { ignore_changes = [name, old[0].x, secret["k"]] }
}`)
	r := code.Tree.Root.Module.Resources[addr.Resource{Mode: addr.Managed, Type: "fake_thing", Name: "a"}]
	want := []string{".name", ".old[0].x", `.secret["k"]`}
	for i, p := range IgnorePaths(r) {
		if got := FormatPath(p); got != want[i] {
			t.Errorf("got %s, want %s", got, want[i])
		}
	}
}

func TestAnObjectIsCalledByItsIDElseByItsName(t *testing.T) {
	stored := func(attrs string, sensitive ...cty.Path) [2]string {
		k, id := IDOfStored(&state.Object{Attrs: []byte(attrs), Sensitive: sensitive})
		return [2]string{k, id}
	}
	of := func(v cty.Value) [2]string { k, id := IDOf(v); return [2]string{k, id} }
	imported := func(i plan.Importing) [2]string { k, id := IDOfImport(&i); return [2]string{k, id} }
	identity := object("account", "7", "name", cty.NullVal(cty.String))
	for sentence, c := range map[string]struct{ got, want [2]string }{
		"a value with both":   {of(object("id", "i", "name", "n")), [2]string{"id", "i"}},
		"a value with a name": {of(object("name", "n")), [2]string{"name", "n"}},
		"a value without an id yet": {of(object("id", cty.UnknownVal(cty.String), "name", "n")),
			[2]string{"name", "n"}},
		"a value with a sensitive id": {of(object("id", cty.StringVal("i").Mark(marks.Sensitive))), [2]string{}},
		"no value":                    {of(cty.NilVal), [2]string{}},
		"a stored object":             {stored(`{"id":"i"}`), [2]string{"id", "i"}},
		"a stored name":               {stored(`{"id":5,"name":"n"}`), [2]string{"name", "n"}},
		"a stored id that is sensitive": {stored(`{"id":"i","name":"n"}`, cty.GetAttrPath("id")),
			[2]string{"name", "n"}},
		"a stored object all sensitive": {stored(`{"id":"i"}`, cty.Path{}), [2]string{}},
		"what cannot be read":           {stored(`{`), [2]string{}},
		"an import by id": {imported(plan.Importing{ID: "x", Identity: cty.NilVal}),
			[2]string{"id", "x"}},
		"an import by identity": {imported(plan.Importing{Identity: identity}), [2]string{"account", "7"}},
		"an import of unknown identity": {imported(plan.Importing{Identity: cty.UnknownVal(identity.Type())}),
			[2]string{}},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", sentence, c.got, c.want)
		}
	}
	if k, id := IDOfStored(nil); k != "" || id != "" {
		t.Error("a missing object has an id")
	}
}

// Computed attributes of a data source are unknown until it is read, at every depth; configured ones are known.
func TestUnreadDataIsUnknownWhereTheProviderComputes(t *testing.T) {
	nested := func(n schema.Nesting) *schema.NestedBlock {
		return &schema.NestedBlock{Nesting: n, Block: schema.Block{Attributes: map[string]*schema.Attribute{
			"given": {Type: cty.String, Optional: true}, "found": {Type: cty.String, Computed: true},
		}}}
	}
	block := &schema.Block{
		Attributes: map[string]*schema.Attribute{
			"id": {Type: cty.String, Computed: true}, "q": {Type: cty.String, Optional: true, Computed: true},
		},
		Blocks: map[string]*schema.NestedBlock{
			"one": nested(schema.NestingSingle), "list": nested(schema.NestingList),
			"set": nested(schema.NestingSet), "map": nested(schema.NestingMap),
		},
	}
	null := cty.NullVal(cty.String)
	config := object("given", "g", "found", null)
	unread := object("given", "g", "found", cty.UnknownVal(cty.String))
	got := UnknownComputed(cty.ObjectVal(map[string]cty.Value{
		"id": null, "q": cty.StringVal("q").Mark(marks.Sensitive), "one": config,
		"list": cty.ListVal([]cty.Value{config}),
		"set":  cty.SetVal([]cty.Value{config}), "map": cty.MapVal(map[string]cty.Value{"k": config}),
	}), block)
	want := cty.ObjectVal(map[string]cty.Value{
		"id": cty.UnknownVal(cty.String), "q": cty.StringVal("q").Mark(marks.Sensitive),
		"one": unread, "list": cty.ListVal([]cty.Value{unread}),
		"set": cty.SetVal([]cty.Value{unread}), "map": cty.MapVal(map[string]cty.Value{"k": unread}),
	})
	if !got.RawEquals(want) {
		t.Errorf("got %#v", got)
	}
	empty := cty.ObjectVal(map[string]cty.Value{
		"id": null, "q": null, "one": cty.NullVal(config.Type()), "list": cty.ListValEmpty(config.Type()),
		"set": cty.SetValEmpty(config.Type()), "map": cty.UnknownVal(cty.Map(config.Type())),
	})
	got = UnknownComputed(empty, block)
	if !got.GetAttr("one").IsNull() || got.GetAttr("list").LengthInt() != 0 || got.GetAttr("q").IsKnown() {
		t.Errorf("got %#v", got)
	}
}

func TestWhatWasSentIsToldWithoutSecretsAndUnknowns(t *testing.T) {
	b := fakeSchemas.Managed["fake_thing"].Block
	v := cty.ObjectVal(map[string]cty.Value{
		"id": cty.UnknownVal(cty.String), "name": cty.StringVal("n"),
		"secret": cty.StringVal("hush").Mark(marks.Sensitive), "old": cty.NullVal(cty.String),
	})
	if got := string(SentJSON(v, b)); got != `{"id":null,"name":"n","old":null,"secret":null}` {
		t.Errorf("got %s", got)
	}
	if SentJSON(cty.NullVal(b.ImpliedType()), b) != nil {
		t.Error("a null object has a JSON text")
	}
}

func TestAStoredObjectIsReadByItsOwnSchemaVersionAlone(t *testing.T) {
	s := fakeSchemas.Managed["fake_thing"]
	good := state.Object{
		SchemaVersion: 2, Attrs: []byte(`{"id":"i","name":null,"secret":"s","old":null}`),
		Sensitive: []cty.Path{cty.GetAttrPath("id")},
	}
	v, err := DecodeStored(&good, &s)
	if err != nil || !v.GetAttr("id").HasMark(marks.Sensitive) || !v.GetAttr("secret").HasMark(marks.Sensitive) {
		t.Errorf("got %#v: %v", v, err)
	}
	attrs, sensitive, err := EncodeStored(v, s.Block)
	if err != nil || string(attrs) != `{"id":"i","name":null,"old":null,"secret":"s"}` || len(sensitive) != 2 {
		t.Errorf("the object is stored as %s with %v: %v", attrs, sensitive, err)
	}
	for sentence, o := range map[string]state.Object{
		"an older one":           {SchemaVersion: 1, Attrs: good.Attrs},
		"one in the old form":    {SchemaVersion: 2, Flatmap: map[string]string{"id": "i"}},
		"one of another type":    {SchemaVersion: 2, Attrs: []byte(`{"id":[]}`)},
		"one that is not JSON":   {SchemaVersion: 2, Attrs: []byte(`{`)},
		"one without attributes": {SchemaVersion: 2},
	} {
		if _, err := DecodeStored(&o, &s); err == nil {
			t.Errorf("%s was decoded", sentence)
		}
	}
	if StoredForWire(nil) != nil {
		t.Error("a missing object became an object")
	}
	good.Status = state.Tainted
	if w := StoredForWire(&good); !w.Tainted || w.SchemaVersion != 2 {
		t.Errorf("the object is sent as %+v", w)
	}
}

func TestWhatACheckObservesIsAWarningThatNamesTheCheck(t *testing.T) {
	code := load(t, `module "child" { source = "./child" }`, `check "health" {
  data "fake_lookup" "d" { key = "k" }
  assert {
    condition     = data.fake_lookup.d.value != ""
    error_message = "no"
  }
}`)
	child := code.Tree.Modules[addr.ModuleOf("child")]
	data := child.Module.Resources[addr.Resource{Mode: addr.Data, Type: "fake_lookup", Name: "d"}]
	at := addr.ModuleInstanceOf(addr.Step{Name: "child"})
	out := Observe(data, at, diag.Errors("not found", "", nil))
	observed, ok := out[0].Extra.(*Observed)
	if out.HasErrors() || !ok || observed.Check != "module.child.check.health" ||
		observed.Problem.Summary != "not found" {
		t.Errorf("got %+v", out[0])
	}
	s := NewStore(Options{Code: code, Phase: Planning})
	m := s.Instances(addr.ModuleOf("child"))[0]
	static, instance := CheckAround(m.ResourceBlock(data.Addr))
	if static != "module.child.check.health" || instance != static {
		t.Errorf("the object is in %s, %s", static, instance)
	}
}

func TestAnIdentityIsStoredOnceItIsKnown(t *testing.T) {
	if got := string(EncodeIdentity(object("arn", "a"))); got != `{"arn":"a"}` {
		t.Errorf("got %s", got)
	}
	if got := EncodeIdentity(object("arn", cty.UnknownVal(cty.String))); got != nil {
		t.Errorf("got %s", got)
	}
	says(t, diag.List{NoIdentity("fake_thing", nil)}, "import by id")
	v := EphemeralValue(object("value", "v"), &schema.Block{Attributes: map[string]*schema.Attribute{
		"value": {Type: cty.String, Computed: true, Sensitive: true}}}, nil)
	if !v.HasMark(marks.Ephemeral) || !marks.Contains(v, marks.Sensitive) {
		t.Errorf("got %#v", v)
	}
}

func TestProblemsOfWorkersPointToTheBlock(t *testing.T) {
	list := wire.DiagsToWire(diag.List{{Severity: diag.Error, Summary: "bad", Path: cty.GetAttrPath("a")}})
	if got := WireDiags(list, nil); !got.HasErrors() || got[0].Summary != "bad" || got[0].Subject != nil {
		t.Errorf("got %v", got)
	}
	at := hcl.Range{Filename: "main.tf"}
	got := WireDiags(list, func(p cty.Path) *hcl.Range {
		if !p.Equals(cty.GetAttrPath("a")) {
			t.Errorf("the source line of the path %s was requested", FormatPath(p))
		}
		return &at
	})
	if got[0].Subject == nil || got[0].Subject.Filename != "main.tf" {
		t.Errorf("got %v", got[0].Subject)
	}
}
