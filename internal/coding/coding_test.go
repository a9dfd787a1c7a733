package coding_test

import (
	"slices"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/coding"
)

func TestValuesTravel(t *testing.T) {
	object := cty.Object(map[string]cty.Type{"a": cty.String, "b": cty.List(cty.Number), "c": cty.DynamicPseudoType})
	for name, tt := range map[string]struct {
		v  cty.Value
		ty cty.Type
	}{
		"known": {cty.ObjectVal(map[string]cty.Value{"a": cty.StringVal("x"),
			"b": cty.ListVal([]cty.Value{cty.NumberFloatVal(1.5)}), "c": cty.True}), object},
		"null attribute": {cty.ObjectVal(map[string]cty.Value{"a": cty.NullVal(cty.String),
			"b": cty.NullVal(cty.List(cty.Number)), "c": cty.NullVal(cty.DynamicPseudoType)}), object},
		"unknown": {cty.UnknownVal(object), object},
		"unknown with refinements": {cty.UnknownVal(cty.String).Refine().NotNull().StringPrefixFull("ami-").NewValue(),
			cty.String},
		"unknown list's length": {cty.UnknownVal(cty.List(cty.String)).Refine().NotNull().CollectionLengthLowerBound(
			2).NewValue(), cty.List(cty.String)},
		"wholly unknown": {cty.DynamicVal, cty.DynamicPseudoType},
		"null":           {cty.NullVal(object), object},
		"big number":     {cty.MustParseNumberVal("123456789012345678901234567890.125"), cty.Number},
		"set": {cty.SetVal([]cty.Value{cty.StringVal("a"), cty.StringVal("b")}),
			cty.Set(cty.String)},
	} {
		data, err := coding.EncodeValue(tt.v, tt.ty)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := coding.DecodeValue(data, tt.ty); err != nil || !got.RawEquals(tt.v) {
			t.Errorf("%s: got %#v, %v", name, got, err)
		}
	}
	if data, err := coding.EncodeValue(cty.NullVal(object), object); data != nil || err != nil {
		t.Errorf("null became %x, %v", data, err)
	}
	if _, err := coding.EncodeValue(cty.StringVal("x").Mark("secret"), cty.String); err == nil {
		t.Error("a marked value travelled")
	}
}

func TestPathsTravel(t *testing.T) {
	element := cty.ObjectVal(map[string]cty.Value{"k": cty.StringVal("v"), "n": cty.NullVal(cty.Number)})
	for _, want := range []cty.Path{
		nil,
		cty.GetAttrPath("a"),
		cty.GetAttrPath("").IndexString("").IndexString("key").IndexInt(3),
		cty.GetAttrPath("set").Index(element).GetAttr("k"),
		cty.IndexPath(cty.MustParseNumberVal("1.5")).Index(cty.True),
		cty.GetAttrPath("set").Index(cty.UnknownVal(cty.String)),
	} {
		data, err := coding.EncodePath(want)
		if err != nil {
			t.Errorf("%#v: %v", want, err)
			continue
		}
		got, err := coding.DecodePath(data)
		if err != nil || !samePath(got, want) {
			t.Errorf("%#v became %#v, %v", want, got, err)
		}
	}
	if _, err := coding.EncodePath(cty.GetAttrPath("a").Index(cty.StringVal("x").Mark("m"))); err == nil {
		t.Error("a marked key travelled")
	}
}

// samePath is Path.Equals for keys that may be unknown.
func samePath(a, b cty.Path) bool {
	return slices.EqualFunc(a, b, func(a, b cty.PathStep) bool {
		x, ok := a.(cty.IndexStep)
		if !ok {
			return a == b
		}
		y, ok := b.(cty.IndexStep)
		return ok && x.Key.RawEquals(y.Key)
	})
}

func TestTheTextOfAnAttributeIsFoundWithoutDecodingTheObject(t *testing.T) {
	for doc, want := range map[string]string{
		`{"id":"i-1"}`: "i-1",
		` { "a" : [ {"id":"no"}, "id" ], "id" : "é\n" }`: "é\n",
		`{"name":"id","x":{"id":"no"},"id":"yes"}`:       "yes",
		`{"ID":"no"}`:           "",
		`{"id":7}`:              "",
		`{"id":null,"b":"c"}`:   "",
		`{"a\"id":"no"}`:        "",
		`["id","no"]`:           "",
		`{"id":"cut`:            "",
		`{"id":`:                "",
		`{"id"`:                 "",
		``:                      "",
		`"id"`:                  "",
		`{"a":"id","b":"id"}`:   "",
		`{"id":"\ud83d\ude00"}`: "😀",
	} {
		if got, ok := coding.TextAttribute([]byte(doc), "id"); got != want || ok != (want != "") {
			t.Errorf("%s has the id %q, %v; want %q", doc, got, ok, want)
		}
	}
}
