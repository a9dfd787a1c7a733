package wire_test

import (
	"testing"

	"github.com/zclconf/go-cty/cty"
	ctymsgpack "github.com/zclconf/go-cty/cty/msgpack"

	"github.com/millipede-iac/millipede/wire"
)

func FuzzDecodeTask(f *testing.F) {
	for _, t := range tasks() {
		f.Add(wire.EncodeTask(t))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		task, err := wire.DecodeTask(data)
		if err != nil {
			return
		}
		if _, err := wire.DecodeTask(wire.EncodeTask(task)); err != nil {
			t.Errorf("what was read cannot be written: %v", err)
		}
	})
}

func FuzzDecodeResult(f *testing.F) {
	f.Add(wire.EncodeResult(&wire.Result{Worker: "w", Diagnostics: []wire.Diagnostic{{Summary: "s"}}, Plan: &wire.PlanResult{Prior: []byte{1}}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := wire.DecodeResult(data)
		if err != nil {
			return
		}
		wire.DiagsFromWire(r.Diagnostics)
		if _, err := wire.DecodeResult(wire.EncodeResult(r)); err != nil {
			t.Errorf("what was read cannot be written: %v", err)
		}
	})
}

func FuzzDecodeSchemas(f *testing.F) {
	f.Add(wire.EncodeSchemas(everything()))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := wire.DecodeSchemas(data)
		if err != nil {
			return
		}
		for _, m := range s.Managed {
			m.Block.ImpliedType()
		}
		if _, err := wire.DecodeSchemas(wire.EncodeSchemas(s)); err != nil {
			t.Errorf("what was read cannot be written: %v", err)
		}
	})
}

func FuzzDecodePath(f *testing.F) {
	for _, p := range []cty.Path{cty.GetAttrPath("a").IndexString("k").IndexInt(2), cty.GetAttrPath("s").Index(cty.ListVal([]cty.Value{cty.True}))} {
		data, err := wire.EncodePath(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path, err := wire.DecodePath(data)
		if err != nil {
			return
		}
		if _, err := wire.EncodePath(path); err != nil {
			t.Errorf("%#v was read and cannot be written: %v", path, err)
		}
	})
}

func FuzzDecodeValue(f *testing.F) {
	ty := cty.Object(map[string]cty.Type{"a": cty.String, "l": cty.List(cty.Number), "d": cty.DynamicPseudoType, "s": cty.Set(cty.Bool)})
	v := cty.ObjectVal(map[string]cty.Value{"a": cty.UnknownVal(cty.String).RefineNotNull(), "l": cty.ListVal([]cty.Value{cty.NumberIntVal(1)}), "d": cty.True, "s": cty.NullVal(cty.Set(cty.Bool))})
	data, err := wire.EncodeValue(v, ty)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := wire.DecodeValue(data, ty)
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

func FuzzSmallMessages(f *testing.F) {
	f.Add(wire.EncodeClaim(wire.Claim{Nonce: "n"}))
	f.Add(wire.EncodeHeartbeat(wire.Heartbeat{Worker: "w", Pools: []string{"p"}}))
	f.Add(wire.EncodePermitOffer(wire.PermitOffer{Limit: "l", Request: wire.PermitRequest{ID: "i"}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		wire.DecodeClaim(data)         //nolint:errcheck // only that it returns
		wire.DecodeHeartbeat(data)     //nolint:errcheck // as above
		wire.DecodePermitOffer(data)   //nolint:errcheck // as above
		wire.DecodePermitRequest(data) //nolint:errcheck // as above
		wire.DecodeControl(data)       //nolint:errcheck // as above
		wire.DecodeEvent(data)         //nolint:errcheck // as above
	})
}

func FuzzUnpack(f *testing.F) {
	p := wire.Packer{Rand: source(1)}
	for _, data := range [][]byte{[]byte("x"), make([]byte, 20_000)} {
		packed, err := p.Pack(f.Context(), "s", data)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1 && data[1]&4 != 0 {
			return // a blob, which this packer has none of
		}
		p.Unpack(t.Context(), "s", data) //nolint:errcheck // only that it returns
	})
}

func FuzzUntoken(f *testing.F) {
	f.Add("a=20b")
	f.Add("=")
	f.Fuzz(func(t *testing.T, token string) {
		if name, err := wire.Untoken(token); err == nil && wire.Token(name) != token {
			t.Errorf("%q was read as %q, whose token is %q", token, name, wire.Token(name))
		}
		if name, err := wire.Untoken(wire.Token(token)); err != nil || name != token {
			t.Errorf("the token of %q was read as %q, %v", token, name, err)
		}
	})
}
