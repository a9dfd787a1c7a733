package browser

import (
	"context"
	"errors"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/work"
)

// The audit log had six columns of a few letters on a phone, and the forms of operations in doubt were beside the
// screen.
func TestTheAuditLogAndDoubtsAreReadOnAPhone(t *testing.T) {
	s := Open(t)
	w := s.NewWorkspace("network")
	s.Engine.ApplyFunc = func(_ context.Context, j *work.Job) (*work.ApplyResult, error) {
		j.Doubtful([]record.Doubt{{Address: "module.zone[1].module.fleet.fleet_virtual_machine.database_replica[\"eu-1\"]",
			Operation: "create", Worker: "worker-17.eu-1.example.org", Reason: "worker w1 has not been heard of for 4s"}})
		return nil, errors.New("an operation is in doubt")
	}
	run := s.NewRun(w, func(r *record.Run) { r.AutoApply, r.Message = true, "four zones" })
	s.Await(run.ID, record.Errored)
	s.login()
	for _, scheme := range []string{"light", "dark"} {
		s.scheme(scheme)
		s.do(chromedp.EmulateViewport(390, 800))
		for path, what := range map[string]string{"/app/settings/audit": "tbody td, tbody th",
			"/app/settings/doubts": "form.doubts li", "/app/acme/network/runs/" + run.ID: "form.doubts li"} {
			s.open(path)
			narrow := value[int](s, `Math.min(...[...document.querySelectorAll("`+what+`")].map((e) => e.clientWidth))`)
			if narrow < 250 {
				t.Errorf("%s: something is %d pixels wide", path, narrow)
			}
			if wide := value[int](s, `document.documentElement.scrollWidth`); wide > 392 {
				t.Errorf("%s is %d pixels wide", path, wide)
			}
		}
		s.screenshot("narrow-doubts-"+scheme, 390, 800)
	}
}

// The names of facts had all of the width that they wanted: beside "waited for a permit of the limit ...", a duration
// was broken after each character.
func TestTheFactsAboutAnOperationAreReadable(t *testing.T) {
	s := Open(t)
	recorder := timeline.NewRecorder(timeline.Head{Run: "EXAMPLE", Workspace: "network", Command: "apply", Begun: 1.7e12,
		Ended: 9000, Outcome: "done"})
	recorder.Add(timeline.Vertex{Number: 1, Address: "fleet_vm.a", Type: "fleet_vm", Action: "create",
		Status: timeline.Done, Pool: "eu", Worker: "worker-1", Attempt: "A", Attempts: 1, Ready: 0, Started: 5000,
		Ended: 9000, Took: 4000, Waits: []timeline.Wait{{Kind: timeline.ForPermit, From: 0, To: 5000,
			Name: "a-limit-with-a-name-that-is-much-longer-than-the-column-of-the-details-is-wide"}}})
	s.report(recorder.Model(9000))
	s.do(chromedp.Evaluate(`picture.select(0)`, nil))
	s.until("the facts are not shown", `document.querySelectorAll(".picture-facts dd").length > 3`)
	for _, text := range value[[]string](s, `[...document.querySelectorAll(".picture-facts dd")].filter((e) =>
		e.innerText.length < 10 && e.getClientRects()[0].height > 2.5 * parseFloat(getComputedStyle(e).fontSize)).map(
		(e) => e.innerText)`) {
		t.Errorf("%q takes several lines", text)
	}
}
