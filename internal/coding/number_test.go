package coding

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/zclconf/go-cty/cty"
	ctymsgpack "github.com/zclconf/go-cty/cty/msgpack"
)

// A whole number that a plugin sends as a float64 kept its 53 bits: 2^63 was stored as 9223372036854776000, and was
// different from then on.
func TestWholeNumbersKeepAllTheirDigits(t *testing.T) {
	float := func(f float64) []byte { return binary.BigEndian.AppendUint64([]byte{0xcb}, math.Float64bits(f)) }
	whole := func(v cty.Value) []byte {
		data, err := ctymsgpack.Marshal(v, cty.Number)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	list := func(elements ...[]byte) []byte {
		out := []byte{0x90 | byte(len(elements))}
		for _, e := range elements {
			out = append(out, e...)
		}
		return out
	}
	largest := cty.NumberUIntVal(math.MaxUint64)
	for sentence, c := range map[string]struct {
		data []byte
		ty   cty.Type
		want string
	}{
		"a float":           {float(1 << 63), cty.Number, "9223372036854775808"},
		"a negative one":    {float(-1 << 60), cty.Number, "-1152921504606846976"},
		"a fraction stays":  {float(0.1), cty.Number, "0.1"},
		"an integer":        {whole(cty.NumberIntVal(math.MinInt64)), cty.Number, "-9223372036854775808"},
		"an unsigned one":   {whole(largest), cty.Number, "18446744073709551615"},
		"text":              {whole(cty.MustParseNumberVal("18446744073709551617")), cty.Number, "18446744073709551617"},
		"a float in a list": {list(float(1 << 63)), cty.List(cty.Number), "[9223372036854775808]"},
		"beside an integer": {list(float(1<<63), whole(largest)), cty.List(cty.Number),
			"[9223372036854775808,18446744073709551615]"},
		"in a tuple with text": {list(float(1<<63), []byte{0xa1, 'x'}), cty.Tuple([]cty.Type{cty.Number, cty.String}),
			`[9223372036854775808,"x"]`},
	} {
		v, err := DecodeValue(c.data, c.ty)
		if err != nil {
			t.Errorf("%s: %v", sentence, err)
			continue
		}
		if got, err := EncodeJSON(v, c.ty); string(got) != c.want {
			t.Errorf("%s is written as %s, %v; want %s", sentence, got, err, c.want)
		}
		again, err := EncodeValue(v, c.ty)
		if err != nil {
			t.Errorf("%s: %v", sentence, err)
		}
		if back, err := DecodeValue(again, c.ty); err != nil || !back.RawEquals(v) {
			t.Errorf("%s is %#v after another journey, %v; want %#v", sentence, back, err, v)
		}
	}
	sum, err := DecodeValue(whole(largest), cty.Number)
	if err != nil {
		t.Fatal(err)
	}
	if got := sum.Add(sum).Add(cty.NumberIntVal(1)).AsBigFloat().Text('f', -1); got != "36893488147419103231" {
		t.Errorf("a sum of decoded numbers is %s", got)
	}
}
