package change

import (
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/schema"
)

// part is the content of the nested blocks and nested attributes of these tests: a configured name and a computed id.
func part() map[string]*schema.Attribute {
	return map[string]*schema.Attribute{
		"name": {Type: cty.String, Optional: true},
		"id":   {Type: cty.String, Computed: true},
	}
}

// nested returns a block with part as a nested block "b" and as a nested attribute "n", in the given nesting.
func nested(n schema.Nesting) *schema.Block {
	b := &schema.Block{Blocks: map[string]*schema.NestedBlock{"b": {Nesting: n,
		Block: schema.Block{Attributes: part()}}}}
	if n != schema.NestingGroup {
		b.Attributes = map[string]*schema.Attribute{"n": {Optional: true, Nested: &schema.Object{Nesting: n,
			Attributes: part()}}}
	}
	return b
}

// p returns a part; "" is null and "?" unknown.
func p(name, id string) cty.Value {
	text := func(s string) cty.Value {
		switch s {
		case "":
			return cty.NullVal(cty.String)
		case "?":
			return unknown
		}
		return cty.StringVal(s)
	}
	return cty.ObjectVal(map[string]cty.Value{"name": text(name), "id": text(id)})
}

var partType = p("", "").Type()

func list(vs ...cty.Value) cty.Value {
	if len(vs) == 0 {
		return cty.ListValEmpty(partType)
	}
	return cty.ListVal(vs)
}

func set(vs ...cty.Value) cty.Value {
	if len(vs) == 0 {
		return cty.SetValEmpty(partType)
	}
	return cty.SetVal(vs)
}

func mapped(kv ...any) cty.Value {
	vs := map[string]cty.Value{}
	for i := 0; i < len(kv); i += 2 {
		vs[kv[i].(string)] = kv[i+1].(cty.Value)
	}
	if len(vs) == 0 {
		return cty.MapValEmpty(partType)
	}
	return cty.MapVal(vs)
}

// both returns a value of nested: v as the blocks and as the attribute. A null attribute becomes null blocks only if
// blocks can be null in that nesting.
func both(b *schema.Block, v cty.Value) cty.Value {
	vals := map[string]cty.Value{"b": v}
	if v.IsNull() {
		vals["b"] = b.Blocks["b"].EmptyValue()
	}
	if len(b.Attributes) > 0 {
		vals["n"] = v
	}
	return cty.ObjectVal(vals)
}

func TestWhatIsProposedInheritsTheComputedParts(t *testing.T) {
	for claim, c := range map[string]struct {
		nesting             schema.Nesting
		prior, config, want cty.Value
	}{
		"single: from the prior object":   {schema.NestingSingle, p("a", "1"), p("b", ""), p("b", "1")},
		"single: nothing to inherit from": {schema.NestingSingle, cty.NullVal(partType), p("b", ""), p("b", "")},
		"single: not configured any more": {schema.NestingSingle, p("a", "1"), cty.NullVal(partType),
			cty.NullVal(partType)},
		"single: an unknown name is kept": {schema.NestingSingle, p("a", "1"), p("?", ""), p("?", "1")},
		"group: from the prior object":    {schema.NestingGroup, p("a", "1"), p("", ""), p("", "1")},
		"list: by position": {schema.NestingList, list(p("a", "1"), p("b", "2")),
			list(p("b", ""), p("a", "")), list(p("b", "1"), p("a", "2"))},
		"list: one more": {schema.NestingList, list(p("a", "1")), list(p("a", ""), p("b", "")),
			list(p("a", "1"), p("b", ""))},
		"list: one fewer": {schema.NestingList, list(p("a", "1"), p("b", "2")), list(p("a", "")),
			list(p("a", "1"))},
		"list: none": {schema.NestingList, list(p("a", "1")), list(), list()},
		"list: how many is unknown": {schema.NestingList, list(p("a", "1")), cty.UnknownVal(cty.List(partType)),
			cty.UnknownVal(cty.List(partType))},
		"map: by key": {schema.NestingMap, mapped("x", p("a", "1"), "y", p("b", "2")),
			mapped("y", p("a", ""), "z", p("c", "")), mapped("y", p("a", "2"), "z", p("c", ""))},
		"set: by what is configured": {schema.NestingSet, set(p("a", "1"), p("b", "2")),
			set(p("b", ""), p("c", "")), set(p("b", "2"), p("c", ""))},
		"set: none": {schema.NestingSet, set(p("a", "1")), set(), set()},
	} {
		t.Run(claim, func(t *testing.T) {
			b := nested(c.nesting)
			wantValue(t, "proposed", propose(b, both(b, c.prior), both(b, c.config)), both(b, c.want))
		})
	}
}

