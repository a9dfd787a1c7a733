//go:build unix

package browser

import (
	"fmt"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
)

// The page had a row for each permit: it was 500 rows long, and was replaced every three seconds.
func TestALimitOfFiveHundredPermitsIsShownByRun(t *testing.T) {
	s := Open(t)
	e := newEstate(s)
	e.objects = network()
	run := s.NewRun(s.NewWorkspace("network"), func(r *record.Run) { r.Message, r.AutoApply = "four zones", true })
	s.Await(run.ID, record.Applying)
	t.Cleanup(func() { close(e.steps) })
	const slots, ours, others = 500, 12, 39
	begun := time.Now().Add(-time.Hour)
	held := func(n int) (all []service.Permit) {
		for k := range n {
			of := "engine-" + run.ID
			if k >= ours {
				of = fmt.Sprint("other-", (k-ours)%others)
			}
			all = append(all, service.Permit{Run: of, Since: begun.Add(time.Duration(k) * time.Second)})
		}
		return all
	}
	var waiting []service.Permit
	for k := range 300 {
		waiting = append(waiting, service.Permit{Run: fmt.Sprint("other-", k%60), Since: begun})
	}
	s.Capacity.Has = []service.Limit{{Name: "aws-quota", Slots: slots, Held: held(499), Waiting: waiting},
		{Name: "pool/default", Slots: 40, Sized: true}}
	s.login()
	s.open("/app/settings/workers")
	for _, text := range []string{"499 of 500 permits held", "300 waiting", "holds 12 permits", "network: four zones",
		"hold 487 permits", "39 runs that you may not see", "wait for 300 permits", "60 runs that you may not see",
		"Its size is the number of slots"} {
		s.shows(text)
	}
	if elements := value[int](s, `document.getElementsByTagName("*").length`); elements > 200 {
		t.Errorf("the page has %d elements", elements)
	}
	s.screenshot("limits", 1100, 900)
}
