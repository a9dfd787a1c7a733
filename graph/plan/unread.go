package plan

import "time"

// Unread counts the objects that a plan has not compared with what exists: by what is stored, nothing about them
// changes.
type Unread struct {
	Objects int
	// Since is when, at the latest, each of them had been read; zero when that is not known of one.
	Since time.Time
	// Verdicts is how many of them no provider was asked about, because they had been planned so with the same inputs.
	Verdicts int
}
