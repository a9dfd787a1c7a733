package view_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/view"
)

// words are the patterns by which programs read a plan, by program. The words of other commands are in
// cmd/coordinator/testdata/script/wrappers.txtar.
var words = map[string]*regexp.Regexp{
	// tfcmt, which panics on a plan that begins such a section and does not end it
	"the begin of the drift": regexp.MustCompile(`(?m)^Note: Objects have changed outside of OpenTofu$`),
	"the end of the drift":   regexp.MustCompile(`(?m)^Unless you have made equivalent changes to your configuration`),
	"the begin of the plan":  regexp.MustCompile(`(?m)^OpenTofu will perform the following actions:$`),
	"a rule":                 regexp.MustCompile(`(?m)^─────`),
	"creations":              regexp.MustCompile(`(?m)^ *# .* will be created$`),
	"updates":                regexp.MustCompile(`(?m)^ *# .* will be updated in-place$`),
	"deletions":              regexp.MustCompile(`(?m)^ *# .* will be destroyed$`),
	"replacements":           regexp.MustCompile(`(?m)^ *# .*?(?: is tainted, so it)? must be replaced$`),
	"requested replacements": regexp.MustCompile(`(?m)^ *# .*? will be replaced, as requested$`),
	"triggered replacements": regexp.MustCompile(`(?m)^ *# .*? will be replaced due to changes in replace_triggered_by$`),
	"moves":                  regexp.MustCompile(`(?m)^ *# .*? has moved to .*?$`),
	"imports":                regexp.MustCompile(`(?m)^ *# .* will be imported$`),
	"origins of imports":     regexp.MustCompile(`(?m)^ *# \(imported from .*?\)$`),
	"origins of moves":       regexp.MustCompile(`(?m)^ *# \(moved from .*?\)$`),
	"the summary": regexp.MustCompile(`(?m)^Plan: (?:\d+ to import, )?\d+ to add, \d+ to change, ` +
		`\d+ to destroy\.`),
	"changes of outputs": regexp.MustCompile(`(?m)^Changes to Outputs:$`),
	// Atlantis
	"no changes": regexp.MustCompile(`(?m)^No changes\. (?:Infrastructure is up-to-date|Your infrastructure matches ` +
		`the configuration)\.`),
	"signs": regexp.MustCompile(`(?m)^ {2}[-+~]`),
	// dflook's actions for GitHub
	"the introduction":  regexp.MustCompile(`(?m)^OpenTofu used the selected providers`),
	"hidden attributes": regexp.MustCompile(`(?m)^\s+# \(\d+ unchanged attributes hidden\)`),
}

// Sentences were put into better words, also those by which other programs find their way: tfcmt panicked on each plan
// with drift. Now such a program finds the same as in OpenTofu's text.
func TestProgramsThatReadAPlanFindTheWordsOfOpenTofu(t *testing.T) {
	found := map[string]int{}
	for name, a := range recordings(t) {
		p, schemas := planOf(t, content(a, "plan.json"), content(a, "schemas.json"))
		switch strings.TrimSpace(string(a.Comment)) {
		case "-destroy":
			p.Mode = plan.Destroy
		case "-refresh-only":
			p.Mode = plan.RefreshOnly
		}
		var text bytes.Buffer
		if err := view.PlanText(&text, p, schemas, view.TextOptions{}); err != nil {
			t.Fatal(err)
		}
		for what, word := range words {
			want := len(word.FindAll(content(a, "plan.txt"), -1))
			found[what] += want
			if got := len(word.FindAll(text.Bytes(), -1)); got != want {
				t.Errorf("%s: %s: %d, and %d in OpenTofu's text", name, what, got, want)
			}
		}
	}
	for what := range words {
		if found[what] == 0 {
			t.Errorf("no recording has %s", what)
		}
	}
}
