// Package variables has the variables of workspaces and of variable sets, and says which of them a run gets.
//
// It does not decide who may read or change them: package rights does.
package variables

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/millipede-iac/millipede/service/audit"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// Variables are the variables of workspaces and of variable sets.
type Variables struct {
	store *store.Store
	audit *audit.Log
}

// New returns the variables in a store.
func New(st *store.Store, l *audit.Log) *Variables { return &Variables{st, l} }

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

// Settings are the settings of a variable that can be changed. Nil fields are not changed.
type Settings struct {
	Key, Value, Category, Description *string
	HCL, Sensitive                    *bool
}

func (o *Settings) apply(v *record.Variable) error {
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
func (s *Variables) Put(a *rights.Actor, parent, id string, o Settings) (v *record.Variable, err error) {
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

// DropOfWorkspace removes the variables of a deleted workspace, and the workspace from the sets that it used.
func DropOfWorkspace(tx *store.Tx, w *record.Workspace) error {
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
