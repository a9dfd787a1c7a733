package plan

import "time"

// Unread counts the objects that a plan has not read, because according to the stored state they do not change.
type Unread struct {
	Objects int
	// Since is the oldest time at which one of them was last read; zero if unknown.
	Since time.Time
	// Verdicts is the number of them for which no provider was called, because an earlier plan had the same inputs.
	Verdicts int
}
