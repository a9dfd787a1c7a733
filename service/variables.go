package service

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/millipede-iac/millipede/service/audit"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/work"
)

// Variables are the variables of workspaces and of variable sets.
type Variables struct {
	store *store.Store
	audit *audit.Log
}

// newVariables returns the variables in a store.
func newVariables(st *store.Store, l *audit.Log) *Variables { return &Variables{st, l} }

// List returns the variables of a workspace or of a variable set. The values of sensitive variables are
// empty.
func (s *Variables) List(a *rights.Actor, parent string) (out []*record.Variable, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if err := a.MayVariables(tx, parent, rights.ReadVariables); err != nil {
			return err
		}
		out, err = tables.Variables.Select(tx, "parent", parent)
		for _, v := range out {
			hideValue(v)
		}
		return err
	})
	return out, tables.Translated(err)
}

// Effective returns the variables of a workspace and of the sets that apply to it, without those that others
// of the same key and category take precedence over. The values of sensitive variables are empty.
func (s *Variables) Effective(a *rights.Actor, workspace string) (out []*record.Variable, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		w, err := a.Allowed(tx, workspace, rights.ReadVariables)
		if err != nil {
			return err
		}
		parents, err := sources(tx, w)
		if err != nil {
			return err
		}
		seen := map[string]bool{}
		for _, parent := range slices.Backward(parents) {
			all, err := tables.Variables.Select(tx, "parent", parent)
			if err != nil {
				return err
			}
			for _, v := range all {
				if key := store.Join(v.Category, v.Key); !seen[key] {
					seen[key] = true
					hideValue(v)
					out = append(out, v)
				}
			}
		}
		return nil
	})
	return out, tables.Translated(err)
}

func hideValue(v *record.Variable) {
	if v.Sensitive {
		v.Value = ""
	}
}

// Find returns a variable, without its value if it is sensitive.
func (s *Variables) Find(a *rights.Actor, parent, id string) (v *record.Variable, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if err := a.MayVariables(tx, parent, rights.ReadVariables); err != nil {
			return err
		}
		v, err = variableOf(tx, parent, id)
		return err
	})
	if err == nil {
		hideValue(v)
	}
	return v, tables.Translated(err)
}

func variableOf(tx *store.Tx, parent, id string) (*record.Variable, error) {
	v, err := tables.Variables.Get(tx, id)
	if err != nil || v.Parent != parent {
		return nil, tables.NotFound("there is no variable %q here", id)
	}
	return v, nil
}

// VariableSettings are the settings of a variable that can be changed. Nil fields are not changed.
type VariableSettings struct {
	Key, Value, Category, Description *string
	HCL, Sensitive                    *bool
}

func (o *VariableSettings) apply(v *record.Variable) error {
	if o.Sensitive != nil && v.Sensitive && !*o.Sensitive {
		return tables.Invalid("Sensitive variables stay sensitive: delete the variable and create a new one")
	}
	record.Set(&v.Key, o.Key)
	record.Set(&v.Value, o.Value)
	record.Set(&v.Category, o.Category)
	record.Set(&v.Description, o.Description)
	record.Set(&v.HCL, o.HCL)
	record.Set(&v.Sensitive, o.Sensitive)
	switch {
	case v.Category != record.CategoryTerraform && v.Category != record.CategoryEnv:
		return tables.Invalid("Category must be terraform or env")
	case !record.ValidKey(v.Key, v.Category):
		return tables.Invalid("Key must be letters, digits, - and _")
	case utf8.RuneCountInString(v.Description) > 512:
		return tables.Invalid("Description is too long (maximum is 512 characters)")
	case len(v.Value) > 256<<10 || strings.ContainsRune(v.Value, 0):
		return tables.Invalid("Value must have at most 256 KiB and no zero byte")
	}
	return nil
}

