package document

import (
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/graph/plan"
)

// unreadForm lists what a plan has not read, under a key that is specific to Millipede.
type unreadForm struct {
	Objects int `json:"objects"`
	// ReadSince is the oldest time at which one of the objects was last read; absent if unknown.
	ReadSince string `json:"read_since,omitempty"`
	// Verdicts is the number of objects for which a verdict was used instead of asking the provider.
	Verdicts int `json:"verdicts"`
}

func unreadOf(p *plan.Plan) *unreadForm {
	u := p.Unread
	if u == nil {
		return nil
	}
	out := &unreadForm{Objects: u.Objects, Verdicts: u.Verdicts}
	if !u.Since.IsZero() {
		out.ReadSince = u.Since.UTC().Format(time.RFC3339)
	}
	return out
}

// UnreadSentence says which objects a plan has not read; empty if it has read all.
func UnreadSentence(u *plan.Unread) string {
	if u == nil {
		return ""
	}
	text := fmt.Sprintf("%d objects were not read, because by the stored state they do not change", u.Objects)
	if u.Objects == 1 {
		text = "1 object was not read, because by the stored state it does not change"
	}
	if u.Since.IsZero() {
		text += "; it is unknown when all of them were last read."
	} else {
		text += fmt.Sprintf("; each was last read on %s or later.", u.Since.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	if u.Verdicts > 0 {
		text += fmt.Sprintf(" For %d of them the provider was not asked: an earlier plan had the same inputs.",
			u.Verdicts)
	}
	return text
}
