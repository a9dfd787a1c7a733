package simservice

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// reach has the statuses that can follow each status of a run after one transaction: by one event or two, and by the
// steps that the queue then takes, all of them at once.
var reach = func() map[record.RunStatus]map[record.RunStatus]bool {
	one := map[record.RunStatus][]record.RunStatus{}
	statuses := []record.RunStatus{record.Pending, record.PlanQueued, record.Planning, record.Planned,
		record.PlannedAndSaved, record.Confirmed, record.ApplyQueued, record.Applying}
	kinds := []record.RunEventKind{record.EventPlanQueued, record.EventPlanStarted, record.EventPlanEnded,
		record.EventConfirmed, record.EventApplyQueued, record.EventApplyStarted, record.EventApplied,
		record.EventFailed, record.EventDiscarded, record.EventCanceled, record.EventForceCanceled,
		record.EventPlanAgain}
	for _, s := range statuses {
		for _, k := range kinds {
			for _, o := range []record.Outcome{record.Finished, record.Saved, record.Waiting} {
				if to, err := record.Next(s, k, o); err == nil {
					one[s] = append(one[s], to)
				}
			}
		}
	}
	all := map[record.RunStatus]map[record.RunStatus]bool{}
	for _, s := range statuses {
		all[s] = map[record.RunStatus]bool{s: true}
		for _, to := range one[s] {
			all[s][to] = true
			for _, further := range one[to] {
				all[s][further] = true
			}
		}
		for range 4 {
			for at := range maps.Clone(all[s]) {
				for _, k := range []record.RunEventKind{record.EventPlanQueued, record.EventPlanStarted,
					record.EventConfirmed, record.EventApplyQueued, record.EventApplyStarted} {
					if to, err := record.Next(at, k, 0); err == nil {
						all[s][to] = true
					}
				}
			}
		}
	}
	return all
}()

// observe checks the invariants of the store after a change.
func (w *world) observe(p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.hidden) > 0 { // the simulation has modified the store
		return
	}
	now := map[string]*record.Run{}
	spaces := map[string]*record.Workspace{}
	err := p.store.View(func(tx *store.Tx) error {
		ids := runs.List(tx, "active", "*")
		for id, r := range w.known {
			if !r.Status.Final() && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		for _, id := range ids {
			r, err := runs.Get(tx, id)
			if err != nil {
				return err
			}
			now[id] = r
		}
		for _, sp := range w.spaces {
			s, err := workspaces.Get(tx, sp.id)
			if err != nil {
				return err
			}
			spaces[sp.id] = s
		}
		return nil
	})
	if err != nil {
		w.violateLocked("store", "it cannot be read: %v", err)
		return
	}
	for _, r := range w.sorted(now) {
		before := w.known[r.ID]
		switch {
		case before == nil:
			w.counted["runs"]++
			w.noteLocked("%s of %s is %s", r.Message, w.orders[r.Message].space.name, r.Status)
			w.checkNew(r)
		case before.Status != r.Status:
			w.noteLocked("%s of %s is %s", r.Message, w.orders[r.Message].space.name, r.Status)
			if !reach[before.Status][r.Status] {
				w.violateLocked("table", "%s was %s and is %s", r.Message, before.Status, r.Status)
			}
			if p.dead && r.Status == record.Planning && !w.apart { // its last change was durable, and then it crashed
				w.orders[r.Message].deaths++
			}
			w.turn(before, r, now, spaces[r.Workspace])
		}
		w.known[r.ID] = r
	}
	for _, sp := range w.spaces {
		w.checkLock(spaces[sp.id])
	}
}

// checkNew checks that a request that was repeated has not created a second run.
func (w *world) checkNew(r *record.Run) {
	for _, o := range w.known {
		switch {
		case o.Message != r.Message:
		case o.Status.Final(): // after the end of a run, the same request creates another one
			w.orders[r.Message].repeated = true
		default:
			w.violateLocked("twice", "%s was ordered once, and there are two runs", r.Message)
		}
	}
}

