package loop

import (
	"fmt"
	"slices"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/wire"
)

// NATS lets whoever works for a pool publish under the subjects of that pool, and under no others. So a subject tells
// who speaks, and nothing that a message says beyond its subject counts: a pool may lie about itself, and about no
// other.

const (
	// maxAlarms is how many violations of the protocol are told; a hostile pool can make any number.
	maxAlarms = 20
	// maxLeft is how many messages that the run cannot use stay in the stream. Each takes one of the places of messages
	// that are not acknowledged, which all pools share.
	maxLeft = 256
)

// forged tells why a result does not come from the worker that carried the attempt out, as far as the loop can know; ""
// when it does. a is what the loop knows of the attempt; nil for none.
func forged(a *attempt, e Arrived) (why string) {
	switch {
	case a == nil, a.pool != e.Ref.Pool:
		return misplaced(a, e.Ref)
	case e.Result.Attempt != e.Ref.Attempt || e.Result.Pool != e.Ref.Pool:
		return fmt.Sprintf("A result of pool %q for the attempt %s says that it is for the attempt %s of pool %q.",
			e.Ref.Pool, e.Ref.Attempt, e.Result.Attempt, e.Result.Pool)
	case e.Claim.Nonce == "":
		return fmt.Sprintf("A result came for the attempt %s, which nobody has claimed.", e.Ref.Attempt)
	case e.Claim.Tombstone, e.Claim.Nonce != e.Result.Nonce:
		return fmt.Sprintf("A result of worker %s for the attempt %s bears another claim than the one that was won "+
			"(by %s).", e.Result.Worker, e.Ref.Attempt, holder(e.Claim))
	case e.Claim.Worker != e.Result.Worker:
		return fmt.Sprintf("A result for the attempt %s says that worker %s made it, but worker %s has claimed it.",
			e.Ref.Attempt, e.Result.Worker, e.Claim.Worker)
	}
	return ""
}

// misplaced tells why a result cannot be one of the attempt, by its subject alone; "" when it can.
func misplaced(a *attempt, ref wire.TaskRef) string {
	switch {
	case a == nil:
		return fmt.Sprintf("A result came from pool %q for the attempt %s, which this process never made.",
			ref.Pool, ref.Attempt)
	case a.pool != ref.Pool:
		return fmt.Sprintf("A result came from pool %q for the attempt %s, which is one of pool %q.", ref.Pool,
			ref.Attempt, a.pool)
	}
	return ""
}

// refuse tells about a result that is not what it claims to be, and drops it. One that a pool has sent in the name of
// another one has done nothing, so it does not make the run fail; one in the pool's own name puts its operation in
// question.
func (l *Loop) refuse(a *attempt, ref wire.TaskRef, delivery int, sequence uint64, why string) {
	why += " It is not recorded."
	if a == nil {
		// It may be real: another process has broken the lock of this one and goes on with the run. It stays for that
		// one.
		l.warn(why + " Another process that goes on with the run may have made it; " +
			"else somebody who may work for the pool has made the result up.")
		l.retain(delivery, sequence)
		return
	}
	if a.pool != ref.Pool {
		l.warn(fmt.Sprintf("%s Somebody who may work for pool %q has made it up.", why, ref.Pool))
	} else {
		l.alarm(a.vertex, why)
	}
	l.acking[delivery] = nil
	l.do(Ack{delivery})
}

// onMisplaced drops a result whose subject tells that it is made up; nobody has read it.
func (l *Loop) onMisplaced(e MisplacedResult) {
	if e.Ref.Run != l.Run {
		return
	}
	a := l.attempts[e.Ref.Attempt]
	if why := misplaced(a, e.Ref); why != "" {
		l.refuse(a, e.Ref, e.Delivery, e.Sequence, why)
	}
}

// retain keeps a message that this run cannot use in the stream, for whoever resumes it; but not any number of them.
func (l *Loop) retain(delivery int, sequence uint64) {
	if l.left[sequence] {
		return
	}
	if len(l.left) < maxLeft {
		l.left[sequence] = true
		return
	}
	l.acking[delivery] = nil
	l.do(Ack{delivery})
}

// alarm reports what the protocol rules out.
func (l *Loop) alarm(v int, detail string) {
	if l.newAlarm(detail) {
		l.tell(v, diag.Errors("The protocol between coordinator and workers was violated", detail, nil))
	}
}

// warn tells the user, once for each detail, that a forged message was refused.
func (l *Loop) warn(detail string) {
	if l.newAlarm(detail) {
		l.tell(-1, diag.List{diag.New(diag.Warning, "A forged message was refused", detail, nil)})
	}
}

// newAlarm tells whether something is to be told: not what was told before, and not more than anybody reads.
func (l *Loop) newAlarm(detail string) bool {
	if len(l.alarms) > maxAlarms || slices.Contains(l.alarms, detail) {
		return false
	}
	l.alarms = append(l.alarms, detail)
	if len(l.alarms) > maxAlarms {
		l.tell(-1, diag.List{diag.New(diag.Warning, "More violations of the protocol",
			fmt.Sprintf("More than %d messages were refused that no worker should have sent; no more of them are told.",
				maxAlarms), nil)})
		return false
	}
	return true
}

// member is a worker as a member of one pool: a name that two pools use is two workers.
type member struct{ pool, worker string }
