package loop

import (
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/wire"
)

// Input is something that happened outside of the loop. The types of this file are all there are.
type Input interface{ isInput() }

type (
	// Began is the first input of a run.
	Began struct{}
	// Prepared brings what a vertex must do.
	Prepared struct {
		Vertex int
		Step   program.Step
	}
	// Completed brings what follows from the answer to a vertex's task.
	Completed struct {
		Vertex int
		Step   program.Step
		Took   time.Duration
		Worker string // who answered the call
	}
	// CallFailed tells that a fast-lane call brought no answer.
	CallFailed struct {
		Vertex int
		Err    error
	}
	// Declared brings a limit as the transport has it.
	Declared struct {
		Limit string
		Slots int
	}
	// Granted brings a permit.
	Granted struct{ PermitKey }
	// Released tells that a permit is given back, so that its name may be used again.
	Released struct{ PermitKey }
	// Refused tells that a request for a permit ended without one.
	Refused struct {
		PermitKey
		Err error
	}
	// Contention tells whether other runs wait for a limit.
	Contention struct {
		Limit string
		Yes   bool
	}
	// Committed tells that records are durable, in the order in which they were asked for.
	Committed struct{ Records []Record }
	// Published tells that the stream holds the task of an attempt, or why not.
	Published struct {
		Vertex  int
		Attempt wire.AttemptID
		Err     error
	}
	// Arrived brings a result of the safe lane. Delivery is the caller's number for its message. Claim is what the
	// attempt's register holds, or the zero Claim when it is empty.
	Arrived struct {
		Delivery int
		Ref      wire.TaskRef
		Sequence uint64
		Result   *wire.Result
		Claim    wire.Claim
	}
	// Unreadable tells that a result of the safe lane could not be decoded.
	Unreadable struct {
		Delivery int
		Ref      wire.TaskRef
		Sequence uint64
		Err      error
	}
	// MisplacedResult tells that a result came whose subject is not that of an attempt of this run.
	MisplacedResult struct {
		Delivery int
		Ref      wire.TaskRef
		Sequence uint64
	}
	// Acked tells that the message of a result will not come again.
	Acked struct{ Delivery int }
	// Registered brings the content of an attempt's register, after ReadClaim or Revoke.
	Registered struct {
		Vertex  int
		Attempt wire.AttemptID
		Claim   wire.Claim
		Found   bool
		Err     error
	}
	// Beat is a heartbeat.
	Beat struct{ wire.Heartbeat }
	// Probed tells what became of the regular look at the message store: nil, or why it stores nothing (wire.ErrStore),
	// or cannot be looked at.
	Probed struct{ Err error }
	// LostData tells that the transport does not hold any more what it held. Older tells instead that an earlier
	// version of the program has dispatched what is under way, whose registers this one cannot read.
	LostData struct{ Older bool }
	// Surveyed tells that all workers had the time to say that they are there.
	Surveyed struct{}
	// Ticked tells that TickEvery has passed, and for how long the transport has been connected: 0 when it is not.
	Ticked struct{ Connected time.Duration }
	// Blocked tells which operations in doubt of earlier runs hold permits of a limit, by address, once for each
	// permit.
	Blocked struct {
		Limit     string
		Addresses []string
	}
	// Interrupted asks to stop: nothing more is started, what runs is asked to end, its outcome is awaited. Cancel
	// says that the run is not to be resumed, Settle that what runs is to be finished.
	Interrupted struct{ Cancel, Settle bool }
	// Abandoned asks to leave at once.
	Abandoned struct{}
	// Failed tells that the run cannot go on: nothing can be recorded, or there is a bug.
	Failed struct{ Err error }
)

func (Began) isInput()           {}
func (Prepared) isInput()        {}
func (Completed) isInput()       {}
func (CallFailed) isInput()      {}
func (Declared) isInput()        {}
func (Granted) isInput()         {}
func (Released) isInput()        {}
func (Refused) isInput()         {}
func (Contention) isInput()      {}
func (Committed) isInput()       {}
func (Published) isInput()       {}
func (Arrived) isInput()         {}
func (Unreadable) isInput()      {}
func (MisplacedResult) isInput() {}
func (Acked) isInput()           {}
func (Registered) isInput()      {}
func (Beat) isInput()            {}
func (Probed) isInput()          {}
func (LostData) isInput()        {}
func (Surveyed) isInput()        {}
func (Ticked) isInput()          {}
func (Blocked) isInput()         {}
func (Interrupted) isInput()     {}
func (Abandoned) isInput()       {}
func (Failed) isInput()          {}
