package serving

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/service"
)

const (
	// regionEvery is the interval at which the message stores of regions are asked whether they answer.
	regionEvery = 5 * time.Second
	// regionPatience is how long each has to answer.
	regionPatience = 2 * time.Second
)

// regionWatch knows which regions are cut off, and since when: at most regionEvery and regionPatience later.
type regionWatch struct {
	domains func(context.Context) (map[string]string, error) // of pools
	answers func(ctx context.Context, domain string) error
	now     func() time.Time

	mu      sync.Mutex // guards regions
	regions map[string]service.Region
}

func watchRegions(s *sharedConnection) *regionWatch {
	settings := s.Conn.PoolSettings()
	return &regionWatch{domains: settings.Domains, answers: settings.Answers, now: time.Now}
}

// run asks the regions until ctx ends.
func (w *regionWatch) run(ctx context.Context) {
	tick := time.NewTicker(regionEvery)
	defer tick.Stop()
	for {
		w.look(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// look asks all regions once. If it is not known which there are, nothing is known of them: the server does not answer.
func (w *regionWatch) look(ctx context.Context) {
	domains, err := w.domains(ctx)
	if err != nil {
		return
	}
	now := w.now()
	problems := make(map[string]error, len(domains))
	var mu sync.Mutex // guards problems
	var asking sync.WaitGroup
	for pool, domain := range domains {
		asking.Go(func() {
			ctx, enough := context.WithTimeout(ctx, regionPatience)
			defer enough()
			err := w.answers(ctx, domain)
			mu.Lock()
			defer mu.Unlock()
			problems[pool] = err
		})
	}
	asking.Wait()
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.regions
	w.regions = make(map[string]service.Region, len(domains))
	for pool, domain := range domains {
		r := service.Region{Pool: pool, Domain: domain}
		if err := problems[pool]; err != nil {
			if r.Away = before[pool].Away; r.Away.IsZero() || before[pool].Domain != domain {
				r.Away = now
			}
			r.Why = reason(err)
		}
		w.regions[pool] = r
	}
}

// reason returns the last cause of an error.
func reason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "it does not answer"
	}
	return strings.TrimSpace(err.Error())
}

// list returns the regions, by the names of their pools.
func (w *regionWatch) list() []service.Region {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]service.Region, 0, len(w.regions))
	for _, pool := range slices.Sorted(maps.Keys(w.regions)) {
		out = append(out, w.regions[pool])
	}
	return out
}

// Regions implements service.Capacity.
func (f capacity) Regions(context.Context) ([]service.Region, error) { return f.regions.list(), nil }
