package loop

import (
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// Action is something that the loop wants done outside. The types of this file and Shown are all there are. The comment
// of each names the input that answers it.
type Action interface{ isAction() }

type (
	// Prepare calls Program.Prepare, or Continuer.PrepareAfter when Phase operations were done before the run was
	// resumed, the last of them by Worker.
	// Answer: Prepared.
	Prepare struct {
		Vertex, Phase int
		Worker        string
	}
	// Call sends a task on the fast lane and completes its answer. Answer: Completed or CallFailed.
	Call struct {
		Vertex  int
		Pool    string
		Task    *wire.Task
		Permits []PermitKey
	}
	// Complete calls Program.Complete with a result of the safe lane. Answer: Completed.
	Complete struct {
		Vertex int
		Result *wire.Result
	}
	// Commit makes a record durable; records are committed in the order of their actions. Answer: Committed.
	Commit struct{ Record Record }
	// Publish puts the task of an attempt into its pool's stream. The permits are confirmed before; a task that was
	// published before has none. To names a worker that keeps a slot since the attempt After, and
	// is offered the task first; it may be empty. Answer: Published.
	Publish struct {
		To      string
		After   wire.AttemptID
		Vertex  int
		Ref     wire.TaskRef
		Task    *wire.Task
		Permits []PermitKey
	}
	// Ack confirms the message of a result. Answer: Acked.
	Ack struct{ Delivery int }
	// ReadClaim reads an attempt's register. Answer: Registered.
	ReadClaim struct {
		Vertex int
		Ref    wire.TaskRef
	}
	// Revoke writes a tombstone into an attempt's register unless it is claimed. Answer: Registered.
	Revoke struct {
		Vertex int
		Ref    wire.TaskRef
		Reason string
	}
	// Declare creates a limit, or finds it as it is. Exact says that the rules of this run set its size, so that where
	// nobody else can, it is made to be that. Answer: Declared.
	Declare struct {
		Limit wire.Limit
		Exact bool
	}
	// Resize creates the limit of a pool's places, or makes it larger, or smaller too if Shrink is set. Answer:
	// Declared.
	Resize struct {
		Limit  wire.Limit
		Shrink bool
	}
	// Acquire requests a permit. Answer: Granted or Refused.
	Acquire struct{ PermitKey }
	// Withdraw gives up a request for a permit. Answer: Refused, or Granted when it was too late.
	Withdraw struct{ PermitKey }
	// Release gives a permit back. Answer: Released.
	Release struct{ PermitKey }
	// AskContention finds out whether other runs wait for a limit. Answer: Contention.
	AskContention struct{ Limit string }
	// FindBlockers finds out which operations in doubt of earlier runs hold permits of a limit. Answer: Blocked, or
	// none.
	FindBlockers struct{ Limit string }
	// Control sends a control message about the run to all workers. No answer.
	Control struct{ Kind string }
)

func (Prepare) isAction()       {}
func (Call) isAction()          {}
func (Complete) isAction()      {}
func (Commit) isAction()        {}
func (Publish) isAction()       {}
func (Ack) isAction()           {}
func (ReadClaim) isAction()     {}
func (Revoke) isAction()        {}
func (Declare) isAction()       {}
func (Resize) isAction()        {}
func (Acquire) isAction()       {}
func (Withdraw) isAction()      {}
func (Release) isAction()       {}
func (AskContention) isAction() {}
func (FindBlockers) isAction()  {}
func (Control) isAction()       {}
func (Shown) isAction()         {}

// Record is what one action makes durable: events about one vertex (or several skipped ones) with the state changes
// that belong to them.
type Record struct {
	Vertex int
	Kind   RecordKind
	// Delivery is the message that tells it, for a record of the kind DoubtEnded.
	Delivery int
	Events   []journal.Event
	Changes  []state.Change
}

// RecordKind says what goes on once a record is durable.
type RecordKind byte

const (
	Noted      RecordKind = iota // nothing waits for it
	Wanted                       // the vertex may be dispatched
	Intended                     // its task may be published
	Advanced                     // its next operation may begin
	Concluded                    // it is settled
	Suspected                    // it is in doubt
	Retracted                    // it may be dispatched again
	DoubtEnded                   // nothing goes on any more of what is in doubt: its message is acknowledged
)
