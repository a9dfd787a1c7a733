package history

import (
	"reflect"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/wire"
)

// A full pool was shown as a limit with an internal name, and the time since which something was lacking was not shown.
func TestAShortageKeepsItsBeginningAndNamesItsPool(t *testing.T) {
	begun := time.UnixMilli(1_000_000)
	recorder := timeline.NewRecorder(timeline.Head{Begun: begun.UnixMilli(), Ended: timeline.None})
	told := 0
	recorder.OnShortage(func() { told++ })
	w := NewWriter(recorder, begun, nil)
	shown := func(after time.Duration, waits ...loop.Wait) []timeline.Shortage {
		w.Shown(begun.Add(after), loop.Shown{Kind: loop.ShownWaiting, Vertex: -1, Waits: waits})
		at, list := recorder.Shortages()
		if at != begun.UnixMilli() {
			t.Errorf("the run began at %d", at)
		}
		return list
	}
	shown(time.Second, loop.Wait{Limit: "quota", Slots: 2, Vertices: 3, Address: "a.b"})
	got := shown(3*time.Second, loop.Wait{Limit: "quota", Slots: 2, Vertices: 1, Address: "a.c"},
		loop.Wait{Limit: wire.PoolLimit("eu"), Vertices: 4, Slots: 8}, loop.Wait{Pool: "us", Vertices: 5})
	want := []timeline.Shortage{
		{Kind: "permit", Name: "quota", Since: 1000, Vertices: 1, Example: "a.c", Slots: 2},
		{Kind: "place", Name: "eu", Since: 3000, Vertices: 4, Slots: 8},
		{Kind: "worker", Name: "us", Since: 3000, Vertices: 5},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the shortages are %+v", got)
	}
	if shown(4*time.Second, loop.Wait{Limit: "quota", Slots: 2, Vertices: 2}); told != 3 {
		t.Errorf("the shortages were reported %d times", told)
	}
	if shown(5*time.Second, loop.Wait{Limit: "quota", Slots: 2, Vertices: 1}); told != 3 {
		t.Errorf("a change of the number of operations was reported: %d", told)
	}
	if got := shown(6 * time.Second); len(got) != 0 || told != 4 {
		t.Errorf("at the end the shortages are %+v, reported %d times", got, told)
	}
}
