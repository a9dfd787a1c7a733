package timelines

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/millipede-iac/millipede/coordinator/timeline"
)

// Files from before there were outlines have two lines. The page of such a run must still work.
func TestATimelineOfAnEarlierVersionIsShown(t *testing.T) {
	b := timeline.NewRecorder(timeline.Head{Ended: timeline.None})
	b.Add(timeline.Vertex{Number: 1, Address: "fleet_vm.a", Action: "create", Status: timeline.Failed, Failure: "no room"})
	b.Add(timeline.Vertex{Number: 2, Address: "fleet_vm.b", Status: timeline.Skipped, Because: "fleet_vm.a"})
	want := failures{List: []Failure{{Address: "fleet_vm.a", Action: "create", Text: "no room",
		Skipped: []string{"fleet_vm.b"}}}}
	var text bytes.Buffer
	if err := errors.Join(b.Write(&text, timeline.Shape, 5), b.Write(&text, timeline.Story, 5)); err != nil {
		t.Fatal(err)
	}
	lines := linesOf(text.Bytes())
	if !bytes.Equal(lines.piece(timeline.Outline), lines[timeline.Shape]) {
		t.Errorf("its outline is %s", lines.piece(timeline.Outline))
	}
	if got, err := lines.failures(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("its failures are %+v, %v", got, err)
	}
	if err := errors.Join(b.Write(&text, timeline.Outline, 5), json.NewEncoder(&text).Encode(want)); err != nil {
		t.Fatal(err)
	}
	lines = linesOf(text.Bytes())
	lines[timeline.Shape] = nil // it is not needed any more
	if got, err := lines.failures(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("with four lines, its failures are %+v, %v", got, err)
	}
}
