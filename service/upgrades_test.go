package service_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/state/features"
	"github.com/millipede-iac/millipede/wire"
)

func TestAnUpgradeIsFinishedOnlyWhenNoOlderWorkerIsAlive(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("net")
	r := h.NewRun(w, nil)
	h.Await(r.ID, record.Planned)
	old := service.Worker{Name: "w1", Pool: "eu", Version: "0.0.9", Speaks: wire.Versions{Lowest: 4, Highest: 5},
		Older: true}
	dead := old
	dead.Name, dead.Silent = "w0", true
	h.Capacity.All = []service.Worker{dead, old}
	facts, err := h.Upgrades.Facts(t.Context(), h.Admin)
	if err != nil {
		t.Fatal(err)
	}
	if len(facts.Workers) != 1 || facts.Workers[0] != (service.UpgradeWorker{Name: "w1", Pool: "eu", Version: "0.0.9",
		Lowest: 4, Highest: 5}) {
		t.Errorf("it names the workers %+v", facts.Workers)
	}
	if len(facts.Runs) != 1 || facts.Runs[0].Run != r.ID || facts.Runs[0].Status != record.Planned {
		t.Errorf("it names the runs %+v", facts.Runs)
	}
	if facts.Features.Level != features.Own().Newest || facts.Levels != features.Own() {
		t.Errorf("it has %+v, and knows %+v", facts.Features, facts.Levels)
	}
	if _, err := h.Upgrades.Finish(t.Context(), h.Admin); !errors.Is(err, tables.ErrConflict) ||
		!strings.Contains(err.Error(), "w1 of pool eu (Millipede 0.0.9)") || strings.Contains(err.Error(), "w0") {
		t.Errorf("with an older worker: %v", err)
	}
	h.Capacity.All = []service.Worker{dead}
	if _, err := h.Upgrades.Finish(t.Context(), h.Admin); err != nil {
		t.Errorf("without one: %v", err)
	}
	nobody := &rights.Actor{}
	if _, err := h.Upgrades.Facts(t.Context(), nobody); !errors.Is(err, tables.ErrForbidden) {
		t.Errorf("somebody asks: %v", err)
	}
	if _, err := h.Upgrades.Finish(t.Context(), nobody); !errors.Is(err, tables.ErrForbidden) {
		t.Errorf("somebody finishes: %v", err)
	}
}
