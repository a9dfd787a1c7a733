// Package group decides which of several members leads a service.
//
// The leader is the one that has appended the newest lead entry of the records' log: a Member follows that log, claims
// the lead when nobody has written for a term, and beats while it leads. The package knows no records and serves
// nothing: whoever makes a Member says what to do with the lead. docs/group.md describes it for operators,
// docs/adr/0055 has the reasons.
package group

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/state/features"
	"github.com/millipede-iac/millipede/state/log"
)

// Info is what a member says of itself.
type Info struct {
	// Name is the member; Instance is its process, so that two processes with one name are noticed.
	Name     string `json:"name"`
	Instance string `json:"instance"`
	// Address is where other members reach it: HOST:PORT.
	Address string          `json:"address"`
	Program string          `json:"program"` // the version of Millipede
	Levels  features.Levels `json:"levels"`
	// Sequence, Hash and Epoch are the end of its copy of the records.
	Sequence uint64 `json:"sequence"`
	Hash     string `json:"hash"`
	Epoch    uint64 `json:"epoch"`
	// Leads says that it leads in that epoch, and has heard from the log lately. Since is when it began to.
	Leads bool      `json:"leads"`
	Since time.Time `json:"since,omitzero"`
}

// at sets the position of a copy.
func (i *Info) at(p log.Position) {
	i.Sequence, i.Hash, i.Epoch = p.Sequence, hex.EncodeToString(p.Hash[:]), p.Epoch
}

// Peers connects a member to the others.
type Peers interface {
	// Ask sends what this member says of itself to all others, and calls each with every answer, until that returns false
	// or wait is over. Answers can be missing, repeated, and those of this member itself.
	Ask(ctx context.Context, own Info, wait time.Duration, each func(Info) bool) error
	// Answer has f called with what another member says of itself when it asks; f returns the answer. It lasts until stop.
	Answer(f func(Info) Info) (stop func() error, err error)
}

// Lead is what the member that leads works with. The function that gets it closes nothing of it but the store that it
// opens over the file, which closes the Writer.
type Lead struct {
	Writer *log.Writer
	Epoch  uint64
	// Before is the member that led in the epoch before; empty for the first one. If it is another one, what this machine
	// keeps beside its copy may be out of date.
	Before string
}

// Term is for how long the log must be silent before a member claims the lead.
const Term = 2500 * time.Millisecond

// Options are what a Member needs. Zero durations mean defaults.
type Options struct {
	// Own is what the member says of itself; the fields about its copy are set by Member.
	Own Info
	// Path is the file of the records, Copy says which copy it is at the moment.
	Path string
	Copy func() (log.Options, error)
	// Peers are the other members. Known returns the names of those that the records list, which are waited for before
	// the lead is claimed; it gets the copy, which nobody changes meanwhile.
	Peers Peers
	Known func(*log.Copy) ([]string, error)
	// Serve does what the leader does, and returns when it leads no more: ctx has ended, or the Writer has stopped. It
	// has then closed the store. Without an error, or with one that wraps log.ErrDeposed, ErrUnknown, ErrUnanswered or
	// ErrCopy, the member follows again.
	Serve func(ctx context.Context, l Lead) error
	// Changed is called when another leader is known: with what it says of itself, or nil if none is. It must not block.
	Changed func(leader *Info)
	// Log gets what operators should know.
	Log func(line string)

	// Term is for how long the log must be silent before a member claims the lead; default Term.
	Term time.Duration
	// Asking is how long answers of other members are waited for; default a fifth of Term.
	Asking time.Duration
	// Suspicion is for how long a member that has more entries than the log is taken for one that is faster; default
	// 25 s. Then the log has lost its end.
	Suspicion time.Duration
	Now       func() time.Time // default time.Now

	omit omitted
}

// omitted are the guards that a test leaves out, to see that they are needed.
type omitted struct {
	question bool // the lead is claimed without asking the others
}

func (o Options) withDefaults() Options {
	if o.Term == 0 {
		o.Term = Term
	}
	if o.Asking == 0 {
		o.Asking = o.Term / 5
	}
	if o.Suspicion == 0 {
		o.Suspicion = 25 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Fresh is for how long the leader answers for the records after it sent its last acknowledged entry.
func Fresh(term time.Duration) time.Duration { return term * 2 / 3 }

// Conditions in which a member ends.
var (
	// ErrTwice means that another process is the same member.
	ErrTwice = errors.New("another process is this member of the group")
	// ErrAhead means that another member has entries that the log does not have.
	ErrAhead = errors.New("another member has entries that the log does not have")
)

// again reports whether a member follows again after an error of the leader.
func again(err error) bool {
	for _, one := range []error{log.ErrDeposed, log.ErrUnknown, log.ErrUnanswered, log.ErrCopy, log.ErrUndecided} {
		if errors.Is(err, one) {
			return true
		}
	}
	return err == nil
}

// recoverHint ends the text of an error after which nobody leads.
const recoverHint = "nobody leads until the newer log is back, or an operator decides from whose copy the group goes " +
	"on: coordinator group recover"

func ahead(i Info, at uint64) error {
	return fmt.Errorf("%w: %s ends at %d, and the log at %d: %s", ErrAhead, i.Name, i.Sequence, at, recoverHint)
}

func differs(i Info) error {
	return fmt.Errorf("%w: %s has another entry %d: %s", log.ErrChain, i.Name, i.Sequence, recoverHint)
}
