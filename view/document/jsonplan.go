package document

import (
	"encoding/json"
	"maps"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/state"
)

type jsonPlan struct {
	FormatVersion      string                  `json:"format_version"`
	TerraformVersion   string                  `json:"terraform_version"`
	Variables          map[string]jsonVariable `json:"variables,omitempty"`
	PlannedValues      jsonValues              `json:"planned_values"`
	ResourceDrift      []jsonResourceChange    `json:"resource_drift,omitempty"`
	ResourceChanges    []jsonResourceChange    `json:"resource_changes,omitempty"`
	DeferredChanges    []deferredForm          `json:"deferred_changes,omitempty"`
	OutputChanges      map[string]Change       `json:"output_changes,omitempty"`
	ActionInvocations  []jsonInvocation        `json:"action_invocations,omitempty"`
	PriorState         *jsonState              `json:"prior_state,omitempty"`
	Configuration      json.RawMessage         `json:"configuration,omitempty"`
	RelevantAttributes []jsonRelevant          `json:"relevant_attributes,omitempty"`
	Checks             []jsonCheck             `json:"checks,omitempty"`
	Timestamp          string                  `json:"timestamp"`
	Applyable          *bool                   `json:"applyable,omitempty"`
	Complete           *bool                   `json:"complete,omitempty"`
	Errored            bool                    `json:"errored"`
	RestsOn            *dependenciesForm       `json:"millipede_rests_on,omitempty"`
	Unread             *unreadForm             `json:"millipede_unread,omitempty"`
}

type jsonVariable struct {
	Value json.RawMessage `json:"value,omitempty"`
}

type jsonRelevant struct {
	Resource  string `json:"resource"`
	Attribute []any  `json:"attribute"`
}

type jsonResourceChange struct {
	Address         string          `json:"address"`
	PreviousAddress string          `json:"previous_address,omitempty"`
	ModuleAddress   string          `json:"module_address,omitempty"`
	Mode            string          `json:"mode"`
	Type            string          `json:"type"`
	Name            string          `json:"name"`
	Index           json.RawMessage `json:"index,omitempty"`
	ProviderName    string          `json:"provider_name"`
	Deposed         string          `json:"deposed,omitempty"`
	Change          Change          `json:"change"`
	ActionReason    string          `json:"action_reason,omitempty"`
}

type Change struct {
	Actions         []string        `json:"actions,omitempty"`
	Before          json.RawMessage `json:"before,omitempty"`
	After           json.RawMessage `json:"after,omitempty"`
	AfterUnknown    json.RawMessage `json:"after_unknown,omitempty"`
	BeforeSensitive json.RawMessage `json:"before_sensitive,omitempty"`
	AfterSensitive  json.RawMessage `json:"after_sensitive,omitempty"`
	ReplacePaths    [][]any         `json:"replace_paths,omitempty"`
	Importing       *jsonImporting  `json:"importing,omitempty"`
	GeneratedConfig string          `json:"generated_config,omitempty"`
	BeforeIdentity  json.RawMessage `json:"before_identity,omitempty"`
	AfterIdentity   json.RawMessage `json:"after_identity,omitempty"`
}

type jsonImporting struct {
	ID       string          `json:"id,omitempty"`
	Identity json.RawMessage `json:"identity,omitempty"`
	Unknown  bool            `json:"unknown,omitempty"`
}

// PlanJSON returns the JSON form of a plan, as `show -json FILE` prints it.
func PlanJSON(p *plan.Plan, tree *config.Tree, schemas *values.Schemas) ([]byte, error) {
	return planJSON(p, tree, schemas, false)
}

// PlanWithDependenciesJSON returns the same with the plan's dependencies, which OpenTofu's form does not have.
func PlanWithDependenciesJSON(p *plan.Plan, tree *config.Tree, schemas *values.Schemas) ([]byte, error) {
	return planJSON(p, tree, schemas, true)
}

