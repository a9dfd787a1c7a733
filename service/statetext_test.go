package service

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/skim"
)

// The standard library's decoder read a state of 10 MB at each upload, which took a third of a second.
func TestAStateIsSkimmedAsItIsDecoded(t *testing.T) {
	long := strings.Repeat(`\\\"x`, 40_000) // longer than the buffer, and full of escapes
	text := fmt.Sprintf(`{ "version": 4, "serial": 7, "lineage": "a\"b", "terraform_version":"1.12.0",
		"outputs": {"o": {"value": [1, {"x": "}"}, null], "type": "string", "sensitive": true}},
		"other": [[], {}, [{"a": -1.5e+3}, true, false, null, "]"], "%s"],
		"resources": [
			{"mode": "managed", "instances": [{"a": "%s"}, {"b": {"c": [{}]}}]},
			{"instances": [{}], "mode": "data"},
			{"mode": "managed", "name": "empty", "instances": []}
		], "check_results": null }`, long, long)
	if !json.Valid([]byte(text)) {
		t.Fatal("the text of the test is not a valid state")
	}
	got, err := readState(iotest.HalfReader(strings.NewReader(text)))
	if err != nil || got.serial != 7 || got.lineage != `a"b` || got.engine != "1.12.0" || got.resources != 2 ||
		len(got.outputs) != 1 || string(got.outputs[0].Value) != `[1,{"x":"}"},null]` || !got.outputs[0].Sensitive {
		t.Errorf("%+v, %v", got, err)
	}
	for n := range len(text) - 1 { // no beginning of a state is one
		if n > 400 && n < len(text)-400 {
			continue
		}
		if _, err := readState(strings.NewReader(text[:n])); err == nil {
			t.Fatalf("the first %d bytes are accepted as a state", n)
		}
	}
	for _, wrong := range []string{``, `[]`, `"a"`, `{"serial": "x"}`, `{"serial" 1}`, `{"a": tru}`, `{"a": [1}}`,
		`{"a": ]}`,
		`{"a": 1,}`, `{,}`, `{"resources": {}}`, `{"resources": [1]}`, `{"a": 01}`,
		`{"a": ` + strings.Repeat("[", skim.MaxDepth+1)} {
		if got, err := readState(strings.NewReader(wrong)); err == nil {
			t.Errorf("%.60s is accepted as a state: %+v", wrong, got)
		}
	}
	if got, err := readState(strings.NewReader(`{"encrypted_data":"`)); err != nil || !got.encrypted {
		t.Errorf("%+v, %v", got, err)
	}
}

// Each phase of a run parsed the whole state to find the providers whose packages it needs.
func TestTheProvidersOfAStateAreNoted(t *testing.T) {
	const a, b = `provider[\"registry.opentofu.org/x/a\"].west`, `module.m.provider[\"registry.opentofu.org/x/b\"]`
	of := func(version int, providers ...string) string {
		text := fmt.Sprintf(`{"version": %d, "resources": [`, version)
		for i, p := range providers {
			if i > 0 {
				text += ","
			}
			text += fmt.Sprintf(`{"mode": "managed", "provider": "%s", "instances": [{}]}`, p)
		}
		return text + "]}"
	}
	var many []string
	for i := range maxProviders + 1 {
		many = append(many, fmt.Sprint("p", i))
	}
	for sentence, c := range map[string]struct{ text, want string }{
		"each once":                            {of(4, a, b, a), "[" + strings.ReplaceAll(b+" "+a, `\`, "") + "]"},
		"none where nothing exists":            {of(4), "[]"},
		"unknown where they are too many":      {of(4, many...), "nil"},
		"unknown in states of earlier formats": {of(3, a), "nil"},
		"unknown where the state is encrypted": {`{"version": 4, "encrypted_data": "x"}`, "nil"},
	} {
		t.Run(sentence, func(t *testing.T) {
			v := &record.StateVersion{}
			if _, err := describe(v, strings.NewReader(c.text)); err != nil {
				t.Fatal(err)
			}
			stored, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			var read record.StateVersion
			if err := json.Unmarshal(stored, &read); err != nil {
				t.Fatal(err)
			}
			slices.Sort(read.Providers)
			got := fmt.Sprint(read.Providers)
			if read.Providers == nil {
				got = "nil"
			}
			if got != c.want {
				t.Errorf("the providers are %s, not %s", got, c.want)
			}
		})
	}
}

// BenchmarkReadState reads the data that the service needs from a state of 10 MB.
func BenchmarkReadState(b *testing.B) {
	var text strings.Builder
	text.WriteString(`{"version":4,"serial":1,"lineage":"l","outputs":{},"resources":[`)
	for i := range 28_000 {
		if i > 0 {
			text.WriteByte(',')
		}
		fmt.Fprintf(&text, `{"mode":"managed","type":"terraform_data","name":"r%d","instances":[{"schema_version":0,`+
			`"attributes":{"id":"%036d","input":{"value":"a value of some length, as attributes have","type":"string"},`+
			`"output":{"value":"a value of some length, as attributes have","type":"string"}}}]}`, i, i)
	}
	text.WriteString(`]}`)
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		if got, err := readState(strings.NewReader(text.String())); err != nil || got.resources != 28_000 {
			b.Fatal(got, err)
		}
	}
}
