package document

import (
	"slices"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/graph/plan"
)

// An operation that may turn out to have nothing to do is reported when it does something, or never.
func TestAnEndIsReportedOnlyAfterItsStart(t *testing.T) {
	begun := Begun{}
	if begun.End(1) {
		t.Error("a vertex that never began has an end to report")
	}
	if !begun.Begin(1, program.Description{}) || begun.Release(1) {
		t.Error("a start is not reported at once, or reported twice")
	}
	if begun.Begin(2, program.Description{Unsettled: true}) {
		t.Error("a start is reported although the operation may have nothing to do")
	}
	if !begun.Release(2) || begun.Release(2) {
		t.Error("a start that was held back is not reported exactly once")
	}
	if !begun.End(1) || !begun.End(2) || begun.End(2) {
		t.Error("an end is not reported exactly once")
	}
}

func TestAnAddressIsQuotedForAShellIfItHasTo(t *testing.T) {
	for word, want := range map[string]string{
		"t.a":           "t.a",
		"t.a[0]":        "'t.a[0]'",
		`t.a["x"]`:      `'t.a["x"]'`,
		`t.a["$HOME"]`:  `'t.a["$HOME"]'`,
		`t.a["it's x"]`: `'t.a["it'\''s x"]'`,
	} {
		if got := ShellWord(word); got != want {
			t.Errorf("%s becomes %s, want %s", word, got, want)
		}
	}
}

func TestTheLinesOfAProvisionerHaveTextAndNoEndingSpaces(t *testing.T) {
	if got := OutputLines("one \r\n\n  two\rthree\t\n \n"); !slices.Equal(got, []string{"one", "  two", "three"}) {
		t.Errorf("the lines are %q", got)
	}
}

func TestAPlanSaysWhatItHasNotReadAndSinceWhen(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	for want, u := range map[string]*plan.Unread{
		"": nil,
		"1 object was not read, because by the stored state it does not change; it is unknown when all of them were last " +
			"read.": {Objects: 1},
		"2 objects were not read, because by the stored state they do not change; each was last read on 2026-01-02 " +
			"02:04:05 UTC or later. For 1 of them the provider was not asked: an earlier plan had the same " +
			"inputs.": {Objects: 2, Since: since, Verdicts: 1},
	} {
		if got := UnreadSentence(u); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
