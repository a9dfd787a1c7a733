package journal_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/state/journal"
)

// A later version may add keys to events and to what is in them; an earlier one has left some out.
func TestAnEventMayHaveOtherKeys(t *testing.T) {
	want := []journal.Event{{Kind: journal.Dispatch, Vertex: 3, At: time.Unix(1_800_000_000, 7), Address: "a.b",
		Pool: "eu", Waits: []journal.Wait{{Kind: journal.WaitPlace, Name: "eu", For: time.Second}}}}
	var raw []map[string]any
	if err := msgpack.Unmarshal(coding.Marshal(want), &raw); err != nil {
		t.Fatal(err)
	}
	read := func() []journal.Event {
		t.Helper()
		data, err := msgpack.Marshal(raw)
		if err != nil {
			t.Fatal(err)
		}
		var got []journal.Event
		if err := coding.Unmarshal(data, 16, &got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	raw[0]["new"] = map[string]any{"of": []any{"the next version"}}
	if got := read(); !reflect.DeepEqual(got, want) {
		t.Errorf("with another key it is read as\n%+v\ninstead of\n%+v", got, want)
	}
	delete(raw[0], "ws")
	delete(raw[0], "p")
	want[0].Waits, want[0].Pool = nil, ""
	if got := read(); !reflect.DeepEqual(got, want) {
		t.Errorf("without keys it is read as\n%+v\ninstead of\n%+v", got, want)
	}
}
