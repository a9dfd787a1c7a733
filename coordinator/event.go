package coordinator

import (
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/wire"
)

// event is what happened outside the loop. The types of this file are all there are.
type event interface{ isEvent() }

type (
	// began is the first event of a run.
	began struct{}
	// prepared brings what a vertex must do.
	prepared struct {
		vertex int
		step   program.Step
	}
	// completed brings what follows from the answer to a vertex's task.
	completed struct {
		vertex int
		step   program.Step
		took   time.Duration
		worker string // who answered the call
	}
	// callFailed tells that a fast-lane call brought no answer.
	callFailed struct {
		vertex int
		err    error
	}
	// declared brings a limit as the transport has it.
	declared struct {
		limit string
		slots int
	}
	// granted brings a permit.
	granted struct{ permitKey }
	// released tells that a permit is given back, so that its name may be used again.
	released struct{ permitKey }
	// refused tells that a request for a permit ended without one.
	refused struct {
		permitKey
		err error
	}
	// contention tells whether other runs wait for a limit.
	contention struct {
		limit string
		yes   bool
	}
	// committed tells that records are durable, in the order in which they were asked for.
	committed struct{ records []record }
	// published tells that the stream holds the task of an attempt, or why not.
	published struct {
		vertex  int
		attempt wire.AttemptID
		err     error
	}
	// arrived brings a result of the safe lane. delivery is the actor's number for its message; claim is what the
	// attempt's register holds, the zero Claim when that is nothing.
	arrived struct {
		delivery int
		ref      wire.TaskRef
		sequence uint64
		result   *wire.Result
		claim    wire.Claim
	}
	// unreadable tells that a result of the safe lane could not be decoded.
	unreadable struct {
		delivery int
		ref      wire.TaskRef
		sequence uint64
		err      error
	}
	// misplacedResult tells that a result came whose subject is not that of an attempt of this run.
	misplacedResult struct {
		delivery int
		ref      wire.TaskRef
		sequence uint64
	}
	// acked tells that the message of a result will not come again.
	acked struct{ delivery int }
	// registered brings the content of an attempt's register, after reading it or trying to bury the attempt.
	registered struct {
		vertex  int
		attempt wire.AttemptID
		claim   wire.Claim
		found   bool
		err     error
	}
	// beat is a heartbeat.
	beat struct{ wire.Heartbeat }
	// refusing tells that the message store stores nothing, and why; nil: it does so again.
	refusing struct{ err error }
	// lostData tells that the transport does not hold any more what it held; older, that an earlier version of the
	// program has dispatched what is under way, whose registers this one cannot read.
	lostData struct{ older bool }
	// surveyed tells that all workers had the time to say that they are there.
	surveyed struct{}
	// ticked tells that tickEvery has passed, and for how long the transport has been connected; 0 when it is not.
	ticked struct{ connected time.Duration }
	// blocked tells which operations in doubt of earlier runs hold permits of a limit, by address, once for each permit.
	blocked struct {
		limit     string
		addresses []string
	}
	// interrupted asks to stop: nothing more is started, what runs is asked to end, its outcome is awaited. cancel
	// says that the run is not to be resumed; settle that what runs is to be finished.
	interrupted struct{ cancel, settle bool }
	// abandoned asks to leave at once.
	abandoned struct{}
	// failed tells that the run cannot go on: nothing can be recorded, or there is a bug.
	failed struct{ err error }
)

func (began) isEvent()           {}
func (prepared) isEvent()        {}
func (completed) isEvent()       {}
func (callFailed) isEvent()      {}
func (declared) isEvent()        {}
func (granted) isEvent()         {}
func (released) isEvent()        {}
func (refused) isEvent()         {}
func (contention) isEvent()      {}
func (committed) isEvent()       {}
func (published) isEvent()       {}
func (arrived) isEvent()         {}
func (unreadable) isEvent()      {}
func (misplacedResult) isEvent() {}
func (acked) isEvent()           {}
func (registered) isEvent()      {}
func (beat) isEvent()            {}
func (refusing) isEvent()        {}
func (lostData) isEvent()        {}
func (surveyed) isEvent()        {}
func (ticked) isEvent()          {}
func (blocked) isEvent()         {}
func (interrupted) isEvent()     {}
func (abandoned) isEvent()       {}
func (failed) isEvent()          {}