func TestAnOptionalComputedObjectThatWasConfiguredCanBeTakenOut(t *testing.T) {
	b := &schema.Block{Attributes: map[string]*schema.Attribute{
		"n": {Optional: true, Computed: true, Nested: &schema.Object{Nesting: schema.NestingSingle,
			Attributes: part()}},
	}}
	value := func(v cty.Value) cty.Value { return cty.ObjectVal(map[string]cty.Value{"n": v}) }
	none := value(cty.NullVal(partType))
	wantValue(t, "configured before", propose(b, value(p("a", "1")), none), none)
	wantValue(t, "computed before", propose(b, value(p("", "1")), none), value(p("", "1")))
}

func TestNothingIsProposedForNothing(t *testing.T) {
	wantValue(t, "proposed", propose(thing(), noObj, noObj), noObj)
}

// wantBreaches compares paths and parts of the messages: "path | part".
func wantBreaches(t *testing.T, got violations, want ...string) {
	t.Helper()
	left := slices.Clone(got)
	for _, w := range want {
		path, text, _ := strings.Cut(w, " | ")
		i := slices.IndexFunc(left, func(b violation) bool {
			return pathText(b.path) == path &&
				strings.Contains(b.text, text)
		})
		if i < 0 {
			t.Errorf("no breach is reported at %q with %q", path, text)
			continue
		}
		left = slices.Delete(left, i, i+1)
	}
	for _, b := range left {
		t.Errorf("unexpected: %s: %s", pathText(b.path), b.text)
	}
}

