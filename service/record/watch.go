package record

import (
	"slices"
	"time"
)

// Watch is what is known of a workspace because it is read through in the background.
type Watch struct {
	Workspace string `json:"workspace"`
	// Objects is how many objects there were when the last batch was chosen.
	Objects int `json:"objects"`
	// Cursor is the address of the last object that was read in this round; empty at its beginning.
	Cursor string `json:"cursor,omitempty"`
	// Batch is when the last batch began.
	Batch time.Time `json:"batch,omitzero"`
	// Began is when this round began, Ended when the last whole one ended.
	Began time.Time `json:"began,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
	// Passes say when which part was read last, by address; a part without one was never read.
	Passes []Pass `json:"passes,omitempty"`
	// Drifted are the objects that were not as the state has them, by address. More counts those of the last round that
	// are not listed.
	Drifted []Drift `json:"drifted,omitempty"`
	More    int     `json:"more,omitempty"`
	// Failure is why the last batch that failed could not be read whole, Failed since when batches fail; empty and zero
	// when the last one did not.
	Failure string    `json:"failure,omitempty"`
	Failed  time.Time `json:"failed,omitzero"`
}

// Pass says that the objects up to an address, from where the pass before it ends, were read.
type Pass struct {
	Upto string    `json:"upto"`
	At   time.Time `json:"at"`
}

// Drift is an object that is not as the state has it.
type Drift struct {
	Address string `json:"address"`
	// Gone tells that it does not exist any more. Otherwise Attributes are the names of those that differ.
	Gone       bool     `json:"gone,omitempty"`
	Attributes []string `json:"attributes,omitempty"`
	// Since is when that was found first, Seen when it was found last.
	Since time.Time `json:"since"`
	Seen  time.Time `json:"seen"`
	// Sum is the digest of the object in the state that it was compared with. In a state that has another one, the
	// object is not known to have drifted.
	Sum uint64 `json:"sum"`
}

// Pass notes that the objects behind after, up to an address, were read. last tells that there are none behind it.
func (w *Watch) Pass(after, upto string, last bool, at time.Time) {
	w.Passes = slices.DeleteFunc(w.Passes, func(p Pass) bool {
		return p.Upto > after && (last || p.Upto <= upto)
	})
	i, _ := slices.BinarySearchFunc(w.Passes, upto, func(p Pass, upto string) int {
		switch {
		case p.Upto < upto:
			return -1
		case p.Upto > upto:
			return 1
		}
		return 0
	})
	w.Passes = slices.Insert(w.Passes, i, Pass{upto, at})
}

// Oldest is the time of the reading that is the longest ago; zero while not everything was read once.
func (w *Watch) Oldest() (at time.Time) {
	if w.Ended.IsZero() {
		return at
	}
	for _, p := range w.Passes {
		if at.IsZero() || p.At.Before(at) {
			at = p.At
		}
	}
	return at
}

// Drift returns what is known of an object; nil when it has not drifted.
func (w *Watch) Drift(address string) *Drift {
	i, found := w.find(address)
	if !found {
		return nil
	}
	return &w.Drifted[i]
}

func (w *Watch) find(address string) (int, bool) {
	return slices.BinarySearchFunc(w.Drifted, address, func(d Drift, address string) int {
		switch {
		case d.Address < address:
			return -1
		case d.Address > address:
			return 1
		}
		return 0
	})
}

// MaxDrifted is how many drifted objects of a workspace are listed.
const MaxDrifted = 5000

// Found notes that an object has drifted, and tells whether that is new. One that is too many is counted alone.
func (w *Watch) Found(d Drift) (fresh bool) {
	i, found := w.find(d.Address)
	switch {
	case found:
		if old := w.Drifted[i]; old.Sum == d.Sum {
			d.Since = old.Since
		} else {
			fresh = true
		}
		w.Drifted[i] = d
		return fresh
	case len(w.Drifted) >= MaxDrifted:
		w.More++
		return false
	}
	w.Drifted = slices.Insert(w.Drifted, i, d)
	return true
}

// Settle drops the objects of which keeps does not say that they are still in the state as they were.
func (w *Watch) Settle(keeps func(*Drift) bool) (dropped bool) {
	n := len(w.Drifted)
	w.Drifted = slices.DeleteFunc(w.Drifted, func(d Drift) bool { return !keeps(&d) })
	return len(w.Drifted) < n
}
