package loop

import (
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// Action is a step that the loop asks its executor to take. The types of this file and Shown are the only ones. The
// comment of each names the input that answers it.
type Action interface{ isAction() }

type (
	// Prepare calls Program.Prepare. If Phase operations of the vertex were done before the run was resumed, it calls
	// Continuer.PrepareAfter instead; Worker executed the last one of them. Answer: Prepared.
	Prepare struct {
		Vertex, Phase int
		Worker        string
	}
	// Call sends a task on the fast lane and completes the vertex with its result. Answer: Completed or CallFailed.
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
	// Commit commits a record. Records are committed in the order of their actions. Answer: Committed.
	Commit struct{ Record Record }
	// Publish puts the task of an attempt into the stream of its pool, after it has confirmed the permits; a task that was
	// published before has none. If To is not empty, it names a worker that has reserved a slot since the attempt After;
	// the task is offered to that worker first. Answer: Published.
	Publish struct {
		To      string
		After   wire.AttemptID
		Vertex  int
		Ref     wire.TaskRef
		Task    *wire.Task
		Permits []PermitKey
	}
	// Ack acknowledges the message of a result. Answer: Acked.
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
	// Declare creates a limit if it does not exist. Exact says that the rules of this run set its size; then a limit that
	// no other coordinator uses is resized to that. Answer: Declared.
	Declare struct {
		Limit wire.Limit
		Exact bool
	}
	// Resize creates the limit of a pool's places, or makes it larger; with Shrink it may also make it smaller. Result:
	// Declared.
	Resize struct {
		Limit  wire.Limit
		Shrink bool
	}
	// Acquire requests a permit. Answer: Granted or Refused.
	Acquire struct{ PermitKey }
	// Withdraw cancels a request for a permit. Answer: Refused, or Granted if the permit came first.
	Withdraw struct{ PermitKey }
	// Release releases a permit. Answer: Released.
	Release struct{ PermitKey }
	// AskContention finds out whether other runs wait for a limit. Answer: Contention.
	AskContention struct{ Limit string }
	// FindBlockers finds the operations in doubt of earlier runs that hold permits of a limit. Answer: Blocked, or none
	// after an error.
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

// Record is what one Commit makes durable: events about one vertex (or several skipped ones) with their state changes.
type Record struct {
	Vertex int
	Kind   RecordKind
	// Delivery is the message that reported it, for a record of the kind DoubtEnded.
	Delivery int
	Events   []journal.Event
	Changes  []state.Change
}

// RecordKind says what the loop does once the record is durable.
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
	TermPassed                   // what is in doubt can hardly be running any more: the permits that pools share are free
)
