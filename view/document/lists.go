package document

import (
	"encoding/json"
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/querying"
	"github.com/millipede-iac/millipede/lang/marks"
)

// The messages of queries are those of Terraform 1.14, as terraform-json reads them.

type listStartMessage struct {
	Address      string          `json:"address"`
	ResourceType string          `json:"resource_type"`
	InputConfig  json.RawMessage `json:"input_config,omitempty"`
}

type listFoundMessage struct {
	Address         string          `json:"address"`
	DisplayName     string          `json:"display_name"`
	Identity        json.RawMessage `json:"identity"`
	IdentityVersion int64           `json:"identity_version"`
	ResourceType    string          `json:"resource_type"`
	ResourceObject  json.RawMessage `json:"resource_object,omitempty"`
	Config          string          `json:"config,omitempty"`
	ImportConfig    string          `json:"import_config,omitempty"`
}

type listCompleteMessage struct {
	Address      string `json:"address"`
	ResourceType string `json:"resource_type"`
	Total        int64  `json:"total"`
	// Managed is how many further objects were left out, with -unmanaged.
	Managed int64 `json:"millipede_managed,omitempty"`
}

// ListStart writes that a list begins.
func (s *Stream) ListStart(l *querying.List) {
	s.message("info", "list_start", fmt.Sprintf("%s: Starting query...", l.Addr), map[string]any{
		"list_start": listStartMessage{Address: l.Addr.String(), ResourceType: l.Type, InputConfig: shown(l.Input)},
	})
}

// ListFound writes an object that was found, with the configuration that was generated for it; empty if none was.
func (s *Stream) ListFound(l *querying.List, o *querying.Object, resource, imports string) {
	s.message("info", "list_resource_found", fmt.Sprintf("%s: Result found", l.Addr), map[string]any{
		"list_resource_found": listFoundMessage{
			Address: l.Addr.String(), DisplayName: o.Name, Identity: Raw(o.Identity),
			IdentityVersion: l.Managed.IdentityVersion, ResourceType: l.Type, ResourceObject: shown(o.Value),
			Config: resource, ImportConfig: imports,
		},
	})
}

// ListComplete writes that a list is complete.
func (s *Stream) ListComplete(l *querying.List) {
	s.message("info", "list_complete", fmt.Sprintf("%s: List complete", l.Addr), map[string]any{
		"list_complete": listCompleteMessage{Address: l.Addr.String(), ResourceType: l.Type, Total: l.Total,
			Managed: l.Left},
	})
}

// shown returns the JSON of a value in which sensitive parts are null; nil for no value.
func shown(v cty.Value) json.RawMessage {
	if v == cty.NilVal {
		return nil
	}
	if v.ContainsMarked() {
		var err error
		v, err = cty.Transform(v, func(_ cty.Path, part cty.Value) (cty.Value, error) {
			if marks.Has(part, marks.Sensitive) || marks.Has(part, marks.Ephemeral) {
				return cty.NullVal(part.Type()), nil
			}
			return part, nil
		})
		if err != nil {
			panic(err) // the function returns no errors
		}
	}
	return Raw(v)
}
