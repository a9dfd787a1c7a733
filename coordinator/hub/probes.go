package hub

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// probeEvery is the interval at which the transport is checked for lost data.
const probeEvery = time.Second

// probes checks the transport once for all runs.
type probes struct {
	ask    func(ctx context.Context, pools []string) (wire.HighWater, error)
	shared shared
	wake   chan struct{} // holds a token when somebody has come who was not told anything yet

	mu      sync.Mutex // guards probers
	probers map[*prober]bool
}

// prober is a run that gets the answers. Its mailbox has the newest one.
type prober struct {
	pools func() []string
	mail  chan answer
}

type answer struct {
	mark  wire.HighWater
	asked time.Time
	err   error
}

func (p *probes) init(ask func(context.Context, []string) (wire.HighWater, error)) {
	p.ask, p.wake, p.probers = ask, make(chan struct{}, 1), map[*prober]bool{}
	p.shared.run = p.run
}

func (p *probes) probe(ctx context.Context, pools func() []string,
	fn func(wire.HighWater, time.Duration, error) bool) {
	b := &prober{pools: pools, mail: make(chan answer, 1)}
	p.mu.Lock()
	p.probers[b] = true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.probers, b)
		p.mu.Unlock()
	}()
	p.shared.join()
	defer p.shared.leave()
	select {
	case p.wake <- struct{}{}:
	default:
	}
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-b.mail:
			if ctx.Err() != nil || !fn(a.mark, time.Since(a.asked), a.err) {
				return
			}
		}
	}
}

func (p *probes) run(ctx context.Context) {
	select { // who has come first is told by the first round
	case <-p.wake:
	case <-ctx.Done():
	}
	for ctx.Err() == nil {
		p.round(ctx)
		pause(ctx, probeEvery, p.wake)
	}
}

// round asks once, and passes each prober the part about its own pools.
func (p *probes) round(ctx context.Context) {
	p.mu.Lock()
	of := make(map[*prober][]string, len(p.probers))
	for b := range p.probers {
		of[b] = nil
	}
	p.mu.Unlock()
	all := map[string]bool{}
	for b := range of {
		of[b] = b.pools()
		for _, pool := range of[b] {
			all[pool] = true
		}
	}
	asked := time.Now()
	mark, err := p.ask(ctx, slices.Sorted(maps.Keys(all)))
	if ctx.Err() != nil {
		return
	}
	for b, pools := range of {
		own, err := mark.Of(pools), err
		if err == nil {
			err = own.CheckSpace()
		}
		select {
		case <-b.mail: // it has not read the last one, which is old now
		default:
		}
		b.mail <- answer{own, asked, err} // nobody else writes
	}
}
