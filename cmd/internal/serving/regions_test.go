package serving

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/service"
)

func TestARegionIsCutOffSinceItsStoreWasFirstFoundSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		domains, err := map[string]string{"eu": "eu", "us": "america"}, error(nil)
		silent := map[string]bool{}
		w := &regionWatch{now: time.Now,
			domains: func(context.Context) (map[string]string, error) { return domains, err },
			answers: func(ctx context.Context, domain string) error {
				if silent[domain] {
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); w.run(ctx) }()
		wait := func(d time.Duration) { <-time.After(d); synctest.Wait() }
		is := func(when string, want ...service.Region) {
			t.Helper()
			got := w.list()
			for i := range got {
				if len(got) != len(want) || got[i] != want[i] {
					t.Fatalf("%s: %+v", when, got)
				}
			}
		}
		us, eu := service.Region{Pool: "us", Domain: "america"}, service.Region{Pool: "eu", Domain: "eu"}
		wait(time.Second)
		is("both answer", eu, us)
		silent["eu"] = true
		wait(regionEvery + regionPatience)
		away := eu
		away.Away, away.Why = w.list()[0].Away, "it does not answer"
		if d := time.Since(away.Away); d < 0 || d > regionEvery {
			t.Errorf("cut off for %s", d)
		}
		is("one is cut off", away, us)
		wait(time.Minute)
		is("a minute later", away, us)
		err = errors.New("the hub is away")
		wait(time.Minute)
		is("nothing new is known while the hub is away", away, us)
		err, silent["eu"] = nil, false
		wait(regionEvery + regionPatience)
		is("it is there again", eu, us)
		domains = map[string]string{"us": "america"}
		wait(regionEvery + regionPatience)
		is("it has no store of its own any more", us)
		stop()
		<-ended
	})
}
