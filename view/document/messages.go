package document

import (
	"encoding/json"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
)

// resourceMessage identifies an instance in the messages of a Stream.
type resourceMessage struct {
	Addr            string          `json:"addr"`
	Module          string          `json:"module"`
	Resource        string          `json:"resource"`
	ImpliedProvider string          `json:"implied_provider"`
	ResourceType    string          `json:"resource_type"`
	ResourceName    string          `json:"resource_name"`
	ResourceKey     json.RawMessage `json:"resource_key"`
}

// resourceMessageOf parses the address in a run's description, which may be followed by the key of a deposed
// object.
func resourceMessageOf(address string) resourceMessage {
	plain, _, _ := strings.Cut(address, " (deposed")
	a, diags := addr.ParseInstance(plain)
	if diags.HasErrors() {
		return resourceMessage{Addr: address, ResourceKey: json.RawMessage("null")}
	}
	return resourceMessageFor(a)
}

func resourceMessageFor(a addr.Instance) resourceMessage {
	key := indexForm(a.Key)
	if key == nil {
		key = json.RawMessage("null")
	}
	return resourceMessage{
		Addr: a.String(), Module: a.Module.String(), Resource: a.Resource.String() + a.Key.String(),
		ImpliedProvider: a.Resource.ImpliedProvider(), ResourceType: a.Resource.Type, ResourceName: a.Resource.Name,
		ResourceKey: key,
	}
}

// changeMessage is a change in the messages of a Stream.
type changeMessage struct {
	Resource         resourceMessage  `json:"resource"`
	PreviousResource *resourceMessage `json:"previous_resource,omitempty"`
	Action           string           `json:"action"`
	Reason           string           `json:"reason,omitempty"`
	Importing        *jsonImporting   `json:"importing,omitempty"`
	GeneratedConfig  string           `json:"generated_config,omitempty"`
}

func changeMessageOf(c *plan.Change) changeMessage {
	out := changeMessage{
		Resource: resourceMessageFor(c.Addr), Action: actionWord(c.Action), Reason: reasonWord(c.Reason),
		GeneratedConfig: c.GeneratedConfig,
	}
	if c.Moved() {
		if out.Action == "noop" {
			out.Action = "move"
		}
		previous := resourceMessageFor(c.Previous)
		out.PreviousResource = &previous
	}
	if c.Importing != nil {
		if out.Action == "noop" {
			out.Action = "import"
		}
		out.Importing = &jsonImporting{ID: c.Importing.ID}
		if c.Importing.ID == "" && c.Importing.Identity != cty.NilVal && c.Importing.Identity.IsWhollyKnown() {
			out.Importing.Identity = Raw(c.Importing.Identity)
		}
	}
	return out
}

// actionWord returns the word for an action in the messages of a Stream.
func actionWord(a plan.Action) string {
	switch a {
	case plan.NoOp, plan.ForgetThenCreate:
		return "noop"
	case plan.DeleteThenCreate, plan.CreateThenDelete:
		return "replace"
	case plan.Forget:
		return "remove"
	default:
		return string(a)
	}
}

func reasonWord(r plan.Reason) string {
	switch r {
	case plan.ReplaceBecauseTainted:
		return "tainted"
	case plan.ReplaceByRequest:
		return "requested"
	case plan.ReplaceByTriggers:
		return "replace_triggered_by"
	case plan.ReplaceBecauseCannotUpdate:
		return "cannot_update"
	default:
		return string(r)
	}
}

type outputMessage struct {
	Sensitive  bool            `json:"sensitive"`
	Deprecated string          `json:"deprecated,omitempty"`
	Type       json.RawMessage `json:"type,omitempty"`
	Value      json.RawMessage `json:"value,omitempty"`
	Action     string          `json:"action,omitempty"`
}

// hookMessage describes an operation on an object.
type hookMessage struct {
	Resource    resourceMessage `json:"resource"`
	Action      string          `json:"action,omitempty"`
	IDKey       string          `json:"id_key,omitempty"`
	IDValue     string          `json:"id_value,omitempty"`
	Elapsed     *float64        `json:"elapsed_seconds,omitempty"`
	Provisioner string          `json:"provisioner,omitempty"`
	Output      *string         `json:"output,omitempty"`
	Msg         *string         `json:"Msg,omitempty"`
}
