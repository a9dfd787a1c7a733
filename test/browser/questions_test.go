//go:build unix

package browser

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
)

// A person who does not know the product finds the answers to the usual questions from the overview, with at most three
// clicks.
func TestTheOverviewAnswersWithinThreeClicks(t *testing.T) {
	s := Open(t)
	e := newEstate(s)
	e.objects = network()
	begin := func(workspace *service.WorkspaceView, message string, auto bool) *record.Run {
		return s.NewRun(workspace, func(r *record.Run) { r.Message, r.AutoApply = message, auto })
	}
	network, slow, broken := s.NewWorkspace("network"), s.NewWorkspace("slow"), s.NewWorkspace("broken")
	first := begin(network, "the first zones", true)
	for range e.objects {
		e.steps <- struct{}{}
	}
	s.Await(first.ID, record.Applied)
	s.Await(begin(network, "remove the old machine", false).ID, record.Planned)
	e.mu.Lock()
	e.objects[3].fails = "the quota of networks is used up"
	e.mu.Unlock()
	failing := begin(broken, "one more network", true)
	for range len(e.objects) - 3 { // some are skipped then
		e.steps <- struct{}{}
	}
	s.Await(failing.ID, record.Errored)
	running := begin(slow, "a slow one", true)
	s.Capacity.Has = []service.Limit{{Name: "quota", Slots: 2, Held: []service.Permit{{Run: "engine-" + running.ID,
		Since: time.Now()}}, Waiting: []service.Permit{{Run: "other", Since: time.Now()}}}}
	s.Await(running.ID, record.Applying)
	for range 3 {
		e.steps <- struct{}{}
	}
	t.Cleanup(func() { close(e.steps) })
	s.login()
	s.screenshot("overview", 1100, 560)
	for question, answer := range map[string]struct {
		clicks []string
		shown  []string
	}{
		"which run needs me": {[]string{`//section[@id="needs"]//a[text()="network"]`},
			[]string{"remove the old machine", "Needs approval", "Confirm and apply"}},
		"why is this run slow": {[]string{`//a[text()="a slow one"]`},
			[]string{"The critical path has", "waiting for a permit of the limit quota"}},
		"who holds the permits": {[]string{`//nav//a[text()="Workers and limits"]`},
			[]string{"quota", "1 of 2 permits held", "1 waiting", "slow: a slow one"}},
		"what changed this object last": {[]string{`//table//a[text()="network"]`, `//a[text()="State"]`,
			`//summary[contains(., "module.zone[1].fleet_vm.node2")]`}, []string{"Unchanged since", "the first zones"}},
		"what would this plan destroy": {[]string{`//section[@id="needs"]//a[text()="network"]`,
			`//a[contains(., "to destroy")]`}, []string{"fleet_vm.old"}},
		"what broke, and why": {[]string{`//section[@id="needs"]//a[text()="broken"]`},
			[]string{"What went wrong", "the quota of networks is used up", "skipped because of it"}},
	} {
		if len(answer.clicks) > 3 {
			t.Errorf("%s: %d clicks", question, len(answer.clicks))
		}
		s.open("/app/acme")
		for _, click := range answer.clicks {
			s.do(chromedp.Click(click, chromedp.BySearch))
		}
		for _, text := range answer.shown {
			s.until(question+": the page does not show "+text, `document.body.innerText.includes(`+quoted(text)+`)`)
		}
		if question == "what would this plan destroy" {
			s.until("more than what is destroyed is listed", `document.querySelectorAll(".objects li").length === 1`)
		}
	}
	if text := value[string](s, `document.title`); strings.TrimSpace(text) == "" {
		t.Error("the page has no title")
	}
}

func TestTheOverviewShowsWhatIsAskedFor(t *testing.T) {
	s := Open(t)
	e := newEstate(s)
	e.objects = network()
	close(e.steps)
	quiet, waits := s.NewWorkspace("quiet"), s.NewWorkspace("waits")
	locked := s.NewWorkspace("locked")
	s.Await(s.NewRun(quiet, func(r *record.Run) { r.AutoApply = true }).ID, record.Applied)
	s.Await(s.NewRun(waits, nil).ID, record.Planned)
	if _, err := s.Workspaces.Lock(s.Admin, locked.ID, "moving"); err != nil {
		t.Fatal(err)
	}
	s.login()
	rows := func(what, want string) {
		t.Helper()
		s.until(what, `[...document.querySelectorAll("#rows tbody th")].map((e) => e.innerText).join(" ") === `+quoted(want))
	}
	rows("who needs a person comes first", "waits locked quiet")
	choose := func(field, chosen string) {
		t.Helper()
		s.open("/app/acme")
		s.do(chromedp.SetValue(field, chosen, chromedp.ByQuery), chromedp.Submit(field, chromedp.ByQuery))
	}
	choose("#q", "qui")
	rows("the search", "quiet")
	choose("#show", "needs")
	rows("those that need a person", "waits locked")
	choose("#show", "locked")
	rows("those that are locked, by a person or a run", "waits locked")
	choose("#sort", "name")
	rows("by name", "locked quiet waits")
	choose("#q", "nothing of that name")
	s.shows("No workspace matches.")
}
