package coding_test

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/coding"
)

// nested returns n times before, then middle, then n times after.
func nested(n int, before, middle, after string) []byte {
	return []byte(strings.Repeat(before, n) + middle + strings.Repeat(after, n))
}

// dynamic is the msgpack of a value of any type: its type, and the value.
func dynamic(ty []byte, value string) []byte {
	n := len(ty)
	return append(append([]byte{0x92, 0xc6, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, ty...), value...)
}

// hostileValues are bytes that cost out of all proportion to their number when cty reads them, or ended the process.
func hostileValues() map[string]struct {
	data []byte
	ty   cty.Type
	json bool
} {
	type value = struct {
		data []byte
		ty   cty.Type
		json bool
	}
	list, any := cty.List(cty.String), cty.DynamicPseudoType
	return map[string]value{
		"a list that says it has 2^32-1 elements": {[]byte("\xdd\xff\xff\xff\xff"), list, false},
		"a set of 30,000,000":                     {[]byte("\xdd\x01\xc9\xc3\x80"), cty.Set(cty.String), false},
		"a map of 2^32-1":                         {[]byte("\xdf\xff\xff\xff\xff"), cty.Map(cty.String), false},
		"a text of 4 GiB":                         {[]byte("\xdb\xff\xff\xff\xff"), cty.String, false},
		"values of any type, 5,000,000 deep": {nested(5_000_000, "\x92\xc4\x09\"dynamic\"", "\xc0", ""), any,
			false},
		"a type 5,000 deep": {dynamic(nested(5_000, `["list",`, `"string"`, `]`), "\xc0"), any,
			false},
		"a type 5,000,000 deep": {dynamic(nested(5_000_000, `["list",`, `"string"`, `]`), "\xc0"),
			any, false},
		"a number of 600,000,000 digits": {[]byte("\xab1e600000000"), cty.Number, false},
		"such a number in a list of any type": {dynamic([]byte(`["list","number"]`), "\x91\xab1e600000000"), any,
			false},
		"a number as small": {[]byte("\xac1e-600000000"), cty.Number, false},
		"a number of a million digits": {append([]byte("\xdb\x00\x0f\x42\x40"),
			bytes.Repeat([]byte("7"), 1_000_000)...), cty.Number, false},
		"a number that is none": {[]byte("\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00"), cty.Number, false},
		"an object without its attributes": {[]byte("\x80"), cty.Object(map[string]cty.Type{"id": cty.String}),
			false},

		"JSON: values of any type, 5,000 deep": {nested(5_000, `{"type":"dynamic","value":`, `null`, `}`), any,
			true},
		"JSON: a type 5,000,000 deep": {append(append([]byte(`{"value":null,"type":`),
			nested(5_000_000, `["list",`, `"string"`, `]`)...), '}'), any, true},
		"JSON: a number of 600,000,000 digits": {[]byte(`1e600000000`), cty.Number, true},
		"JSON: such a number as a text":        {[]byte(`"1e600000000"`), cty.Number, true},
		"JSON: a number of a million digits":   {bytes.Repeat([]byte("7"), 1_000_000), cty.Number, true},
		"JSON: a number of that length, as a text": {[]byte(`"` + strings.Repeat("7", 1_000_000) + `"`),
			cty.Number, true},
	}
}

// A plugin's answer of 14 bytes ended the process that hosted it: cty made room for as many elements as a list said it
// had, went down into a value as deep as it was, and copied a nested type once for each level around it.
func TestHostileBytesAreAnErrorAndCostLittle(t *testing.T) {
	for name, v := range hostileValues() {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			read := coding.DecodeValue
			if v.json {
				read = coding.DecodeJSON
			}
			got, err := read(v.data, v.ty)
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Fatalf("it was read as a value of type %s", got.Type().FriendlyName())
			}
			if len(err.Error()) > 1_000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			if took, most := after.TotalAlloc-before.TotalAlloc, uint64(16<<20+4*len(v.data)); took > most {
				t.Errorf("reading %d bytes allocated %d", len(v.data), took)
			}
		})
	}
}

