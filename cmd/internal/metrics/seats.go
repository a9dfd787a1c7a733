package metrics

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Seat is a seat for an engine of the service.
type Seat struct {
	Number   int
	Epoch    uint64
	Calls    int
	Restarts int
	Up       bool
}

// Seats registers the seats of engines, and the metrics of the engines themselves, which are read at each scrape with
// their clients from an address. Those get a label "seat"; an engine that does not answer has none.
func (s *Set) Seats(seats func() []Seat, engines func() map[int]*http.Client, address string) {
	up := desc("engine_up", "Is 1 when there is an engine on the seat.", "seat")
	calls := desc("engine_calls", "Phases of runs, and other work, that the engine on the seat carries out.", "seat")
	restarts := desc("engine_restarts_total", "Engines on the seat that have ended unexpectedly.", "seat")
	s.registry.MustRegister(&scraped{all: []*prometheus.Desc{up, calls, restarts},
		counters: map[*prometheus.Desc]bool{restarts: true},
		ask: func(gauge func(*prometheus.Desc, float64, ...string)) {
			for _, t := range seats() {
				number, is := strconv.Itoa(t.Number), 0.0
				if t.Up {
					is = 1
				}
				gauge(up, is, number)
				gauge(calls, float64(t.Calls), number)
				gauge(restarts, float64(t.Restarts), number)
			}
		}})
	s.Process("engine", engines, address)
}

// Process registers the metrics of other processes of the service, which are read at each scrape with their clients
// from an address. Those of a process with a number have it in a label "seat"; those about the process and Go get a
// name with that of its program. A process that does not answer has none.
func (s *Set) Process(program string, clients func() map[int]*http.Client, address string) {
	s.others = append(s.others, prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		return gathered(program, clients(), address)
	}))
}

// gathered reads the metrics of processes.
func gathered(program string, engines map[int]*http.Client, address string) (all []*dto.MetricFamily, err error) {
	var mu sync.Mutex // guards all and err
	var reading sync.WaitGroup
	byName := map[string]*dto.MetricFamily{}
	for number, client := range engines {
		reading.Go(func() {
			families, failed := families(client, address)
			mu.Lock()
			defer mu.Unlock()
			err = errors.Join(err, failed)
			for name, f := range families {
				if !strings.HasPrefix(name, namespace) {
					name = namespace + "_" + program + "_" + name // of the process, and of Go
					f.Name = &name
				}
				label, value := "seat", strconv.Itoa(number)
				for _, m := range f.Metric {
					if number == 0 {
						break
					}
					m.Label = append(m.Label, &dto.LabelPair{Name: &label, Value: &value})
				}
				if one := byName[name]; one != nil {
					one.Metric = append(one.Metric, f.Metric...)
				} else {
					byName[name] = f
				}
			}
		})
	}
	reading.Wait()
	for _, f := range byName {
		all = append(all, f)
	}
	return all, err
}

// families reads the metrics of one engine.
func families(client *http.Client, address string) (map[string]*dto.MetricFamily, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	response, err := client.Do(r)
	if err != nil {
		return nil, nil //nolint:nilnil // its process has ended; the seat says so
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, nil //nolint:nilnil // it has not begun
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(io.LimitReader(response.Body, maxScrape))
}

// maxScrape bounds the metrics of one engine, in bytes.
const maxScrape = 16 << 20