// sorted lists runs in the order of their creation.
func (w *world) sorted(m map[string]*record.Run) (list []*record.Run) {
	for _, r := range m {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b *record.Run) int { return int(a.Number) - int(b.Number) }) //nolint:gosec // small
	return list
}

// waitsInLine reports whether a run waits for the earlier runs of its workspace.
func waitsInLine(r *record.Run) bool { return !r.PlanOnly && !r.SavePlan }

// turn checks that a run proceeded only in its turn.
func (w *world) turn(before, r *record.Run, now map[string]*record.Run, on *record.Workspace) {
	// A run may have had a status only within one transaction.
	queued := before.Status == record.Pending && (r.Status == record.PlanQueued || r.Status == record.Planning)
	takes := queued && waitsInLine(r) || r.Status == record.ApplyQueued ||
		r.Status == record.Applying && before.Status != record.ApplyQueued
	if takes && (on.Lock.Kind != "run" || on.Lock.ID != r.ID) {
		w.violateLocked("lock", "%s is %s, and the workspace is locked by %s %s", r.Message, r.Status, on.Lock.Kind,
			on.Lock.ID)
	}
	if queued && waitsInLine(r) {
		for _, o := range now {
			if o.Workspace == r.Workspace && o.Number < r.Number && waitsInLine(o) && o.Status == record.Pending {
				w.violateLocked("order", "%s overtakes %s", r.Message, o.Message)
			}
		}
	}
	if r.Status == record.Planning {
		w.inTurn(r)
		w.roundRobin(r, now)
	}
}

// roundRobin checks that workspaces whose plans wait take turns.
func (w *world) roundRobin(r *record.Run, now map[string]*record.Run) {
	waits := map[string]bool{}
	for _, o := range now {
		if o.Status == record.PlanQueued {
			waits[o.Workspace] = true
		}
	}
	for _, sp := range w.spaces {
		if sp.id == r.Workspace || !waits[sp.id] {
			w.passed[sp.id] = map[string]int{}
			continue
		}
		// The choice of one more may precede this one.
		if w.passed[sp.id][r.Workspace]++; w.passed[sp.id][r.Workspace] > 2 {
			w.violateLocked("round robin", "plans of %s wait, and %s is the third one of another workspace that is begun "+
				"meanwhile", sp.name, r.Message)
		}
	}
}

// inTurn checks that the run that the service named as the next one is planned next.
func (w *world) inTurn(r *record.Run) {
	next := ""
	for id, place := range w.places {
		if place == 1 {
			next = id
		}
	}
	_, counted := w.places[r.ID]
	if o := w.known[next]; counted && next != r.ID && o != nil && o.Status == record.PlanQueued {
		w.violateLocked("place", "%s has place 1 among the plans, and %s, which has place %d, is planned", o.Message,
			r.Message, w.places[r.ID])
	}
	w.places = nil
}

// checkLock checks that the right run, or nobody, has the lock of a workspace.
func (w *world) checkLock(on *record.Workspace) {
	if on.Lock.Kind == "run" {
		if r := w.known[on.Lock.ID]; r == nil || r.Status.Final() || r.Status == record.PlannedAndSaved {
			status := record.RunStatus("unknown")
			if r != nil {
				status = r.Status
			}
			w.violateLocked("lock", "the workspace is locked by a run that is %s", status)
		}
	}
	var holder *record.Run
	plans, applies := 0, 0
	for _, r := range w.known {
		if r.Status == record.Planning {
			plans++
		}
		if r.Status == record.Applying {
			applies++
		}
		if r.Workspace != on.ID || r.Status != record.Applying {
			continue
		}
		if holder != nil {
			w.violateLocked("alone", "%s and %s are both applied", holder.Message, r.Message)
		}
		if holder = r; on.Lock.Kind != "run" || on.Lock.ID != r.ID {
			w.violateLocked("lock", "%s is applied, and the workspace is locked by %q %s", r.Message, on.Lock.Kind,
				on.Lock.ID)
		}
	}
	if plans > plansAtATime || applies > w.applies {
		w.violateLocked("limits", "%d plans and %d applies at a time", plans, applies)
	}
}

