package journal

import (
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// FuzzFold reads events as a store keeps them, and folds them: a journal that no run can have made is an error.
func FuzzFold(f *testing.F) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, events := range [][]Event{
		{{Kind: Want, Vertex: 1, At: at, Address: "a.b"}, {Kind: Dispatch, Vertex: 1, At: at, Attempt: "x", Permits: []string{"default/p"}}, {Kind: Finish, Vertex: 1, At: at}},
		{{Kind: Want, Vertex: 3}, {Kind: Dispatch, Vertex: 3, Attempt: "x"}, {Kind: Suspect, Vertex: 3, Detail: "gone"}, {Kind: Retract, Vertex: 3}, {Kind: RunEnd, Detail: "done"}},
	} {
		data, err := msgpack.Marshal(events)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var events []Event
		if msgpack.Unmarshal(data, &events) != nil {
			return
		}
		statuses, open, err := Fold(8, events)
		if err != nil {
			return
		}
		for v := range open {
			if s := statuses[v]; s != Dispatched && s != Doubt {
				t.Errorf("vertex %d is %s, and has an attempt under way", v, s)
			}
		}
	})
}