func TestWhatAPlanMayNotSayAboutNestedParts(t *testing.T) {
	for claim, c := range map[string]struct {
		nesting                schema.Nesting
		prior, config, planned cty.Value
		blocks, attribute      []string // the problem, which replaces %
	}{
		"single, lawful": {nesting: schema.NestingSingle, config: p("a", ""), planned: p("a", "?")},
		"single, another name": {schema.NestingSingle, cty.NilVal, p("a", ""), p("b", "?"),
			[]string{"%.name | is planned"}, []string{"%.name | is planned"}},
		"single, the prior name means the same": {
			nesting: schema.NestingSingle, prior: p("A", "1"), config: p("a", ""), planned: p("A", "1"),
		},
		"single, gone": {schema.NestingSingle, cty.NilVal, p("a", ""), cty.NullVal(partType),
			[]string{"% | absent"}, []string{"% | absent"}},
		"single, appeared": {schema.NestingSingle, cty.NilVal, cty.NullVal(partType), p("a", ""),
			[]string{"% | present"}, []string{"% | neither configured nor computed"}},
		"single, unknown": {schema.NestingSingle, cty.NilVal, p("a", ""), cty.UnknownVal(partType),
			[]string{"% | as a whole"}, []string{"% | unknown"}},
		"list, lawful": {nesting: schema.NestingList, config: list(p("a", ""), p("b", "")),
			planned: list(p("a", "?"), p("b", "2"))},
		"list, one more": {schema.NestingList, cty.NilVal, list(p("a", "")), list(p("a", ""), p("b", "")),
			[]string{"% | 2 blocks are planned, but 1"}, []string{"% | 2 elements are planned, but 1"}},
		"list, other name": {schema.NestingList, cty.NilVal, list(p("a", "")), list(p("b", "")),
			[]string{"%[0].name | is planned"}, []string{"%[0].name | is planned"}},
		"list, unknown block": {
			schema.NestingList, cty.NilVal, list(p("a", "")), list(cty.UnknownVal(partType)),
			[]string{"%[0] | as a whole"}, []string{"%[0].name | is planned"},
		},
		"list, null": {schema.NestingList, cty.NilVal, list(p("a", "")), cty.NullVal(cty.List(partType)),
			[]string{"% | empty collection"}, []string{"% | absent"}},
		"list, unknown in the configuration": {
			schema.NestingList, cty.NilVal, cty.UnknownVal(cty.List(partType)), list(p("a", "")),
			[]string{"% | not known before the apply"}, []string{"% | a number not yet known"},
		},
		"list, unknown in both": {nesting: schema.NestingList, config: cty.UnknownVal(cty.List(partType)),
			planned: cty.UnknownVal(cty.List(partType))},
		"map, other key": {
			schema.NestingMap, cty.NilVal, mapped("x", p("a", "")), mapped("y", p("a", "")),
			[]string{`%["y"] | not configured`}, []string{`%["y"] | not configured`},
		},
		"map, one more": {
			schema.NestingMap, cty.NilVal, mapped("x", p("a", "")), mapped("x", p("a", ""), "y", p("b", "")),
			[]string{"% | 2 blocks"}, []string{"% | 2 elements"},
		},
		"set, another element: nothing tells": {nesting: schema.NestingSet, config: set(p("a", "")),
			planned: set(p("b", "2"))},
		"set, one more": {
			schema.NestingSet, cty.NilVal, set(p("a", "")), set(p("a", "1"), p("b", "2")), nil,
			[]string{"% | 2 elements"},
		},
		"group, another name": {schema.NestingGroup, cty.NilVal, p("a", ""), p("b", "?"),
			[]string{"%.name | is planned"}, nil},
	} {
		t.Run(claim, func(t *testing.T) {
			b := nested(c.nesting)
			prior := cty.NullVal(b.ImpliedType())
			if c.prior != cty.NilVal {
				prior = both(b, c.prior)
			}
			// Blocks are never null in a configuration, but a plan may have null blocks; they are not replaced by the empty
			// value.
			planned := both(b, c.planned).AsValueMap()
			planned["b"] = c.planned
			var want []string
			for _, w := range c.blocks {
				want = append(want, strings.Replace(w, "%", ".b", 1))
			}
			for _, w := range c.attribute {
				want = append(want, strings.Replace(w, "%", ".n", 1))
			}
			wantBreaches(t, checkPlanned(b, prior, both(b, c.config), cty.ObjectVal(planned)), want...)
		})
	}
}

