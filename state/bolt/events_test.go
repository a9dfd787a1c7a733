package bolt

import (
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/millipede-iac/millipede/state/journal"
)

// FuzzDecodeEvents decodes and folds events. Folding a journal that no run can have written must return an error.
func FuzzDecodeEvents(f *testing.F) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, events := range [][]journal.Event{
		{{Kind: journal.Want, Vertex: 1, At: at, Address: "a.b"}, {Kind: journal.Dispatch, Vertex: 1, At: at,
			Attempt: "x", Permits: []string{"default/p"}}, {Kind: journal.Finish, Vertex: 1, At: at}},
		{{Kind: journal.Want, Vertex: 3}, {Kind: journal.Dispatch, Vertex: 3, Attempt: "x"},
			{Kind: journal.Suspect, Vertex: 3, Detail: "gone"}, {Kind: journal.Retract, Vertex: 3},
			{Kind: journal.RunEnd, Detail: "done"}},
	} {
		data, err := msgpack.Marshal(events)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		events, err := decodeEvents(data)
		if err != nil {
			return
		}
		statuses, open, err := journal.Fold(8, events)
		if err != nil {
			return
		}
		for v := range open {
			if s := statuses[v]; s != journal.Dispatched && s != journal.Doubt {
				t.Errorf("vertex %d is %s, but has an attempt in progress", v, s)
			}
		}
	})
}
