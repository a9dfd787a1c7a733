package simservice

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/tables"
)

// retryWithin is how long a client may repeat the request for a run without requesting a second run.
const retryWithin = 8 * time.Second

// space is a workspace as the people know it. Guarded by the world's lock.
type space struct {
	id, name      string
	configuration string
	expires       bool
	applying      *applying
}

// act makes a random request. A goroutine of its own waits for the response, so that two requests can be concurrent.
func (w *world) act(p *process) {
	c := w.chance
	sp := w.spaces[c.IntN(len(w.spaces))]
	var r *record.Run
	if list := w.active(); len(list) > 0 {
		r = list[c.IntN(len(list))]
	}
	n := c.IntN(100)
	switch {
	case n < 30:
		w.orderRun(p, sp)
	case n < 36:
		w.ask(p, "lock", sp.name, func() error {
			_, err := p.service.Workspaces.Lock(p.admin, sp.id, "holidays")
			return err
		})
	case n < 44:
		w.ask(p, "unlock", sp.name, func() error {
			_, err := p.service.Workspaces.Unlock(p.admin, sp.id)
			return err
		})
	case n < 46:
		w.ask(p, "force-unlock", sp.name, func() error {
			_, err := p.service.Workspaces.ForceUnlock(p.admin, sp.id)
			return err
		})
	case r == nil:
	case n < 66:
		w.confirm(p, r)
		if c.IntN(6) == 0 { // and the same or another request at the same time
			w.confirm(p, r)
		}
		if c.IntN(8) == 0 {
			w.cancel(p, r)
		}
	case n < 72:
		w.discard(p, r)
	case n < 80:
		w.cancel(p, r)
	case n < 86:
		w.forceCancel(p, r)
	case n < 96:
		if w.p == p {
			p.service.Runs.Seen(r.ID)
		}
	default:
		w.graceful = true
	}
}

// orderRun requests a run, and may repeat the request as if the response had been lost.
func (w *world) orderRun(p *process, sp *space) {
	c := w.chance
	w.ordered++
	o := &order{message: fmt.Sprintf("m%d", w.ordered), space: sp, lines: map[string][]string{}, ids: map[string]bool{}}
	o.run = record.Run{Refresh: true, Source: record.SourceAPI, Message: o.message, Configuration: sp.configuration}
	switch c.IntN(10) {
	case 0, 1:
		o.run.PlanOnly = true
	case 2, 3:
		o.run.SavePlan = true
	case 4, 5:
		o.run.AutoApply = true
	case 6:
		o.run.Destroy = true
	}
	if c.IntN(3) == 0 {
		o.run.Source = record.SourceCLI
	}
	w.mu.Lock()
	o.posted = time.Now()
	w.orders[o.message] = o
	w.mu.Unlock()
	again := c.IntN(3) == 0
	w.post(p, o)
	switch {
	case again && c.IntN(2) == 0:
		w.post(p, o)
	case again:
		w.later = append(w.later, pendingPost{o, time.Now().Add(between(c, time.Millisecond, retryWithin))})
	}
}

// pendingPost is a request for a run that will be repeated.
type pendingPost struct {
	o  *order
	at time.Time
}

// post sends a request for a run.
func (w *world) post(p *process, o *order) {
	w.mu.Lock()
	late := time.Since(o.posted) > retryWithin
	for _, r := range w.known {
		late = late || r.Message == o.message && r.Status.Final()
	}
	w.mu.Unlock()
	if late { // it would request a second run
		return
	}
	w.ask(p, "order", o.message, func() error {
		r, err := p.service.Runs.Create(p.admin, o.space.id, o.run)
		if err != nil {
			return err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		o.ids[r.ID] = true
		return nil
	})
}

// confirm approves the plan of a run.
func (w *world) confirm(p *process, r *record.Run) {
	o := w.orderOf(r)
	w.mu.Lock()
	o.confirming++
	w.mu.Unlock()
	w.ask(p, "confirm", o.message, func() error {
		err := p.service.Runs.Confirm(p.admin, r.ID, "")
		w.grant(err, &o.confirmed)
		w.mu.Lock()
		defer w.mu.Unlock()
		o.confirming--
		return err
	})
}

func (w *world) discard(p *process, r *record.Run) {
	o := w.orderOf(r)
	w.ask(p, "discard", o.message, func() error {
		return w.grant(p.service.Runs.Discard(p.admin, r.ID, "no"), &o.discarded)
	})
}

func (w *world) cancel(p *process, r *record.Run) {
	o := w.orderOf(r)
	w.ask(p, "cancel", o.message, func() error {
		err := w.grant(p.service.Runs.Cancel(p.admin, r.ID, ""), &o.canceled)
		w.mu.Lock()
		defer w.mu.Unlock()
		if now := w.known[r.ID]; err == nil && now != nil && now.Status == record.Planning && !now.CancelAsked.IsZero() {
			o.sure = true
		}
		return err
	})
}

func (w *world) forceCancel(p *process, r *record.Run) {
	o := w.orderOf(r)
	w.ask(p, "force-cancel", o.message, func() error {
		return w.grant(p.service.Runs.ForceCancel(p.admin, r.ID, ""), &o.forced)
	})
}

// grant records a request, unless it was refused.
func (w *world) grant(err error, asked *bool) error {
	if errors.Is(err, tables.ErrConflict) || errors.Is(err, tables.ErrNotFound) {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	*asked = true
	return err
}

func (w *world) orderOf(r *record.Run) *order {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.orders[r.Message]
}

// ask sends a request to the service, and records the response.
func (w *world) ask(p *process, what, about string, request func() error) {
	wait := between(w.chance, 0, 3*time.Microsecond) // no two requests are made at one instant
	w.people.Go(func() {
		time.Sleep(wait)
		err := request()
		switch {
		case err == nil:
			w.note("%s %s: yes", what, about)
		case errors.Is(err, errDead), errors.Is(err, errDisk), w.isDead(p):
			w.note("%s %s: no answer", what, about)
		case errors.Is(err, tables.ErrConflict), errors.Is(err, tables.ErrNotFound):
			w.note("%s %s: no", what, about)
		default:
			w.violate("answer", "%s %s is answered with %v", what, about, err)
		}
	})
}

func (w *world) isDead(p *process) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return p.dead
}

// active lists the runs that had not ended at the last observation of the store, in the order of their creation.
func (w *world) active() (list []*record.Run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.known {
		if !r.Status.Final() {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b *record.Run) int { return int(a.Number) - int(b.Number) }) //nolint:gosec // small
	return list
}

// settle ends everything that waits for people: it removes locks, approves plans, and abandons operations that ignore
// requests to stop.
func (w *world) settle(p *process) {
	for _, sp := range w.spaces {
		w.ask(p, "force-unlock", sp.name, func() error {
			_, err := p.service.Workspaces.ForceUnlock(p.admin, sp.id)
			return err
		})
	}
	for _, r := range w.active() {
		switch {
		case r.Status.Confirmable() && w.chance.IntN(4) == 0:
			w.discard(p, r)
		case r.Status.Confirmable():
			w.confirm(p, r)
		case !r.CancelAsked.IsZero() && time.Since(r.CancelAsked) > forceAfter+20*time.Second:
			w.forceCancel(p, r)
		}
	}
}