func TestWhatAnAppliedObjectMayNotSayAboutItsParts(t *testing.T) {
	for claim, c := range map[string]struct {
		nesting           schema.Nesting
		planned, actual   cty.Value
		blocks, attribute []string
	}{
		"single, completed":         {nesting: schema.NestingSingle, planned: p("a", "?"), actual: p("a", "1")},
		"single, completed by null": {nesting: schema.NestingSingle, planned: p("a", "?"), actual: p("a", "")},
		"single, another name": {schema.NestingSingle, p("a", "?"), p("b", "1"), []string{"%.name | was cty"},
			[]string{"%.name | was cty"}},
		"single, null became a name": {schema.NestingSingle, p("", "?"), p("b", "1"), []string{"%.name | was null"},
			[]string{"%.name | was null"}},
		"single, gone": {schema.NestingSingle, p("a", "?"), cty.NullVal(partType),
			[]string{"% | was present"}, []string{"% | now null"}},
		"single, unknown number, none": {
			nesting: schema.NestingSingle, planned: cty.UnknownVal(partType), actual: cty.NullVal(partType),
		},
		"list, completed": {nesting: schema.NestingList, planned: list(p("a", "?"), p("?", "?")),
			actual: list(p("a", "1"), p("b", "2"))},
		"list, one more": {schema.NestingList, list(p("a", "")), list(p("a", ""), p("b", "")),
			[]string{"% | were 1 blocks, but now 2"}, []string{"% | new element 1"}},
		"list, one fewer": {schema.NestingList, list(p("a", ""), p("b", "")), list(p("a", "")),
			[]string{"% | were 2 blocks, but now 1"}, []string{"% | element 1 has vanished"}},
		"list, other name": {schema.NestingList, list(p("a", "")), list(p("b", "")), []string{"%[0].name | was cty"},
			[]string{"%[0].name | was cty"}},
		"list, unknown number": {
			nesting: schema.NestingList, planned: cty.UnknownVal(cty.List(partType)), actual: list(p("a", "1")),
		},
		"map, other key": {
			schema.NestingMap, mapped("x", p("a", "")), mapped("y", p("a", "")), []string{`%["x"] | now absent`},
			[]string{`% | element "x" has vanished`, `% | new element "y"`},
		},
		"set, completed": {nesting: schema.NestingSet, planned: set(p("a", "?"), p("b", "?")),
			actual: set(p("a", "1"), p("b", "2"))},
		"set, unknowns coalesce": {nesting: schema.NestingSet, planned: set(p("?", "1"), p("a", "1")),
			actual: set(p("a", "1"))},
		"set, other element": {schema.NestingSet, set(p("a", "?")), set(p("b", "1")),
			[]string{"% | completed by none"}, []string{"% | completed by none"}},
		"set, one more": {
			schema.NestingSet, set(p("a", "?")), set(p("a", "1"), p("b", "1")),
			[]string{"% | not planned", "% | had 1 elements"}, []string{"% | not planned", "% | had 1 elements"},
		},
		"set, grown out of an unknown one": {
			schema.NestingSet, set(p("?", "?")), set(p("a", "1"), p("b", "2")), []string{"% | had 1 elements"},
			[]string{"% | had 1 elements"},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			b := nested(c.nesting)
			planned, actual := both(b, c.planned).AsValueMap(), both(b, c.actual).AsValueMap()
			planned["b"], actual["b"] = c.planned, c.actual
			var want []string
			for _, w := range c.blocks {
				want = append(want, strings.Replace(w, "%", ".b", 1))
			}
			for _, w := range c.attribute {
				want = append(want, strings.Replace(w, "%", ".n", 1))
			}
			wantBreaches(t, checkCompletes(b, cty.ObjectVal(planned), cty.ObjectVal(actual)), want...)
		})
	}
}

func TestAttributesMustKeepTypeAndRange(t *testing.T) {
	b := &schema.Block{Attributes: map[string]*schema.Attribute{
		"any":  {Type: cty.DynamicPseudoType, Computed: true},
		"text": {Type: cty.String, Computed: true},
		"tags": {Type: cty.Map(cty.String), Computed: true},
	}}
	value := func(any, text cty.Value, tags map[string]string) cty.Value {
		return cty.ObjectVal(map[string]cty.Value{"any": any, "text": text, "tags": val(tags)})
	}
	promised := cty.UnknownVal(cty.String).Refine().StringPrefix("arn:").NewValue()
	planned := value(cty.StringVal("x"), promised, map[string]string{"a": "1", "b": "2"})
	wantBreaches(t, checkCompletes(b, planned, value(cty.StringVal("x"), cty.StringVal("arn:1"),
		map[string]string{"a": "1", "b": "2"})))
	wantBreaches(t, checkCompletes(b, planned, value(cty.True, cty.StringVal("urn:1"),
		map[string]string{"a": "2", "c": "3"})),
		".any | the type was string, but is now bool", ".text | outside what the plan allowed", `.tags["a"] | was cty`,
		`.tags | element "b" has vanished`, `.tags | new element "c"`)
	wantBreaches(t, checkCompletes(b, value(cty.DynamicVal, unknown, nil), value(cty.True, unknown, nil)))
}

