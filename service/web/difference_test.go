package web

import (
	"fmt"
	"strings"
	"testing"
)

// show writes a difference as one text.
func show(d difference) string {
	var b strings.Builder
	for _, r := range append(d.Changed, d.Same...) {
		fmt.Fprintf(&b, "%s %s: %s -> %s", map[string]string{"create": "+", "delete": "-", "update": "~", "": "="}[r.Op],
			r.Path, r.Before, r.After)
		if r.Replaces {
			b.WriteString(" (replaces)")
		}
		b.WriteString("; ")
	}
	return b.String()
}

func TestAChangeIsShownAttributeByAttribute(t *testing.T) {
	for claim, c := range map[string][2]string{
		"what is new is not known yet": {
			`{"before":null,"after":{"name":"a"},"after_unknown":{"id":true}}`,
			`+ id:  -> (known after apply); + name:  -> "a"; `},
		"what changes comes first, and what forces the replacement is marked": {
			`{"before":{"a":1,"b":"x","c":{"d":true}},"after":{"a":1,"b":"y","c":{"d":true}},"after_unknown":{},
			 "replace_paths":[["b"]]}`,
			`~ b: "x" -> "y" (replaces); = a: 1 -> 1; = c.d: true -> true; `},
		"sensitive values are not shown": {
			`{"before":{"p":"REDACTED"},"after":{"p":"REDACTED","q":"REDACTED"},"before_sensitive":{"p":true},
			 "after_sensitive":{"p":true,"q":true}}`,
			`+ q:  -> (sensitive value); = p: (sensitive value) -> (sensitive value); `},
		"elements are followed through lists": {
			`{"before":{"l":["a","b","c"]},"after":{"l":["b","c","d"]}}`,
			`~ l[2]: "a" -> "d"; = l[0]: "b" -> "b"; = l[1]: "c" -> "c"; `},
		"a value that was none is created": {
			`{"before":{"t":null,"m":{}},"after":{"t":"x","m":{"k.1":"v"}}}`,
			`+ m["k.1"]:  -> "v"; + t:  -> "x"; `},
		"numbers keep their digits": {
			`{"before":{"n":12345678901234567890},"after":{"n":12345678901234567891}}`,
			`~ n: 12345678901234567890 -> 12345678901234567891; `},
		"what is gone is deleted": {`{"before":{"a":1},"after":null}`, `- a: 1 -> ; `},
	} {
		d, err := planned([]byte(`{"change":` + c[0] + `}`))
		if got := show(d); err != nil || got != c[1] {
			t.Errorf("%s: the difference is\n%s\nnot\n%s\n%v", claim, got, c[1], err)
		}
	}
}

func TestWhatIsShownOfAnObjectIsBounded(t *testing.T) {
	var b strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&b, `,"a%d":"%s"`, i, strings.Repeat("x", 20_000*(i/9999)))
	}
	d, err := planned([]byte(`{"change":{"before":null,"after":{"z":1` + b.String() + `}}}`))
	if err != nil || len(d.Changed) != maxRows || d.Left != 10_001-maxRows {
		t.Errorf("%d rows, %d left out, %v", len(d.Changed), d.Left, err)
	}
	for _, r := range d.Changed {
		if len(r.After) > maxText+100 {
			t.Errorf("a text of %d bytes", len(r.After))
		}
	}
}