func planJSON(p *plan.Plan, tree *config.Tree, schemas *values.Schemas, dependencies bool) ([]byte, error) {
	p, err := values.FillKept(p, schemas)
	if err != nil {
		return nil, err
	}
	out := jsonPlan{
		FormatVersion: planFormat, TerraformVersion: p.EngineVersion, Timestamp: p.Timestamp.UTC().Format(time.RFC3339),
		// As in OpenTofu, a plan whose changes have a dependency cycle does not count as errored: applying it
		// reports the cycle.
		Errored:   p.Errored && len(p.Circle) == 0,
		Variables: map[string]jsonVariable{}, OutputChanges: map[string]Change{},
	}
	for name, v := range p.Variables {
		if v.Value == cty.NilVal {
			continue
		}
		out.Variables[name] = jsonVariable{Value: Raw(v.Value)}
	}
	out.takeChanges(p, func(*plan.Change) bool { return true })
	out.ActionInvocations = invocationForms(p.Invocations)
	out.takeDeferred(p)
	out.PlannedValues = plannedValues(p)
	if before := priorState(p, tree); !before.IsEmpty() {
		prior, err := stateForm(before, schemas, p.EngineVersion)
		if err != nil {
			return nil, err
		}
		prior.Checks = nil
		out.PriorState = &prior
	}
	out.Checks = checkForms(p.Checks)
	if out.Unread = unreadOf(p); dependencies {
		out.RestsOn = dependenciesOf(p)
	}
	configuration, err := json.Marshal(configurationForm(tree, schemas))
	if err != nil {
		return nil, err
	}
	out.Configuration = configuration
	return line(out)
}

// PlanChangesJSON returns the changes of a plan in JSON form. Unchanged resources are left out and counted in
// unchanged.
func PlanChangesJSON(p *plan.Plan) (text []byte, unchanged int, err error) {
	out := jsonPlan{FormatVersion: planFormat, OutputChanges: map[string]Change{}}
	out.takeChanges(p, func(c *plan.Change) bool {
		same := c.Action == plan.NoOp && !c.Moved() && c.Importing == nil
		if same {
			unchanged++
		}
		return !same
	})
	text, err = json.Marshal(map[string]any{
		"format_version": out.FormatVersion, "resource_changes": out.ResourceChanges, "resource_drift": out.ResourceDrift,
		"relevant_attributes": out.RelevantAttributes, "output_changes": out.OutputChanges,
	})
	return text, unchanged, err
}

// takeChanges adds the drift and the changes of a plan; of the resource changes only those that lists accepts.
func (out *jsonPlan) takeChanges(p *plan.Plan, lists func(*plan.Change) bool) {
	for _, c := range p.Drift {
		if c.Deposed != state.CurrentObject {
			continue // as in OpenTofu, deleted objects have no drift
		}
		out.ResourceDrift = append(out.ResourceDrift, resourceChange(c))
	}
	for _, c := range p.Changes {
		if (c.Action != plan.Delete || c.Addr.Resource.Mode != addr.Data) && lists(c) {
			out.ResourceChanges = append(out.ResourceChanges, resourceChange(c))
		}
	}
	for _, o := range p.Outputs {
		out.OutputChanges[o.Name] = outputChange(o)
	}
	for _, r := range p.Relevant {
		out.RelevantAttributes = append(out.RelevantAttributes, jsonRelevant{r.Resource.String(),
			pathForm(r.Attribute)})
	}
}

// priorState returns the state after refreshing. Outputs that are known while planning count as refreshed.
func priorState(p *plan.Plan, tree *config.Tree) *state.State {
	out := *p.Prior
	out.Outputs = maps.Clone(p.Prior.Outputs)
	if out.Outputs == nil {
		out.Outputs = map[string]*state.Output{}
	}
	for _, o := range p.Outputs {
		declared := tree.Root.Module.Outputs[o.Name]
		switch {
		case o.Action == plan.Delete || declared == nil || !o.After.IsWhollyKnown():
		case o.After.IsNull():
			delete(out.Outputs, o.Name)
		default:
			out.Outputs[o.Name] = &state.Output{Value: o.After, Sensitive: o.Sensitive, Deprecated: declared.Deprecated}
		}
	}
	return &out
}

func actionForms(a plan.Action) []string {
	switch a {
	case plan.DeleteThenCreate:
		return []string{"delete", "create"}
	case plan.CreateThenDelete:
		return []string{"create", "delete"}
	case plan.ForgetThenCreate:
		return []string{"forget", "create"}
	default:
		return []string{string(a)}
	}
}

