package lock

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apparentlymart/go-versions/versions"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

// written is the lock file that OpenTofu 1.12.6 wrote for two providers from mirrors, one with an archive's hash.
const written = `# This file is maintained automatically by "tofu init".
# Manual edits may be lost in future updates.

provider "registry.opentofu.org/acme/foo" {
  version = "1.2.3"
  hashes = [
    "h1:g8N+reFgv9+z9eszpyFMZg+FRLXQsxsc7MXTgBZVdCg=",
    "zh:f73bcefdbf502654c8fbd51c596a3096f3d93d36f53ddd952715d4c59811165c",
  ]
}

provider "registry.opentofu.org/hashicorp/time" {
  version     = "0.9.0"
  constraints = ">= 0.9.0, ~> 0.9.0"
  hashes = [
    "h1:BqhjYfwbyoneFRmvlZXtqswFA5RyoNpcW71Ujn7uUUc=",
  ]
}
`

var (
	foo  = addr.Provider{Host: addr.DefaultHost, Namespace: "acme", Type: "foo"}
	time = addr.Provider{Host: addr.DefaultHost, Namespace: "hashicorp", Type: "time"}
)

func parse(t *testing.T, text string) *Locks {
	t.Helper()
	l, diags := Parse(FileName, []byte(text))
	if len(diags) > 0 {
		t.Fatal(diags.Err())
	}
	return l
}

func TestTheFileIsThatOfOpenTofuByteForByte(t *testing.T) {
	l := &Locks{}
	l.Set(time, &Provider{
		Version: versions.MustParseVersion("0.9.0"), Constraints: ">= 0.9.0, ~> 0.9.0",
		Hashes: []string{"h1:BqhjYfwbyoneFRmvlZXtqswFA5RyoNpcW71Ujn7uUUc="},
	})
	l.Set(foo, &Provider{Version: versions.MustParseVersion("1.2.3"), Hashes: []string{
		"zh:f73bcefdbf502654c8fbd51c596a3096f3d93d36f53ddd952715d4c59811165c",
		"h1:g8N+reFgv9+z9eszpyFMZg+FRLXQsxsc7MXTgBZVdCg=",
		"zh:f73bcefdbf502654c8fbd51c596a3096f3d93d36f53ddd952715d4c59811165c",
	}})
	if got := string(l.Encode()); got != written {
		t.Errorf("got\n%s\nwant\n%s", got, written)
	}
}

func TestWhatWasReadIsWrittenAgainUnchanged(t *testing.T) {
	l := parse(t, written)
	if got := string(l.Encode()); got != written {
		t.Errorf("got\n%s", got)
	}
	p := l.Get(time)
	if p == nil || p.Version.String() != "0.9.0" || p.Constraints != ">= 0.9.0, ~> 0.9.0" || len(p.Hashes) != 1 {
		t.Errorf("got %+v", p)
	}
	if l.Get(addr.DefaultProvider("other")) != nil {
		t.Error("a provider that is not there was found")
	}
}

func TestNoSelectionsLeaveTheHeader(t *testing.T) {
	const header = "# This file is maintained automatically by \"tofu init\".\n# Manual edits may be lost in future " +
		"updates.\n"
	if got := string((&Locks{}).Encode()); got != header {
		t.Errorf("got %q", got)
	}
}

func TestAProviderWithoutHashesHasNoListOfThem(t *testing.T) {
	l := &Locks{}
	l.Set(foo, &Provider{Version: versions.MustParseVersion("1.0.0-beta.1")})
	if got := string(l.Encode()); !strings.HasSuffix(got, "\nprovider \"registry.opentofu.org/acme/foo\" {\n  "+
		"version = \"1.0.0-beta.1\"\n}\n") {
		t.Errorf("got %q", got)
	}
}

func TestABrokenFileIsReportedWhereItIs(t *testing.T) {
	for text, want := range map[string]string{
		"provider \"a/b/c/d\" {\n  version = \"1.0.0\"\n}\n":                                             "Invalid provider source string",
		"provider \"acme/foo\" {\n}\n":                                                                   "Missing required argument",
		"provider \"acme/foo\" {\n  version = \"x\"\n}\n":                                                "Invalid provider version number",
		"provider \"acme/foo\" {\n  version = \"1.0.0\"\n  hashes = [\"abc\"]\n}\n":                      "Invalid provider hash string",
		"provider \"acme/foo\" {\n  version = \"1.0.0\"\n":                                               "Unclosed configuration block",
		"provider \"acme/foo\" {\nversion=\"1.0.0\"\n}\nprovider \"acme/foo\" {\nversion=\"1.0.0\"\n}\n": "Duplicate provider lock",
		"foo {}\n":                            "Unsupported block type",
		"a = " + strings.Repeat("(", 100_000): "Nested too deeply",
	} {
		_, diags := Parse(FileName, []byte(text))
		if len(diags) == 0 || diags[0].Summary != want || diags[0].Subject == nil ||
			diags[0].Subject.Filename != FileName {
			t.Errorf("%q: got %v, want %q", text, diags.Err(), want)
		}
	}
}

func TestAFileThatDoesNotExistHasNoSelections(t *testing.T) {
	l, diags := Read(filepath.Join(t.TempDir(), FileName))
	if len(diags) > 0 || len(l.Sorted()) > 0 {
		t.Errorf("got %v, %v", l, diags)
	}
}

