package coding

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

var storedType = cty.Object(map[string]cty.Type{
	"id": cty.String, "size": cty.Number, "on": cty.Bool, "any": cty.DynamicPseudoType,
	"tags": cty.Map(cty.String), "zones": cty.List(cty.String), "ports": cty.Set(cty.Number),
	"disk": cty.List(cty.Object(map[string]cty.Type{"gb": cty.Number, "kind": cty.String})),
})

// storedDocuments are objects as states have them, and documents that differ from these a little.
var storedDocuments = map[string]string{
	"whole": `{"any":{"value":"x","type":"string"},"disk":[{"gb":10,"kind":"ssd"},{"gb":1.5,"kind":null}],` +
		`"id":"i-1","on":true,"ports":[80,443,80],"size":-3,"tags":{"a":"b","c":"d"},"zones":["z1","z2"]}`,
	"nothing is set": `{"any":null,"disk":[],"id":null,"on":false,"ports":[],"size":0,"tags":{}}`,
	"out of order":   `{"zones":["a"],"id":"i"}`,
	"with spaces":    "{ \"id\" : \"i\" ,\n\t\"size\" : 7 , \"tags\" : { } }\n",
	"texts":          `{"id":"quote \" tab \t ü \u00fc 😀 \ud83d\ude00 e\u0301","tags":{"e\u0301":"é","\u0041":"A"}}`,
	"numbers":        `{"size":123456789012345678,"ports":[0,-1,0.25,10.50]}`,
	"any number":     `{"any":{"value":12,"type":"number"}}`,
	"any null":       `{"any":{"value":null,"type":"string"}}`,
	"any list":       `{"any":{"value":["a"],"type":["list","string"]}}`,
	"any object": `{"any":{"value":{"a":"x\"y","b":[1,null],"c":null,"d":{"value":true,"type":"bool"}},"type":["object",` +
		`{"a":"string","b":["list","number"],"c":"string","d":"dynamic"}]}}`,
	"any tuple":         `{"any":{"value":["a",2,{"k":"v"},[]],"type":["tuple",["string","number",["map","string"],["tuple",[]]]]}}`,
	"optional":          `{"any":{"value":{"a":"x"},"type":["object",{"a":"string","b":"string"},["b"]]}}`,
	"missing attribute": `{"any":{"value":{"a":"x"},"type":["object",{"a":"string","b":"string"}]}}`,
	"wrong object":      `{"any":{"value":{"a":[]},"type":["object",{"a":"string"}]}}`,
	"escape in any":     `{"any":{"value":{"a":"\q"},"type":["object",{"a":"string"}]}}`,
	"type first":        `{"any":{"type":"bool","value":true}}`,
	"null":              `null`,
	"no object":         `[1]`,
	"unknown attribute": `{"id":"i","other":1}`,
	"twice":             `{"id":"i","id":"j"}`,
	"escaped name":      `{"\u0069d":"i"}`,
	"number as text":    `{"size":"12"}`,
	"text as number":    `{"id":12,"on":"true"}`,
	"large number":      `{"size":1e400,"ports":[123456789012345678901234567890]}`,
	"odd numbers":       `{"size":-0}`,
	"leading zero":      `{"size":007}`,
	"half a number":     `{"size":1.}`,
	"plus":              `{"size":+1}`,
	"cut":               `{"id":"i`,
	"cut after a comma": `{"id":"i",`,
	"comma at the end":  `{"zones":["a",]}`,
	"no comma":          `{"zones":["a" "b"]}`,
	"control character": "{\"id\":\"a\nb\"}",
	"not UTF-8":         "{\"id\":\"a\xff\"}",
	"more behind":       `{"id":"i"}{}`,
	"word goes on":      `{"on":truely}`,
	"empty":             ``,
	"wrong type of any": `{"any":{"value":"x","type":"number"}}`,
}

// An object of the state was read by a decoder of encoding/json for each of its parts, each of which copied it first.
func TestJSONIsReadAsCtyReadsIt(t *testing.T) {
	for name, text := range storedDocuments {
		t.Run(name, func(t *testing.T) { sameAsCty(t, []byte(text), storedType) })
	}
	whole := []byte(storedDocuments["whole"])
	if _, ok := readJSON(whole, storedType); !ok || !Fits(whole, storedType) || !HasOnly(whole, storedType) {
		t.Error("what states hold is left to cty")
	}
	for _, name := range []string{"any object", "any tuple", "any list"} {
		text := []byte(storedDocuments[name])
		if _, ok := readJSON(text, storedType); !ok || !Fits(text, storedType) {
			t.Errorf("%s: it is left to cty", name)
		}
	}
	if !Fits([]byte(`{"id":"quote \" tab \t \u00fc"}`), storedType) {
		t.Error("a text with escapes does not fit")
	}
	// cty panics for these.
	for name, text := range map[string]string{
		"an unknown kind of type": `{"any":{"value":{"a":"x"},"type":["objekt",{"a":"string"}]}}`,
		"a short tuple":           `{"any":{"value":["a"],"type":["tuple",["string","number"]]}}`,
		"a long tuple":            `{"any":{"value":["a","b"],"type":["tuple",["string"]]}}`,
	} {
		if _, ok := readJSON([]byte(text), storedType); ok || Fits([]byte(text), storedType) {
			t.Errorf("%s is read", name)
		}
	}
	if HasOnly([]byte(storedDocuments["unknown attribute"]), storedType) {
		t.Error("an attribute that the type does not have is overlooked")
	}
	deep := cty.String
	for range 2 * maxShort {
		deep = cty.List(deep)
	}
	sameAsCty(t, []byte(strings.Repeat("[", 2*maxShort)+`"x"`+strings.Repeat("]", 2*maxShort)), deep)
}

func sameAsCty(t *testing.T, text []byte, ty cty.Type) {
	t.Helper()
	want, wrong := ctyjson.Unmarshal(text, ty)
	if got, ok := readJSON(text, ty); ok && (wrong != nil || !got.RawEquals(want) || got.GoString() != want.GoString()) {
		t.Errorf("%s was read as %#v, and cty reads %#v, %v", text, got, want, wrong)
	}
	if Fits(text, ty) && wrong != nil {
		t.Errorf("%s is said to fit, and cty says %v", text, wrong)
	}
	got, err := UnmarshalJSON(text, ty)
	if (err == nil) != (wrong == nil) || err == nil && !got.RawEquals(want) {
		t.Errorf("%s became %#v, %v; cty has %#v, %v", text, got, err, want, wrong)
	}
}

func FuzzReadJSON(f *testing.F) {
	for _, text := range storedDocuments {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := ctyjson.Unmarshal(text, storedType); err != nil && Fits(text, storedType) {
			t.Errorf("%q is said to fit, and cty says %v", text, err)
		}
		if v, ok := readJSON(text, storedType); ok {
			want, err := ctyjson.Unmarshal(text, storedType)
			if err != nil || !v.RawEquals(want) {
				t.Errorf("%q was read as %#v, and cty reads %#v, %v", text, v, want, err)
			}
			if !json.Valid(bytes.TrimSpace(text)) {
				t.Errorf("%q is no JSON", text)
			}
		}
	})
}

// BenchmarkUnmarshalJSON is an object of the size that clouds have.
func BenchmarkUnmarshalJSON(b *testing.B) {
	text := []byte(storedDocuments["whole"])
	b.Run("here", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := UnmarshalJSON(text, storedType); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("by cty", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ctyjson.Unmarshal(text, storedType); err != nil {
				b.Fatal(err)
			}
		}
	})
}