// Put creates a variable of a workspace or a variable set (if id is empty), or changes one.
func (s *Variables) Put(a *rights.Actor, parent, id string, o VariableSettings) (v *record.Variable, err error) {
	err = s.audit.Change(a, "variable.put", parent, func(tx *store.Tx) error {
		if err := a.MayVariables(tx, parent, rights.WriteVariables); err != nil {
			return err
		}
		v = &record.Variable{ID: tables.NewID("var"), Parent: parent, Category: record.CategoryTerraform}
		if id != "" {
			if v, err = variableOf(tx, parent, id); err != nil {
				return err
			}
		}
		if err := o.apply(v); err != nil {
			return err
		}
		v.Version = tables.Random(16)
		return tables.Variables.Put(tx, v)
	})
	if err != nil {
		return nil, err
	}
	hideValue(v)
	return v, nil
}

// Delete removes a variable.
func (s *Variables) Delete(a *rights.Actor, parent, id string) error {
	return s.audit.Change(a, "variable.delete", parent+"/"+id, func(tx *store.Tx) error {
		if err := a.MayVariables(tx, parent, rights.WriteVariables); err != nil {
			return err
		}
		if _, err := variableOf(tx, parent, id); err != nil {
			return err
		}
		return tables.Variables.Delete(tx, id)
	})
}

// VariableSets are the variables that several workspaces of an organization share.
type VariableSets struct {
	store *store.Store
	audit *audit.Log
}

// newVariableSets returns the variable sets in a store.
func newVariableSets(st *store.Store, l *audit.Log) *VariableSets { return &VariableSets{st, l} }

// List returns the variable sets of an organization; if a workspace is given, the ones that apply to
// it.
func (s *VariableSets) List(a *rights.Actor, organization, workspace string) (out []*record.VariableSet, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		var w *record.Workspace
		if workspace != "" {
			if w, err = a.Allowed(tx, workspace, rights.ReadVariables); err != nil {
				return err
			}
			organization = w.Organization
		}
		o, err := a.Organization(tx, organization)
		if err != nil {
			return err
		}
		all, err := tables.VariableSets.Select(tx, "organization", strings.ToLower(o.Name))
		for _, set := range all {
			reads, err := a.ReadsVariableSet(tx, o, set)
			if err != nil {
				return err
			}
			if reads && (w == nil || set.Concerns(w)) {
				out = append(out, set)
			}
		}
		return err
	})
	return out, tables.Translated(err)
}

// Find returns a variable set.
func (s *VariableSets) Find(a *rights.Actor, id string) (set *record.VariableSet, err error) {
	err = s.store.View(func(tx *store.Tx) error { set, _, err = a.VariableSet(tx, id); return err })
	return set, tables.Translated(err)
}

// Create creates a variable set.
func (s *VariableSets) Create(a *rights.Actor, v record.VariableSet) (*record.VariableSet, error) {
	return s.put(a, v.Name, func(tx *store.Tx) (*record.VariableSet, *record.Organization, error) {
		o, err := a.Organization(tx, v.Organization)
		if err != nil {
			return nil, nil, err
		}
		v.ID, v.Organization = tables.NewID("varset"), o.Name
		return &v, o, nil
	})
}

// Change changes a variable set. change gets the stored one, within the transaction, so that two changes at
// the same time do not undo each other.
func (s *VariableSets) Change(a *rights.Actor, id string, change func(*record.VariableSet) error) (
	*record.VariableSet, error) {
	return s.put(a, id, func(tx *store.Tx) (*record.VariableSet, *record.Organization, error) {
		v, o, err := a.VariableSet(tx, id)
		if err != nil {
			return nil, nil, err
		}
		return v, o, change(v)
	})
}

// put stores the set that make returns, with its organization, if the actor may change it.
func (s *VariableSets) put(a *rights.Actor, object string,
	make func(*store.Tx) (*record.VariableSet, *record.Organization, error)) (v *record.VariableSet, err error) {
	err = s.audit.Change(a, "varset.put", object, func(tx *store.Tx) error {
		var o *record.Organization
		if v, o, err = make(tx); err != nil {
			return err
		}
		if v.Name = strings.TrimSpace(v.Name); v.Name == "" {
			return tables.Invalid("Name can't be blank")
		}
		if !a.Manages(o, rights.ManageWorkspaces) {
			return tables.Forbidden("you are not allowed to change variable sets of %s", o.Name)
		}
		if err := within(tx, o, v.Workspaces, v.Projects); err != nil {
			return err
		}
		return tables.VariableSets.Put(tx, v)
	})
	return v, err
}

