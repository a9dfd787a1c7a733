package view_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
)

// The start of an update was reported before the worker had found out that nothing was to be done, and so was its end.
// OpenTofu reports nothing of such an update.
func TestAnUpdateIsReportedOnceItIsKnownToHaveSomethingToDo(t *testing.T) {
	d := program.Description{Address: "a.b", Action: "update", Unsettled: true}
	const second = time.Second
	for name, c := range map[string]struct {
		tell func(coordinator.Observer)
		want string
	}{
		"one without anything to do": {func(o coordinator.Observer) {
			o.Finished(0, d, program.Notes{Action: "update", None: true}, second)
		}, ""},
		"one that ends": {func(o coordinator.Observer) {
			o.Finished(0, d, program.Notes{Action: "update"}, second)
		}, "start complete"},
		"one that lasts": {func(o coordinator.Observer) {
			o.Progress(0, d, 10*second)
			o.Progress(0, d, 20*second)
			o.Finished(0, d, program.Notes{Action: "update"}, 21*second)
		}, "start progress progress complete"},
		"one that fails": {func(o coordinator.Observer) { o.Failed(0, d, program.Notes{}, second) }, "start errored"},
	} {
		t.Run(name, func(t *testing.T) {
			var text, messages bytes.Buffer
			p := view.NewProgress(view.ProgressOptions{Out: &text})
			s := document.NewStream(document.StreamOptions{Out: &messages, Now: time.Now})
			for _, o := range []coordinator.Observer{p, s} {
				o.Started(0, d, "", time.Time{})
				c.tell(o)
			}
			if err := errors.Join(p.Settle(), s.Settle()); err != nil {
				t.Fatal(err)
			}
			var kinds []string
			for _, kind := range []string{"start", "progress", "complete", "errored"} {
				for range strings.Count(messages.String(), `"apply_`+kind+`"`) {
					kinds = append(kinds, kind)
				}
			}
			if got := strings.Join(kinds, " "); got != c.want {
				t.Errorf("the messages are %q, want %q", got, c.want)
			}
			want := strings.Contains(c.want, "start")
			if got := strings.Contains(text.String(), "a.b: Modifying..."); got != want {
				t.Errorf("the start is written: %v\n%s", got, text.String())
			}
		})
	}
}
