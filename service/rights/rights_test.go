package rights_test

import (
	"errors"
	"testing"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/variables"
)

func TestNobodySeesWhatIsNotTheirs(t *testing.T) {
	h := servicetest.New(t)
	mine, other := h.NewWorkspace("mine"), h.NewWorkspace("other")
	a := h.Member("ann", "write", mine.ID)
	for what, try := range map[string]func() error{
		"the workspace": func() error { _, err := h.Workspaces.Find(a, other.ID); return err },
		"by its name":   func() error { _, err := h.Workspaces.Named(a, "acme", "other"); return err },
		"its variables": func() error { _, err := h.Variables.List(a, other.ID); return err },
		"its runs":      func() error { _, err := h.Runs.List(a, other.ID, 1); return err },
		"its state":     func() error { _, err := h.States.Current(a, other.ID); return err },
		"its lock":      func() error { _, err := h.Workspaces.Lock(a, other.ID, ""); return err },
		"a run":         func() error { _, err := h.Runs.Create(a, other.ID, record.Run{}); return err },
		"its deletion":  func() error { return h.Workspaces.Delete(a, other.ID, false) },
	} {
		if err := try(); !errors.Is(err, tables.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	all, err := h.Workspaces.List(a, "acme", service.WorkspaceFilter{})
	if err != nil || len(all) != 1 || all[0].ID != mine.ID {
		t.Errorf("the list has %d, %v", len(all), err)
	}
	if _, err := h.Workspaces.Create(a, "acme", service.WorkspaceSettings{Name: servicetest.Ptr("new")}); !errors.Is(err,
		tables.ErrForbidden) {
		t.Errorf("a new workspace: %v", err)
	}
	if _, err := h.Organizations.Find(a, "nosuch"); !errors.Is(err, tables.ErrNotFound) {
		t.Errorf("another organization: %v", err)
	}
}

func TestARoleAllowsWhatItSaysAndNoMore(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	r := h.NewRun(w, nil)
	h.Await(r.ID, record.Planned)
	reader, planner, writer := h.Member("reader", "read", w.ID), h.Member("planner", "plan", w.ID),
		h.Member("writer", "write", w.ID)
	attempts := []struct {
		what  string
		try   func(*rights.Actor) error
		needs string
	}{
		{"read a run", func(a *rights.Actor) error { _, err := h.Runs.Find(a, r.ID); return err }, "read"},
		{"read variables", func(a *rights.Actor) error { _, err := h.Variables.List(a, w.ID); return err }, "read"},
		{"queue a run", func(a *rights.Actor) error {
			_,
				err := h.Runs.Create(a, w.ID, record.Run{Refresh: true})
			return err
		}, "plan"},
		{"queue one that applies by itself", func(a *rights.Actor) error {
			_, err := h.Runs.Create(a, w.ID, record.Run{Refresh: true, AutoApply: true})
			return err
		}, "write"},
		{"set a variable", func(a *rights.Actor) error {
			_, err := h.Variables.Put(a, w.ID, "", variables.Settings{Key: servicetest.Ptr("k" + a.User.Name)})
			return err
		}, "write"},
		{"delete the workspace", func(a *rights.Actor) error { return h.Workspaces.Delete(a, w.ID, true) }, "admin"},
		{"change settings", func(a *rights.Actor) error {
			_, err := h.Workspaces.Change(a, w.ID, service.WorkspaceSettings{AutoApply: servicetest.Ptr(true)})
			return err
		}, "admin"},
		{"grant access", func(a *rights.Actor) error {
			_, err := h.TeamAccess.Create(a, record.Access{Team: "team-x", On: w.ID, Role: "admin"})
			return err
		}, "admin"},
		{"confirm", func(a *rights.Actor) error { return h.Runs.Confirm(a, r.ID, "") }, "write"},
	}
	rank := map[string]int{"read": 0, "plan": 1, "write": 2, "admin": 3}
	for role, a := range map[string]*rights.Actor{"read": reader, "plan": planner, "write": writer} {
		for _, try := range attempts {
			err := try.try(a)
			if allowed := rank[role] >= rank[try.needs]; allowed == errors.Is(err, tables.ErrForbidden) {
				t.Errorf("%s may %s: %v", role, try.what, err)
			}
		}
	}
}

// Every member of an organization could read all of its variable sets, projects and teams: a token for one workspace
// could read the variables of others, and the members of a secret team.
func TestWhoHasOneWorkspaceReadsNothingThatBelongsToOthers(t *testing.T) {
	h := servicetest.New(t)
	other := must(h.Projects.Create(h.Admin, record.Project{Organization: "acme", Name: "other"}))
	theirs := must(h.Workspaces.Create(h.Admin, "acme", service.WorkspaceSettings{
		Name: servicetest.Ptr("theirs"), Project: &other.ID,
	}))
	mine := h.NewWorkspace("mine")
	a := h.Member("ann", "write", mine.ID)
	set := func(name string, workspaces, projects []string, global bool) *record.VariableSet {
		return must(h.VariableSets.Create(h.Admin, record.VariableSet{
			Organization: "acme", Name: name, Workspaces: workspaces, Projects: projects, Global: global,
		}))
	}
	for set, reads := range map[*record.VariableSet]bool{
		set("of theirs", []string{theirs.ID}, nil, false):       false,
		set("of their project", nil, []string{other.ID}, false): false,
		set("of nobody", nil, nil, false):                       false,
		set("of mine", []string{mine.ID}, nil, false):           true,
		set("of everybody", nil, nil, true):                     true,
	} {
		_, err := h.Variables.List(a, set.ID)
		_, err2 := h.VariableSets.Find(a, set.ID)
		if errors.Is(err, tables.ErrNotFound) == reads || errors.Is(err2, tables.ErrNotFound) == reads {
			t.Errorf("the set %s: %v, %v", set.Name, err, err2)
		}
	}
	if all := must(h.VariableSets.List(a, "acme", "")); len(all) != 2 {
		t.Errorf("%d sets are listed", len(all))
	}
	if all := must(h.Projects.List(a, "acme")); len(all) != 1 || all[0].ID == other.ID {
		t.Errorf("%d projects are listed", len(all))
	}
	if _, err := h.Projects.Find(a, other.ID); !errors.Is(err, tables.ErrNotFound) {
		t.Errorf("reading the project of others: %v", err)
	}
	secret := must(h.Teams.Create(h.Admin, record.Team{Organization: "acme", Name: "secret"}))
	if _, err := h.Teams.Find(a, secret.ID); !errors.Is(err, tables.ErrNotFound) {
		t.Errorf("reading a secret team: %v", err)
	}
	if all := must(h.Teams.List(a, "acme")); len(all) != 2 { // her own, and the owners
		t.Errorf("%d teams are listed", len(all))
	}
}

// must returns a value of a call that cannot fail in a test.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
