package loop

import (
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/wire"
)

// Input is an event outside of the loop. The types of this file are the only ones.
type Input interface{ isInput() }

type (
	// Began is the first input of a run.
	Began struct{}
	// Prepared has the next step of a vertex.
	Prepared struct {
		Vertex int
		Step   program.Step
	}
	// Completed has the step that follows from the result of a vertex's task.
	Completed struct {
		Vertex int
		Step   program.Step
		Took   time.Duration
		Worker string // who answered the call
	}
	// CallFailed reports that a call on the fast lane has no result.
	CallFailed struct {
		Vertex int
		Err    error
	}
	// Declared has the size of a limit in the transport.
	Declared struct {
		Limit string
		Slots int
	}
	// Granted reports that a permit was granted.
	Granted struct{ PermitKey }
	// Released reports that a permit is released, so that its name can be used again.
	Released struct{ PermitKey }
	// Refused reports that a request for a permit has ended without one.
	Refused struct {
		PermitKey
		Err error
	}
	// Contention reports whether other runs wait for a limit.
	Contention struct {
		Limit string
		Yes   bool
	}
	// Committed reports that records are durable, in the order of their Commit actions.
	Committed struct{ Records []Record }
	// Published reports that the stream has the task of an attempt, or why not.
	Published struct {
		Vertex  int
		Attempt wire.AttemptID
		Err     error
	}
	// Arrived has a result of the safe lane. Delivery is the caller's number for its message. Claim is the content of the
	// attempt's register; the zero Claim if it is empty.
	Arrived struct {
		Delivery int
		Ref      wire.TaskRef
		Sequence uint64
		Result   *wire.Result
		Claim    wire.Claim
	}
	// Unreadable reports a result of the safe lane that could not be decoded.
	Unreadable struct {
		Delivery int
		Ref      wire.TaskRef
		Sequence uint64
		Err      error
	}
	// MisplacedResult reports a result with a subject that is not that of an attempt of this run.
	MisplacedResult struct {
		Delivery int
		Ref      wire.TaskRef
		Sequence uint64
	}
	// Acked reports that the message of a result will not be delivered again.
	Acked struct{ Delivery int }
	// Registered has the content of an attempt's register, after ReadClaim or Revoke.
	Registered struct {
		Vertex  int
		Attempt wire.AttemptID
		Claim   wire.Claim
		Found   bool
		Err     error
	}
	// Beat is a heartbeat.
	Beat struct{ wire.Heartbeat }
	// Probed has the result of the regular check of the message store: nil, wire.ErrStore if it cannot store messages,
	// wire.ErrUnconfirmed if it seems to have lost data, or the error of the check. Stores are those of wire.HighWater;
	// Asked is when they were asked, which is before they answered.
	Probed struct {
		Err    error
		Stores map[string]string
		Asked  time.Time
	}
	// LostData reports that the transport has lost data. Older reports instead that an earlier version of Millipede has
	// dispatched the operations that are under way; this one cannot read their registers. Detail says what was found.
	LostData struct {
		Older  bool
		Detail string
	}
	// Surveyed reports that all workers have had time to answer the survey.
	Surveyed struct{}
	// Ticked reports that TickEvery has passed, and for how long the transport has been connected; 0 if it is not.
	Ticked struct{ Connected time.Duration }
	// Blocked has the addresses of the operations in doubt of earlier runs that hold permits of a limit, once for each
	// permit, and the other runs that hold permits.
	Blocked struct {
		Limit     string
		Addresses []string
		Holders   []Holder
	}
	// Interrupted asks to stop gracefully: the run starts nothing more, asks what runs to stop, and waits for its outcome.
	// Cancel says that the run must not be resumed; with Settle, what runs is not asked to stop.
	Interrupted struct{ Cancel, Settle bool }
	// Abandoned asks to return at once.
	Abandoned struct{}
	// Failed reports that the run cannot continue: nothing can be recorded, or there is a bug.
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
