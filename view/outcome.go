package view

import (
	"fmt"
	"strings"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/view/document"
)

// shownSkipped is the maximum number of skipped objects that are listed for one failure.
const shownSkipped = 10

// OutcomeText describes the end of an incomplete run: the failed, skipped and doubtful operations, and how to continue.
// It is empty for a complete run. s is the state afterwards; it may be nil.
func OutcomeText(run string, o coordinator.Outcome, s *state.State, t TextOptions) string {
	if len(o.Failed)+len(o.Skipped)+len(o.InDoubt) == 0 && !o.Interrupted {
		return ""
	}
	var b strings.Builder
	parts := []string{fmt.Sprintf("%d of %d done", o.Counts.Done, o.Counts.Total)}
	for _, e := range []struct {
		n    int
		word string
	}{{len(o.Failed), "failed"}, {len(o.Skipped), "skipped"}, {len(o.InDoubt), "in doubt"}} {
		if e.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", e.n, e.word))
		}
	}
	how := "Incomplete!"
	switch {
	case o.Cancelled:
		how = "Cancelled!"
	case o.Interrupted:
		how = "Interrupted!"
	}
	k := t.Ink
	fmt.Fprintf(&b, "\n%s%s%s Operations: %s.\n", k.on(boldCode+redCode), how, k.off(), strings.Join(parts, ", "))
	if len(o.Failed) > 0 {
		b.WriteString("\nFailed:\n")
		for _, f := range o.Failed {
			fmt.Fprintf(&b, "  %s\n", f.Address)
		}
	}
	b.WriteString(skippedText(o.Skipped))
	if len(o.InDoubt) > 0 {
		b.WriteString(DoubtsText(s, run))
	}
	if o.Interrupted && !o.Cancelled && !t.Automated {
		fmt.Fprintf(&b, "\nTo resume the run where it stopped:\n  "+diag.Program()+" runs resume %s\n", run)
	}
	return b.String()
}

// skippedText lists the skipped objects below the failed ones that they depended on.
func skippedText(list []coordinator.Skipped) string {
	var causes []string
	by := map[string][]string{}
	for _, s := range list {
		if by[s.Because] == nil {
			causes = append(causes, s.Because)
		}
		by[s.Because] = append(by[s.Because], s.Address)
	}
	var b strings.Builder
	for _, cause := range causes {
		fmt.Fprintf(&b, "\nSkipped, because of %s:\n", cause)
		for i, address := range by[cause] {
			if i == shownSkipped {
				fmt.Fprintf(&b, "  and %d more\n", len(by[cause])-i)
				break
			}
			fmt.Fprintf(&b, "  %s\n", address)
		}
	}
	return b.String()
}

// SummaryText returns the summary of an apply for people, with its line breaks.
func SummaryText(s document.Summary, k Ink) string {
	return k.off() + k.on(boldCode+greenCode) + "\n" + s.String() + "\n" + k.off()
}

// ValidText says that a configuration is valid.
func ValidText(warnings bool, o TextOptions) string {
	text := "Success! The configuration is valid."
	if warnings {
		text = "Success! The configuration is valid, but there were some validation warnings as shown above."
	}
	return Wrap(o.Ink.Success(text), o.Width)
}
