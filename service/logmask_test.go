package service

import (
	"strings"
	"testing"
)

func TestASecretIsMaskedHoweverItIsWritten(t *testing.T) {
	for what, c := range map[string]struct {
		secrets []string
		text    string
		want    string
	}{
		"whole":                        {[]string{"hunter22"}, "a hunter22 b", "a (sensitive value) b"},
		"twice":                        {[]string{"hunter22"}, "hunter22hunter22", "(sensitive value)(sensitive value)"},
		"only its beginning":           {[]string{"hunter22"}, "a hunter2", "a hunter2"},
		"a beginning before the whole": {[]string{"ababac"}, "abababac", "ab(sensitive value)"},
		"the longer of two":            {[]string{"secret", "secret-key"}, "secret-key", "(sensitive value)"},
		"line by line":                 {[]string{"-----BEGIN\nabcdefgh\n"}, "x abcdefgh y", "x (sensitive value) y"},
		"as JSON has it":               {[]string{`pass"word`}, `{"m":"pass\"word"}`, `{"m":"(sensitive value)"}`},
		"too short to be one":          {[]string{"true"}, "it is true", "it is true"},
		"none":                         {nil, "text", "text"},
	} {
		for size := 1; size <= len(c.text); size++ { // cut anywhere
			var out strings.Builder
			m := newMask(&out, c.secrets)
			for rest := c.text; rest != ""; {
				n := min(size, len(rest))
				if got, err := m.Write([]byte(rest[:n])); got != n || err != nil {
					t.Fatal(got, err)
				}
				rest = rest[n:]
			}
			if err := m.Flush(); err != nil {
				t.Fatal(err)
			}
			if out.String() != c.want {
				t.Errorf("%s, in pieces of %d: %q", what, size, out.String())
			}
		}
	}
}
