package layout

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/millipede-iac/millipede/coordinator/timeline"
)

type nothing struct{}

func (nothing) CopyTo(context.Context, string) error { return nil }

func TestARunIsWatchedFromBeforeItsBeginToItsEnd(t *testing.T) {
	home := Home{path: t.TempDir()}
	if err := home.Watch(t.Context(), nil); !errors.Is(err, ErrNobody) {
		t.Errorf("without a server, the error is %v", err)
	}
	s, err := home.Serve(nothing{}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	recorder := timeline.NewRecorder(timeline.Head{Run: "r1", Ended: timeline.None})
	recorder.Add(timeline.Vertex{Number: 3, Address: "a.b", Status: timeline.Waiting, Ready: timeline.None})
	var model timeline.Model
	var changes []string
	watched := make(chan error, 1)
	seen := make(chan struct{}, 100)
	go func() { // awaited below
		watched <- home.Watch(t.Context(), func(line []byte) error {
			defer func() { seen <- struct{}{} }()
			if model.Head.Run == "" {
				return json.Unmarshal(line, &model)
			}
			changes = append(changes, string(line))
			return nil
		})
	}()
	s.Watched(recorder)
	<-seen
	recorder.Update(3, func(v *timeline.Vertex) { v.Status = timeline.Done })
	<-seen
	recorder.Note(func(h *timeline.Head, _ *int64, _ *[]timeline.Shortage) { h.Outcome = "done" })
	if err := s.Close(); err != nil { // it is about to end: the outcome is told all the same
		t.Error(err)
	}
	if err := <-watched; err != nil {
		t.Error(err)
	}
	if len(model.Vertices) != 1 || model.Vertices[0].Address != "a.b" {
		t.Errorf("the model is %+v", model)
	}
	var last struct {
		Head     timeline.Head
		Vertices []struct{ Status string }
	}
	if len(changes) == 0 {
		t.Fatal("no change was reported")
	}
	if err := json.Unmarshal([]byte(changes[len(changes)-1]), &last); err != nil || last.Head.Outcome != "done" {
		t.Errorf("the last line is %s (%v)", changes[len(changes)-1], err)
	}
}
