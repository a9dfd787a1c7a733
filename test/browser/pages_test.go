//go:build unix

package browser

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/work"
)

func TestARunIsConfirmedAndWatchedToItsEndWithoutLoadingThePage(t *testing.T) {
	byEveryHand(t, func(t *testing.T, s *Site, h hand) {
		e := newEstate(s)
		e.objects = network()
		e.log = "Millipede plans the network."
		w := s.NewWorkspace("network")
		run := s.NewRun(w, func(r *record.Run) { r.Message = "four zones" })
		s.Await(run.ID, record.Planned)
		h.login()
		s.shows("A plan waits for approval.")
		h.press("the workspace that needs a person", "#needs a.name")
		s.do(chromedp.WaitVisible("#plan", chromedp.ByQuery))
		s.shows("Needs approval")
		h.press("the first object of the plan", ".objects li:first-child summary")
		s.shows("10.0.0.0/16")
		s.screenshot("run-plan", 1100, 900)
		h.fill("the comment", "#comment", "as discussed")
		h.press("the button that confirms", `button[value="apply"]`)
		s.shows("You have confirmed the plan.")
		value[any](s, `window.stays = true`)
		s.shows("Applying")
		s.shows("fleet_network.main: update...")
		for range 5 {
			e.steps <- struct{}{}
		}
		s.shows("module.zone[0].fleet_vm.node3: create...")
		s.until("the picture does not run", `document.querySelector(".picture-summary")?.innerText.includes("running")`)
		details := func(what, text string) {
			t.Helper()
			s.until("the details have not "+what,
				`document.querySelector(".picture-details")?.innerText.includes(`+quoted(text)+`)`)
		}
		h.vertex("graph", "module.zone[0].fleet_vm.node0")
		details("the name", "module.zone[0].fleet_vm.node0")
		details("the worker", "worker-1")
		details("its part of the plan", "debian-12")
		details("its lines", "fleet_vm.node0: done")
		s.screenshot("run-graph", 1280, 900)
		h.gantt()
		s.until("the Gantt is not shown", `!document.getElementById("picture-gantt").hidden`)
		h.vertex("gantt", "module.zone[0].fleet_vm.node3") // it is running
		details("the name", "module.zone[0].fleet_vm.node3")
		details("its status", "running")
		h.closer()
		s.until("the Gantt has the same scale", drawn(`gantt.span > 0 && gantt.span < gantt.extent`))
		h.whole()
		s.until("the Gantt does not show everything", drawn(`gantt.span === 0`))
		close(e.steps)
		s.shows("finished the apply")
		s.shows("fleet_vm.old: done")
		details("its new status", "done")
		if !value[bool](s, `window.stays === true`) {
			t.Error("the page was loaded again")
		}
		s.until("the picture has not ended",
			`document.querySelector(".picture-summary").innerText.includes("22 done")`)
		s.until("the list has not ended", `document.querySelector(".picture-list").innerText.includes("5 done")`)
		value[any](s, drawn(`document.querySelector("[data-picture]").picture.select(null)`))
		s.do(chromedp.ScrollIntoView(`#log-apply`, chromedp.ByQuery))
		s.screenshot("run-log", 1100, 700)
		s.Await(run.ID, record.Applied)
	})
}

func TestAVersionOfAStateIsRestored(t *testing.T) {
	byEveryHand(t, func(t *testing.T, s *Site, h hand) {
		e := newEstate(s)
		e.objects = network()
		close(e.steps)
		w := s.NewWorkspace("network")
		for i := range 2 {
			run := s.NewRun(w, func(r *record.Run) { r.Message, r.AutoApply = fmt.Sprint("change ", i), true })
			s.Await(run.ID, record.Applied)
		}
		h.login()
		h.press("the workspace", `#rows tbody a[href="/app/acme/network"]`)
		h.press("the page of versions", `a[href="/app/acme/network/versions"]`)
		s.shows("Compare the selected versions")
		h.press("the summary of the older version", "tbody tr:nth-child(2) summary")
		h.press("the button that restores it", "tbody tr:nth-child(2) details button")
		s.shows("The content of serial 1 is current again, with serial 3.")
	})
}

func TestADoubtIsResolved(t *testing.T) {
	byEveryHand(t, func(t *testing.T, s *Site, h hand) {
		w := s.NewWorkspace("network")
		s.Engine.ApplyFunc = func(_ context.Context, j *work.Job) (*work.ApplyResult, error) {
			j.Doubtful([]record.Doubt{{Address: "fleet_vm.a", Operation: "create", Worker: "w1", Reason: "its worker died"},
				{Address: "module.zone[1].fleet_vm.b", Operation: "update", Worker: "w1", Reason: "its worker died"}})
			return nil, errors.New("an operation is in doubt")
		}
		s.Await(s.NewRun(w, func(r *record.Run) { r.AutoApply, r.Message = true, "four zones" }).ID, record.Errored)
		told := make(chan work.Resolution, 1)
		s.Engine.ResolveFunc = func(_ context.Context, j *work.Job, r work.Resolution, _ string) error {
			told <- r
			j.Doubtful(nil)
			return nil
		}
		h.login()
		h.press("the page of doubts", `nav a[href="/app/settings/doubts"]`)
		s.shows("its worker died")
		s.screenshot("doubts", 1100, 560)
		h.tick("the answer", `input[value="created"]`)
		h.fill("the ID", `input[name="id-0"]`, "vm-1")
		h.press("the button", "form.doubts button")
		s.shows("fleet_vm.a is resolved")
		if r := <-told; r != (work.Resolution{Address: "fleet_vm.a", ID: "vm-1"}) {
			t.Errorf("%+v", r)
		}
	})
}

func TestAStateIsLookedAtComparedAndRestored(t *testing.T) {
	s := Open(t)
	e := newEstate(s)
	e.objects = network()
	close(e.steps)
	w := s.NewWorkspace("network")
	for i := range 3 {
		run := s.NewRun(w, func(r *record.Run) { r.Message, r.AutoApply = fmt.Sprint("change ", i), true })
		s.Await(run.ID, record.Applied)
	}
	s.login()
	s.open("/app/acme/network/state")
	s.shows("module.zone[3].fleet_vm.node3")
	s.shows("(sensitive value)")
	s.do(chromedp.Click(`.objects li:nth-child(4) summary`, chromedp.ByQuery))
	s.shows("Last changed")
	s.shows("debian-12")
	s.screenshot("state", 1100, 800)
	s.open("/app/acme/network/versions")
	s.screenshot("versions", 1100, 500)
	s.do(chromedp.Click(`button[form=compare]`, chromedp.ByQuery))
	s.shows("From serial 2 to serial 3")
	s.shows("10 changed")
	s.do(chromedp.Click(`.objects li:first-child summary`, chromedp.ByQuery))
	s.shows("revision")
	s.screenshot("difference", 1100, 600)
	s.open("/app/acme/network/versions")
	s.do(chromedp.Click(`tbody tr:nth-child(3) details summary`, chromedp.ByQuery),
		chromedp.Click(`tbody tr:nth-child(3) details button`, chromedp.ByQuery))
	s.shows("The content of serial 1 is current again, with serial 4.")
}
