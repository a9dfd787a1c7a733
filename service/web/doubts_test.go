package web_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/work"
)

func TestADoubtIsResolvedOnItsPage(t *testing.T) {
	b := newBrowser(t)
	w := b.NewWorkspace("one")
	b.Engine.ApplyFunc = func(_ context.Context, j *work.Job) (*work.ApplyResult, error) {
		j.Doubtful([]record.Doubt{{Address: "fleet_vm.a", Operation: "create", Worker: "w1", Reason: "its worker died"}})
		return nil, errors.New("an operation is in doubt")
	}
	b.Await(b.NewRun(w, func(r *record.Run) { r.AutoApply = true }).ID, record.Errored)
	var told work.Resolution
	b.Engine.ResolveFunc = func(_ context.Context, j *work.Job, r work.Resolution, _ string) error {
		told = r
		j.Doubtful(nil)
		return nil
	}
	b.login("root", b.Token)
	const page = "/app/settings/doubts"
	if _, _, text := b.get(page); !strings.Contains(text, "its worker died") || !strings.Contains(text, "<form") {
		t.Errorf("the page: %s", text)
	}
	word := url.Values{"workspace": {w.ID}, "address-0": {"fleet_vm.a"}, "outcome-0": {"created"}}
	if code, _, text := b.post(page, word); code != http.StatusUnprocessableEntity {
		t.Errorf("without an ID: %d: %s", code, text)
	}
	word.Set("id-0", " vm-1 ")
	if code, _, text := b.post(page, word); code != http.StatusOK || !strings.Contains(text, "fleet_vm.a is resolved") ||
		!strings.Contains(text, "No operation is in doubt.") ||
		told != (work.Resolution{Address: "fleet_vm.a", ID: "vm-1"}) {
		t.Errorf("%d, %+v: %s", code, told, text)
	}
}
