package seat

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/service/seat/protocol"
)

// A process that has not answered a heartbeat at mostMissed looks, beatPause apart, is frozen. Looks are counted, and
// not time, because a machine that was stopped as a whole has made no look: its processes get their time anew.
const (
	beatPause  = 3 * time.Second
	mostMissed = 5
)

// FrozenTime is how long a process that is asked does not answer until it counts as frozen.
const FrozenTime = mostMissed * beatPause

// Frozen sends heartbeats to a process. It returns true when the process is frozen, and false when ctx, or the
// connection to the process, has ended. Any answer will do, so that a process without heartbeats is not frozen.
func Frozen(ctx context.Context, client *http.Client) bool {
	ctx, end := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer end()
	answers := make(chan error, 1)
	ask := func() { answers <- beat(ctx, client) }
	ticks := time.NewTicker(beatPause)
	defer ticks.Stop()
	asking.Go(ask)
	for missed := 0; missed < mostMissed; {
		select {
		case err := <-answers:
			if err != nil {
				return false
			}
			missed = 0
			select {
			case <-ticks.C:
				asking.Go(ask)
			case <-ctx.Done():
				return false
			}
		case <-ticks.C:
			missed++
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// beat asks a process for an answer.
func beat(ctx context.Context, client *http.Client) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine"+protocol.BeatPath, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	return response.Body.Close()
}
