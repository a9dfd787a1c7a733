package coding_test

import (
	"testing"

	"github.com/zclconf/go-cty/cty"
	ctymsgpack "github.com/zclconf/go-cty/cty/msgpack"

	"github.com/millipede-iac/millipede/internal/coding"
)

func FuzzDecodePath(f *testing.F) {
	for _, p := range []cty.Path{cty.GetAttrPath("a").IndexString("k").IndexInt(2),
		cty.GetAttrPath("s").Index(cty.ListVal([]cty.Value{cty.True}))} {
		data, err := coding.EncodePath(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path, err := coding.DecodePath(data)
		if err != nil {
			return
		}
		if _, err := coding.EncodePath(path); err != nil {
			t.Errorf("%#v was read and cannot be written: %v", path, err)
		}
	})
}

func FuzzDecodeValue(f *testing.F) {
	ty := cty.Object(map[string]cty.Type{"a": cty.String, "l": cty.List(cty.Number), "d": cty.DynamicPseudoType,
		"s": cty.Set(cty.Bool)})
	v := cty.ObjectVal(map[string]cty.Value{"a": cty.UnknownVal(cty.String).RefineNotNull(),
		"l": cty.ListVal([]cty.Value{cty.NumberIntVal(1)}), "d": cty.True, "s": cty.NullVal(cty.Set(cty.Bool))})
	data, err := coding.EncodeValue(v, ty)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := coding.DecodeValue(data, ty)
		if err == nil && !v.Type().Equals(ty) && len(v.Type().TestConformance(ty)) > 0 {
			t.Errorf("it was read as %#v", v)
		}
		if err != nil || len(data) == 0 { // no bytes are null here
			return
		}
		if plain, err := ctymsgpack.Unmarshal(data, ty); err != nil || !plain.RawEquals(v) {
			t.Errorf("it was read as %#v, and cty reads it as %#v, %v", v, plain, err)
		}
	})
}
