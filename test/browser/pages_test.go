//go:build unix

package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/millipede-iac/millipede/service/record"
)

func TestARunIsConfirmedAndWatchedToItsEndWithoutLoadingThePage(t *testing.T) {
	s := Open(t)
	e := newEstate(s)
	e.objects = network()
	e.log = "Millipede plans the network."
	w := s.NewWorkspace("network")
	run := s.NewRun(w, func(r *record.Run) { r.Message = "four zones" })
	s.Await(run.ID, record.Planned)
	s.login()
	s.shows("A plan waits for approval.")
	s.screenshot("overview", 1100, 560)
	s.do(chromedp.Click("#needs a.name", chromedp.ByQuery), chromedp.WaitVisible("#plan", chromedp.ByQuery))
	s.shows("Needs approval")
	s.do(chromedp.Click(`.objects li:first-child summary`, chromedp.ByQuery))
	s.shows("10.0.0.0/16")
	s.screenshot("run-plan", 1100, 900)
	value[any](s, `window.stays = true`)
	s.do(chromedp.SendKeys("#comment", "as discussed", chromedp.ByQuery), chromedp.Click(`button[value="apply"]`, chromedp.ByQuery))
	s.shows("You have confirmed the plan.")
	value[any](s, `window.stays = true`)
	s.shows("Applying")
	s.shows("fleet_network.main: update...")
	for range 5 {
		e.steps <- struct{}{}
	}
	s.shows("module.zone[0].fleet_vm.node3: create...")
	s.until("the picture does not run", `document.querySelector(".picture-summary")?.innerText.includes("running")`)
	// A vertex of the graph, by the keyboard: the search finds it, and Enter opens its details.
	s.do(chromedp.Focus(`.picture input[type=search]`, chromedp.ByQuery), chromedp.KeyEvent("zone[0].fleet_vm.node0\r"))
	s.until("the details are not shown", `document.querySelector(".picture-details")?.innerText.includes("worker-1")`)
	s.until("its part of the plan is not shown",
		`document.querySelector(".picture-details")?.innerText.includes("debian-12")`)
	s.until("its lines are not shown",
		`document.querySelector(".picture-details")?.innerText.includes("fleet_vm.node0: done")`)
	s.screenshot("run-graph", 1280, 900)
	s.do(chromedp.Focus(`#picture-tab-graph`, chromedp.ByQuery), chromedp.KeyEvent(kb.ArrowRight))
	s.until("the Gantt is not shown", `!document.getElementById("picture-gantt").hidden`)
	close(e.steps)
	s.shows("finished the apply")
	s.shows("fleet_vm.old: done")
	if !value[bool](s, `window.stays === true`) {
		t.Error("the page was loaded again")
	}
	s.until("the picture has not ended",
		`document.querySelector(".picture-summary").innerText.includes("22 done")`)
	s.until("the list has not ended", `document.querySelector(".picture-list").innerText.includes("5 done")`)
	value[any](s, `(({ picture }) => { // the picture for the documents shows all operations
		picture.input.value = "";
		picture.search("");
		picture.select(null);
	})(document.querySelector("[data-picture]"))`)
	s.screenshot("run-gantt", 1280, 900)
	s.do(chromedp.ScrollIntoView(`#log-apply`, chromedp.ByQuery))
	s.screenshot("run-log", 1100, 700)
	s.Await(run.ID, record.Applied)
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
	s.do(chromedp.Click(`.objects li:first-child summary`, chromedp.ByQuery))
	s.shows("revision")
	s.screenshot("difference", 1100, 600)
	s.open("/app/acme/network/versions")
	s.do(chromedp.Click(`tbody tr:nth-child(3) details summary`, chromedp.ByQuery), chromedp.Click(`tbody tr:nth-child(3) details button`, chromedp.ByQuery))
	s.shows("The content of serial 1 is current again, with serial 4.")
}
