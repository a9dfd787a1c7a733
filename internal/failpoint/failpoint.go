// Package failpoint names the moments at which tests end or pause a process of Millipede: each step of the protocol,
// before and after each durable write.
//
// Only programs built with the tag failpoints heed them (on.go); in all others Hit is an empty function that the
// compiler removes. Package fault checks the guarantees after a failure; this package does not know them.
package failpoint

// Point is a named moment.
type Point string

// The moments of a coordinator. At each of them, the comments on the moments before it list what is durable.
const (
	// WantUnsaved to IntentSaved lie around the two commits that precede a task.
	WantUnsaved   Point = "want-unsaved"
	WantSaved     Point = "want-saved"
	IntentUnsaved Point = "intent-unsaved"
	IntentSaved   Point = "intent-saved"
	// PermitsConfirmed is before the publication of a task, TaskSent after it.
	PermitsConfirmed Point = "permits-confirmed"
	TaskSent         Point = "task-sent"
	// ResultFetched is before a result is read. OutcomeUnsaved and OutcomeSaved are before and after the commit of its
	// consequences. ResultAcked is after the confirmation of its message.
	ResultFetched  Point = "result-fetched"
	OutcomeUnsaved Point = "outcome-unsaved"
	OutcomeSaved   Point = "outcome-saved"
	ResultAcked    Point = "result-acked"
	// PermitReleased is behind the return of a permit.
	PermitReleased Point = "permit-released"
	// PlanUnsaved and PlanSaved lie around the record of the run's beginning, EndUnsaved to RunPurged around that of
	// its end.
	PlanUnsaved Point = "plan-unsaved"
	PlanSaved   Point = "plan-saved"
	EndUnsaved  Point = "end-unsaved"
	RunEnded    Point = "run-ended"
	RunPurged   Point = "run-purged"
	// SnapshotCopied to SnapshotWritten are the steps in which the snapshot is written in its place.
	SnapshotCopied  Point = "snapshot-copied"
	SnapshotCut     Point = "snapshot-cut"
	SnapshotWritten Point = "snapshot-written"
)

// The moments of a worker.
const (
	TaskFetched   Point = "task-fetched"
	ClaimNoted    Point = "claim-noted"
	Claimed       Point = "claimed"
	StartNoted    Point = "start-noted"
	TaskAcked     Point = "task-acked"
	Operated      Point = "operated"
	EndNoted      Point = "end-noted"
	ResultSent    Point = "result-sent"
	Forgotten     Point = "forgotten"
	JournalCopied Point = "journal-copied"
	JournalMoved  Point = "journal-moved"
)

// Coordinator and Worker are all the points of each actor, in the order in which an apply comes by. The journal's two
// come only when it is rewritten.
var (
	Coordinator = []Point{PlanUnsaved, PlanSaved, WantUnsaved, WantSaved, IntentUnsaved, IntentSaved,
		PermitsConfirmed, TaskSent, ResultFetched, OutcomeUnsaved, OutcomeSaved, ResultAcked, PermitReleased,
		EndUnsaved, RunEnded, RunPurged,
		SnapshotCopied, SnapshotCut, SnapshotWritten}
	Worker = []Point{TaskFetched, ClaimNoted, Claimed, StartNoted, TaskAcked, Operated, EndNoted, ResultSent, Forgotten}
)
