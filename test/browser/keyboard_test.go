//go:build unix

package browser

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
)

// tabTo presses the tabulator key until the focused element fulfils a condition of the page, and then the given key.
func (s *Site) tabTo(what, condition, key string) {
	s.t.Helper()
	for range 80 {
		s.do(chromedp.KeyEvent(kb.Tab))
		if value[bool](s, `((e) => Boolean(e && (`+condition+`)))(document.activeElement)`) {
			s.do(chromedp.KeyEvent(key))
			return
		}
	}
	s.t.Fatalf("%s is not reached by the keyboard; the page shows: %s", what, s.text())
}

func TestAVersionOfAStateIsRestoredByKeyboard(t *testing.T) {
	s := Open(t)
	e := newEstate(s)
	e.objects = network()
	close(e.steps)
	w := s.NewWorkspace("network")
	for i := range 2 {
		run := s.NewRun(w, func(r *record.Run) { r.Message, r.AutoApply = fmt.Sprint("change ", i), true })
		s.Await(run.ID, record.Applied)
	}
	s.login()
	s.open("/app/acme/network/versions")
	s.tabTo("the summary of the older version", `e.matches("tbody tr:nth-child(2) summary")`, "\r")
	s.tabTo("the button that restores it", `e.matches("tbody tr:nth-child(2) details button")`, "\r")
	s.shows("The content of serial 1 is current again, with serial 3.")
}

func TestADoubtIsResolvedByKeyboard(t *testing.T) {
	s := Open(t)
	w := s.NewWorkspace("network")
	s.Engine.ApplyFunc = func(_ context.Context, j *service.Job) (*service.ApplyResult, error) {
		j.Doubtful([]record.Doubt{{Address: "fleet_vm.a", Operation: "create", Worker: "w1", Reason: "its worker died"}})
		return nil, errors.New("an operation is in doubt")
	}
	s.Await(s.NewRun(w, func(r *record.Run) { r.AutoApply = true }).ID, record.Errored)
	told := make(chan service.Resolution, 1)
	s.Engine.ResolveFunc = func(_ context.Context, j *service.Job, r service.Resolution, _ string) error {
		told <- r
		j.Doubtful(nil)
		return nil
	}
	s.login()
	s.tabTo("the page of doubts", `e.textContent === "Doubts"`, "\r")
	s.shows("its worker died")
	s.screenshot("doubts", 1100, 420)
	s.tabTo("the form", `e.matches("summary") && e.textContent.includes("fleet_vm.a")`, "\r")
	s.tabTo("the answer", `e.matches("input[type=radio]")`, " ")
	s.tabTo("the ID", `e.name === "id"`, "vm-1")
	s.tabTo("the button", `e.matches("details button")`, "\r")
	s.shows("fleet_vm.a is resolved")
	if r := <-told; r != (service.Resolution{Address: "fleet_vm.a", ID: "vm-1"}) {
		t.Errorf("%+v", r)
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
	if _, err := s.Lock(s.Admin, locked.ID, "moving"); err != nil {
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
