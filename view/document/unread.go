package document

import (
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/graph/plan"
)

// unreadForm is what a plan has not read, under a key of Millipede's own.
type unreadForm struct {
	Objects int `json:"objects"`
	// ReadSince is when, at the latest, each of the objects had been read; absent where that is not known.
	ReadSince string `json:"read_since,omitempty"`
	// Verdicts is how many of the objects no provider was asked about.
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

// UnreadSentence says which objects a plan has not read; empty for a plan that has read everything.
func UnreadSentence(u *plan.Unread) string {
	if u == nil {
		return ""
	}
	text := fmt.Sprintf("Not read were %d objects that by what is stored do not change", u.Objects)
	if u.Objects == 1 {
		text = "Not read was 1 object that by what is stored does not change"
	}
	if u.Since.IsZero() {
		text += "; when all of them were last read is not known."
	} else {
		text += fmt.Sprintf("; each had last been read on %s or later.", u.Since.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	if u.Verdicts > 0 {
		text += fmt.Sprintf(" About %d of them no provider was asked: they had been planned with the same inputs.",
			u.Verdicts)
	}
	return text
}
