package tfe

import (
	"net/http"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/variables"
)

func (c *call) variableResource(v *record.Variable) resource {
	var value any = v.Value
	if v.Sensitive {
		value = nil
	}
	relations := map[string]any{"configurable": to("workspaces", v.Parent)}
	if strings.HasPrefix(v.Parent, "varset-") {
		relations = map[string]any{"configurable": to("varsets", v.Parent), "varset": to("varsets", v.Parent)}
	}
	return resource{ID: v.ID, Type: "vars", Attributes: map[string]any{
		"key": v.Key, "value": value, "category": v.Category, "hcl": v.HCL, "sensitive": v.Sensitive,
		"description": orNull(v.Description),
		"version-id":  v.Version,
	}, Relationships: relations}
}

func (c *call) variables() error {
	all, err := c.svc.Variables.List(c.actor, c.arg("parent"))
	if err != nil {
		return err
	}
	q := c.r.URL.Query()
	if paged := q.Has("page[number]") || q.Has("page[size]"); !paged && strings.HasPrefix(c.arg("parent"), "ws-") {
		// One page: command lines request only the first one.
		data := []resource{}
		for _, v := range all {
			data = append(data, c.variableResource(v))
		}
		return c.ok(data)
	}
	return list(c, all, c.variableResource, nil)
}

// allVariables returns the variables of a workspace and of the sets that apply to it.
func (c *call) allVariables() error {
	all, err := c.svc.Variables.Effective(c.actor, c.arg("parent"))
	if err != nil {
		return err
	}
	return list(c, all, func(v *record.Variable) resource {
		res := c.variableResource(v)
		res.Relationships["configurable"] = to("workspaces", c.arg("parent")) // the kind that clients expect
		return res
	}, nil)
}

func (c *call) variable() error {
	v, err := c.svc.Variables.Find(c.actor, c.arg("parent"), c.arg("var"))
	if err != nil {
		return err
	}
	return c.ok(c.variableResource(v))
}

func (c *call) createVariable() error { return c.putVariable("", http.StatusCreated) }
func (c *call) changeVariable() error { return c.putVariable(c.arg("var"), http.StatusOK) }

func (c *call) putVariable(id string, status int) error {
	var o variables.Settings
	var a struct {
		Key         *string `json:"key"`
		Value       *string `json:"value"`
		Category    *string `json:"category"`
		Description *string `json:"description"`
		HCL         *bool   `json:"hcl"`
		Sensitive   *bool   `json:"sensitive"`
	}
	if _, err := c.body(&a); err != nil {
		return err
	}
	o.Key, o.Value, o.Category, o.Description, o.HCL, o.Sensitive = a.Key, a.Value, a.Category, a.Description,
		a.HCL, a.Sensitive
	v, err := c.svc.Variables.Put(c.actor, c.arg("parent"), id, o)
	if err != nil {
		return err
	}
	return c.answer(status, c.variableResource(v), nil)
}

