package web_test

import (
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service"
)

// A pool whose region was cut off was shown as one without workers, as if somebody had to start some.
func TestPagesShowWhichRegionsAreCutOffAndSinceWhen(t *testing.T) {
	b := newBrowser(t)
	b.login("root", b.Token)
	since := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	b.Capacity.All = []service.Worker{{Name: "w1", Pool: "eu", Slots: 4, Silent: true, Quiet: time.Minute},
		{Name: "w2", Pool: "us", Slots: 4}}
	const workers, overview = "/app/settings/workers", "/app/acme"
	shows := func(path string, want bool, texts ...string) {
		t.Helper()
		_, _, page := b.get(path)
		for _, text := range texts {
			if strings.Contains(page, text) != want {
				t.Errorf("%s shows %q: %t", path, text, !want)
			}
		}
	}
	const noWorker = "It has no live worker."
	b.Capacity.Far = []service.Region{{Pool: "ap", Domain: "asia", Away: since, Why: "a <broken> line"},
		{Pool: "eu", Domain: "eu", Away: since, Why: "it does not answer"}, {Pool: "us", Domain: "america"}}
	shows(workers, true, "Its region is cut off, since", since.Format(time.RFC3339), "a &lt;broken&gt; line",
		"it does not answer", "in the domain america, which answers", `id="pool-ap"`)
	shows(workers, false, noWorker)
	shows(overview, true, "The region of the pool ap is cut off, since", "The region of the pool eu", "#pool-eu")
	shows(overview, false, "The region of the pool us")

	b.Capacity.Far[1].Away = time.Time{}
	shows(workers, true, "in the domain eu, which answers", noWorker)
	shows(overview, false, "The region of the pool eu")
	b.Capacity.Far = nil
	shows(workers, false, "Its region is cut off", "Its messages are stored in its region", `id="pool-ap"`)
}
