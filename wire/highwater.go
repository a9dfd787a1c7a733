package wire

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// HighWater has the positions in the transport's streams that a coordinator records in order to notice lost data.
type HighWater struct {
	// Tasks and Results are the last sequences of the streams of all pools, and Incarnation is that of these streams.
	// They are zero where each pool has streams of its own.
	Tasks, Results uint64
	Incarnation    string
	// Claims are the positions of the registers, by pool, for the pools that were asked for; Queues and Outcomes are
	// those of the tasks and the results, where each pool has its own.
	Claims, Queues, Outcomes map[string]Position
	// Full names, by pool, the streams that accept no more messages, with advice for the user. It is true for the moment
	// only, and neither compared nor recorded.
	Full map[string]string `json:"-"`
	// Replicated says that servers of a cluster keep the streams, so that a loss has to be confirmed by a second answer;
	// Servers names the server that answered, by stream. Neither is compared or recorded.
	// Stores has the pools with a message store of their own: empty if that answered, and else why not. A store that
	// does not answer has no positions. It is true for the moment only.
	Stores     map[string]string `json:"-"`
	Replicated bool              `json:"-"`
	Servers    map[string]string `json:"-"`
}

// Of returns the mark for some of its pools.
func (h HighWater) Of(pools []string) HighWater {
	of := func(all map[string]Position) map[string]Position {
		var some map[string]Position
		for _, pool := range pools {
			if at, ok := all[pool]; ok {
				if some == nil {
					some = map[string]Position{}
				}
				some[pool] = at
			}
		}
		return some
	}
	h.Claims, h.Queues, h.Outcomes = of(h.Claims), of(h.Queues), of(h.Outcomes)
	h.Full, h.Stores = only(h.Full, pools), only(h.Stores, pools)
	return h
}

// only returns the entries of some pools; nil if there are none.
func only(all map[string]string, pools []string) map[string]string {
	var some map[string]string
	for _, pool := range pools {
		if text, ok := all[pool]; ok {
			if some == nil {
				some = map[string]string{}
			}
			some[pool] = text
		}
	}
	return some
}

// SetFull says that a stream of a pool accepts no more messages.
func (h *HighWater) SetFull(pool, text string) {
	if h.Full == nil {
		h.Full = map[string]string{}
	}
	h.Full[pool] = text
}

// SetStore says whether the store of a pool that has one of its own has answered.
func (h *HighWater) SetStore(pool string, err error) {
	if h.Stores == nil {
		h.Stores = map[string]string{}
	}
	h.Stores[pool] = ""
	if err != nil {
		h.Stores[pool] = err.Error()
	}
}

// Since returns the mark with the positions of an earlier one for pools whose stores did not answer this time: they are
// compared when the stores answer again.
func (h HighWater) Since(earlier HighWater) HighWater {
	keep := func(now, was map[string]Position) map[string]Position {
		var out map[string]Position
		for pool, at := range was {
			if _, asked := now[pool]; asked || h.Stores[pool] == "" {
				continue
			}
			if out == nil {
				out = maps.Clone(now)
			}
			if out == nil {
				out = map[string]Position{}
			}
			out[pool] = at
		}
		if out == nil {
			return now
		}
		return out
	}
	h.Claims, h.Queues, h.Outcomes = keep(h.Claims, earlier.Claims), keep(h.Queues, earlier.Queues),
		keep(h.Outcomes, earlier.Outcomes)
	return h
}

// Add sets the positions of the streams of a pool.
func (h *HighWater) Add(pool string, tasks, claims, results Position) {
	if h.Claims == nil {
		h.Claims, h.Queues, h.Outcomes = map[string]Position{}, map[string]Position{}, map[string]Position{}
	}
	h.Queues[pool], h.Claims[pool], h.Outcomes[pool] = tasks, claims, results
}

// CheckSpace returns nil if all streams accept messages, and else ErrFull with the text of one that is full.
func (h HighWater) CheckSpace() error {
	for _, pool := range slices.Sorted(maps.Keys(h.Full)) {
		return fmt.Errorf("%w: %s", ErrFull, h.Full[pool])
	}
	return nil
}

// Position is the last sequence of a stream, and when the stream was created.
type Position struct {
	Last        uint64
	Incarnation string
}

// Equal reports whether two marks are the same.
func (h HighWater) Equal(o HighWater) bool {
	return h.Tasks == o.Tasks && h.Results == o.Results && h.Incarnation == o.Incarnation &&
		maps.Equal(h.Claims, o.Claims) && maps.Equal(h.Queues, o.Queues) && maps.Equal(h.Outcomes, o.Outcomes)
}

// Lost reports whether a later mark shows that acknowledged data was lost since this one. Pools that only one of the
// two names do not count.
func (h HighWater) Lost(later HighWater) bool {
	if h.Incarnation != later.Incarnation || later.Tasks < h.Tasks || later.Results < h.Results {
		return true
	}
	return lost(h.Claims, later.Claims) || lost(h.Queues, later.Queues) || lost(h.Outcomes, later.Outcomes)
}

// Difference names the streams that are behind a mark, or were made anew, with their sequences and the servers that
// say so.
func (h HighWater) Difference(later HighWater) string {
	var list []string
	add := func(stream string, was, now Position) {
		by := ""
		if server := later.Servers[stream]; server != "" {
			by = " by the server " + server
		}
		switch {
		case was.Incarnation != now.Incarnation:
			list = append(list, fmt.Sprintf("the stream %s was made anew%s", stream, by))
		case now.Last < was.Last:
			list = append(list, fmt.Sprintf("the stream %s had the sequence %d, and has %d%s", stream, was.Last, now.Last, by))
		}
	}
	add("TASKS", Position{h.Tasks, h.Incarnation}, Position{later.Tasks, later.Incarnation})
	add("RESULTS", Position{Last: h.Results}, Position{Last: later.Results})
	for _, of := range []struct {
		prefix   string
		was, now map[string]Position
	}{{"TASKS-", h.Queues, later.Queues}, {"CLAIMS-", h.Claims, later.Claims}, {"RESULTS-", h.Outcomes, later.Outcomes}} {
		for _, pool := range slices.Sorted(maps.Keys(of.was)) {
			if now, asked := of.now[pool]; asked {
				add(of.prefix+Token(pool), of.was[pool], now)
			}
		}
	}
	return strings.Join(list, "; ")
}

func lost(was, now map[string]Position) bool {
	for pool, before := range was {
		if after, asked := now[pool]; asked && (after.Incarnation != before.Incarnation || after.Last < before.Last) {
			return true
		}
	}
	return false
}
