package format

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCodeIsWrittenInItsUsualForm(t *testing.T) {
	for claim, c := range map[string]struct{ in, want string }{
		"a string that is one reference becomes the reference": {`a = "${var.b}"`, `a = var.b`},
		"text beside the interpolation keeps the string":       {`a = "${var.b}-x"`, `a = "${var.b}-x"`},
		"two interpolations keep the string":                   {`a = "${var.b}${var.c}"`, `a = "${var.b}${var.c}"`},
		"only the outer of two nested strings goes":            {`a = "${"${b}"}"`, `a = "${b}"`},
		"strings inside of other expressions stay":             {`a = ["${b}"]`, `a = ["${b}"]`},
		"an escaped interpolation is text":                     {`a = "$${b}"`, `a = "$${b}"`},
		"a directive is no interpolation":                      {`a = "%{if x}y%{endif}"`, `a = "%{if x}y%{endif}"`},
		"trim markers go with the string":                      {`a = "${~ b ~}"`, `a = b`},
		"line breaks around the inner expression go":           {"a = \"${\n  b\n}\"\n", "a = b\n"},
		"line breaks in the inner expression get parentheses":  {"a = \"${b +\nc}\"\n", "a = (b +\nc)\n"},
		"line breaks in brackets get them too":                 {"a = \"${[\n1,2\n]}\"\n", "a = ([\n  1, 2\n])\n"},
		"a comment behind the attribute stays":                 {`a = "${b}" # why`, `a = b # why`},
		"a heredoc stays":                                      {"a = <<E\n${b}\nE\n", "a = <<E\n${b}\nE\n"},
		"bare labels are quoted":                               {"a b c {}\n", "a \"b\" \"c\" {}\n"},
		"quoted labels stay":                                   {"a \"b\\\"c\" {}\n", "a \"b\\\"c\" {}\n"},
		"equals signs are aligned": {"a {\nb=1\nccc=2\n}\n",
			"a {\n  b   = 1\n  ccc = 2\n}\n"},
		"blank lines stay": {"\n\na {\n\n\nb=1\n\n}\n\n",
			"\n\na {\n\n\n  b = 1\n\n}\n\n"},
		"a missing line feed at the end stays missing": {"a=1", "a = 1"},
		"a byte order mark goes":                       {"\xef\xbb\xbfa=1\n", "a = 1\n"},
		"a quoted string type loses its quotes": {"variable \"v\" {\ntype=\"string\"\n}\n",
			"variable \"v\" {\n  type = string\n}\n"},
		"a quoted list is one of strings": {"variable \"v\" { type = \"list\" }\n",
			"variable \"v\" { type = list(string) }\n"},
		"a quoted map is one of strings": {"variable \"v\" { type = \"map\" }\n",
			"variable \"v\" { type = map(string) }\n"},
		"a bare list is one of anything": {"variable \"v\" { type = list }\n",
			"variable \"v\" { type = list(any) }\n"},
		"a bare map is one of anything": {"variable \"v\" { type = map }\n",
			"variable \"v\" { type = map(any) }\n"},
		"a bare set is one of anything": {"variable \"v\" { type = set }\n",
			"variable \"v\" { type = set(any) }\n"},
		"other quoted types stay, because they never had meaning": {"variable \"v\" { type = \"number\" }\n",
			"variable \"v\" { type = \"number\" }\n"},
		"a type outside of a variable is an argument": {"a \"v\" { type = \"list\" }\n",
			"a \"v\" { type = \"list\" }\n"},
		"a type is not unwrapped": {"variable \"v\" { type = \"${string}\" }\n",
			"variable \"v\" { type = \"${string}\" }\n"},
	} {
		t.Run(claim, func(t *testing.T) {
			got, diags := Source("a.tf", []byte(c.in))
			if diags.HasErrors() {
				t.Fatal(diags.Err())
			}
			if string(got) != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			again, _ := Source("a.tf", got)
			if claim != "only the outer of two nested strings goes" && string(again) != string(got) {
				t.Errorf("formatted again: %q", again)
			}
		})
	}
}

func TestWhatCannotBeParsedIsReportedWhereItIs(t *testing.T) {
	got, diags := Source("a.tf", []byte("a {\n  b = \n}\n"))
	if got != nil || !diags.HasErrors() {
		t.Fatalf("got %q, %v", got, diags)
	}
	if d := diags[0]; d.Summary != "Invalid expression" || d.Subject.Filename != "a.tf" || d.Subject.Start.Line != 2 {
		t.Errorf("got %v at %v", d, d.Subject)
	}
}

func FuzzSourceKeepsCodeParseable(f *testing.F) {
	names, err := filepath.Glob("../../test/*/testdata/*.tf")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("a b {\n x = \"${y}\"\n}\n"))
	f.Add([]byte("variable v {\n type = \"list\"\n}\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		got, diags := Source("a.tf", src)
		if diags.HasErrors() {
			return
		}
		if _, diags := Source("a.tf", got); diags.HasErrors() {
			t.Errorf("%q became %q: %v", src, got, diags.Err())
		}
	})
}