func resourceChange(c *plan.Change) jsonResourceChange {
	out := jsonResourceChange{
		Address: c.Addr.String(), ModuleAddress: c.Addr.Module.String(), Mode: c.Addr.Resource.Mode.String(),
		Type: c.Addr.Resource.Type, Name: c.Addr.Resource.Name, Index: indexForm(c.Addr.Key),
		ProviderName: c.Provider.Provider.String(), Deposed: string(c.Deposed), ActionReason: string(c.Reason),
		Change: Change{
			Actions: actionForms(c.Action), Before: Raw(c.Before), After: Raw(c.After),
			AfterUnknown:    unknownForm(c.After),
			BeforeSensitive: sensitiveForm(c.Before), AfterSensitive: sensitiveForm(c.After),
			GeneratedConfig: c.GeneratedConfig,
		},
	}
	if c.Moved() {
		out.PreviousAddress = c.Previous.String()
	}
	for _, p := range c.ReplacePaths {
		out.Change.ReplacePaths = append(out.Change.ReplacePaths, pathForm(p))
	}
	if c.Importing != nil {
		out.Change.Importing = &jsonImporting{ID: c.Importing.ID, Identity: Raw(c.Importing.Identity),
			Unknown: c.Importing.Unknown}
	}
	if c.BeforeIdentity != cty.NilVal && !c.BeforeIdentity.IsNull() {
		out.Change.BeforeIdentity = Raw(c.BeforeIdentity)
	}
	if c.AfterIdentity != cty.NilVal && !c.AfterIdentity.IsNull() {
		out.Change.AfterIdentity = Raw(c.AfterIdentity)
	}
	return out
}

func outputChange(o *plan.OutputChange) Change {
	out := Change{
		Actions: actionForms(o.Action), Before: Raw(o.Before), After: Raw(o.After),
		BeforeSensitive: Raw(cty.BoolVal(o.Sensitive || o.BeforeSensitive)),
		AfterSensitive:  Raw(cty.BoolVal(o.Sensitive || o.BeforeSensitive)),
	}
	if o.After.IsWhollyKnown() {
		out.AfterUnknown = json.RawMessage("false")
	} else {
		out.AfterUnknown = asBool(o.After, isUnknown)
		if !o.After.IsKnown() {
			out.After = nil
		}
	}
	return out
}

// plannedValues returns the values that the state will contain, as far as they are known.
func plannedValues(p *plan.Plan) jsonValues {
	out := jsonValues{Outputs: map[string]jsonOutput{}}
	for _, o := range p.Outputs {
		if o.Action == plan.Delete {
			continue
		}
		jo := jsonOutput{Sensitive: o.Sensitive}
		if o.After.IsWhollyKnown() {
			jo.Value, jo.Type = Raw(o.After), typeForm(o.After.Type())
			if o.Action == plan.NoOp && o.After.IsNull() {
				jo.Type = typeForm(cty.DynamicPseudoType) // that of the output that the state does not have
			}
		}
		out.Outputs[o.Name] = jo
	}
	tree := newModuleTree()
	for _, c := range p.Changes {
		if c.Action == plan.Delete || c.Deposed != state.CurrentObject {
			continue
		}
		// Forgotten objects are listed without values.
		r := newResource(c.Addr, c.Provider.Provider)
		r.SchemaVersion = c.SchemaVersion
		r.Values = attributesOf(c.After)
		r.SensitiveValues = sensitiveForm(c.After)
		if c.AfterIdentity != cty.NilVal && !c.AfterIdentity.IsNull() {
			r.Identity, r.IdentityVersion = attributesOf(c.AfterIdentity), &c.IdentityVersion
		}
		tree.add(c.Addr.Module, r)
	}
	tree.sortByText()
	out.RootModule = *tree.root
	return out
}

// comparison returns the JSON form of the difference between two compared values.
func comparison(left, right cty.Value) *Change {
	bare, _ := right.UnmarkDeep()
	return &Change{
		Before: Raw(left), After: Raw(right), AfterUnknown: asBool(bare, isUnknown),
		BeforeSensitive: sensitiveForm(left), AfterSensitive: sensitiveForm(right),
	}
}
