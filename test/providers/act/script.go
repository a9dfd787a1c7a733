// Package act executes one call of a test provider: it records the call, with the configured delays and faults.
//
// A function of the caller has the effect of the call. The package knows no plugin protocol.
package act

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/test/providers/record"
)

// After is the suffix of a moment after the effect: the object is created, but the call fails all the same.
const After = "_after"

// Script describes faults. Moments are names of operations ("create"), for before the effect, or such names with the
// suffix After ("create_after").
type Script struct {
	Last  map[record.Op]time.Duration // how long an operation lasts; the time comes before the effect
	Fail  []string                    // moments that end the call with an error
	Warn  []string                    // moments that the caller adds a warning for; see Warns
	Crash []string                    // moments that end the process
	Hang  []string                    // moments that last until the call is cancelled
	// Times limits failing, crashing and hanging at each moment to the first calls for an object of that name, of all
	// processes that share a cloud; 0 is no limit.
	Times int
	// Deaf makes sleeping and hanging ignore that the call was cancelled.
	Deaf bool
}

// Warns reports whether the script requires a warning from an operation.
func (s Script) Warns(op record.Op) bool {
	return slices.Contains(s.Warn, string(op)) || slices.Contains(s.Warn, string(op)+After)
}

// CheckMoments returns an error for a moment that does not exist: of neither an operation of the list, nor after one.
func CheckMoments(moments []string, ops ...record.Op) error {
	for _, m := range moments {
		if op := record.Op(strings.TrimSuffix(m, After)); !slices.Contains(ops, op) {
			return fmt.Errorf("%q is no moment: there are %v, and each of them with the suffix %s", m, ops, After)
		}
	}
	return nil
}

// As returns the script with the settings of one operation used for another: knobs may have a separate name.
func (s Script) As(said, meant record.Op) Script {
	rename := func(moments []string) []string {
		var renamed []string
		for _, m := range moments {
			if suffix, ok := strings.CutPrefix(m, string(said)); ok {
				m = string(meant) + suffix
			}
			renamed = append(renamed, m)
		}
		return renamed
	}
	s.Fail, s.Warn, s.Crash, s.Hang = rename(s.Fail), rename(s.Warn), rename(s.Crash), rename(s.Hang)
	s.Last = map[record.Op]time.Duration{meant: s.Last[said]}
	return s
}
