package timeline_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/coordinator/timeline"
)

// grown returns a recorder of n operations in modules of a thousand; each operation depends on an earlier one.
func grown(n int) *timeline.Recorder {
	b := timeline.NewRecorder(timeline.Head{Run: "r", Ended: timeline.None})
	for i := range n {
		v := timeline.Vertex{Number: i, Module: fmt.Sprintf("module.zone[%d]", i/1000), Status: timeline.Failed,
			Failure: "canary of a failure", Ready: 1, Started: 2, Ended: 3}
		v.Address = fmt.Sprintf("%s.fleet_vm.node[%d]", v.Module, i)
		if i >= 1000 {
			v.After = []int{i - 1000}
		}
		b.Add(v)
	}
	return b
}

// The page of a run fetched all of its operations before it drew anything: half a megabyte for 100,000, which took one
// to two seconds on a busy machine.
func TestAnOutlineIsAsSmallAsWhatIsDrawnOfIt(t *testing.T) {
	for _, n := range []int{10_000, 200_000} {
		var b bytes.Buffer
		if err := grown(n).Write(&b, timeline.Outline, 5); err != nil {
			t.Fatal(err)
		}
		var got struct {
			Cursor   uint64
			Outline  bool
			Counts   timeline.Counts
			Vertices struct {
				Number, After []int
				Letters       string
				More          map[int]struct{ Fold struct{ Total int } }
			}
		}
		if err := json.Unmarshal(b.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		places := len(got.Vertices.Number)
		total := places - len(got.Vertices.More)
		for _, m := range got.Vertices.More {
			total += m.Fold.Total
		}
		if !got.Outline || got.Cursor != uint64(n) || got.Counts.Failed != n || total != n {
			t.Errorf("%d operations: the outline has %d, and the counts are %+v", n, total, got.Counts)
		}
		if places > 300 || places != len(got.Vertices.Letters) || b.Len() > 64<<10 {
			t.Errorf("%d operations: %d places in %d bytes", n, places, b.Len())
		}
		if strings.Contains(b.String(), "canary") {
			t.Error("it has what is not drawn")
		}
	}
}

func TestTheOutlineOfASmallRunIsTheRun(t *testing.T) {
	recorder := grown(5000)
	var outline, shape bytes.Buffer
	if err := recorder.Write(&outline, timeline.Outline, 5); err != nil {
		t.Fatal(err)
	}
	if err := recorder.Write(&shape, timeline.Shape, 5); err != nil {
		t.Fatal(err)
	}
	if outline.String() != shape.String() {
		t.Errorf("%.300s\nis not\n%.300s", &outline, &shape)
	}
}

// Readers of a whole run must not take an outline for it.
func TestAnOutlineIsNotReadAsAModel(t *testing.T) {
	var b bytes.Buffer
	if err := grown(6000).Write(&b, timeline.Outline, 5); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b.Bytes(), new(timeline.Model)); err == nil {
		t.Error("it is read as a model")
	}
}
