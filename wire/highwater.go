package wire

import "maps"

// HighWater is what a coordinator records about the transport in order to notice lost data.
type HighWater struct {
	Tasks, Results uint64
	Incarnation    string // of both streams
	// Claims are the positions of the registers, by pool, for the pools that were asked for.
	Claims map[string]Position
}

// Position is the last sequence of a stream, and when the stream was created.
type Position struct {
	Last        uint64
	Incarnation string
}

// Equal reports whether two marks are the same.
func (h HighWater) Equal(o HighWater) bool {
	return h.Tasks == o.Tasks && h.Results == o.Results && h.Incarnation == o.Incarnation &&
		maps.Equal(h.Claims, o.Claims)
}

// Lost reports whether a later mark shows that acknowledged data was lost since this one. Pools that only one of the
// two names do not count.
func (h HighWater) Lost(later HighWater) bool {
	if h.Incarnation != later.Incarnation || later.Tasks < h.Tasks || later.Results < h.Results {
		return true
	}
	for pool, was := range h.Claims {
		if now, asked := later.Claims[pool]; asked && (now.Incarnation != was.Incarnation || now.Last < was.Last) {
			return true
		}
	}
	return false
}