func TestAnUnchangedFileIsNotWritten(t *testing.T) {
	name := filepath.Join(t.TempDir(), FileName)
	if err := parse(t, written).Write(name); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := parse(t, written).Write(name); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(name)
	if err != nil || !os.SameFile(before, after) {
		t.Error("the file was replaced")
	}
	if after.Mode().Perm() != 0o644 {
		t.Errorf("the mode is %v", after.Mode())
	}
	if err := (&Locks{}).Write(name); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(name); err != nil || string(text) == written {
		t.Error("the file was not replaced")
	}
	if entries, err := os.ReadDir(filepath.Dir(name)); err != nil || len(entries) != 1 {
		t.Errorf("something is left: %v", entries)
	}
}

// The expected forms were recorded from OpenTofu 1.12.6.
func TestConstraintsHaveTheNormalFormOfOpenTofu(t *testing.T) {
	for in, want := range map[string]string{
		"":                           "",
		"1.2.3":                      "1.2.3",
		"=1.2.3":                     "1.2.3",
		">1":                         "> 1.0.0",
		"~> 1":                       "~> 1.0",
		"~> 1.2":                     "~> 1.2",
		"~> 1.2.0":                   "~> 1.2.0",
		"~> 1.0.0-beta":              "~> 1.0.0-beta",
		"> 1.0-rc1":                  "> 1.0.0-rc1",
		">= 1.2.3+meta":              ">= 1.2.3+meta",
		">= 1.0,>= 1.0.0":            ">= 1.0.0",
		">= 1.0.0-beta1, != 0.1":     "!= 0.1.0, >= 1.0.0-beta1",
		"~> 2.0, >= 2.0.0-beta":      ">= 2.0.0-beta, ~> 2.0",
		"< 2, > 0.5, <= 1.9, >= 1.0": "> 0.5.0, >= 1.0.0, <= 1.9.0, < 2.0.0",
		"!= 1, >= 1, > 1, <= 1, < 1, 1.0.0, ~> 1.0, ~> 1.0.0": "> 1.0.0, >= 1.0.0, 1.0.0, ~> 1.0.0, ~> 1.0, <= " +
			"1.0.0, < 1.0.0, != 1.0.0",
		">= 1.2.3+b, >= 1.2.3+a, >= 1.2.3": ">= 1.2.3, >= 1.2.3+a, >= 1.2.3+b",
	} {
		got, err := Constraints([]string{in})
		if err != nil || got != want {
			t.Errorf("%q: got %q (%v), want %q", in, got, err, want)
		}
	}
	if got, err := Constraints([]string{"~> 1.0", "", ">= 0.9"}); err != nil || got != ">= 0.9.0, ~> 1.0" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := Constraints([]string{"1.2.*"}); err == nil {
		t.Error("text that is no constraint was accepted")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(written))
	f.Add([]byte("provider \"acme/foo\" {\n  version = \"1.0.0\"\n  hashes = [\"zh:1\", 2]\n}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, diags := Parse(FileName, text)
		if diags.HasErrors() {
			return
		}
		if _, diags := Parse(FileName, l.Encode()); diags.HasErrors() {
			t.Errorf("%q was written as %q, which cannot be read: %v", text, l.Encode(), diags.Err())
		}
	})
}

func TestSelectionsOfThePredecessorsRegistryAreAdopted(t *testing.T) {
	l, diags := Parse("x", []byte(`
provider "registry.terraform.io/hashicorp/null" {
  version     = "3.2.1"
  constraints = "~> 3.0"
  hashes      = ["h1:x"]
}
provider "registry.terraform.io/hashicorp/random" {
  version = "3.0.0"
}
provider "registry.opentofu.org/hashicorp/random" {
  version = "3.1.0"
}
provider "registry.terraform.io/acme/other" {
  version = "1.0.0"
}
`))
	if len(diags) > 0 {
		t.Fatal(diags.Err())
	}
	if got := l.AdoptPredecessors(); len(got) != 1 || got[0].String() != "registry.terraform.io/hashicorp/null" {
		t.Errorf("adopted %v", got)
	}
	adopted := l.Get(addr.DefaultProvider("null"))
	if adopted == nil || adopted.Version.String() != "3.2.1" || adopted.Constraints != "~> 3.0" ||
		len(adopted.Hashes) > 0 {
		t.Errorf("adopted %+v", adopted)
	}
	if len(l.Sorted()) != 5 || l.Get(addr.DefaultProvider("random")).Version.String() != "3.1.0" {
		t.Errorf("selections: %v", l.Sorted())
	}
}

// Hashes of a scheme that was not known were taken for those of another package: init and every other command refused
// a lock file that OpenTofu accepts.
func TestHashesOfUnknownSchemesAreIgnored(t *testing.T) {
	parse := func(hashes string) ([]string, diag.List) {
		l, diags := Parse("x", []byte("provider \"example.org/acme/thing\" {\n  version = \"1.0.0\"\n  hashes = ["+
			hashes+"]\n}\n"))
		for _, p := range l.Providers {
			return p.Hashes, diags
		}
		return nil, diags
	}
	if hashes, diags := parse(`"h9:abc", "h1:def="`); !slices.Equal(hashes, []string{"h1:def="}) || len(diags) != 0 {
		t.Errorf("beside a known one: %v, %v", hashes, diags)
	}
	hashes, diags := parse(`"h9:abc"`)
	if len(hashes) != 0 || diags.HasErrors() || len(diags) != 1 || !strings.Contains(diags[0].Detail, "not verified") {
		t.Errorf("alone: %v, %v", hashes, diags)
	}
	if _, diags := parse(`"abc"`); !diags.HasErrors() {
		t.Error("a text without a scheme was accepted")
	}
}
