package placement

import "fmt"

// Parallelism is how many operations may run at a time, over all runs: the slots of the limit that covers everything.
// The zero value says nothing, and leaves it to who is asked next: the command line, then the rules, then
// DefaultParallelism. Make others with NewParallelism.
type Parallelism int

// The bounds of what may be said, and what holds when nobody says anything.
const (
	DefaultParallelism Parallelism = 10
	MaxParallelism     Parallelism = 1_000_000
)

// NewParallelism checks a number that somebody has given. The error is a sentence without its subject.
func NewParallelism(n int64) (Parallelism, error) {
	if n < 1 || n > int64(MaxParallelism) {
		return 0, fmt.Errorf("must be a whole number from 1 to %d, and not %d", MaxParallelism, n)
	}
	return Parallelism(n), nil
}

// Slots decides how many slots the widest limit has, where a command line asks for a number or, with the zero value,
// for none.
func (r *Rules) Slots(asked Parallelism) int {
	switch {
	case asked != 0:
		return int(asked)
	case r != nil && r.Parallelism != 0:
		return int(r.Parallelism)
	}
	return int(DefaultParallelism)
}
