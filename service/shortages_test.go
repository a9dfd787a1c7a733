package service_test

import (
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/events"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
)

// awaitEvent reads the stream until it finds an event of the given kind about a run.
func awaitEvent(t *testing.T, h *servicetest.Harness, at events.Cursor, kind events.Kind, run string) {
	t.Helper()
	for {
		b, err := h.Stream().Read(t.Context(), at, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range b.Events {
			if e.Kind == kind && e.Run == run {
				return
			}
		}
		at = b.Next
	}
}

// The service reported that a run waits for nothing if the run was in progress and its operations waited for a limit or
// a pool.
func TestARunInProgressSaysWhichLimitsAndPoolsItWaitsForAndWhoHoldsThem(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	begun := time.UnixMilli(1_700_000_000_000).UTC()
	recorder := timeline.NewRecorder(timeline.Head{Begun: begun.UnixMilli(), Ended: timeline.None})
	goOn := make(chan struct{})
	watched(h, recorder, goOn)
	since := begun.Add(-time.Hour)
	h.Capacity.Has = []service.Limit{
		{Name: "quota", Slots: 3, Held: []service.Permit{{Run: "engine-run", Since: since.Add(time.Minute)},
			{Run: "elsewhere", Since: since}, {Run: "engine-run", Since: since}}},
		{Name: "pool/eu", Pool: "eu", Sized: true, Slots: 8, Held: []service.Permit{{Run: "elsewhere"}}},
	}
	at := h.Stream().Now()
	r := h.NewRun(w, func(r *record.Run) { r.AutoApply = true })
	awaitEvent(t, h, at, events.TimelineBegun, r.ID)
	if wait, err := h.Runs.Waits(t.Context(), h.Admin, r.ID); err != nil || wait.Kind != "" {
		t.Errorf("the run waits for %+v, %v", wait, err)
	}
	lack := func(list ...timeline.Shortage) {
		at = h.Stream().Now()
		recorder.Note(func(_ *timeline.Head, _ *int64, s *[]timeline.Shortage) { *s = list })
		awaitEvent(t, h, at, events.ShortageChanged, r.ID)
	}
	lack(timeline.Shortage{Kind: "permit", Name: "quota", Since: 5000, Vertices: 1, Example: "a.b", Slots: 3},
		timeline.Shortage{Kind: "place", Name: "eu", Since: 2000, Vertices: 7},
		timeline.Shortage{Kind: "worker", Name: "us", Since: 9000, Vertices: 2})
	wait, err := h.Runs.Waits(t.Context(), h.Admin, r.ID)
	if err != nil || wait.Kind != "permit" || wait.On != "quota" || !wait.Since.Equal(begun.Add(2*time.Second)) ||
		wait.Text != "1 operation waits for a permit of the limit quota; 7 operations wait for a slot in the pool eu, "+
			"which is full; 2 operations wait for a worker of the pool us, which has none" || len(wait.Shortages) != 3 {
		t.Fatalf("the run waits for %+v, %v", wait, err)
	}
	held := service.Holders(wait.Shortages[0].Held)
	if len(held) != 2 || held[0].Of == nil || held[0].Of.ID != r.ID || held[0].Permits != 2 ||
		!held[0].Since.Equal(since) || held[1].Of != nil || held[1].Permits != 1 {
		t.Errorf("the limit is held by %+v", held)
	}
	if x := wait.Shortages[1]; x.Slots != 8 || len(x.Held) != 1 {
		t.Errorf("the wait for the pool is %+v", x)
	}
	if x := wait.Shortages[2]; x.Name != "us" || len(x.Held) != 0 || !x.Since.Equal(begun.Add(9*time.Second)) {
		t.Errorf("the wait for workers is %+v", x)
	}
	lack()
	if wait, err := h.Runs.Waits(t.Context(), h.Admin, r.ID); err != nil || wait.Kind != "" {
		t.Errorf("the run continues, but waits for %+v, %v", wait, err)
	}
	close(goOn)
	h.Await(r.ID, record.Applied)
}
