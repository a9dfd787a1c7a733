// Package features says which features of a store the programs that open it may use.
//
// A store has a level. A program that knows further features does not use them before the level allows it, so that the
// version before can still open the store. An operator raises the level when all programs have been replaced; from then
// on, the version before refuses the store. The package stores nothing: the stores keep a Record.
package features

import (
	"errors"
	"fmt"
)

// The levels of the stores that this program can work with. A new feature that earlier programs cannot read, or must
// not write beside, takes the next level, and says so in docs/format/features.md.
const (
	Oldest = 1
	Newest = 1
)

// Levels is a range of levels.
type Levels struct{ Oldest, Newest int }

// built may be set when a program is built, to "OLDEST-NEWEST", so that tests have programs of other versions:
//
//	-ldflags "-X github.com/millipede-iac/millipede/state/features.built=1-2"
var built string

var own = func() Levels {
	l := Levels{Oldest, Newest}
	if built == "" {
		return l
	}
	if _, err := fmt.Sscanf(built, "%d-%d", &l.Oldest, &l.Newest); err != nil || l.Oldest < 1 || l.Newest < l.Oldest {
		panic("features: the program was built for the levels " + built + ", which are none")
	}
	return l
}()

// Own returns the levels that this program can work with.
func Own() Levels { return own }

// String returns the levels for people: "1", or "1 to 2".
func (l Levels) String() string {
	if l.Oldest == l.Newest {
		return fmt.Sprint(l.Newest)
	}
	return fmt.Sprintf("%d to %d", l.Oldest, l.Newest)
}

// Record is what a store says about its level. Stores of the versions before levels have none; their level is 1.
type Record struct {
	Level int `json:"level"`
	// By is the version of Millipede that has set the level, Opened the one that has opened the store last.
	By     string `json:"by,omitempty"`
	Opened string `json:"opened,omitempty"`
}

// Conditions that callers handle.
var (
	// ErrNewer means that the store has features that this program does not know.
	ErrNewer = errors.New("the store uses features of a newer version of Millipede")
	// ErrOlder means that the store has a level with which this program does not work any more.
	ErrOlder = errors.New("the store is of a version of Millipede that is too old for this one")
)

// Check returns nil if a program with the levels l may open the store. Otherwise the error says which version wrote the
// store, and what to do; it wraps ErrNewer or ErrOlder.
func (r Record) Check(l Levels) error {
	by := "a version that is not recorded"
	if r.By != "" {
		by = "Millipede " + r.By
	}
	switch {
	case r.Level > l.Newest:
		return fmt.Errorf("%w: it has level %d, which %s has set, and this version has level %s. Use that version, or a "+
			"newer one; going back is possible only until an upgrade is finished", ErrNewer, r.Level, by, l)
	case r.Level < l.Oldest:
		return fmt.Errorf("%w: it has level %d, which %s has set, and this version has level %s. Start a version in "+
			"between first, and finish its upgrade: coordinator service finish-upgrade, or coordinator upgrade finish in a "+
			"directory without a service", ErrOlder, r.Level, by, l)
	}
	return nil
}

// Raise returns the record with a level, if that is higher: set by a program. The error is that of Check for the level.
func (r Record) Raise(level int, program string, l Levels) (raised Record, changed bool, err error) {
	if level <= r.Level {
		return r, false, nil
	}
	raised = Record{Level: level, By: program, Opened: program}
	return raised, true, raised.Check(l)
}
