package view_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
)

func TestWarningsOfDeprecationAreShownAsFarAsTheyAreWanted(t *testing.T) {
	warning := func(summary string, extra any) *diag.Diagnostic {
		d := diag.New(diag.Warning, summary, "", nil)
		d.Extra = extra
		return d
	}
	problems := diag.List{
		warning("Local", marks.Deprecated{Origin: "a"}), warning("Remote", marks.Deprecated{Origin: "b", Remote: true}),
		warning("Other", nil),
	}
	for word, want := range map[string]string{"module:all": "Local Remote Other", "module:local": "Local Other",
		"module:none": "Other"} {
		var level document.Deprecations
		if err := level.Set(word); err != nil || level.String() != word {
			t.Fatalf("%s is read as %s, %v", word, level.String(), err)
		}
		var out bytes.Buffer
		if err := (&view.Printer{Out: &out, Err: &out, Deprecations: level}).Diagnostics(problems); err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			if summary, ok := strings.CutPrefix(strings.TrimSpace(line), "Warning: "); ok {
				got = append(got, summary)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s shows %v", word, got)
		}
	}
	var level document.Deprecations
	for _, word := range []string{"", "all", "module:", "module:some"} {
		if level.Set(word) == nil {
			t.Errorf("%q is a level", word)
		}
	}
}
