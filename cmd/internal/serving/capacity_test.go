package serving

import (
	"testing"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// A limit of the rules was taken for the places of a pool of the same name: a run that waited for the places was shown
// the holders of the limit's permits, and a queue for the permits was not shown.
func TestOnlyTheLimitOfAPoolCountsItsPlaces(t *testing.T) {
	all := limits([]wire.LimitStatus{{Limit: wire.Limit{Name: "eu", Slots: 3}},
		{Limit: wire.Limit{Name: wire.PoolLimit("eu"), Slots: 8}}})
	if all[0].Pool != "" || all[0].Sized || all[1].Pool != "eu" || !all[1].Sized {
		t.Errorf("%+v", all)
	}
}

// A worker that was killed was shown as active.
func TestAWorkerIsSilentOnlyWhileTheServiceCouldHaveHeardIt(t *testing.T) {
	killed := []wire.Worker{{Heartbeat: wire.Heartbeat{Worker: "w1", Pools: []string{"eu"}}, Since: time.Minute}}
	if got := workers(killed, time.Hour); len(got) != 1 || !got[0].Silent {
		t.Errorf("%+v", got)
	}
	if got := workers(killed, time.Second); got[0].Silent {
		t.Errorf("after a break of the connection: %+v", got)
	}
}