func TestTypesAreReadUpToABound(t *testing.T) {
	for name, tt := range map[string]struct {
		text []byte
		ok   bool
	}{
		"a text":                {[]byte(`"string"`), true},
		"an object":             {[]byte(`["object",{"a":"number","b":["set","bool"]}]`), true},
		"lists, 100 deep":       {nested(100, `["list",`, `"string"`, `]`), true},
		"lists, 300 deep":       {nested(300, `["list",`, `"string"`, `]`), false},
		"lists, 5,000,000 deep": {nested(5_000_000, `["list",`, `"string"`, `]`), false},
		"nothing":               {nil, false},
		"half":                  {[]byte(`["list",`), false},
		"too many ends":         {[]byte(`]]`), false},
	} {
		if _, err := coding.UnmarshalType(tt.text); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestValuesThatPeopleHaveAreWithinTheBounds(t *testing.T) {
	deep := cty.StringVal("x")
	for range 60 {
		deep = cty.ObjectVal(map[string]cty.Value{"a": deep})
	}
	for name, v := range map[string]cty.Value{
		"an infinite number":      cty.PositiveInfinity,
		"a number of 300 digits":  cty.MustParseNumberVal(strings.Repeat("7", 150) + "." + strings.Repeat("3", 150)),
		"a large text of digits":  cty.StringVal(strings.Repeat("7", 1_000_000)),
		"a text like a number":    cty.StringVal("1e600000000"),
		"objects, 60 deep":        deep,
		"a list of many elements": cty.ListVal(slicesOf(cty.StringVal("x"), 100_000)),
	} {
		t.Run(name, func(t *testing.T) {
			for _, ty := range []cty.Type{v.Type(), cty.DynamicPseudoType} {
				data, err := coding.EncodeValue(v, ty)
				if err != nil {
					t.Fatal(err)
				}
				got, err := coding.DecodeValue(data, ty)
				if err != nil || !got.RawEquals(v) {
					t.Errorf("it was read as %#v, %v", got, err)
				}
			}
		})
	}
}

func slicesOf(v cty.Value, n int) []cty.Value {
	out := make([]cty.Value, n)
	for i := range out {
		out[i] = v
	}
	return out
}

func TestMalformedMessagesAreToldAsSuch(t *testing.T) {
	var v []string
	for _, data := range []string{"", "\xdd\xff\xff\xff\xff", "\x91", "\x91\xa1", strings.Repeat("\x91", 20) +
		"\xc0", "\xc0\xc0"} {
		if err := coding.Unmarshal([]byte(data), 8, &v); !errors.Is(err, coding.ErrMalformed) {
			t.Errorf("%q was read with the error %v", data, err)
		}
	}
}

func FuzzDecodeJSON(f *testing.F) {
	ty := cty.Object(map[string]cty.Type{"a": cty.String, "l": cty.List(cty.Number), "d": cty.DynamicPseudoType,
		"s": cty.Set(cty.Bool)})
	f.Add([]byte(`{"a":"x","l":[1,"2e9"],"d":{"type":["list","string"],"value":["y"]},"s":[true]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := coding.DecodeJSON(data, ty)
		if err != nil {
			return
		}
		if again, err := coding.EncodeValue(v, ty); err != nil {
			t.Errorf("%#v was read and cannot be written: %v", v, err)
		} else if _, err := coding.DecodeValue(again, ty); err != nil {
			t.Errorf("%#v was read, but is not within the bounds: %v", v, err)
		}
	})
}

func FuzzUnmarshalType(f *testing.F) {
	f.Add([]byte(`["object",{"a":["tuple",["string"]]},["a"]]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		ty, err := coding.UnmarshalType(data)
		if err == nil && ty == cty.NilType {
			t.Error("no type was read, and no error")
		}
	})
}
