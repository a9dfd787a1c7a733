package serving

import (
	"testing"

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
