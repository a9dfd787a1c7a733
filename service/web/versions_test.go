package web_test

import (
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/wire"
)

func TestThePageOfWorkersShowsTheirVersionsAndWhyOneIsGivenNothing(t *testing.T) {
	b := newBrowser(t)
	b.login("root", b.Token)
	b.Capacity.All = []service.Worker{
		{Name: "w1", Pool: "eu", Version: "1.2.3", Speaks: wire.Versions{Lowest: 6, Highest: 7}},
		{Name: "w2", Pool: "eu", Version: "0.0.9", Speaks: wire.Versions{Lowest: 5, Highest: 5}, Older: true,
			Unsuited: "worker w2 is <too> old: replace it"},
	}
	_, _, text := b.get("/app/settings/workers")
	for _, want := range []string{"1.2.3", "protocol 6 to 7,", "0.0.9", "protocol 5,", ">is given nothing<",
		"worker w2 is &lt;too&gt; old: replace it"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not show %q", want)
		}
	}
	if n := strings.Count(text, "is given nothing"); n != 1 {
		t.Errorf("%d workers are given nothing", n)
	}
}
