package sched

// Status is the status of a vertex.
//
//	            +--------- Append ---------+
//	            v                          |
//	join --> Waiting --- last edge ---> Ready <--- Requeue ---+
//	            |                       |   |                 |
//	            |                       |   +-- Pop, Take --> Running --> Done
//	            |                       |                     |    |
//	            +-----------------------+---- skipped --------+    +----> Failed
//	                                    |
//	                                    +--> Skipped
type Status uint8

const (
	Waiting Status = iota // for a vertex that is not settled
	Ready                 // to be popped
	Running               // popped, its outcome is not known yet
	Done                  // settled, with success
	Failed                // settled, without success
	Skipped               // settled without a run that counts

	statuses = iota
)

// lawful is the picture as a table: lawful[from][to].
var lawful = [statuses][statuses]bool{
	Waiting: {Ready: true, Skipped: true},
	Ready:   {Waiting: true, Running: true, Skipped: true},
	Running: {Ready: true, Done: true, Failed: true, Skipped: true},
}

// Settled reports whether the status is final.
func (s Status) Settled() bool { return s >= Done }

func (s Status) String() string {
	return [statuses]string{"waiting", "ready", "running", "done", "failed", "skipped"}[s]
}
