package outline

import (
	"encoding/json"
	"strings"

	"github.com/millipede-iac/millipede/service/skim"
)

// read reads the schemas of one provider.
func (m Masks) read(d *skim.Reader) error {
	return d.Members(func(key string) error {
		mode := map[string]string{"resource_schemas": "managed", "data_source_schemas": "data"}[key]
		if mode == "" {
			return d.Skip()
		}
		return d.Members(func(typ string) error {
			var s struct {
				Block block `json:"block"`
			}
			if err := d.Decode(&s); err != nil {
				return err
			}
			paths := []string{}
			s.Block.collect("", &paths)
			m[mode+" "+typ] = paths
			return nil
		})
	})
}

// block is the relevant part of a schema block.
type block struct {
	Attributes map[string]attribute `json:"attributes"`
	Blocks     map[string]struct {
		Block block `json:"block"`
	} `json:"block_types"`
}

type attribute struct {
	Sensitive bool `json:"sensitive"`
	Nested    *struct {
		Attributes map[string]attribute `json:"attributes"`
	} `json:"nested_type"`
}

func (b *block) collect(at string, paths *[]string) {
	collect(b.Attributes, at, paths)
	for name, inner := range b.Blocks {
		inner.Block.collect(at+name+".", paths)
	}
}

func collect(all map[string]attribute, at string, paths *[]string) {
	for name, a := range all {
		switch {
		case a.Sensitive:
			*paths = append(*paths, at+name)
		case a.Nested != nil:
			collect(a.Nested.Attributes, at+name+".", paths)
		}
	}
}

// Hidden replaces a value that is not shown.
type Hidden struct{}

// MarshalJSON implements json.Marshaler.
func (Hidden) MarshalJSON() ([]byte, error) { return json.Marshal("(sensitive)") }

// Attributes returns the attributes of an instance in a state, with Hidden in place of sensitive values. masks
// are the sensitive paths of its type; if known is false, they are unknown and every value is hidden. A text that
// contains a sensitive one is hidden, too: providers copy arguments to attributes that nothing marks as sensitive, such
// as the output of a terraform_data.
func Attributes(instance []byte, masks []string, known bool) (map[string]any, error) {
	var i struct {
		Attributes map[string]any    `json:"attributes"`
		Flat       map[string]string `json:"attributes_flat"`
		Sensitive  json.RawMessage   `json:"sensitive_attributes"`
	}
	d := json.NewDecoder(strings.NewReader(string(instance)))
	d.UseNumber() // numbers keep every digit
	if err := d.Decode(&i); err != nil {
		return nil, err
	}
	out := i.Attributes
	if out == nil {
		out = map[string]any{}
	}
	for name := range i.Flat { // of a state of Terraform before 0.12: nothing says what is sensitive in it
		out[name] = Hidden{}
	}
	if !known {
		for name := range out {
			out[name] = Hidden{}
		}
		return out, nil
	}
	var c cover
	for _, path := range masks {
		c.hide(out, strings.Split(path, "."))
	}
	for _, path := range marked(i.Sensitive) {
		c.hide(out, path)
	}
	for name, v := range out {
		out[name] = c.without(v)
	}
	return out, nil
}

// marked returns the paths that the configuration made sensitive, as names only: if one element of a list or a
// map is sensitive, all are hidden. For a path that cannot be read, everything below its readable beginning is
// hidden.
func marked(raw json.RawMessage) [][]string {
	type step struct {
		Type  string          `json:"type"`
		Value json.RawMessage `json:"value"`
	}
	var paths [][]step
	if err := json.Unmarshal(raw, &paths); err != nil {
		var legacy []json.RawMessage // "sensitive_attributes": [] of another form
		if json.Unmarshal(raw, &legacy) != nil || len(legacy) == 0 {
			return nil
		}
	}
	var out [][]string
	for _, path := range paths {
		var names []string
		for _, s := range path {
			var name string
			if s.Type == "get_attr" && json.Unmarshal(s.Value, &name) == nil {
				names = append(names, name)
			}
		}
		out = append(out, names)
	}
	return out
}

// cover hides values, and remembers the texts among them.
type cover struct{ secrets []string }

// minSecret is the minimum length of the texts that are hidden wherever they are, in bytes: shorter ones are parts of
// ordinary words.
const minSecret = 6

// over returns Hidden for a value.
func (c *cover) over(v any) Hidden {
	switch v := v.(type) {
	case string:
		if len(v) >= minSecret {
			c.secrets = append(c.secrets, v)
		}
	case []any:
		for _, element := range v {
			c.over(element)
		}
	case map[string]any:
		for _, element := range v {
			c.over(element)
		}
	}
	return Hidden{}
}

// hide puts Hidden at a path of names. It descends into all elements of lists and maps on the path.
func (c *cover) hide(v any, path []string) {
	switch v := v.(type) {
	case []any:
		for i := range v {
			c.hide(v[i], path)
		}
	case map[string]any:
		if len(path) == 0 {
			for k := range v {
				v[k] = c.over(v[k])
			}
			return
		}
		inner, ok := v[path[0]]
		switch {
		case ok && len(path) == 1:
			if inner != nil {
				v[path[0]] = c.over(inner)
			}
		case ok:
			c.hide(inner, path[1:])
		default:
			for _, element := range v {
				c.hide(element, path)
			}
		}
	}
}

// without returns a value with Hidden in place of each text that contains a secret.
func (c *cover) without(v any) any {
	switch v := v.(type) {
	case string:
		for _, secret := range c.secrets {
			if strings.Contains(v, secret) {
				return Hidden{}
			}
		}
	case []any:
		for i := range v {
			v[i] = c.without(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = c.without(v[k])
		}
	}
	return v
}
