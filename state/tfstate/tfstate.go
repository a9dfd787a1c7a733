// Package tfstate reads and writes the state files that OpenTofu and Terraform use.
//
// It reads versions 1 to 4 of the format and writes version 4 like OpenTofu 1.12, byte for byte. It neither
// encrypts nor locks, and does not access files. docs/format/state.md describes Millipede's additions.
package tfstate

import (
	"encoding/json"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

// The summaries that users and tools know.
const (
	unsupportedFormat = "Unsupported state file format"
	invalidFormat     = "Invalid state file format"
	upgradeFailed     = "State format upgrade failed"
	invalidInstance   = "Invalid resource instance metadata in state"
	duplicateInstance = "Duplicate resource instance in state"
)

// The structure of version 4. Parts whose text is kept, or that are decoded only once for many instances, are raw.
type (
	fileV4 struct {
		Version          *uint64             `json:"version"`
		TerraformVersion string              `json:"terraform_version"`
		Serial           uint64              `json:"serial"`
		Lineage          string              `json:"lineage"`
		Outputs          map[string]outputV4 `json:"outputs"`
		Resources        []resourceV4        `json:"resources"`
		CheckResults     []checkV4           `json:"check_results"`
		Millipede        *extension          `json:"millipede"`
	}

	outputV4 struct {
		Value      json.RawMessage `json:"value"`
		Type       json.RawMessage `json:"type"`
		Sensitive  bool            `json:"sensitive"`
		Deprecated string          `json:"deprecated"`
	}

	resourceV4 struct {
		Module    string       `json:"module"`
		Mode      string       `json:"mode"`
		Type      string       `json:"type"`
		Name      string       `json:"name"`
		Provider  string       `json:"provider"` // here, or in each of the instances
		Instances []instanceV4 `json:"instances"`
	}

	instanceV4 struct {
		IndexKey            json.RawMessage   `json:"index_key"`
		Status              string            `json:"status"`
		Deposed             string            `json:"deposed"`
		Provider            string            `json:"provider"`
		SchemaVersion       int64             `json:"schema_version"`
		Attributes          json.RawMessage   `json:"attributes"`
		AttributesFlat      map[string]string `json:"attributes_flat"`
		SensitiveAttributes json.RawMessage   `json:"sensitive_attributes"`
		Private             []byte            `json:"private"`
		Dependencies        json.RawMessage   `json:"dependencies"`
		CreateBeforeDestroy bool              `json:"create_before_destroy"`
		SkipDestroy         bool              `json:"skip_destroy"`
		Identity            json.RawMessage   `json:"identity"`
		IdentityVersion     int64             `json:"identity_schema_version"`
	}

	checkV4 struct {
		Kind    string          `json:"object_kind"`
		Config  string          `json:"config_addr"`
		Status  string          `json:"status"`
		Objects []checkObjectV4 `json:"objects"`
	}

	checkObjectV4 struct {
		Address  string   `json:"object_addr"`
		Status   string   `json:"status"`
		Failures []string `json:"failure_messages,omitempty"`
	}
)

// checkKinds are the kinds of objects with checks, in the words of the model and of the format.
var checkKinds = []struct{ model, format string }{
	{"resource", "resource"}, {"output_value", "output"}, {"check", "check"}, {"input_variable", "var"},
}

// modes are the modes of resources in the words of the format. Ephemeral resources are not stored.
var modes = map[string]addr.Mode{"managed": addr.Managed, "data": addr.Data}

const tainted = "tainted"

func failure(summary, detail string) *diag.Diagnostic {
	return diag.New(diag.Error, summary, detail, nil)
}

// statusOf returns the status for other engines.
func statusOf(o *state.Object) state.Status {
	if o.Status == state.InDoubt && o.Doubt != nil && o.Doubt.Before == state.Tainted {
		return state.Tainted
	}
	return o.Status
}

// neverSeen reports whether an object consists only of a doubt: the operation in doubt was to create it.
func neverSeen(o *state.Object) bool {
	return o.Status == state.InDoubt && o.Attrs == nil && o.Flatmap == nil
}
