package coordinator

import (
	"container/heap"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

// do is what the world does for the loop.
func (w *world) do(a action) {
	switch a := a.(type) {
	case show:
		a(&ear{w: w})
	case prepare:
		w.later(w.soon(), func() {
			step := program.Step{}
			if a.phase == 0 {
				step = w.loop.program.Prepare(context.Background(), a.vertex)
			} else {
				step = w.program.PrepareAfter(context.Background(), a.vertex, a.phase, a.worker)
			}
			w.send(prepared{a.vertex, step})
		})
	case complete:
		w.later(w.soon(), func() {
			w.send(completed{vertex: a.vertex, step: w.program.Complete(context.Background(), a.vertex, a.result)})
		})
	case call:
		w.called(a)
	case commit:
		w.serial++
		heap.Push(&w.agenda, appointment{at: w.now, serial: w.serial, life: w.life, commit: true, do: func() { // in order, because the agenda is
			w.events = append(w.events, a.record.events...)
			for _, c := range a.record.changes {
				o := c.(state.SetOutput)
				w.outputs[o.Name] = o.Output
			}
			w.send(committed{[]record{a.record}})
		}})
	case publish:
		w.later(w.soon(), func() {
			err := w.confirmed(a.permits)
			if err == nil {
				if a.to != "" {
					w.handed[a.to]++
				}
				w.stored(a)
			}
			w.send(published{a.vertex, a.ref.Attempt, err})
		})
	case ack:
		w.later(w.soon(), func() { delete(w.results, a.delivery); w.send(acked(a)) })
	case readClaim:
		w.later(w.soon(), func() {
			c, ok := w.claims[a.ref.Attempt]
			w.send(registered{a.vertex, a.ref.Attempt, c, ok, nil})
		})
	case bury:
		w.later(w.soon(), func() {
			if _, ok := w.claims[a.ref.Attempt]; !ok {
				w.claims[a.ref.Attempt] = wire.Claim{Nonce: "tomb", Tombstone: true, Reason: a.reason}
			}
			w.send(registered{a.vertex, a.ref.Attempt, w.claims[a.ref.Attempt], true, nil})
		})
	case declare:
		w.later(w.soon(), func() {
			if w.slots[a.limit.Name] == 0 {
				w.slots[a.limit.Name] = a.limit.Slots
			}
			w.send(declared{a.limit.Name, w.slots[a.limit.Name]})
		})
	case resize:
		w.later(w.soon(), func() {
			if have := w.slots[a.limit.Name]; have < a.limit.Slots || a.shrink {
				w.slots[a.limit.Name] = a.limit.Slots
				w.admit(a.limit.Name)
			}
			w.send(declared{a.limit.Name, w.slots[a.limit.Name]})
		})
	case acquire:
		if w.asking != nil {
			w.asking(a.permitKey)
		}
		w.later(w.soon(), func() { w.ask(a.permitKey) })
	case withdraw:
		w.later(w.soon(), func() {
			key := a.permitKey
			if i := slices.Index(w.asked[a.limit], key); i >= 0 {
				w.asked[a.limit] = slices.Delete(w.asked[a.limit], i, i+1)
				w.send(refused{a.permitKey, context.Canceled})
			}
			if w.isUnder(key) {
				w.t.Errorf("the request for %v is withdrawn, which frees the slot of an operation", key)
			}
		})
	case release:
		w.later(w.soon(), func() {
			key := a.permitKey
			if !w.held[key] && w.life > 0 {
				w.t.Fatalf("the permit %v is released, but not held", key)
			}
			delete(w.held, key)
			w.admit(a.limit)
			w.send(released(a))
		})
	case askContention:
		w.later(w.soon(), func() { w.send(contention{a.limit, len(w.others[a.limit]) > 0}) })
	case findBlockers:
		w.later(w.soon(), func() { w.send(blocked{a.limit, w.blockers}) })
	case control:
	default:
		w.t.Fatalf("unknown action %T", a)
	}
}

// isUnder tells whether an operation may be going on under a permit, as far as the journal knows.
func (w *world) isUnder(key permitKey) bool {
	memory, err := recollect(w.program.graph.Len(), w.events)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range memory {
		if p.open != nil && slices.Contains(p.open.Permits, permitName(key.limit, key.id)) {
			return true
		}
	}
	return false
}

// confirmed asks the permits.
func (w *world) confirmed(keys []permitKey) error {
	for _, k := range keys {
		if !w.held[k] {
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

func (w *world) called(a call) {
	if err := w.confirmed(a.permits); err != nil {
		w.later(w.soon(), func() { w.send(callFailed{a.vertex, err}) })
		return
	}
	name := a.task.Function.Name
	w.calls[name]++
	if w.loseCall != nil {
		if err := w.loseCall(name, w.calls[name]); err != nil {
			w.later(w.soon(), func() { w.send(callFailed{a.vertex, err}) })
			return
		}
	}
	d := w.latency(name)
	w.employ(a.pool, func(done func()) {
		w.enter()
		w.later(d, func() {
			w.busy--
			done()
			w.send(completed{a.vertex, w.program.Complete(context.Background(), a.vertex, w.answer(a.task)), d, "w1"})
		})
	})
}

func (w *world) enter() {
	w.busy++
	w.most = max(w.most, w.busy)
}

// ask queues a request for a permit, or offers the permit that is held under its name.
func (w *world) ask(key permitKey) {
	if w.refuse != nil {
		if err := w.refuse(key); err != nil {
			w.send(refused{key, err})
			return
		}
	}
	if w.held[key] {
		w.send(granted{key})
		return
	}
	w.asked[key.limit] = append(w.asked[key.limit], key)
	w.admit(key.limit)
}

func (w *world) admit(limit string) {
	for len(w.asked[limit]) > 0 && w.heldOf(limit) < w.slots[limit] {
		key := w.asked[limit][0]
		w.asked[limit] = w.asked[limit][1:]
		w.held[key] = true
		if strings.HasPrefix(key.id, "run-") {
			w.later(w.soon(), func() { w.send(granted{key}) })
		} else {
			w.others[limit] = slices.DeleteFunc(w.others[limit], func(k permitKey) bool { return k == key })
		}
	}
}

func (w *world) heldOf(limit string) (n int) {
	for k := range w.held {
		if k.limit == limit {
			n++
		}
	}
	return n
}

// stored puts a task into the stream, where the worker finds it.
func (w *world) stored(a publish) {
	if w.tasks[a.ref.Attempt] != nil {
		return
	}
	w.tasks[a.ref.Attempt] = &taskInStream{a.ref, a.task}
	for range 1 + w.chance.IntN(2) { // once, or twice
		w.arrange(w.soon(), 0, func() { w.take(a.ref.Attempt) })
	}
}

// take is a worker that gets a task delivered.
func (w *world) take(id wire.AttemptID) {
	if _, taken := w.claims[id]; taken || w.silent {
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
			w.send(arrived{n, r.ref, uint64(n), r.result, w.claims[r.ref.Attempt]})
		}
	})
}
