package skim_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/millipede-iac/millipede/service/skim"
)

// readers return a text in pieces of several sizes.
func readers(text string) map[string]io.Reader {
	return map[string]io.Reader{
		"whole": strings.NewReader(text), "by bytes": iotest.OneByteReader(strings.NewReader(text)),
		"by halves": iotest.HalfReader(strings.NewReader(text)),
	}
}

// A value at the end of the read data is moved to the front of the window, but its position in the text must not
// change.
func TestAValueIsReturnedAsItStandsAndWithItsPlace(t *testing.T) {
	for _, n := range []int{0, 1, 64<<10 - 30, 64 << 10, 200_000} {
		values := []string{`"` + strings.Repeat(`\\\"`, n) + `"`, `{"a": ["}", {"b": -1.5e+3}]}`, `[ ]`, `null`, `true`,
			`12345678901234567890`, `"\u00e9 \n"`}
		text := "[" + strings.Join(values, " ,\n") + "]"
		for how, in := range readers(text) {
			if n > 100_000 && how == "by bytes" {
				continue // slow, and like the others
			}
			r, i := skim.New(in), 0
			err := r.Elements(func() error {
				raw, at, err := r.Raw()
				if err == nil && (string(raw) != values[i] || !strings.HasPrefix(text[at:], values[i])) {
					t.Errorf("%s, %d: at %d lies %.40s", how, n, at, raw)
				}
				i++
				return err
			})
			if err != nil || i != len(values) {
				t.Fatalf("%s, %d: %d values, %v", how, n, i, err)
			}
		}
	}
}

func TestMembersAreReadInTheirOrder(t *testing.T) {
	const text = `{"a\"b": {"x": 1, "x": 2}, "list": [3, 4], "none": null, "last": "z"}`
	for how, in := range readers(text) {
		var got []string
		r := skim.New(in)
		err := r.Members(func(key string) error {
			switch key {
			case "list", "none":
				return r.Elements(func() error {
					var n int
					err := r.Decode(&n)
					got = append(got, fmt.Sprint(key, n))
					return err
				})
			case "last":
				text, err := r.Text()
				got = append(got, text)
				return err
			}
			raw, _, err := r.Raw()
			if err != nil {
				return err
			}
			inner := r.Within(raw)
			return inner.Members(func(name string) error {
				got = append(got, key+name)
				return inner.Skip()
			})
		})
		if want := `[a"bx a"bx list3 list4 z]`; err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: %v, %v", how, got, err)
		}
	}
}

// FuzzSkip checks that valid JSON is skipped as a whole, and compacted as by the standard library.
func FuzzSkip(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":[1,"\\\"",null]}`, ` [ -0.1e5 , true ] `, `"`, `{"a":}`, `nul`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := skim.New(iotest.HalfReader(strings.NewReader(text)))
		raw, at, err := r.Raw()
		if !json.Valid([]byte(text)) {
			return // what is passed is not checked as a decoder does
		}
		if err != nil || string(raw) != strings.Trim(text, " \t\r\n") || !strings.HasPrefix(text[at:], string(raw)) {
			t.Fatalf("%q is read as %q: %v", text, raw, err)
		}
		var want bytes.Buffer
		if err := json.Compact(&want, raw); err != nil {
			t.Fatal(err)
		}
		if got := skim.Compact(nil, raw); string(got) != want.String() {
			t.Fatalf("%q is compacted to %q, not %q", raw, got, want.String())
		}
	})
}
