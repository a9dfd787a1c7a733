package loop

import (
	"container/heap"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// do executes an action of the loop.
func (w *world) do(a Action) {
	switch a := a.(type) {
	case Shown:
		w.hear(a)
	case Prepare:
		w.later(w.soon(), func() {
			var step program.Step
			if a.Phase == 0 {
				step = w.loop.Program.Prepare(context.Background(), a.Vertex)
			} else {
				step = w.program.PrepareAfter(context.Background(), a.Vertex, a.Phase, a.Worker)
			}
			w.send(Prepared{a.Vertex, step})
		})
	case Complete:
		w.later(w.soon(), func() {
			w.send(Completed{Vertex: a.Vertex, Step: w.program.Complete(context.Background(), a.Vertex, a.Result)})
		})
	case Call:
		w.called(a)
	case Publish:
		w.later(w.soon(), func() {
			err := w.confirmed(a.Permits)
			if err == nil {
				if a.To != "" {
					w.handed[a.To]++
				}
				w.stored(a)
				if w.answerOf != nil {
					err = w.answerOf(a)
				}
			}
			w.send(Published{a.Vertex, a.Ref.Attempt, err})
		})
	case Ack:
		w.later(w.soon(), func() { delete(w.results, a.Delivery); w.send(Acked(a)) })
	case ReadClaim:
		w.later(w.soon(), func() {
			c, ok := w.claims[a.Ref.Attempt]
			w.send(Registered{a.Vertex, a.Ref.Attempt, c, ok, nil})
		})
	case Revoke:
		w.later(w.soon(), func() {
			if _, ok := w.claims[a.Ref.Attempt]; !ok {
				w.claims[a.Ref.Attempt] = wire.Claim{Nonce: "tomb", Tombstone: true, Reason: a.Reason}
			}
			w.send(Registered{a.Vertex, a.Ref.Attempt, w.claims[a.Ref.Attempt], true, nil})
		})
	case Declare:
		w.later(w.soon(), func() {
			if w.slots[a.Limit.Name] == 0 {
				w.slots[a.Limit.Name] = a.Limit.Slots
			}
			w.send(Declared{a.Limit.Name, w.slots[a.Limit.Name]})
		})
	case Resize:
		w.later(w.soon(), func() {
			if have := w.slots[a.Limit.Name]; have < a.Limit.Slots || a.Shrink {
				w.slots[a.Limit.Name] = a.Limit.Slots
				w.admit(a.Limit.Name)
			}
			w.send(Declared{a.Limit.Name, w.slots[a.Limit.Name]})
		})
	case Acquire:
		if w.asking != nil {
			w.asking(a.PermitKey)
		}
		w.wanted[a.PermitKey] = true
		w.later(w.soon(), func() { w.ask(a.PermitKey) })
	case Withdraw:
		w.later(w.soon(), func() {
			key := a.PermitKey
			if i := slices.Index(w.asked[a.Limit], key); i >= 0 {
				w.asked[a.Limit] = slices.Delete(w.asked[a.Limit], i, i+1)
				w.send(Refused{a.PermitKey, context.Canceled})
			}
			if w.isUnder(key) {
				w.t.Errorf("the request for %v is withdrawn, which frees the slot of an operation", key)
			}
		})
	case Release:
		w.later(w.soon(), func() {
			key := a.PermitKey
			if !w.held[key] && w.life > 0 {
				w.t.Fatalf("the permit %v is released, but not held", key)
			}
			delete(w.held, key)
			delete(w.wanted, key)
			w.admit(a.Limit)
			w.send(Released(a))
		})
	case AskContention:
		w.later(w.soon(), func() { w.send(Contention{a.Limit, len(w.others[a.Limit]) > 0}) })
	case FindBlockers:
		w.later(w.soon(), func() { w.send(Blocked{Limit: a.Limit, Addresses: w.blockers}) })
	case Control:
	default:
		w.t.Fatalf("unknown action %T", a)
	}
}

// isUnder reports whether an operation may be in progress under a permit, according to the journal.
func (w *world) isUnder(key PermitKey) bool {
	memory, err := PastOf(w.program.Graph().Len(), w.events)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range memory {
		if p.open != nil && slices.Contains(p.open.Permits, journal.PermitName(key.Limit, key.ID)) {
			return true
		}
	}
	return false
}

// confirmed asks the permits.
func (w *world) confirmed(keys []PermitKey) error {
	for _, k := range keys {
		switch {
		case w.held[k]:
		case w.overtaken && w.loop.halted():
			return wire.ErrPermitLost
		default:
			w.t.Fatalf("something is started under %v, which is not held", k)
		}
		if w.confirm != nil {
			if err := w.confirm(k); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *world) called(a Call) {
	if err := w.confirmed(a.Permits); err != nil {
		w.later(w.soon(), func() { w.send(CallFailed{a.Vertex, err}) })
		return
	}
	name := a.Task.Function.Name
	w.calls[name]++
	if w.loseCall != nil {
		if err := w.loseCall(name, w.calls[name]); err != nil {
			w.later(w.soon(), func() { w.send(CallFailed{a.Vertex, err}) })
			return
		}
	}
	d := w.latency(name)
	w.employ(a.Pool, func(done func()) {
		w.enter()
		w.later(d, func() {
			w.busy--
			done()
			w.send(Completed{a.Vertex, w.program.Complete(context.Background(), a.Vertex, w.answer(a.Task)), d, "w1"})
		})
	})
}

func (w *world) enter() {
	w.busy++
	w.most = max(w.most, w.busy)
}

// ask queues a request for a permit, or offers the permit that is held under this name.
func (w *world) ask(key PermitKey) {
	if w.refuse != nil {
		if err := w.refuse(key); err != nil {
			w.send(Refused{key, err})
			return
		}
	}
	if w.held[key] {
		w.send(Granted{key})
		return
	}
	w.asked[key.Limit] = append(w.asked[key.Limit], key)
	w.admit(key.Limit)
}

func (w *world) admit(limit string) {
	for len(w.asked[limit]) > 0 && w.heldOf(limit) < w.slots[limit] {
		key := w.asked[limit][0]
		w.asked[limit] = w.asked[limit][1:]
		w.held[key] = true
		switch {
		case w.wanted[key]:
			w.later(w.soon(), func() { w.send(Granted{key}) })
		case strings.HasPrefix(key.ID, "run-"): // an earlier process has asked for it
		default:
			w.others[limit] = slices.DeleteFunc(w.others[limit], func(k PermitKey) bool { return k == key })
		}
	}
}

func (w *world) heldOf(limit string) (n int) {
	for k := range w.held {
		if k.Limit == limit {
			n++
		}
	}
	return n
}

// stored puts a task into the stream, from which the worker gets it.
func (w *world) stored(a Publish) {
	if w.tasks[a.Ref.Attempt] != nil {
		return
	}
	w.tasks[a.Ref.Attempt] = &taskInStream{a.Ref, a.Task}
	for range 1 + w.chance.IntN(2) { // once, or twice
		w.arrange(w.soon(), 0, func() { w.take(a.Ref.Attempt) })
	}
}

// take makes a worker process a delivered task.
func (w *world) take(id wire.AttemptID) {
	if _, taken := w.claims[id]; taken || w.silent || w.deaf {
		return
	}
	if w.trouble != nil && w.trouble() != "" {
		w.arrange(time.Second, 0, func() { w.take(id) }) // it was given back, and comes again
		return
	}
	w.serial++
	nonce := fmt.Sprintf("n%d", w.serial)
	w.claims[id] = wire.Claim{Nonce: nonce, Worker: w.workerOf(w.tasks[id].ref.Pool)}
	task := w.tasks[id].task
	if w.work != nil && !w.work(w, id) {
		return
	}
	w.employ(w.tasks[id].ref.Pool, func(done func()) {
		w.began[task.Function.Name]++
		w.enter()
		w.arrange(w.latency(task.Function.Name), 0, func() {
			w.busy--
			done()
			r := w.answer(task)
			r.Attempt, r.Nonce, r.Worker, r.Pool = id, nonce, w.claims[id].Worker, w.tasks[id].ref.Pool
			w.report(w.tasks[id].ref, r)
		})
	})
}

// report puts a result into the stream.
func (w *world) report(ref wire.TaskRef, r *wire.Result) {
	w.serial++
	n := w.serial
	w.results[n] = &resultInStream{ref, r}
	w.reported[ref.Attempt] = true
	w.deliver(n)
	if w.chance.IntN(4) == 0 { // and once more
		w.serial++
		w.results[w.serial] = w.results[n]
		w.deliver(w.serial)
	}
}

func (w *world) deliver(n int) {
	w.later(w.soon(), func() {
		if r := w.results[n]; r != nil {
			w.send(Arrived{n, r.ref, uint64(n), r.result, w.claims[r.ref.Attempt]})
		}
	})
}

// commit commits the records of one step in one transaction.
func (w *world) commit(records []Record) {
	if len(records) == 0 {
		return
	}
	w.serial++
	at := w.now
	if w.storing != nil {
		at = at.Add(w.storing())
	}
	if at.Before(w.commits) {
		at = w.commits
	}
	w.commits = at
	// in order, because the agenda is ordered
	heap.Push(&w.agenda, appointment{at: at, serial: w.serial, life: w.life, commit: true, do: func() {
		for _, r := range records {
			w.events = append(w.events, r.Events...)
			for _, c := range r.Changes {
				o := c.(state.SetOutput)
				w.outputs[o.Name] = o.Output
			}
		}
		w.send(Committed{records})
	}})
}
