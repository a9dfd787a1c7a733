package service_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
)

func TestTheRunsOfAnOrganizationAreItsNewestOfAllWorkspaces(t *testing.T) {
	h := servicetest.New(t)
	var all []string
	for i := range 3 {
		w := h.NewWorkspace("w" + strconv.Itoa(i))
		configuration := h.NewConfiguration(w, true)
		for range 4 - i { // the first has the most, and the oldest
			r := h.NewRun(w, func(r *record.Run) { r.Configuration, r.Message = configuration, strconv.Itoa(len(all)) })
			h.Await(r.ID, record.PlannedAndFinished)
			all = append(all, r.ID)
		}
	}
	older := h.NewWorkspace("a") // its name comes first
	all = append(all, h.NewRun(older, nil).ID)
	slices.Reverse(all)
	for _, limit := range []int{0, 1, 3, len(all), 100} {
		got, err := h.Runs.OfOrganization(h.Admin, "acme", limit)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, v := range got {
			ids = append(ids, v.ID)
		}
		if !slices.Equal(ids, all[:min(limit, len(all))]) {
			t.Errorf("with the limit %d the runs are %q, of %q", limit, ids, all)
		}
	}
}
