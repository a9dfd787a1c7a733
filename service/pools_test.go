package service_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/work"
)

// watched is an engine whose apply shows a timeline, and continues when the test permits it.
func watched(h *servicetest.Harness, recorder *timeline.Recorder, goOn chan struct{}) {
	h.Engine.ApplyFunc = func(ctx context.Context, j *work.Job) (*work.ApplyResult, error) {
		j.Watched(recorder, "engine-run")
		select {
		case <-goOn:
		case <-ctx.Done():
			return nil, work.ErrStopped
		}
		return &work.ApplyResult{}, nil
	}
}

func TestWhoHoldsAPermitIsToldToThoseWhoMaySeeTheRun(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	goOn := make(chan struct{})
	begun := time.UnixMilli(1_700_000_000_000)
	recorder := timeline.NewRecorder(timeline.Head{Begun: begun.UnixMilli(), Ended: timeline.None})
	for i, wait := range []timeline.Wait{{Kind: timeline.ForPermit, Name: "quota", From: 900},
		{Kind: timeline.ForPermit, Name: "quota", From: 500}, {Kind: timeline.ForPlace, Name: "quota", From: 100}} {
		recorder.Add(timeline.Vertex{Number: i, Status: timeline.Queued, Waits: []timeline.Wait{
			{Kind: timeline.ForPermit, Name: "quota", To: wait.From}, wait}})
	}
	recorder.Add(timeline.Vertex{Number: 3, Status: timeline.Done, Waits: []timeline.Wait{{Kind: timeline.ForPermit,
		Name: "quota", To: 5}}})
	watched(h, recorder, goOn)
	h.Capacity.Has = []service.Limit{{Name: "quota", Slots: 2,
		Held: []service.Permit{{Run: "engine-run", Since: time.Now()},
			{Run: "elsewhere"}}}}
	r := h.NewRun(w, func(r *record.Run) { r.AutoApply = true })
	at := h.Stream().Now()
	for h.Await(r.ID, record.Applying); ; {
		limits, err := h.Pools.Limits(t.Context(), h.Admin)
		if err != nil {
			t.Fatal(err)
		}
		held, queued := limits[0].Held, limits[0].Queued
		if held[0].Of != nil && held[0].Of.ID == r.ID && held[1].Of == nil {
			if len(queued) != 1 || queued[0].Of.ID != r.ID || queued[0].Operations != 2 ||
				!queued[0].Since.Equal(begun.Add(500*time.Millisecond)) {
				t.Errorf("the waiting operations are %+v", queued)
			}
			break
		}
		b, err := h.Stream().Read(t.Context(), at, nil) // the engine has not shown its recorder yet
		if err != nil {
			t.Fatal(err)
		}
		at = b.Next
	}
	u, err := h.Users.Create(h.Admin, "eve", "", false)
	if err != nil {
		t.Fatal(err)
	}
	token, err := h.Logins.IssueSession(u.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	limits, err := h.Pools.Limits(t.Context(), h.Actor(token))
	if err != nil || limits[0].Held[0].Of != nil || len(limits[0].Queued) > 0 {
		t.Errorf("somebody without permissions reads the limits: %+v, %v", limits, err)
	}
	if err := h.Pools.ResizeLimit(t.Context(), h.Actor(token), "quota", 5); !errors.Is(err, tables.ErrForbidden) {
		t.Errorf("somebody without permissions changes a limit: %v", err)
	}
	if err := h.Pools.ResizeLimit(t.Context(), h.Admin, "quota", 0); !errors.Is(err, tables.ErrInvalid) {
		t.Errorf("a limit without permits: %v", err)
	}
	if err := h.Pools.ResizeLimit(t.Context(), h.Admin, "quota", 5); err != nil || h.Capacity.Has[0].Slots != 5 {
		t.Errorf("%v, %+v", err, h.Capacity.Has)
	}
	if lines, err := h.Audit.Latest(h.Admin, 1); err != nil || lines[0].Action != "limit.resize" ||
		lines[0].Outcome != "done" {
		t.Errorf("%+v, %v", lines, err)
	}
	close(goOn)
	h.Await(r.ID, record.Applied)
}

func TestTheTimelineOfAPhaseIsFollowedAndKept(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	goOn := make(chan struct{})
	recorder := timeline.NewRecorder(timeline.Head{Ended: timeline.None})
	watched(h, recorder, goOn)
	r := h.NewRun(w, func(r *record.Run) { r.AutoApply = true })
	at := h.Stream().Now()
	v := h.Await(r.ID, record.Applying)
	reader, err := h.Timelines.Follow(h.Admin, v.Apply.ID)
	for err == nil && reader == nil {
		b, readErr := h.Stream().Read(t.Context(), at, nil)
		if readErr != nil {
			t.Fatal(readErr)
		}
		at = b.Next
		reader, err = h.Timelines.Follow(h.Admin, v.Apply.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	recorder.Add(timeline.Vertex{Number: 1, Address: "fleet_vm.a", Status: timeline.Failed, Failure: "no room"})
	recorder.Add(timeline.Vertex{Number: 2, Address: "fleet_vm.b", Status: timeline.Skipped, Because: "fleet_vm.a"})
	c, over, err := reader.Next(t.Context(), 0)
	if err != nil || over || len(c.Vertices) != 2 {
		t.Fatalf("%+v, %t, %v", c, over, err)
	}
	for i := range 6000 { // as many as have an outline
		recorder.Add(timeline.Vertex{Number: 3 + i, Address: fmt.Sprintf("fleet_vm.c[%d]", i), Status: timeline.Done})
	}
	recorder.Note(func(h *timeline.Head, _ *int64, _ *[]timeline.Shortage) { h.Ended, h.Outcome = 5, "failed" })
	if _, over, err := reader.Next(t.Context(), c.Cursor); err != nil || !over {
		t.Errorf("the end of the timeline: %t, %v", over, err)
	}
	close(goOn)
	h.Await(r.ID, record.Applied)
	failures, more, err := h.Timelines.Failures(h.Admin, r.ID)
	if err != nil || more != 0 || len(failures) != 1 || failures[0].Text != "no room" ||
		len(failures[0].Skipped) != 1 || failures[0].Skipped[0] != "fleet_vm.b" {
		t.Errorf("%+v, %d, %v", failures, more, err)
	}
	for _, piece := range []timeline.Piece{timeline.Shape, timeline.Story, timeline.Outline} {
		write, live, err := h.Timelines.Read(h.Admin, v.Apply.ID, piece)
		if err != nil || live {
			t.Fatalf("%t, %v", live, err)
		}
		var kept, now bytes.Buffer
		if err := errors.Join(write(&kept), recorder.Write(&now, piece, 0)); err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(kept.String()) != strings.TrimSpace(now.String()) {
			t.Errorf("the piece %d was stored as\n%.500s\nbut was sent as\n%.500s", piece, &kept, &now)
		}
	}
}

func TestOperationsOfARunThatWasLeftAreInDoubt(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	recorder := timeline.NewRecorder(timeline.Head{Ended: timeline.None})
	recorder.Add(timeline.Vertex{Number: 1, Address: "fleet_vm.a", Status: timeline.Running, Worker: "w1"})
	recorder.Add(timeline.Vertex{Number: 2, Address: "fleet_vm.b", Status: timeline.Done})
	watched(h, recorder, nil)
	r := h.NewRun(w, func(r *record.Run) { r.AutoApply = true })
	h.Await(r.ID, record.Applying)
	if err := h.Runs.Cancel(h.Admin, r.ID, ""); err != nil {
		t.Fatal(err)
	}
	for {
		err := h.Runs.ForceCancel(h.Admin, r.ID, "")
		if err == nil {
			break
		}
		if !errors.Is(err, tables.ErrConflict) {
			t.Fatal(err)
		}
	}
	h.Await(r.ID, record.ForceCanceled)
	all, err := h.Doubts.OfOrganization(h.Admin, "acme")
	if err != nil || len(all) != 1 || len(all[0].Operations) != 1 || all[0].Operations[0].Address != "fleet_vm.a" {
		t.Errorf("%+v, %v", all, err)
	}
	if v, err := h.Workspaces.OverviewOf(h.Admin, w.ID); err != nil || v.Attention != service.HasDoubts {
		t.Errorf("%+v, %v", v, err)
	}
}
