package placement

import "fmt"

// Parallelism is the maximum number of concurrent operations over all runs: the slots of the limit that covers
// everything. The zero value means unset: the command line takes precedence over the rules, and these over
// DefaultParallelism. Other values are made with NewParallelism.
type Parallelism int

// The bounds of the value, and the default.
const (
	DefaultParallelism Parallelism = 10
	MaxParallelism     Parallelism = 1_000_000
)

// NewParallelism checks a number from a user. The error is a sentence without its subject.
func NewParallelism(n int64) (Parallelism, error) {
	if n < 1 || n > int64(MaxParallelism) {
		return 0, fmt.Errorf("must be a whole number from 1 to %d, and not %d", MaxParallelism, n)
	}
	return Parallelism(n), nil
}

// Slots returns the number of slots of the widest limit, given the option of the command line, which is zero if it
// is not set.
func (r *Rules) Slots(asked Parallelism) int {
	switch {
	case asked != 0:
		return int(asked)
	case r != nil && r.Parallelism != 0:
		return int(r.Parallelism)
	}
	return int(DefaultParallelism)
}
