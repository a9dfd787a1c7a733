package tfe

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
)

func (c *call) tags() error {
	w, err := c.find()
	if err != nil {
		return err
	}
	return list(c, w.Tags, func(t record.Tag) resource {
		return resource{ID: "tag-" + t.Key, Type: "tags", Attributes: map[string]any{"name": t.Key}}
	}, nil)
}

func (c *call) addTags() error {
	refs, err := c.references()
	if err != nil {
		return err
	}
	if err := c.svc.Workspaces.SetTags(c.actor, c.arg("ws"), tagsOf(refs), nil); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

func (c *call) removeTags() error {
	refs, err := c.references()
	if err != nil {
		return err
	}
	var names []string
	for _, t := range tagsOf(refs) {
		names = append(names, t.Key)
	}
	if err := c.svc.Workspaces.SetTags(c.actor, c.arg("ws"), nil, names); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

// bindings returns the documents of tags with values.
func bindings(tags []record.Tag) []resource {
	out := []resource{}
	for _, t := range tags {
		out = append(out, resource{
			ID: "tb-" + t.Key, Type: "effective-tag-bindings", Attributes: map[string]any{"key": t.Key,
				"value": t.Value},
		})
	}
	return out
}

func (c *call) listBindings(tags []record.Tag) error {
	return list(c, bindings(tags), func(r resource) resource {
		if !strings.HasSuffix(c.r.URL.Path, "/effective-tag-bindings") {
			r.Type = "tag-bindings"
		}
		return r
	}, nil)
}

func (c *call) tagBindings() error {
	w, err := c.find()
	if err != nil {
		return err
	}
	if !strings.HasSuffix(c.r.URL.Path, "/effective-tag-bindings") {
		return c.listBindings(w.Tags)
	}
	all, err := c.effectiveBindings(w)
	if err != nil {
		return err
	}
	return list(c, all, func(r resource) resource { return r }, nil)
}

// effectiveBindings returns the documents of the tags of a workspace and of its project. Those of the project say so:
// the provider tfe would make them tags of the workspace otherwise.
func (c *call) effectiveBindings(w *service.WorkspaceView) ([]resource, error) {
	tags, err := c.svc.Workspaces.EffectiveTags(c.actor, w.ID)
	if err != nil {
		return nil, err
	}
	all := bindings(tags)
	for i, t := range tags {
		if slices.ContainsFunc(w.Tags, func(own record.Tag) bool { return own.Key == t.Key }) {
			continue
		}
		all[i].Links = map[string]any{"inherited-from": "/api/v2/projects/" + w.Project}
		all[i].Relationships = map[string]any{"inherited-from": to("projects", w.Project)}
	}
	return all, nil
}

func (c *call) addTagBindings() error {
	refs, err := c.references()
	if err != nil {
		return err
	}
	if err := c.svc.Workspaces.SetTags(c.actor, c.arg("ws"), tagsOf(refs), nil); err != nil {
		return err
	}
	return c.tagBindings()
}

// setTagBindings replaces the tags that have a value.
func (c *call) setTagBindings() error {
	refs, err := c.references()
	if err != nil {
		return err
	}
	pairs := tagsOf(refs)
	if _, err = c.svc.Workspaces.Change(c.actor, c.arg("ws"), service.WorkspaceSettings{Pairs: &pairs}); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

func (c *call) projectTags() error {
	p, err := c.svc.Projects.Find(c.actor, c.arg("project"))
	if err != nil {
		return err
	}
	return c.listBindings(p.Tags)
}

func (c *call) addProjectTags() error {
	refs, err := c.references()
	if err != nil {
		return err
	}
	p, err := c.svc.Projects.Change(c.actor, c.arg("project"), func(p *record.Project) error {
		p.Tags = append(p.Tags, tagsOf(refs)...)
		return nil
	})
	if err != nil {
		return err
	}
	return c.listBindings(p.Tags)
}

func (c *call) setProjectTags() error {
	refs, err := c.references()
	if err != nil {
		return err
	}
	_, err = c.svc.Projects.Change(c.actor, c.arg("project"), func(p *record.Project) error {
		p.Tags = tagsOf(refs)
		return nil
	})
	if err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

// organizationTags returns the tags without a value of all workspaces, with the number of workspaces that have each.
func (c *call) organizationTags() error {
	all, err := c.svc.Workspaces.List(c.actor, c.arg("org"), service.WorkspaceFilter{})
	if err != nil {
		return err
	}
	count := map[string]int{}
	part, without := strings.ToLower(c.r.FormValue("q")), c.r.FormValue("filter[exclude][taggable][id]")
	for _, w := range all {
		for _, t := range w.Tags {
			if t.Value == "" && strings.Contains(t.Key, part) {
				count[t.Key]++
			}
		}
	}
	for _, w := range all {
		for _, t := range w.Tags {
			if w.ID == without {
				delete(count, t.Key)
			}
		}
	}
	return list(c, slices.Sorted(maps.Keys(count)), func(key string) resource {
		return resource{ID: "tag-" + key, Type: "tags", Attributes: map[string]any{
			"name": key, "instance-count": count[key],
		}, Relationships: map[string]any{"organization": to("organizations", c.arg("org"))}}
	}, nil)
}

// deleteOrganizationTags removes tags from all workspaces.
func (c *call) deleteOrganizationTags() error {
	refs, err := c.references()
	if err != nil {
		return err
	}
	var keys []string
	for _, t := range tagsOf(refs) {
		keys = append(keys, t.Key)
	}
	if err := c.svc.Workspaces.DeleteTags(c.actor, c.arg("org"), keys); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

// tagWorkspaces adds a tag to workspaces.
func (c *call) tagWorkspaces() error {
	refs, err := c.references()
	if err != nil {
		return err
	}
	var ids []string
	for _, r := range refs {
		ids = append(ids, r.ID)
	}
	if err := c.svc.Workspaces.Tag(c.actor, strings.TrimPrefix(c.arg("tag"), "tag-"), ids); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

// tagsOf returns the tags of a request: bindings with a key and a value, tags with a name, or the IDs of tags.
func tagsOf(refs []reference) (out []record.Tag) {
	for _, r := range refs {
		t := record.Tag{Key: r.Attributes.Key, Value: r.Attributes.Value}
		if t.Key == "" {
			t.Key = r.Attributes.Name
		}
		if t.Key == "" {
			t.Key = strings.TrimPrefix(r.ID, "tag-")
		}
		out = append(out, t)
	}
	return out
}
