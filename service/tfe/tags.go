package tfe

import (
	"net/http"
	"strings"

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
	if err := c.SetTags(c.actor, c.arg("ws"), tagsOf(refs), nil); err != nil {
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
		names = append(names, strings.TrimPrefix(t.Key, "tag-"))
	}
	if err := c.SetTags(c.actor, c.arg("ws"), nil, names); err != nil {
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
	tags := w.Tags
	if strings.HasSuffix(c.r.URL.Path, "/effective-tag-bindings") {
		if tags, err = c.EffectiveTags(c.actor, w.ID); err != nil {
			return err
		}
	}
	return c.listBindings(tags)
}

func (c *call) addTagBindings() error {
	refs, err := c.references()
	if err != nil {
		return err
	}
	if err := c.SetTags(c.actor, c.arg("ws"), tagsOf(refs), nil); err != nil {
		return err
	}
	return c.tagBindings()
}

// tagsOf returns the tags of a request: tags with a name, or bindings with a key and a value.
func tagsOf(refs []reference) (out []record.Tag) {
	for _, r := range refs {
		t := record.Tag{Key: r.Attributes.Key, Value: r.Attributes.Value}
		if t.Key == "" {
			t.Key = r.Attributes.Name
		}
		if t.Key == "" {
			t.Key = r.ID
		}
		out = append(out, t)
	}
	return out
}
