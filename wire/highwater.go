package wire

import "maps"

// HighWater is what a coordinator remembers to notice lost data.
type HighWater struct {
	Tasks, Results uint64
	Incarnation    string // of both streams
	// Claims are the registers by pool, of the pools that were asked for.
	Claims map[string]Position
}

// Position is how far one stream has come, and when it was made.
type Position struct {
	Last        uint64
	Incarnation string
}

// Equal tells whether two marks say the same.
func (h HighWater) Equal(o HighWater) bool {
	return h.Tasks == o.Tasks && h.Results == o.Results && h.Incarnation == o.Incarnation &&
		maps.Equal(h.Claims, o.Claims)
}

// Lost tells whether a later mark shows that acknowledged data is gone since this one. Registers of pools that one of
// the two does not name say nothing.
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
