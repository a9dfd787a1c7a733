package coordinator

import (
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// action is what the loop wants done outside. The types of this file are all there are; the comment of each names the
// event that answers it.
type action interface{ isAction() }

type (
	// prepare: Program.Prepare, or its continuation after phase operations when resuming, the last of them by the worker.
	// Answer: prepared.
	prepare struct {
		vertex, phase int
		worker        string
	}
	// call sends a task on the fast lane and completes its answer. Answer: completed or callFailed.
	call struct {
		vertex  int
		pool    string
		task    *wire.Task
		permits []permitKey
	}
	// complete: Program.Complete with a result of the safe lane. Answer: completed.
	complete struct {
		vertex int
		result *wire.Result
	}
	// commit makes a record durable; records are committed in the order of their actions. Answer: committed.
	commit struct{ record record }
	// publish puts the task of an attempt into its pool's stream. The permits are confirmed before; a task that was
	// published before has none. If a worker is named that keeps a slot since an attempt, the task is offered to that one
	// first. Answer: published.
	publish struct {
		to      string
		after   wire.AttemptID
		vertex  int
		ref     wire.TaskRef
		task    *wire.Task
		permits []permitKey
	}
	// ack confirms the message of a result. Answer: acked.
	ack struct{ delivery int }
	// readClaim reads an attempt's register. Answer: registered.
	readClaim struct {
		vertex int
		ref    wire.TaskRef
	}
	// bury writes a tombstone into an attempt's register unless it is claimed. Answer: registered.
	bury struct {
		vertex int
		ref    wire.TaskRef
		reason string
	}
	// declare creates a limit, or finds it as it is. exact says that the rules of this run set its size, so that where
	// nobody else can, it is made to be that. Answer: declared.
	declare struct {
		limit wire.Limit
		exact bool
	}
	// resize creates the limit of a pool's places, or makes it larger, or smaller too if shrink is set. Answer: declared.
	resize struct {
		limit  wire.Limit
		shrink bool
	}
	// acquire requests a permit. Answer: granted or refused.
	acquire struct{ permitKey }
	// withdraw gives up a request for a permit. Answer: refused, or granted when it was too late.
	withdraw struct{ permitKey }
	// release gives a permit back. Answer: released.
	release struct{ permitKey }
	// askContention finds out whether other runs wait for a limit. Answer: contention.
	askContention struct{ limit string }
	// findBlockers finds out which operations in doubt of earlier runs hold permits of a limit. Answer: blocked, or none.
	findBlockers struct{ limit string }
	// control sends a control message about the run to all workers. No answer.
	control struct{ kind string }
	// show tells the observer. No answer.
	show func(Observer)
)

func (prepare) isAction()       {}
func (call) isAction()          {}
func (complete) isAction()      {}
func (commit) isAction()        {}
func (publish) isAction()       {}
func (ack) isAction()           {}
func (readClaim) isAction()     {}
func (bury) isAction()          {}
func (declare) isAction()       {}
func (resize) isAction()        {}
func (acquire) isAction()       {}
func (withdraw) isAction()      {}
func (release) isAction()       {}
func (askContention) isAction() {}
func (findBlockers) isAction()  {}
func (control) isAction()       {}
func (show) isAction()          {}

// record is what one action makes durable: events about one vertex (or several skipped ones) with the state changes
// that belong to them.
type record struct {
	vertex int
	kind   recordKind
	// delivery is the message that tells it, where the record's kind says that it is acknowledged then.
	delivery int
	events   []journal.Event
	changes  []state.Change
}

// recordKind says what goes on once a record is durable.
type recordKind byte

const (
	noted     recordKind = iota // nothing waits for it
	wanted                      // the vertex may be dispatched
	intended                    // its task may be published
	advanced                    // its next operation may begin
	concluded                   // it is settled
	suspected                   // it is in doubt
	retracted                   // it may be dispatched again
	relieved                    // nothing goes on any more of what is in doubt: its message is acknowledged
)