func (c *call) deleteVariable() error {
	if err := c.svc.Variables.Delete(c.actor, c.arg("parent"), c.arg("var")); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

func (c *call) variableSetResource(s *record.VariableSet) resource {
	vars := []string{}
	if all, err := c.svc.Variables.List(c.actor, s.ID); err == nil {
		for _, v := range all {
			vars = append(vars, v.ID)
		}
	}
	return resource{ID: s.ID, Type: "varsets", Attributes: map[string]any{
		"name": s.Name, "description": s.Description, "global": s.Global, "priority": s.Priority,
		"var-count":       len(vars),
		"workspace-count": len(s.Workspaces), "project-count": len(s.Projects),
	}, Relationships: map[string]any{
		"organization": to("organizations", s.Organization), "workspaces": toAll("workspaces", s.Workspaces),
		"projects": toAll("projects", s.Projects), "vars": toAll("vars", vars), "parent": to("organizations",
			s.Organization),
	}}
}

func (c *call) variableSets() error {
	org := c.arg("org")
	if id := c.arg("project"); id != "" {
		p, err := c.svc.Projects.Find(c.actor, id)
		if err != nil {
			return err
		}
		org = p.Organization
	}
	all, err := c.svc.VariableSets.List(c.actor, org, c.arg("ws"))
	if err != nil {
		return err
	}
	part := strings.ToLower(c.r.FormValue("q"))
	all = slices.DeleteFunc(all, func(s *record.VariableSet) bool {
		on := c.arg("project") == "" || s.Global || slices.Contains(s.Projects, c.arg("project"))
		return !on || !strings.Contains(strings.ToLower(s.Name), part)
	})
	return list(c, all, c.variableSetResource, nil)
}

func (c *call) answerSet(status int, s *record.VariableSet, err error) error {
	if err != nil {
		return err
	}
	var more []resource
	if c.wants("vars") {
		all, err := c.svc.Variables.List(c.actor, s.ID)
		if err != nil {
			return err
		}
		for _, v := range all {
			more = append(more, c.variableResource(v))
		}
	}
	if c.wants("workspaces") {
		for _, id := range s.Workspaces {
			if w, err := c.svc.Workspaces.Find(c.actor, id); err == nil {
				more = append(more, c.workspaceResource(w))
			}
		}
	}
	if c.wants("projects") {
		for _, id := range s.Projects {
			if p, err := c.svc.Projects.Find(c.actor, id); err == nil {
				more = append(more, c.projectResource(p))
			}
		}
	}
	return c.answer(status, c.variableSetResource(s), more)
}

func (c *call) variableSet() error {
	s, err := c.svc.VariableSets.Find(c.actor, c.arg("parent"))
	return c.answerSet(http.StatusOK, s, err)
}

func (c *call) createVariableSet() error {
	v := record.VariableSet{Organization: c.arg("org")}
	change, err := c.setChange()
	if err == nil {
		err = change(&v)
	}
	if err != nil {
		return err
	}
	kept, err := c.svc.VariableSets.Create(c.actor, v)
	return c.answerSet(http.StatusCreated, kept, err)
}

func (c *call) changeVariableSet() error {
	change, err := c.setChange()
	if err != nil {
		return err
	}
	v, err := c.svc.VariableSets.Change(c.actor, c.arg("parent"), change)
	return c.answerSet(http.StatusOK, v, err)
}

// setChange reads the change of a variable set from the request.
func (c *call) setChange() (func(*record.VariableSet) error, error) {
	var a struct {
		Name        *string `json:"name"`
		Description *string `json:"description"`
		Global      *bool   `json:"global"`
		Priority    *bool   `json:"priority"`
	}
	q, err := c.body(&a)
	if err != nil {
		return nil, err
	}
	given := map[string][]string{}
	for _, kind := range []string{"workspaces", "projects"} {
		if _, ok := q.Data.Relationships[kind]; !ok {
			continue
		}
		refs, err := q.relatedAll(kind)
		if err != nil {
			return nil, err
		}
		given[kind] = nil
		for _, r := range refs {
			given[kind] = append(given[kind], r.ID)
		}
	}
	return func(v *record.VariableSet) error {
		set(&v.Name, a.Name)
		set(&v.Description, a.Description)
		set(&v.Global, a.Global)
		set(&v.Priority, a.Priority)
		for kind, to := range map[string]*[]string{"workspaces": &v.Workspaces, "projects": &v.Projects} {
			if ids, ok := given[kind]; ok {
				*to = ids
			}
		}
		return nil
	}, nil
}

func (c *call) deleteVariableSet() error {
	if err := c.svc.VariableSets.Delete(c.actor, c.arg("parent")); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

// assign adds workspaces or projects to those that use a set, or removes them.
func assign(kind string, remove bool) handler {
	return func(c *call) error {
		refs, err := c.references()
		if err != nil {
			return err
		}
		var ids []string
		for _, r := range refs {
			ids = append(ids, r.ID)
		}
		workspaces, projects := ids, []string(nil)
		if kind == "projects" {
			workspaces, projects = nil, ids
		}
		if err := c.svc.VariableSets.Assign(c.actor, c.arg("parent"), workspaces, projects, remove); err != nil {
			return err
		}
		return c.empty(http.StatusNoContent)
	}
}
