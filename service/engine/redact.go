package engine

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/view/document"
)

// unchangedKey is the key of the number of unchanged resources in the redacted document.
const unchangedKey = "millipede_unchanged"

// redact makes the document of a plan for clients: the changes, without sensitive values, with the schemas of
// all resources, without which clients crash. Unchanged resources, which clients do not show, are only counted.
func redact(of *plan.Plan, schemas *values.Schemas) ([]byte, error) {
	changes, unchanged, err := document.PlanChangesJSON(of)
	if err != nil {
		return nil, err
	}
	var p struct {
		Format   string                    `json:"format_version"`
		Changes  []map[string]any          `json:"resource_changes"`
		Drift    []map[string]any          `json:"resource_drift"`
		Relevant json.RawMessage           `json:"relevant_attributes"`
		Outputs  map[string]map[string]any `json:"output_changes"`
	}
	d := json.NewDecoder(bytes.NewReader(changes))
	d.UseNumber() // numbers keep every digit
	if err := d.Decode(&p); err != nil {
		return nil, err
	}
	for _, list := range [][]map[string]any{p.Changes, p.Drift} {
		for _, r := range list {
			if change, ok := r["change"].(map[string]any); ok {
				redactChange(change)
			}
		}
	}
	for _, change := range p.Outputs {
		redactChange(change)
	}
	text, err := document.ProviderSchemasJSON(schemas.All())
	if err != nil {
		return nil, err
	}
	var all struct {
		Format  string          `json:"format_version"`
		Schemas json.RawMessage `json:"provider_schemas"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{
		"plan_format_version": p.Format, "resource_changes": p.Changes, "resource_drift": p.Drift,
		"relevant_attributes": p.Relevant, unchangedKey: unchanged,
		"output_changes": p.Outputs, "provider_format_version": all.Format, "provider_schemas": all.Schemas,
	})
}

// withoutValues removes the values of write-only variables from a plan's document.
func withoutValues(full []byte, names []string) ([]byte, error) {
	if len(names) == 0 {
		return full, nil
	}
	var document, variables map[string]json.RawMessage
	if err := json.Unmarshal(full, &document); err != nil {
		return nil, err
	}
	if len(document["variables"]) == 0 {
		return full, nil
	}
	if err := json.Unmarshal(document["variables"], &variables); err != nil {
		return nil, err
	}
	for _, name := range names {
		if _, ok := variables[name]; ok {
			variables[name] = json.RawMessage("{}")
		}
	}
	var err error
	if document["variables"], err = json.Marshal(variables); err != nil {
		return nil, err
	}
	return json.Marshal(document)
}

// redactChange removes the sensitive values from a change, and marks the copies of them that a provider has made.
func redactChange(change map[string]any) {
	var r redaction
	sides := []string{"before", "after"}
	for _, side := range sides {
		change[side] = r.value(change[side], change[side+"_sensitive"])
	}
	if len(r.secrets) == 0 {
		return
	}
	for _, side := range sides {
		change[side], change[side+"_sensitive"] = r.copies(change[side], change[side+"_sensitive"])
	}
}

// redacted replaces a sensitive value.
const redacted = "REDACTED"

// minSecret is the minimum length of the texts that are removed wherever they are in a change, in bytes: shorter ones
// are parts of ordinary words.
const minSecret = 6

// redaction removes sensitive values, and remembers the texts among them.
type redaction struct{ secrets []string }

// value replaces the marked parts of a value: marks are true where a value is sensitive.
func (r *redaction) value(v, marks any) any {
	switch m := marks.(type) {
	case bool:
		if m && v != nil {
			r.remember(v)
			return redacted
		}
	case map[string]any:
		if object, ok := v.(map[string]any); ok {
			for k, mark := range m {
				if part, ok := object[k]; ok {
					object[k] = r.value(part, mark)
				}
			}
		}
	case []any:
		if list, ok := v.([]any); ok {
			for i, mark := range m {
				if i < len(list) {
					list[i] = r.value(list[i], mark)
				}
			}
		}
	}
	return v
}

func (r *redaction) remember(v any) {
	switch v := v.(type) {
	case string:
		if len(v) >= minSecret {
			r.secrets = append(r.secrets, v)
		}
	case map[string]any:
		for _, part := range v {
			r.remember(part)
		}
	case []any:
		for _, part := range v {
			r.remember(part)
		}
	}
}

// copies replaces the texts that contain a secret, and returns the value with its marks. Nothing else marks them: the
// output of a terraform_data, for example, is a copy of its input.
func (r *redaction) copies(v, marks any) (any, any) {
	switch v := v.(type) {
	case string:
		if slices.ContainsFunc(r.secrets, func(secret string) bool { return strings.Contains(v, secret) }) {
			return redacted, true
		}
	case map[string]any:
		of, _ := marks.(map[string]any)
		for k, part := range v {
			got, mark := r.copies(part, of[k])
			if v[k] = got; marked(mark) {
				if of == nil {
					of = map[string]any{}
				}
				of[k] = mark
			}
		}
		if of != nil {
			return v, of
		}
	case []any:
		of, _ := marks.([]any)
		for i, part := range v {
			var had any
			if i < len(of) {
				had = of[i]
			}
			got, mark := r.copies(part, had)
			if v[i] = got; marked(mark) {
				for len(of) < len(v) {
					of = append(of, false)
				}
				of[i] = mark
			}
		}
		if of != nil {
			return v, of
		}
	}
	return v, marks
}

// marked reports whether marks, which may be absent or false, can mark something.
func marked(marks any) bool { return marks != nil && marks != false }
