package web

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
)

// functions are the functions of templates.
func (s *site) functions() template.FuncMap {
	return template.FuncMap{
		"at":     at,
		"since":  func(t time.Time) string { return since(s.o.Now().Sub(t)) },
		"ago":    since,
		"stamp":  func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"clock":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"took":   took,
		"status": statusOf,
		"needs":  needs,
		"urgent": func(a service.Attention) bool { return a == service.HasDoubts || a == service.LastFailed },
		"locker": locker,
		"mark":   func(action string) string { return actionWords[action][0] },
		"verb":   func(action string) string { return actionWords[action][1] },
		"todo": func(action string, past bool) string {
			switch {
			case action == "drift": // it is not planned
				return actionWords[action][1]
			case past:
				return pastWords[action]
			}
			return "to " + actionWords[action][1]
		},
		"count":   count,
		"size":    size,
		"short":   short,
		"lower":   strings.ToLower,
		"holders": service.Holders,
		"dict":    dict,
		"add":     func(x, y int) int { return x + y },
	}
}

// pastWords are what has become of the objects of a state since another version of it.
var pastWords = map[string]string{"create": "added", "update": "changed", "delete": "removed"}

// dict makes a map of its arguments, for templates that call others with several values.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("%d arguments are not pairs", len(pairs))
	}
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return m, nil
}

// since describes how long ago something was.
func since(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return "just now"
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}

// took describes a duration.
func took(from, to time.Time) string {
	if from.IsZero() || to.IsZero() {
		return ""
	}
	d := to.Sub(from)
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

// count returns a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits + " " + strings.TrimSuffix(noun, "y") + map[bool]string{true: "ies", false: "s"}[strings.HasSuffix(noun,
		"y")]
}

// size formats a number of bytes.
func size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// short shortens a text.
func short(n int, text string) string {
	text, _, _ = strings.Cut(text, "\n")
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n-1]) + "\u2026"
	}
	return text
}

// badge is a status for people: a text, and a tone that determines colour and mark.
type badge struct{ Text, Tone string }

// statusOf returns the status of a run for people.
func statusOf(s record.RunStatus) badge {
	switch s {
	case record.Pending:
		return badge{"Queued", "wait"}
	case record.PlanQueued:
		return badge{"Waits to plan", "wait"}
	case record.Planning:
		return badge{"Planning", "run"}
	case record.Planned, record.PlannedAndSaved:
		return badge{"Needs approval", "ask"}
	case record.PlannedAndFinished:
		return badge{"Planned", "good"}
	case record.Confirmed, record.ApplyQueued:
		return badge{"Waits to apply", "wait"}
	case record.Applying:
		return badge{"Applying", "run"}
	case record.Applied:
		return badge{"Applied", "good"}
	case record.Discarded:
		return badge{"Discarded", "quiet"}
	case record.Canceled:
		return badge{"Canceled", "quiet"}
	case record.ForceCanceled:
		return badge{"Force-canceled", "bad"}
	case record.Errored:
		return badge{"Failed", "bad"}
	}
	return badge{string(s), "quiet"}
}

// locker says who has locked a workspace; empty for nobody. Most locks are those of the last run, whose status says
// enough.
func locker(v *service.Overview) string {
	if v.Run != nil && v.Lock.Kind == "run" && v.Lock.ID == v.Run.ID {
		return "the run"
	}
	return v.Holder
}

// needs says why a workspace needs a person; empty if it does not.
func needs(a service.Attention) string {
	switch a {
	case service.HasDoubts:
		return "Operations are in doubt: their outcomes are unknown."
	case service.NeedsApproval:
		return "A plan waits for approval."
	case service.LockedByPerson:
		return "Somebody has locked it."
	case service.LastFailed:
		return "The last run failed."
	case service.HasDrifted:
		return "Objects differ from the state."
	}
	return ""
}