// askPlaces requests from the service what its runs wait for, and compares the response with the store. Nothing else
// is in progress meanwhile.
func (w *world) askPlaces(p *process) {
	list := w.active()
	places := map[string]int{}
	for _, r := range list {
		wait, err := p.service.Runs.Waits(context.Background(), p.admin, r.ID)
		if err != nil {
			if !w.isDead(p) {
				w.violate("place", "asked what %s waits for, it says %v", r.Message, err)
			}
			return
		}
		switch {
		case r.Status == record.PlanQueued && wait.Kind == "plans":
			places[r.ID] = wait.Place
		case r.Status == record.Pending && wait.Kind == "run":
			if want := placeOf(r, list); wait.Place != want {
				w.violate("place", "%s is told to have the place %d, and has %d: %+v", r.Message, wait.Place, want, wait)
			}
		}
	}
	taken := map[int]bool{}
	for _, place := range places {
		if place < 1 || place > len(places) || taken[place] {
			w.violate("place", "the places of %d plans are %v", len(places), places)
		}
		taken[place] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.places = places
}

// placeOf returns the place of a pending run in the queue, from 1.
func placeOf(r *record.Run, list []*record.Run) int {
	n := 1
	for _, o := range list {
		switch {
		case o == r || o.Workspace != r.Workspace || o.PlanOnly:
		case o.SavePlan:
			if o.Status == record.ApplyQueued || o.Status == record.Applying {
				n++
			}
		case o.Status.Holds() || o.Status == record.Pending && o.Number < r.Number:
			n++
		}
	}
	return n
}

// idle reports runs that neither make progress nor wait for something, although there was enough time. If the process
// crashes with the last change before faults ended, the next process is checked.
func (w *world) idle(p *process) {
	first := w.waiting(p)
	if len(first) == 0 {
		return
	}
	time.Sleep(100 * time.Millisecond) // a transaction may be in progress
	synctest.Wait()
	if w.isDead(p) {
		return
	}
	for what := range w.waiting(p) {
		if first[what] {
			w.violate("stuck", "%s", what)
		}
	}
}

// waiting describes the runs that neither make progress nor wait for something now.
func (w *world) waiting(p *process) map[string]bool {
	out := map[string]bool{}
	list := w.active()
	computing := map[record.RunStatus]int{}
	for _, r := range list {
		computing[r.Status]++
	}
	for _, r := range list {
		if r.Status.Computes() {
			w.mu.Lock()
			o := w.orders[r.Message]
			if !o.running {
				out[fmt.Sprintf("%s is %s, and nobody works on it", r.Message, r.Status)] = true
			}
			w.mu.Unlock()
			continue
		}
		wait, err := p.service.Runs.Waits(context.Background(), p.admin, r.ID)
		if err != nil {
			out[fmt.Sprintf("asked what %s waits for, it says %v", r.Message, err)] = true
			continue
		}
		ok := false
		switch wait.Kind {
		case "approval":
			ok = r.Status.Confirmable()
		case "lock":
			ok = true
		case "plans":
			ok = computing[record.Planning] == plansAtATime
		case "applies":
			ok = computing[record.Applying] == w.applies
		case "run":
			ok = slices.ContainsFunc(list, func(o *record.Run) bool { return o.ID == wait.On && o != r })
		}
		if !ok {
			out[fmt.Sprintf("%s is %s, and waits for %q (%s)", r.Message, r.Status, wait.Kind, wait.Text)] = true
		}
	}
	return out
}

// judge compares the outcomes of the runs with those that they would have had without faults.
func (w *world) judge(p *process) {
	list := w.ended()
	for _, r := range list {
		w.readLogs(p, r)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range list {
		o := w.orders[r.Message]
		if !o.repeated && !w.mayEndAs(o, r) {
			w.violateLocked("end", "%s is %s; %+v of %+v", r.Message, r.Status, w.script(r.Message), *o)
		}
	}
	for _, o := range w.orders {
		for id := range o.ids {
			if w.known[id] == nil {
				w.violateLocked("lost", "%s was acknowledged, and is not there", o.message)
			}
		}
	}
}

// ended lists the runs that have ended.
func (w *world) ended() []*record.Run {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(w.sorted(w.known), func(r *record.Run) bool { return !r.Status.Final() })
}

// deadly is after how many deaths during one phase the service does not begin it again: the configuration may be what
// the process dies of.
func (w *world) deadly() int {
	if w.apart {
		return 3
	}
	return 2
}

// mayEndAs reports whether a run may have its final status.
func (w *world) mayEndAs(o *order, r *record.Run) bool {
	s := w.script(o.message)
	applies := !r.PlanOnly && s.changes && !s.planFails
	switch r.Status {
	case record.PlannedAndFinished:
		return !s.planFails && (!s.changes || r.PlanOnly)
	case record.Applied:
		return applies && !s.applyFails
	case record.Errored:
		return s.planFails || o.faulty || applies && (s.applyFails || o.stale) || o.deaths >= w.deadly()
	case record.Discarded:
		return o.discarded || o.space.expires && !r.AutoApply || r.SavePlan
	case record.Canceled:
		return o.canceled
	case record.ForceCanceled:
		return o.canceled && o.forced
	}
	return false
}

// readLogs checks that the logs have all lines, and marks at their beginnings and ends.
func (w *world) readLogs(p *process, r *record.Run) {
	o := w.orderOf(r)
	for _, ph := range []record.Phase{r.Plan, r.Apply} {
		if ph.Started.IsZero() {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		data, err := p.service.Logs.Read(ctx, p.service.Logs.Address(&ph), 0, 1<<20)
		text := string(data)
		if text == "" && err == nil && len(o.lines[ph.ID]) == 0 {
			continue // it ended before anything was written
		}
		if !o.faulty && (err != nil || !strings.HasPrefix(text, "\x02") || strings.Count(text, "\x02") != 1) {
			w.violate("log", "the log of %s begins with %.40q, %v", r.Message, text, err)
		}
		if n := strings.Count(text, "\x03"); n > 1 || n == 1 && !strings.HasSuffix(text, "\x03") {
			w.violate("log", "the log of %s has %d ends: %q", r.Message, n, text)
		}
		if !strings.Contains(text, "\x03") {
			if end, err := p.service.Logs.Read(ctx, p.service.Logs.Address(&ph), int64(len(text)), 10); string(end) != "\x03" {
				w.violate("log", "the log of %s has no end: %q, %v", r.Message, end, err)
			}
		}
		for _, line := range o.lines[ph.ID] {
			at := strings.Index(text, line+"\n")
			if at < 0 {
				w.violate("log", "the log of %s has lost %q", r.Message, line)
				break
			}
			text = text[at:]
		}
	}
}

// blame records that the runs in progress may fail because the disk has refused a change. The caller has the lock.
func (w *world) blame() {
	for _, r := range w.known {
		if r.Status.Computes() {
			w.orders[r.Message].faulty = true
		}
	}
}

// violation is a promise that was broken.
type violation struct{ promise, text string }

func (v violation) String() string { return v.promise + ": " + v.text }

func (w *world) violate(promise, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violateLocked(promise, format, args...)
}

func (w *world) violateLocked(promise, format string, args ...any) {
	v := violation{promise, fmt.Sprintf(format, args...)}
	w.noteLocked("VIOLATION %s", v)
	if len(w.wrong) < 5 {
		w.wrong = append(w.wrong, v)
	}
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteLocked(format, args...)
}

func (w *world) noteLocked(format string, args ...any) {
	line := fmt.Sprintf("%12.6f %s\n", time.Since(w.began).Seconds(), fmt.Sprintf(format, args...))
	h := fnv.New64a()
	_, _ = h.Write([]byte(line))
	w.sum += h.Sum64() // independent of the order of lines at one moment
	if w.trace != nil {
		_, _ = w.trace.Write([]byte(line))
	}
}
