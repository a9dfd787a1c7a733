package wire_test

import (
	"testing"

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
			t.Errorf("the decoded value cannot be encoded: %v", err)
		}
	})
}

func FuzzDecodeResult(f *testing.F) {
	f.Add(wire.EncodeResult(&wire.Result{Worker: "w", Diagnostics: []wire.Diagnostic{{Summary: "s"}},
		Plan: &wire.PlanResult{Prior: []byte{1}}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := wire.DecodeResult(data)
		if err != nil {
			return
		}
		wire.DiagsFromWire(r.Diagnostics)
		if _, err := wire.DecodeResult(wire.EncodeResult(r)); err != nil {
			t.Errorf("the decoded value cannot be encoded: %v", err)
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
			t.Errorf("the decoded value cannot be encoded: %v", err)
		}
	})
}

func FuzzSmallMessages(f *testing.F) {
	f.Add(wire.EncodeClaim(wire.Claim{Nonce: "n"}))
	f.Add(wire.EncodeHeartbeat(wire.Heartbeat{Worker: "w", Pools: []string{"p"}}))
	f.Add(wire.EncodePermitOffer(wire.PermitOffer{Limit: "l", Request: wire.PermitRequest{ID: "i"}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		wire.DecodeClaim(data)         // only that it returns
		wire.DecodeHeartbeat(data)     // as above
		wire.DecodePermitOffer(data)   // as above
		wire.DecodePermitRequest(data) // as above
		wire.DecodeControl(data)       // as above
		wire.DecodeEvent(data)         // as above
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
		p.Unpack(t.Context(), "s", data) // only that it returns
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