// Assign adds workspaces and projects to those that use a variable set, or removes them.
func (s *VariableSets) Assign(a *rights.Actor, id string, workspaceIDs, projectIDs []string, remove bool) error {
	return s.audit.Change(a, "varset.assign", id, func(tx *store.Tx) error {
		set, o, err := a.VariableSet(tx, id)
		if err != nil {
			return err
		}
		if !a.Manages(o, rights.ManageWorkspaces) {
			return tables.Forbidden("you are not allowed to change variable sets of %s", o.Name)
		}
		if !remove {
			if err := within(tx, o, workspaceIDs, projectIDs); err != nil {
				return err
			}
		}
		for _, w := range workspaceIDs {
			set.Workspaces = assign(set.Workspaces, w, remove)
		}
		for _, p := range projectIDs {
			set.Projects = assign(set.Projects, p, remove)
		}
		return tables.VariableSets.Put(tx, set)
	})
}

// within checks that workspaces and projects are in an organization.
func within(tx *store.Tx, o *record.Organization, workspaceIDs, projectIDs []string) error {
	for _, id := range workspaceIDs {
		if w, err := tables.Workspaces.Get(tx, id); err != nil || w.Organization != o.Name {
			return tables.NotFound("there is no workspace %q in %s", id, o.Name)
		}
	}
	for _, id := range projectIDs {
		if p, err := tables.Projects.Get(tx, id); err != nil || p.Organization != o.Name {
			return tables.NotFound("there is no project %q in %s", id, o.Name)
		}
	}
	return nil
}

func assign(all []string, id string, remove bool) []string {
	all = slices.DeleteFunc(all, func(o string) bool { return o == id })
	if remove {
		return all
	}
	return append(all, id)
}

// Delete removes a variable set with its variables.
func (s *VariableSets) Delete(a *rights.Actor, id string) error {
	return s.audit.Change(a, "varset.delete", id, func(tx *store.Tx) error {
		_, o, err := a.VariableSet(tx, id)
		if err != nil {
			return err
		}
		if !a.Manages(o, rights.ManageWorkspaces) {
			return tables.Forbidden("you are not allowed to change variable sets of %s", o.Name)
		}
		return s.drop(tx, id)
	})
}

func (s *VariableSets) drop(tx *store.Tx, id string) error {
	for _, v := range tables.Variables.List(tx, "parent", id) {
		if err := tables.Variables.Delete(tx, v); err != nil {
			return err
		}
	}
	return tables.VariableSets.Delete(tx, id)
}

// dropVariables removes the variables of a deleted workspace, and the workspace from the sets that it used.
func dropVariables(tx *store.Tx, w *record.Workspace) error {
	for _, id := range tables.Variables.List(tx, "parent", w.ID) {
		if err := tables.Variables.Delete(tx, id); err != nil {
			return err
		}
	}
	sets, err := tables.VariableSets.Select(tx, "organization", strings.ToLower(w.Organization))
	if err != nil {
		return err
	}
	for _, set := range sets {
		if slices.Contains(set.Workspaces, w.ID) {
			set.Workspaces = assign(set.Workspaces, w.ID, true)
			if err := tables.VariableSets.Put(tx, set); err != nil {
				return err
			}
		}
	}
	return nil
}

// given has the variables for a run.
type given struct {
	values  []work.Value
	environ []string // as NAME=value
	secrets []string // the values of sensitive variables of both categories
}

// effective returns the variables of a run. Those of the run take precedence over those of the workspace, and sets
// with priority over both.
func effective(tx *store.Tx, w *record.Workspace, r *record.Run) (*given, error) {
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
func collect(tx *store.Tx, w *record.Workspace, r *record.Run, parents []string) (*given, error) {
	out := &given{}
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
				out.secrets = append(out.secrets, v.Value)
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
		out.values = append(out.values, v)
	}
	slices.SortFunc(out.values, func(x, y work.Value) int { return strings.Compare(x.Name, y.Name) })
	for k, v := range env {
		out.environ = append(out.environ, k+"="+v)
	}
	slices.Sort(out.environ)
	return out, nil
}
