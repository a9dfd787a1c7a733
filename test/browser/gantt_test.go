//go:build unix

package browser

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/work"
)

// busyWorkers are the vertices of an apply of objects by two workers with three slots each, while at most three
// machines may be created at once. It returns also when the last one has ended.
func busyWorkers(objects []object) (all []timeline.Vertex, end int64) {
	slots, permits := make([]int64, 6), make([]int64, 3) // when each is free
	least := func(list []int64) int { return slices.Index(list, slices.Min(list)) }
	for i, o := range objects {
		v := timeline.Vertex{Number: i, Module: o.module, Address: o.address(), Type: o.typ, Action: o.action,
			After: o.after, Status: timeline.Done, Pool: "default", Attempts: 1, Attempt: fmt.Sprint("attempt-", i)}
		for _, before := range o.after {
			v.Ready = max(v.Ready, all[before].Ended)
		}
		slot, permit := least(slots), least(permits)
		v.Started = max(v.Ready, slots[slot]) + 20
		if o.typ == "fleet_vm" && o.action == "create" {
			v.Started = max(v.Started, permits[permit]+20)
			v.Waits = []timeline.Wait{{Kind: timeline.ForPermit, Name: "vm-quota", From: v.Ready, To: v.Started}}
		}
		v.Took = 1800 + int64(i*7919%5200)
		v.Ended = v.Started + v.Took
		if len(v.Waits) > 0 {
			permits[permit] = v.Ended
		}
		slots[slot], v.Worker = v.Ended, fmt.Sprint("worker-", 1+slot/3)
		all, end = append(all, v), max(end, v.Ended)
	}
	return all, end
}

func TestTheGanttOfARunThatHasEndedSaysWhereItsTimeWent(t *testing.T) {
	s := Open(t)
	e := newEstate(s)
	e.objects = network()
	s.Engine.ApplyFunc = func(ctx context.Context, j *work.Job) (*work.ApplyResult, error) {
		all, end := busyWorkers(e.objects)
		begun := time.Now().Add(-time.Duration(end) * time.Millisecond)
		recorder := timeline.NewRecorder(timeline.Head{Run: j.Run.ID, Command: "apply", Begun: begun.UnixMilli(),
			Ended: timeline.None})
		recorder.Add(all...)
		j.Watched(recorder, "engine-"+j.Run.ID)
		recorder.Note(func(h *timeline.Head, _ *int64, _ *[]timeline.Shortage) { h.Ended, h.Outcome = end, "done" })
		return &work.ApplyResult{Add: 20}, j.State.Write(ctx, e.state())
	}
	run := s.NewRun(s.NewWorkspace("network"), func(r *record.Run) { r.Message, r.AutoApply = "four zones", true })
	s.Await(run.ID, record.Applied)
	s.login()
	s.open("/app/acme/network/runs/" + run.ID)
	s.shows("The critical path has")
	s.shows("waiting for a permit of the limit vm-quota")
	s.do(chromedp.Click("#picture-tab-gantt", chromedp.ByQuery))
	s.until("there is not a lane for each slot", drawn(`gantt.lanes?.list().length === 6`))
	s.until("nothing is said of the waits", drawn(`gantt.bands.length === 1`))
	s.do(chromedp.ScrollIntoView("#picture-title-apply", chromedp.ByQuery))
	s.screenshot("run-gantt", 1280, 760)
	s.open("/app/acme/network")
	s.screenshot("runs", 1100, 320)
	s.scheme("dark")
	s.do(chromedp.EmulateViewport(390, 1100))
	s.open("/app/acme/network/runs/" + run.ID)
	s.shows("The critical path has")
	s.screenshot("phone-dark", 390, 1100)
	s.scheme("light")
	all, end := busyWorkers(e.objects)
	recorder := timeline.NewRecorder(timeline.Head{Run: "EXAMPLE", Workspace: "network", Command: "apply", Begun: 1.7e12,
		Ended: end, Outcome: "done"})
	recorder.Add(all...)
	s.report(recorder.Model(end))
	s.shows("waiting for a permit of the limit vm-quota")
	s.screenshot("report", 1280, 600)
}
