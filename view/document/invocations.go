package document

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/millipede-iac/millipede/graph/plan"
)

// jsonInvocation is the planned invocation of an action.
type jsonInvocation struct {
	Address         string                `json:"address"`
	Type            string                `json:"type"`
	Name            string                `json:"name"`
	ConfigValues    json.RawMessage       `json:"config_values"`
	ConfigSensitive json.RawMessage       `json:"config_sensitive"`
	ConfigUnknown   json.RawMessage       `json:"config_unknown"`
	ProviderName    string                `json:"provider_name"`
	Lifecycle       *jsonLifecycleTrigger `json:"lifecycle_action_trigger,omitempty"`
	Invoke          *struct{}             `json:"invoke_action_trigger,omitempty"`
}

type jsonLifecycleTrigger struct {
	Resource string `json:"triggering_resource_address"`
	Event    string `json:"action_trigger_event"`
	Block    int    `json:"action_trigger_block_index"`
	Index    int    `json:"actions_list_index"`
	// Conditional says that the condition is decided during the apply.
	Conditional bool `json:"millipede_conditional,omitempty"`
}

func triggerForm(t *plan.Trigger) *jsonLifecycleTrigger {
	return &jsonLifecycleTrigger{t.Resource.String(), t.Event, t.Block, t.Index, t.Conditional}
}

func invocationForms(list []*plan.Invocation) []jsonInvocation {
	var out []jsonInvocation
	for _, i := range list {
		form := jsonInvocation{
			Address: i.Addr.String(), Type: i.Addr.Resource.Type, Name: i.Addr.Resource.Name,
			ConfigValues: Raw(i.Config), ConfigSensitive: sensitiveForm(i.Config), ConfigUnknown: unknownForm(i.Config),
			ProviderName: i.Provider.Provider.String(),
		}
		if i.Trigger != nil {
			form.Lifecycle = triggerForm(i.Trigger)
		} else {
			form.Invoke = &struct{}{}
		}
		out = append(out, form)
	}
	return out
}

// actionMessage identifies an action in the messages of a Stream.
type actionMessage struct {
	Addr            string          `json:"addr"`
	Module          string          `json:"module"`
	Action          string          `json:"action"`
	ImpliedProvider string          `json:"implied_provider"`
	ActionType      string          `json:"action_type"`
	ActionName      string          `json:"action_name"`
	ActionKey       json.RawMessage `json:"action_key"`
}

func actionMessageOf(address string) actionMessage {
	r := resourceMessageOf(address)
	return actionMessage{r.Addr, r.Module, r.Resource, r.ImpliedProvider, r.ResourceType, r.ResourceName, r.ResourceKey}
}

// invocations writes the planned invocations of actions, one message each.
func (s *Stream) invocations(p *plan.Plan) {
	for _, i := range p.Invocations {
		fields := map[string]any{"action": actionMessageOf(i.Addr.String())}
		why := "by the option -invoke"
		if i.Trigger != nil {
			fields["lifecycle_trigger"] = triggerForm(i.Trigger)
			why = fmt.Sprintf("%s of %s", i.Trigger.Event, i.Trigger.Resource)
		} else {
			fields["invoke_trigger"] = struct{}{}
		}
		s.message("info", "planned_action_invocation", fmt.Sprintf("%s: Plan to invoke (%s)", i.Addr, why),
			map[string]any{"invocation": fields})
	}
}

// action writes a message about an invocation.
func (s *Stream) action(kind, text, address string, fields map[string]any) {
	hook := map[string]any{"action": actionMessageOf(address)}
	maps.Copy(hook, fields)
	s.message("info", kind, address+": "+text, map[string]any{"hook": hook})
}
