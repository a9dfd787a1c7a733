package variables

import (
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/work"
)

// Given has the variables for a run, with their values.
type Given struct {
	Values  []work.Value
	Environ []string // as NAME=value
	Secrets []string // the values of sensitive variables of both categories
}

// ForRun returns the variables of a run. Those of the run take precedence over those of the workspace, and sets
// with priority over both.
func ForRun(tx *store.Tx, w *record.Workspace, r *record.Run) (*Given, error) {
	parents, err := sources(tx, w)
	if err != nil {
		return nil, err
	}
	return collect(tx, w, r, parents)
}

// sources returns the IDs that the variables of a workspace belong to, from the lowest precedence to the highest:
// global sets, sets of the project, sets of the workspace, the workspace, sets with priority.
func sources(tx *store.Tx, w *record.Workspace) ([]string, error) {
	sets, err := tables.VariableSets.Select(tx, "organization", strings.ToLower(w.Organization))
	if err != nil {
		return nil, err
	}
	rank := func(v *record.VariableSet) int {
		switch {
		case v.Priority:
			return 4
		case slices.Contains(v.Workspaces, w.ID):
			return 2
		case slices.Contains(v.Projects, w.Project):
			return 1
		}
		return 0
	}
	// Among sets of the same rank, the first one by name takes precedence.
	slices.SortStableFunc(sets, func(x, y *record.VariableSet) int {
		if d := rank(x) - rank(y); d != 0 {
			return d
		}
		return strings.Compare(y.Name, x.Name)
	})
	var parents []string
	own := false
	for _, set := range sets {
		if !set.Concerns(w) {
			continue
		}
		if rank(set) == 4 && !own {
			parents, own = append(parents, w.ID), true
		}
		parents = append(parents, set.ID)
	}
	if !own {
		parents = append(parents, w.ID)
	}
	return parents, nil
}

// collect reads the variables of the parents; later parents take precedence.
func collect(tx *store.Tx, w *record.Workspace, r *record.Run, parents []string) (*Given, error) {
	out := &Given{}
	inputs, env := map[string]work.Value{}, map[string]string{}
	ran := false
	run := func() {
		if ran = true; r != nil {
			for _, v := range r.Variables {
				inputs[v.Key] = work.Value{Name: v.Key, Text: v.Value, HCL: true, Run: true}
			}
		}
	}
	for _, parent := range parents {
		all, err := tables.Variables.Select(tx, "parent", parent)
		if err != nil {
			return nil, err
		}
		for _, v := range all {
			if v.Sensitive {
				out.Secrets = append(out.Secrets, v.Value)
			}
			if v.Category == record.CategoryEnv {
				env[v.Key] = v.Value
				continue
			}
			// Variables of the run, and those with a higher precedence, override the files too.
			inputs[v.Key] = work.Value{Name: v.Key, Text: v.Value, HCL: v.HCL, Sensitive: v.Sensitive, Run: ran}
		}
		if parent == w.ID {
			run()
		}
	}
	for _, v := range inputs {
		out.Values = append(out.Values, v)
	}
	slices.SortFunc(out.Values, func(x, y work.Value) int { return strings.Compare(x.Name, y.Name) })
	for k, v := range env {
		out.Environ = append(out.Environ, k+"="+v)
	}
	slices.Sort(out.Environ)
	return out, nil
}
