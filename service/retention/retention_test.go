package retention_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/variables"
)

// files counts the files below a directory of the service.
func files(t *testing.T, h *servicetest.Harness, dir string) int {
	t.Helper()
	all, err := os.ReadDir(filepath.Join(h.Dir(), dir))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return len(all)
}

// Nothing was ever deleted, so that the disk of a service got full.
func TestWhatIsOverGoesAndNothingThatIsReferredTo(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	var all []*record.Run
	for range 6 {
		r := h.NewRun(w, func(r *record.Run) { r.AutoApply = true })
		h.Await(r.ID, record.Applied)
		all = append(all, r)
	}
	waiting := h.NewRun(w, nil)
	h.Await(waiting.ID, record.Planned)
	h.End()
	h.Retention = record.Retention{Runs: 2, States: 3, For: 30 * time.Hour}
	h.Start()
	if err := h.Service.Retention.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := files(t, h, "configurations"); n != 7 {
		t.Errorf("before the retention period ended, %d of 7 configurations are left", n)
	}
	h.Later(31 * time.Hour)
	if err := h.Service.Retention.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, r := range all {
		_, err := h.Runs.Find(h.Admin, r.ID)
		if gone := errors.Is(err, tables.ErrNotFound); gone != (i < 4) {
			t.Errorf("run %d: %v", i, err)
		}
	}
	v, err := h.Runs.Find(h.Admin, waiting.ID)
	if err != nil || v.Status != record.Planned {
		t.Errorf("the waiting run: %v, %v", v, err)
	}
	if _, err := h.States.Current(h.Admin, w.ID); err != nil {
		t.Errorf("the current state: %v", err)
	}
	// Two ended runs and the waiting one; three versions. The sweep at the start of the service may have removed the
	// records, and be about to remove the files.
	again, over := time.NewTicker(10*time.Millisecond), time.After(10*time.Second)
	defer again.Stop()
	for {
		c, p, s := files(t, h, "configurations"), files(t, h, "plans"), files(t, h, "states")
		if c == 3 && p >= 9 && p <= 12 && s >= 3 && s <= 6 {
			break
		}
		select {
		case <-again.C:
			continue
		case <-over:
			t.Errorf("%d configurations, %d files of plans, %d of states are left", c, p, s)
		}
		break
	}
	if err := h.Runs.Confirm(h.Admin, waiting.ID, ""); err != nil {
		t.Fatal(err)
	}
	h.Await(waiting.ID, record.Applied)
}

// The retention could only be set for the whole service, so the workspace with the longest one determined it for all.
func TestAWorkspaceHasARetentionOfItsOwn(t *testing.T) {
	h := servicetest.New(t)
	left := func(w *service.WorkspaceView) int {
		t.Helper()
		all, err := h.Runs.List(h.Admin, w.ID, 100)
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	retain := func(w *service.WorkspaceView, r *record.Retention) {
		t.Helper()
		if _, err := h.Workspaces.Change(h.Admin, w.ID, service.WorkspaceSettings{Retention: &r}); err != nil {
			t.Fatal(err)
		}
	}
	own, all, standard := h.NewWorkspace("own"), h.NewWorkspace("all"), h.NewWorkspace("standard")
	for _, w := range []*service.WorkspaceView{own, all, standard} {
		for range 4 {
			h.Await(h.NewRun(w, func(r *record.Run) { r.AutoApply = true }).ID, record.Applied)
		}
	}
	retain(own, &record.Retention{Runs: 1})
	h.Later(time.Second)
	if err := h.Service.Retention.Sweep(t.Context()); err != nil { // the service keeps everything
		t.Fatal(err)
	}
	if a, b, c := left(own), left(all), left(standard); a != 1 || b != 4 || c != 4 {
		t.Errorf("%d, %d and %d runs are left", a, b, c)
	}
	retain(all, &record.Retention{})
	h.End()
	h.Retention = record.Retention{Runs: 3}
	h.Start()
	h.Later(time.Second)
	if err := h.Service.Retention.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a, b, c := left(own), left(all), left(standard); a != 1 || b != 4 || c != 3 {
		t.Errorf("with a retention of the service %d, %d and %d runs are left", a, b, c)
	}
	retain(all, nil)
	if err := h.Service.Retention.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := left(all); n != 3 {
		t.Errorf("%d runs are left", n)
	}
}

// The file of the records never became smaller: bbolt does not return space to the file system.
func TestTheFileOfTheRecordsGetsSmallerWhenRecordsGo(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	long := strings.Repeat("x", 200_000)
	var ids []string
	for i := range 60 {
		v, err := h.Variables.Put(h.Admin, w.ID, "", variables.Settings{Key: servicetest.Ptr(fmt.Sprintf("k%d", i)),
			Value: &long})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, v.ID)
	}
	size := func() int64 {
		info, err := os.Stat(filepath.Join(h.Dir(), "service.db"))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	h.End()
	h.Start()
	full := size()
	for _, id := range ids[1:] {
		if err := h.Variables.Delete(h.Admin, w.ID, id); err != nil {
			t.Fatal(err)
		}
	}
	h.End()
	h.Start()
	if now := size(); now > full/4 {
		t.Errorf("the file had %d bytes, and now has %d", full, now)
	}
	left, err := h.Variables.List(h.Admin, w.ID)
	if err != nil || len(left) != 1 || left[0].ID != ids[0] {
		t.Errorf("%d variables are left, %v", len(left), err)
	}
	if _, err := store.Open(h.Dir(), nil); !errors.Is(err, store.ErrHeld) {
		t.Errorf("another process opens the store: %v", err)
	}
	if r := h.NewRun(w, nil); r.Number != 1 { // sequences are kept as well
		t.Errorf("the first run has the number %d", r.Number)
	}
}
