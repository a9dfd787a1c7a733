package variables_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/variables"
	"github.com/millipede-iac/millipede/service/work"
)

func TestSensitiveVariablesAreNeverReadBack(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	v, err := h.Variables.Put(h.Admin, w.ID, "", variables.Settings{Key: servicetest.Ptr("secret"),
		Value: servicetest.Ptr("canary"), Sensitive: servicetest.Ptr(true)})
	if err != nil || v.Value != "" {
		t.Fatalf("%+v, %v", v, err)
	}
	if v, err = h.Variables.Put(h.Admin, w.ID, v.ID,
		variables.Settings{Description: servicetest.Ptr("d")}); err != nil || v.Value != "" {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := h.Variables.Put(h.Admin, w.ID, v.ID,
		variables.Settings{Sensitive: servicetest.Ptr(false)}); !errors.Is(err, tables.ErrInvalid) {
		t.Errorf("making a sensitive variable readable: %v", err)
	}
	var got []work.Value
	done := make(chan struct{})
	h.Engine.PlanFunc = nil
	h.Engine.ApplyFunc = nil
	h.Engine.PlanFunc = servicetest.PlanThen(func(j *work.Job) { got = j.Variables; close(done) })
	h.NewRun(w, nil)
	<-done
	if len(got) != 1 || got[0].Text != "canary" || !got[0].Sensitive {
		t.Errorf("the run got %+v", got)
	}
}

func TestTheLastVariableWins(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	set := func(parent, value, category string) {
		t.Helper()
		for _, key := range []string{"all", parent[:4]} {
			if _, err := h.Variables.Put(h.Admin, parent, "", variables.Settings{Key: &key, Value: &value,
				Category: &category}); err != nil {
				t.Fatal(err)
			}
		}
	}
	global, err := h.VariableSets.Create(h.Admin, record.VariableSet{Organization: "acme", Name: "global", Global: true})
	if err != nil {
		t.Fatal(err)
	}
	own, err := h.VariableSets.Create(h.Admin, record.VariableSet{Organization: "acme", Name: "own"})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.VariableSets.Assign(h.Admin, own.ID, []string{w.ID}, nil, false); err != nil {
		t.Fatal(err)
	}
	results := make(chan *work.Job, 1)
	h.Engine.PlanFunc = servicetest.PlanThen(func(j *work.Job) { results <- j })
	check := func(who, all, env string, change func(*record.Run)) {
		t.Helper()
		r := h.NewRun(w, change)
		j := <-results
		text := ""
		for _, v := range j.Variables {
			if v.Name == "all" {
				text = v.Text
			}
		}
		if text != all || !strings.Contains(strings.Join(j.Environment, " "), env) {
			t.Errorf("%s: %q, %v", who, text, j.Environment)
		}
		h.Await(r.ID, record.Planned)
		if err := h.Runs.Discard(h.Admin, r.ID, ""); err != nil {
			t.Fatal(err)
		}
	}
	set(global.ID, "from global", "terraform")
	set(global.ID, "from global", "env")
	check("a global set", "from global", "all=from global", nil)
	set(own.ID, "from own", "terraform")
	check("a set of the workspace", "from own", "all=from global", nil)
	set(w.ID, "from workspace", "terraform")
	set(w.ID, "from workspace", "env")
	check("the workspace", "from workspace", "all=from workspace", nil)
	check("the run", `"from run"`, "",
		func(r *record.Run) { r.Variables = []record.Argument{{Key: "all", Value: `"from run"`}} })
	if _, err := h.VariableSets.Change(h.Admin, global.ID, func(v *record.VariableSet) error {
		v.Priority = true
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	check("a set with priority", "from global", "all=from global", func(r *record.Run) {
		r.Variables = []record.Argument{{Key: "all", Value: `"from run"`}}
	})
}
