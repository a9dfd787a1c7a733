package record

import (
	"slices"
	"time"
)

// Watch has the results of watching a workspace for drift.
type Watch struct {
	Workspace string `json:"workspace"`
	// Objects is the number of objects when the last batch was chosen.
	Objects int `json:"objects"`
	// Cursor is the address of the last object that was read in this round; empty at the beginning of a round.
	Cursor string `json:"cursor,omitempty"`
	// Batch is when the last batch began.
	Batch time.Time `json:"batch,omitzero"`
	// Began is when this round began, Ended when the last complete round ended.
	Began time.Time `json:"began,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
	// Passes say when each range of addresses was last read, sorted by address; a range that is missing was
	// never read.
	Passes []Pass `json:"passes,omitempty"`
	// Drifted are the objects that differ from the state, sorted by address. More is the number of further ones
	// in the last round.
	Drifted []Drift `json:"drifted,omitempty"`
	More    int     `json:"more,omitempty"`
	// Failure is the error of the last batch, Failed the time since which batches fail; empty and zero if the
	// last batch succeeded.
	Failure string    `json:"failure,omitempty"`
	Failed  time.Time `json:"failed,omitzero"`
}

// Pass is a range of addresses that was read together. It begins after the previous Pass.
type Pass struct {
	Upto string    `json:"upto"`
	At   time.Time `json:"at"`
}

// Drift is an object that differs from the state.
type Drift struct {
	Address string `json:"address"`
	// Gone says that the object no longer exists. Otherwise Attributes has the names of the attributes that
	// differ.
	Gone       bool     `json:"gone,omitempty"`
	Attributes []string `json:"attributes,omitempty"`
	// Since is when the difference was first found, Seen when it was last found.
	Since time.Time `json:"since"`
	Seen  time.Time `json:"seen"`
	// Sum is the digest of the object in the state with which it was compared. The finding does not apply to a
	// state in which the object has another digest.
	Sum uint64 `json:"sum"`
}

// Pass records that the objects after one address, up to another one, were read. last says that no objects
// follow.
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

// Oldest returns the time of the oldest reading; zero until everything has been read once.
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

// Drift returns the drift of an object; nil if none is known.
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

// MaxDrifted bounds the list of drifted objects of a workspace.
const MaxDrifted = 5000

// Found records the drift of an object, and reports whether it is new. If the list is full, it is only counted.
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

// Settle removes the objects for which keeps returns false, and reports whether there were any.
func (w *Watch) Settle(keeps func(*Drift) bool) (dropped bool) {
	n := len(w.Drifted)
	w.Drifted = slices.DeleteFunc(w.Drifted, func(d Drift) bool { return !keeps(&d) })
	return len(w.Drifted) < n
}

// The triggers of watching for drift, named as the API names those of its assessments.
const (
	TriggerDrift  = "assessment:drifted" // objects differ from the state
	TriggerUnread = "assessment:failed"  // objects could not be read
)