func TestNestedBlocksOfDynamicTypesMustStillBeBlocks(t *testing.T) {
	of := func(n schema.Nesting) kind {
		b := &schema.Block{Blocks: map[string]*schema.NestedBlock{"b": {Nesting: n, Block: schema.Block{
			Attributes: map[string]*schema.Attribute{"any": {Type: cty.DynamicPseudoType, Optional: true}},
		}}}}
		return kind{block: b, ty: b.ImpliedType()}
	}
	b := func(v cty.Value) cty.Value { return cty.ObjectVal(map[string]cty.Value{"b": v}) }
	fine := cty.ObjectVal(map[string]cty.Value{"any": cty.True})
	for claim, c := range map[string]struct {
		nesting schema.Nesting
		v       cty.Value
		want    []string
	}{
		"a tuple of blocks":   {nesting: schema.NestingList, v: cty.TupleVal([]cty.Value{fine})},
		"no blocks":           {nesting: schema.NestingList, v: cty.EmptyTupleVal},
		"unknown":             {nesting: schema.NestingList, v: cty.DynamicVal},
		"null":                {nesting: schema.NestingMap, v: cty.NullVal(cty.DynamicPseudoType)},
		"an object of blocks": {nesting: schema.NestingMap, v: cty.ObjectVal(map[string]cty.Value{"x": fine})},
		"text for a list": {schema.NestingList, cty.StringVal("x"), []string{".b | a list of blocks required, " +
			"but found string"}},
		"a list for a map": {schema.NestingMap, cty.TupleVal([]cty.Value{fine}), []string{".b | a map of blocks " +
			"required"}},
		"a tuple of something": {schema.NestingList, cty.TupleVal([]cty.Value{fine, cty.True}),
			[]string{".b[1] | object required"}},
		"a block of something": {schema.NestingSingle, cty.ObjectVal(map[string]cty.Value{}),
			[]string{`.b | missing required attribute "any"`}},
	} {
		t.Run(claim, func(t *testing.T) { wantBreaches(t, of(c.nesting).conforms(b(c.v)), c.want...) })
	}
}

func TestSecretsStayOutOfWhatIsToldAboutAResult(t *testing.T) {
	b := &schema.Block{
		Attributes: map[string]*schema.Attribute{"name": {Type: cty.String, Optional: true},
			"secret": {Type: cty.String, Optional: true, Sensitive: true}},
		Blocks: map[string]*schema.NestedBlock{"b": {Nesting: schema.NestingSet, Block: schema.Block{
			Attributes: map[string]*schema.Attribute{"secret": {Type: cty.String, Optional: true, Sensitive: true}},
		}}},
	}
	value := func(s string) cty.Value {
		inner := cty.ObjectVal(map[string]cty.Value{"secret": cty.StringVal(s)})
		return cty.ObjectVal(map[string]cty.Value{"name": cty.StringVal(s), "secret": cty.StringVal(s),
			"b": cty.SetVal([]cty.Value{inner})})
	}
	got := checkCompletes(b, value("hunter2"), value("hunter3")).without([]cty.Path{cty.GetAttrPath("name")})
	wantBreaches(t, got, ".name | sensitive", ".secret | sensitive", ".b | sensitive")
	for _, b := range got {
		if strings.Contains(b.text, "hunter") {
			t.Errorf("the message shows a secret: %s", b.text)
		}
	}
}

