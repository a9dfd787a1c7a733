package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestNumbersAreComparedExactly(t *testing.T) {
	for want, cases := range map[string]map[string]bool{
		`1`:                                      {`1.0`: true, `1e0`: true, `1.0000000000000000000001`: false, `"1"`: false, `true`: false},
		`{"$number": "18446744073709551617.25"}`: {`18446744073709551617.25`: true, `18446744073709551617`: false},
		`[1, {"a": null}]`:                       {`[1, {"a": null}]`: true, `[1, {}]`: false, `[1]`: false, `[1, {"a": null}, 2]`: false},
	} {
		for got, same := range cases {
			a, err := decode(want)
			if err != nil {
				t.Fatal(err)
			}
			b, err := decode(got)
			if err != nil {
				t.Fatal(err)
			}
			if d := differences("", a, b); len(d) == 0 != same {
				t.Errorf("%s and %s: %v", want, got, d)
			}
		}
	}
}

func TestOnlyTheFirstLineOfABoxIsADiagnostic(t *testing.T) {
	got := summaries(boxes("╷\n│ Error: one\n│ \n│ Error: not this one\n╵\nWarning: two\n╷\n│ Error: Cycle: a, b\n╵\n"))
	if want := []string{"error: Cycle", "error: one", "warning: two"}; !slices.Equal(got, want) {
		t.Errorf("the messages are %q", got)
	}
	if got := boxes("Error: without boxes\n"); !slices.Equal(got, []string{"error: without boxes"}) {
		t.Errorf("the messages are %q", got)
	}
}

func TestAnUnknownPlaceOfAValueIsSeen(t *testing.T) {
	value, _ := decode(`{"a": 1, "l": [1]}`)
	where, _ := decode(`{"b": true, "c": false, "l": [false, {"x": true}]}`)
	want, _ := decode(`{"a": 1, "b": "(unknown)", "l": [1, {"x": "(unknown)"}]}`)
	if d := differences("", want, withUnknown(value, where)); len(d) > 0 {
		t.Error(d)
	}
}

func TestWhatDiffersFromRunToRunGetsANameThatStays(t *testing.T) {
	s := &scenario{Redact: []string{"time_static.t.*"}}
	n := newNormaliser(s, map[string]string{"/w/x": "<cwd>"})
	const id = "0a0a0a0a-1111-2222-3333-444444444444"
	now := time.Now().UTC().Format(time.RFC3339)
	answers := []answer{{commands: []observed{{kind: "state", values: map[string]any{"resources": map[string]any{
		`module.m["a.b"].random_pet.p`: map[string]any{"values": map[string]any{"id": "brave-cat"}},
		"time_static.t":                map[string]any{"values": map[string]any{"unix": "1"}},
		"x.y":                          map[string]any{"values": map[string]any{"a": id, "b": "brave-cat at " + now + " in /w/x", "c": "0" + id}},
	}}}}}}
	n.normalise(answers)
	got := dump(answers[0].commands[0].values)
	for _, want := range []string{`"id": "<random_pet.id:1>"`, `"unix": "<redacted>"`, `"a": "<uuid:1>"`,
		`"b": "<random_pet.id:1> at <now> in <cwd>"`, `"c": "0` + id + `"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in %s", want, got)
		}
	}
}
