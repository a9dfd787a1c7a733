package timeline_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/coordinator/timeline"
)

func example() *timeline.Model {
	return &timeline.Model{
		Cursor: 7,
		Head: timeline.Head{Run: "r1", Workspace: "default", Command: "apply", Begun: 1e12, Ended: timeline.None,
			Now: 500},
		Counts: timeline.Counts{Total: 2, Done: 1, Failed: 1},
		Vertices: []timeline.Vertex{
			{Number: 1, Address: "fleet_vm.a", Type: "fleet_vm", Action: "create", Status: timeline.Done, Pool: "eu",
				Worker: "w1", Attempt: "x", Attempts: 1, Ready: 0, Started: 20, Ended: 300, Took: 270,
				Waits: []timeline.Wait{{Kind: timeline.ForPermit, Name: "quota", From: 0, To: 20}},
				Holds: []string{"quota"}},
			{Number: 3, Status: timeline.Junction, After: []int{1}, Ready: timeline.None, Started: timeline.None,
				Ended: timeline.None},
			{Number: 4, Module: `module.m["a.b"]`, Address: `module.m["a.b"].fleet_vm.b[0]`, Type: "fleet_vm",
				Action: "update", After: []int{3}, Status: timeline.Failed, Ready: 300, Started: 301, Ended: 400,
				Failure: "no <script>"},
		},
		Shortages: []timeline.Shortage{{Kind: "worker", Name: "eu", Vertices: 2, Example: "fleet_vm.a"}},
	}
}

func TestAModelIsReadAsItWasWritten(t *testing.T) {
	m := example()
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var got timeline.Model
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(&got, m) {
		t.Errorf("%s\nis read as\n%+v\nand not as\n%+v", text, got, *m)
	}
}

func TestAModelOfAnotherShapeIsRefused(t *testing.T) {
	text, err := json.Marshal(example())
	if err != nil {
		t.Fatal(err)
	}
	for fault, change := range map[string][2]string{
		"a higher version":    {`"version":2`, `"version":3`},
		"a short column":      {`"letters":"djf"`, `"letters":"dj"`},
		"no such name":        {`"action":[3,0,8]`, `"action":[3,0,99]`},
		"half a wait":         {`"from":[0]`, `"from":[]`},
		"a lost dependency":   {`"degree":[0,1,1]`, `"degree":[0,1,2]`},
		"a story of nobody":   {`"story":{"letters":"l","number":[1]`, `"story":{"letters":"l","number":[2]`},
		"more waits than are": {`"waits":[1]`, `"waits":[2]`},
	} {
		broken := strings.Replace(string(text), change[0], change[1], 1)
		if broken == string(text) {
			t.Fatalf("%s: %s is not in %s", fault, change[0], text)
		}
		if err := json.Unmarshal([]byte(broken), new(timeline.Model)); err == nil {
			t.Errorf("%s: it is accepted", fault)
		}
	}
}

func TestReadersOfABookMissNothing(t *testing.T) {
	b := timeline.NewRecorder(timeline.Head{Run: "r", Ended: timeline.None})
	early := b.Model(0).Cursor
	for i := range 4 {
		b.Add(timeline.Vertex{Number: i, Address: fmt.Sprint("a.", i), Status: timeline.Waiting})
	}
	middle := b.Model(0).Cursor
	run := func(n int, s timeline.Status) { b.Update(n, func(v *timeline.Vertex) { v.Status = s }) }
	run(2, timeline.Running)
	run(1, timeline.Running)
	run(2, timeline.Done)

	got := b.Since(middle, 0)
	if len(got.Vertices) != 2 || got.Vertices[0].Number != 1 || got.Vertices[1].Number != 2 ||
		got.Vertices[1].Status != timeline.Done || got.Vertices[1].Address != "" {
		t.Errorf("after %d came %+v", middle, got.Vertices)
	}
	if all := b.Since(early, 0).Vertices; len(all) != 4 || all[3].Address != "a.2" {
		t.Errorf("the first reader gets %+v", all)
	}
	if all := b.Since(1000, 0).Vertices; len(all) != 4 {
		t.Errorf("a cursor of another process brings %d vertices", len(all))
	}
	if none := b.Since(got.Cursor, 0).Vertices; len(none) != 0 {
		t.Errorf("what was read comes again: %+v", none)
	}
	if c := got.Counts; c.Total != 4 || c.Waiting != 2 || c.Running != 1 || c.Done != 1 {
		t.Errorf("the counts are %+v", c)
	}
}

// Two thousand vertices are to stay far below three megabytes.
func TestALargeModelIsSmall(t *testing.T) {
	m := &timeline.Model{Head: timeline.Head{Run: "r"}}
	for i := range 2000 {
		m.Vertices = append(m.Vertices, timeline.Vertex{Number: 2 * i, Module: "module.network",
			Address: fmt.Sprintf("module.network.aws_subnet.private[%d]", i), Type: "aws_subnet", Action: "create",
			Status: timeline.Done, Pool: "eu-central-1", Worker: "ip-10-0-0-1", Attempt: "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
			Attempts: 1, Ready: 1000, Started: 100000, Ended: 200000, Took: 90000, After: []int{1, 2, 3},
			Waits: []timeline.Wait{{Kind: timeline.ForPlace, Name: "eu-central-1", From: 1000, To: 100000}},
			Holds: []string{"default"}})
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 600_000 {
		t.Errorf("2,000 vertices are %d bytes", len(text))
	}
}

func TestChangesAreReadAsTheyWereWritten(t *testing.T) {
	c := &timeline.Changes{Cursor: 9, Head: timeline.Head{Run: "r", Ended: timeline.None},
		Counts: timeline.Counts{Total: 3, Running: 1, Left: 1500}, Vertices: example().Vertices,
		Shortages: []timeline.Shortage{}}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var got timeline.Changes
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(&got, c) {
		t.Errorf("%s\nis read as\n%+v\nand not as\n%+v", text, got, *c)
	}
}

func BenchmarkAPieceOfAHundredThousandIsWritten(b *testing.B) {
	recorder := timeline.NewRecorder(timeline.Head{Run: "r", Ended: timeline.None})
	for i := range 100_000 {
		v := timeline.Vertex{Number: i, Module: fmt.Sprintf("module.zone[%d]", i/500), Type: "fleet_vm", Action: "create",
			Status: timeline.Done, Pool: "default", Worker: fmt.Sprint("worker-", i%10), Attempt: "01ARZ3NDEKTSV4RRFFQ69G5FAV",
			Attempts: 1, Ready: int64(i), Started: int64(i + 20), Ended: int64(i + 900), Took: 850,
			After: []int{max(0, i-100)}, Waits: []timeline.Wait{{Kind: timeline.ForPermit, Name: "quota", From: int64(i),
				To: int64(i + 20)}}}
		v.Address = fmt.Sprintf("%s.fleet_vm.node[%d]", v.Module, i%500)
		recorder.Add(v)
	}
	for name, piece := range map[string]timeline.Piece{"shape": timeline.Shape, "story": timeline.Story} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var size counter
				if err := recorder.Write(&size, piece, 0); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(size), "bytes")
			}
		})
	}
}

type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