func TestIgnoredPathsKeepThePriorValue(t *testing.T) {
	at := func(steps ...any) cty.Path {
		var out cty.Path
		for _, s := range steps {
			switch s := s.(type) {
			case string:
				out = append(out, cty.GetAttrStep{Name: s})
			case int:
				out = append(out, cty.IndexStep{Key: cty.NumberIntVal(int64(s))})
			case []string:
				out = append(out, cty.IndexStep{Key: cty.StringVal(s[0])})
			}
		}
		return out
	}
	tags := func(kv map[string]string) cty.Value { return obj("name", "x", "tags", kv) }
	type m = map[string]string
	for claim, c := range map[string]struct {
		path                cty.Path
		prior, config, want cty.Value
	}{
		"an attribute": {at("name"), obj("name", "a", "size", "1"),
			obj("name", "b", "size", "2"), obj("name", "a", "size", "2")},
		"an unknown attribute": {at("name"), obj("name", "a"), obj("name", unknown), obj("name", "a")},
		"a whole map":          {at("tags"), tags(m{"a": "1"}), tags(m{"b": "2"}), tags(m{"a": "1"})},
		"a changed key": {at("tags", []string{"a"}), tags(m{"a": "1", "b": "1"}),
			tags(m{"a": "2", "b": "2"}), tags(m{"a": "1", "b": "2"})},
		"a key that was taken out": {at("tags", []string{"a"}), tags(m{"a": "1"}), tags(m{}),
			tags(m{"a": "1"})},
		"a key that was taken out with all": {at("tags", []string{"a"}), tags(m{"a": "1"}), obj("name", "x"),
			tags(m{"a": "1"})},
		"a key that was added": {at("tags", []string{"a"}), tags(m{"b": "1"}),
			tags(m{"a": "2", "b": "1"}), tags(m{"b": "1"})},
		"the only key, added": {at("tags", []string{"a"}), obj("name", "x"),
			tags(m{"a": "2"}), tags(m{})},
		"a key of a map that is unknown": {at("tags", []string{"a"}), tags(m{"a": "1"}),
			obj("tags", cty.UnknownVal(cty.Map(cty.String))), obj("tags", cty.UnknownVal(cty.Map(cty.String)))},
		"a map that is unknown": {at("tags"), tags(m{"a": "1"}),
			obj("tags", cty.UnknownVal(cty.Map(cty.String))), obj("tags", cty.UnknownVal(cty.Map(cty.String)))},
		"a key of what is no map: the whole": {at("name", []string{"a"}), obj("name", "a", "size", "1"),
			obj("name", "b", "size", "2"), obj("name", "a", "size", "2")},
		"something that is not there":          {at("nope", 3), obj("name", "a"), obj("name", "b"), obj("name", "b")},
		"before there is an object: nothing":   {at("name"), noObj, obj("name", "b"), obj("name", "b")},
		"an element of something else: no way": {at("name", 0), obj("name", "a"), obj("name", "b"), obj("name", "b")},
	} {
		t.Run(claim, func(t *testing.T) {
			wantValue(t, "config", ignored{paths: []cty.Path{c.path}}.inConfig(thing(), c.prior, c.config), c.want)
		})
	}
	b := nested(schema.NestingList)
	got := ignored{paths: []cty.Path{at("b", 1, "name"), at("n", 0, "name"), at("n", 5, "name")}}.inConfig(b,
		both(b, list(p("a", "1"), p("b", "2"))), both(b, list(p("x", ""), p("y", ""))))
	wantValue(t, "nested", got, cty.ObjectVal(map[string]cty.Value{"b": list(p("x", ""), p("b", "")),
		"n": list(p("a", ""), p("y", ""))}))
}

func TestIgnoringAllTakesThePriorObjectWithoutWhatOnlyTheProviderSets(t *testing.T) {
	got := ignored{all: true}.inConfig(thing(), obj("id", "i-1", "name", "a", "size", "big"), obj("name", "b"))
	wantValue(t, "config", got, obj("name", "a", "size", "big"))
	for _, n := range []schema.Nesting{schema.NestingList, schema.NestingSet} {
		b, prior, want := nested(n), list(p("a", "1")), list(p("a", ""))
		if n == schema.NestingSet {
			prior, want = set(p("a", "1")), set(p("a", ""))
		}
		wantValue(t, "nested", ignored{all: true}.inConfig(b, both(b, prior), both(b, prior)), both(b, want))
	}
}

func TestNormalizedObjectsHaveNoNullOrUnknownBlocks(t *testing.T) {
	for _, c := range []struct {
		nesting  schema.Nesting
		in, want cty.Value
	}{
		{schema.NestingList, cty.NullVal(cty.List(partType)), list()},
		{schema.NestingSet, cty.NullVal(cty.Set(partType)), set()},
		{schema.NestingGroup, cty.NullVal(partType), p("", "")},
		{schema.NestingSingle, cty.NullVal(partType), cty.NullVal(partType)},
		{schema.NestingSingle, cty.UnknownVal(partType), p("?", "?")},
		{schema.NestingList, cty.UnknownVal(cty.List(partType)), list(p("?", "?"))},
		{schema.NestingSet, cty.UnknownVal(cty.Set(partType)), set(p("?", "?"))},
		{schema.NestingMap, cty.UnknownVal(cty.Map(partType)), mapped()},
		{schema.NestingMap, mapped("x", p("a", "1")), mapped("x", p("a", "1"))},
	} {
		b := nested(c.nesting)
		delete(b.Attributes, "n")
		wantValue(t, "normalized", normalize(b, cty.ObjectVal(map[string]cty.Value{"b": c.in})),
			cty.ObjectVal(map[string]cty.Value{"b": c.want}))
	}
}
