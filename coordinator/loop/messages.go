package loop

import (
	"fmt"
	"slices"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/wire"
)

// NATS lets the workers of a pool publish under the subjects of that pool and under no others. So the subject of a
// message proves which pool it comes from. The loop trusts nothing else in it that contradicts the subject: a pool may
// lie about itself, but about no other pool.

const (
	// maxAlarms is the most violations of the protocol that are reported: a hostile pool can cause any number.
	maxAlarms = 20
	// maxLeft is the most messages that the run leaves in the stream because it cannot use them. Each uses up one of the
	// unacknowledged messages that the stream allows, which all pools share.
	maxLeft = 256
)

// forged returns why a result cannot come from the worker that executed the attempt, as far as the loop can know; empty
// if it can. a is the loop's record of the attempt; nil if there is none.
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

// misplaced returns why a result cannot belong to the attempt, by its subject alone; empty if it can.
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

// refuse reports a result that is not what it claims to be, and drops it. A result that one pool has sent in the name
// of another has had no effect, so it does not make the run fail. One in the pool's own name puts its operation in
// doubt.
func (l *Loop) refuse(a *attempt, ref wire.TaskRef, delivery int, sequence uint64, why string) {
	why += " It is not recorded."
	if a == nil {
		// It may be real: another process has broken the lock of this one and goes on with the run. It stays for that
		// one.
		l.messages.warn(why + " Another process that has resumed the run may have made it; " +
			"otherwise somebody with the permissions of a worker of the pool has forged it.")
		l.retain(delivery, sequence)
		return
	}
	if a.pool != ref.Pool {
		l.messages.warn(fmt.Sprintf("%s Somebody who may work for pool %q has made it up.", why, ref.Pool))
	} else {
		l.messages.reportViolation(a.vertex, why)
	}
	l.permits.ack(delivery, nil)
}

// onMisplaced drops a result whose subject shows that it is forged. Nothing has read its content.
func (l *Loop) onMisplaced(e MisplacedResult) {
	if e.Ref.Run != l.Run {
		return
	}
	a := l.attempts[e.Ref.Attempt]
	if why := misplaced(a, e.Ref); why != "" {
		l.refuse(a, e.Ref, e.Delivery, e.Sequence, why)
	}
}

// retain leaves a message that this run cannot use in the stream, for a process that resumes the run, up to maxLeft
// messages.
func (l *Loop) retain(delivery int, sequence uint64) {
	if !l.messages.leave(sequence) {
		l.permits.ack(delivery, nil)
	}
}

// messages are the messages that this run does not accept: those that stay in the stream, and those that it has
// reported.
type messages struct {
	*common
	left   map[uint64]bool // by their sequence in the stream of results
	alarms []string        // what was told, in its order
}

func newMessages(c *common) messages { return messages{common: c, left: map[uint64]bool{}} }

// leave leaves a message in the stream, and reports whether it may stay there.
func (ms *messages) leave(sequence uint64) bool {
	if !ms.left[sequence] {
		if len(ms.left) == maxLeft {
			return false
		}
		ms.left[sequence] = true
	}
	return true
}

// reportViolation reports a violation of the protocol.
func (ms *messages) reportViolation(v int, detail string) {
	if ms.shouldReport(detail) {
		ms.tell(v, diag.Errors("The protocol between coordinator and workers was violated", detail, nil))
	}
}

// warn reports, once for each detail, that a forged message was refused.
func (ms *messages) warn(detail string) {
	if ms.shouldReport(detail) {
		ms.tell(-1, diag.List{diag.New(diag.Warning, "A forged message was refused", detail, nil)})
	}
}

// shouldReport reports whether to show a violation: each is shown once, and no more than maxAlarms are shown.
func (ms *messages) shouldReport(detail string) bool {
	if len(ms.alarms) > maxAlarms || slices.Contains(ms.alarms, detail) {
		return false
	}
	ms.alarms = append(ms.alarms, detail)
	if len(ms.alarms) > maxAlarms {
		ms.tell(-1, diag.List{diag.New(diag.Warning, "More violations of the protocol",
			fmt.Sprintf("More than %d messages were refused that no worker should have sent; no more of them are told.",
				maxAlarms), nil)})
		return false
	}
	return true
}
