package loop

import (
	"errors"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/wire"
)

// taking is whether the message store takes messages, as the regular look at it finds:
//
//	takes <--> refuses --> unconfirmed --> takes
//	takes ---------------> unconfirmed
//
// Nothing is started while it does not take any.
type taking byte

const (
	takes       taking = iota
	refuses            // it stores nothing
	unconfirmed        // it seems to have lost data; a server that is cut off from its cluster gives such answers
	takings     = iota
)

var takingNames = [takings]string{"taking messages", "refusing messages", "suspected of a loss"}

func (t taking) String() string { return takingNames[t] }

// takingsAfter is the picture as a table. A refusal does not end the suspicion of a loss: only an answer does.
var takingsAfter = [takings]uint16{
	takes:       bits(refuses, unconfirmed),
	refuses:     bits(takes, unconfirmed),
	unconfirmed: bits(takes),
}

func (t taking) next() uint16 { return takingsAfter[t] }

// store is what the run knows of the message store. Its silence is independent of its refusals: a store that alternates
// between the two has been silent since the first time.
type store struct {
	*common
	taking taking
	probes FailureTimer // with the regular look at it
	// silentSince is the time since which it has not answered; zero while it does. The user is informed once.
	silentSince time.Time
	silenceTold bool
}

// probed processes the result of the regular check of the message store. The run pauses while the store cannot store
// messages, and ends if that lasts or if the store does not answer for long. Nothing is lost then: what was done is
// recorded, and what is under way is reported later.
func (s *store) probed(e Probed) {
	refusal, suspicion := errors.Is(e.Err, wire.ErrStore), errors.Is(e.Err, wire.ErrUnconfirmed)
	if s.taking != takes && !refusal && !suspicion && (e.Err == nil || s.taking != unconfirmed) {
		become(-1, &s.taking, takes)
	}
	if e.Err == nil {
		s.silentSince, s.silenceTold = time.Time{}, false
	}
	spent := s.probes.Failing(s.now, e.Err)
	switch {
	case e.Err == nil:
	case suspicion:
		if s.taking != unconfirmed {
			become(-1, &s.taking, unconfirmed)
			s.tell(-1, diag.List{diag.New(diag.Warning, "NATS seems to have lost data", fmt.Sprintf(
				"The run pauses: %s.\n\nA server that is cut off from the others of its cluster gives such answers. If "+
					"another answer shows the same within half a minute, the run ends; otherwise it goes on.", e.Err), nil)})
		}
	case refusal:
		if s.taking == takes {
			become(-1, &s.taking, refuses)
			summary, remedy := "NATS stores nothing", "Make room on the disk of NATS. A server of its own must be "+
				"started again then, because it refuses all that comes after a write that failed; "+
				"the one inside this process is opened again by itself. "
			if errors.Is(e.Err, wire.ErrFull) {
				summary, remedy = "A stream of NATS is full", ""
			}
			s.tell(-1, diag.List{diag.New(diag.Warning, summary, fmt.Sprintf(
				"The run pauses, because the message store does not take messages: %s.\n\n"+
					"%sIf nothing changes within %s, the run ends, and can be resumed.",
				e.Err, remedy, StoreTimeout), nil)})
		}
		if spent > 0 {
			s.fail(fmt.Errorf("%w for %s: %w", ErrStore, spent.Round(time.Second), e.Err))
		}
	case Outage(e.Err):
		if s.silentSince.IsZero() {
			s.silentSince = s.now
		}
		if s.now.Sub(s.silentSince) >= StoreTimeout && !s.silenceTold {
			s.silenceTold = true
			s.tell(-1, diag.List{diag.New(diag.Warning, "NATS does not answer", fmt.Sprintf(
				"The run waits for the message server, which has not answered for %s: %s.\n\n"+
					"Make sure that the server is started, that this machine can reach it, and that most of the "+
					"servers of a cluster are there. "+
					"The run goes on by itself then. If nothing changes within %s, it ends; it can be interrupted "+
					"before. Either way it can be resumed.",
				s.now.Sub(s.silentSince).Round(time.Second), e.Err, OutageTimeout), nil)})
		}
		if spent > 0 {
			s.fail(fmt.Errorf("NATS has not answered for %s: %w", spent.Round(time.Second), e.Err))
		}
	}
}
