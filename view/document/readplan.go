package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/state"
)

// redactedPlan is a plan in the form of a service: without sensitive values, with the schemas of the providers.
type redactedPlan struct {
	Changes  []jsonResourceChange    `json:"resource_changes"`
	Drift    []jsonResourceChange    `json:"resource_drift"`
	Outputs  map[string]Change       `json:"output_changes"`
	Relevant []jsonRelevant          `json:"relevant_attributes"`
	Schemas  map[string]jsonProvider `json:"provider_schemas"`
}

// ReadPlan decodes the JSON form of a plan from a service. The result can only be shown: sensitive values are
// replaced by placeholders with the same marks.
func ReadPlan(data []byte) (*plan.Plan, *values.Schemas, error) {
	var in redactedPlan
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, nil, fmt.Errorf("reading the plan: %w", err)
	}
	schemas, err := readSchemas(in.Schemas)
	if err != nil {
		return nil, nil, err
	}
	out := &plan.Plan{Prior: state.Empty()}
	for _, list := range []struct {
		from []jsonResourceChange
		to   *[]*plan.Change
	}{{in.Changes, &out.Changes}, {in.Drift, &out.Drift}} {
		for i := range list.from {
			c, err := readChange(&list.from[i], schemas)
			if err != nil {
				return nil, nil, fmt.Errorf("reading the change of %s: %w", list.from[i].Address, err)
			}
			*list.to = append(*list.to, c)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in.Outputs)) {
		c := in.Outputs[name]
		o := &plan.OutputChange{Name: name, Action: readAction(c.Actions)}
		if o.Before, o.After, err = c.sides(cty.DynamicPseudoType); err != nil {
			return nil, nil, fmt.Errorf("reading the change of the output %q: %w", name, err)
		}
		o.Before, o.BeforeSensitive = bare(o.Before)
		o.After, o.Sensitive = bare(o.After)
		out.Outputs = append(out.Outputs, o)
	}
	for _, r := range in.Relevant {
		if at, diags := addr.ParseInstance(r.Resource); !diags.HasErrors() {
			out.Relevant = append(out.Relevant, plan.Relevant{Resource: at, Attribute: readPath(r.Attribute)})
		}
	}
	return out, schemas, nil
}

// bare removes the mark from a value as a whole, and reports whether there was one.
func bare(v cty.Value) (cty.Value, bool) {
	marked := v.IsMarked()
	v, _ = v.UnmarkDeep()
	return v, marked
}

func readChange(in *jsonResourceChange, schemas *values.Schemas) (*plan.Change, error) {
	at, diags := addr.ParseInstance(in.Address)
	if diags.HasErrors() {
		return nil, diags.Err()
	}
	out := &plan.Change{
		Addr: at, Previous: at, Deposed: state.DeposedKey(in.Deposed), Action: readAction(in.Change.Actions),
		Reason: plan.Reason(in.ActionReason), GeneratedConfig: in.Change.GeneratedConfig,
		BeforeIdentity: cty.NilVal, AfterIdentity: cty.NilVal,
	}
	out.Tainted = out.Reason == plan.ReplaceBecauseTainted
	if in.PreviousAddress != "" {
		if out.Previous, diags = addr.ParseInstance(in.PreviousAddress); diags.HasErrors() {
			return nil, diags.Err()
		}
	}
	if out.Provider.Provider, diags = addr.ParseProviderSource(in.ProviderName); diags.HasErrors() {
		return nil, diags.Err()
	}
	s := schemas.Resource(out.Provider.Provider, at.Resource.Mode, at.Resource.Type)
	if s == nil {
		return nil, fmt.Errorf("there is no schema of the type %s", at.Resource.Type)
	}
	var err error
	if out.Before, out.After, err = in.Change.sides(s.Block.ImpliedType()); err != nil {
		return nil, err
	}
	for _, p := range in.Change.ReplacePaths {
		out.ReplacePaths = append(out.ReplacePaths, readPath(p))
	}
	if i := in.Change.Importing; i != nil {
		out.Importing = &plan.Importing{ID: i.ID, Unknown: i.Unknown, Identity: cty.NilVal}
		if len(i.Identity) > 0 && string(i.Identity) != "null" {
			if out.Importing.Identity, err = (form{}).value(i.Identity, cty.DynamicPseudoType); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func readAction(words []string) plan.Action {
	for _, a := range []plan.Action{plan.DeleteThenCreate, plan.CreateThenDelete, plan.ForgetThenCreate} {
		if slices.Equal(words, actionForms(a)) {
			return a
		}
	}
	if len(words) == 1 {
		return plan.Action(words[0])
	}
	return plan.NoOp
}

func readPath(steps []any) cty.Path {
	var out cty.Path
	for _, s := range steps {
		switch s := s.(type) {
		case string:
			out = append(out, cty.GetAttrStep{Name: s})
		case float64:
			out = append(out, cty.IndexStep{Key: cty.NumberFloatVal(s)})
		}
	}
	return out
}

// sides returns the values before and after a change.
func (c *Change) sides(ty cty.Type) (before, after cty.Value, err error) {
	for side, to := range map[*cty.Value][2]json.RawMessage{
		&before: {c.Before, c.BeforeSensitive}, &after: {c.After, c.AfterSensitive},
	} {
		var f form
		if f.sensitive, err = decoded(to[1]); err != nil {
			return before, after, err
		}
		if side == &after {
			if f.unknown, err = decoded(c.AfterUnknown); err != nil {
				return before, after, err
			}
		}
		if *side, err = f.value(to[0], ty); err != nil {
			return before, after, err
		}
	}
	return before, after, nil
}

// decoded decodes JSON; numbers keep every digit.
func decoded(text json.RawMessage) (any, error) {
	if len(text) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var out any
	err := d.Decode(&out)
	return out, err
}

// form marks which parts of a value are sensitive and which are unknown: true, or an object or a list of the same.
type form struct{ sensitive, unknown any }

func (f form) value(text json.RawMessage, ty cty.Type) (cty.Value, error) {
	raw, err := decoded(text)
	if err != nil {
		return cty.NilVal, err
	}
	return f.read(raw, ty)
}

// anyTrue reports whether a part of a value is unknown.
func anyTrue(form any) bool {
	switch form := form.(type) {
	case bool:
		return form
	case map[string]any:
		for _, part := range form {
			if anyTrue(part) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(form, anyTrue)
	}
	return false
}

// part returns the form of a part of a value.
func (f form) part(key any) form {
	at := func(whole any) any {
		switch whole := whole.(type) {
		case map[string]any:
			if name, ok := key.(string); ok {
				return whole[name]
			}
		case []any:
			if i, ok := key.(int); ok && i < len(whole) {
				return whole[i]
			}
		}
		return nil
	}
	return form{at(f.sensitive), at(f.unknown)}
}

func (f form) read(raw any, ty cty.Type) (cty.Value, error) {
	if f.unknown == true {
		return f.marked(cty.UnknownVal(ty)), nil
	}
	if f.sensitive == true {
		v, err := form{unknown: f.unknown}.read(raw, ty)
		if err != nil { // the placeholder may be of another type
			v = cty.UnknownVal(ty).RefineNotNull()
		}
		return f.marked(v), nil
	}
	if raw == nil && !anyTrue(f.unknown) {
		return cty.NullVal(ty), nil
	}
	switch {
	case ty == cty.DynamicPseudoType:
		return f.dynamic(raw)
	case ty.IsObjectType():
		return f.object(raw, ty)
	case ty.IsMapType():
		object, ok := raw.(map[string]any)
		if !ok {
			return cty.NilVal, fmt.Errorf("an object is expected")
		}
		all := map[string]cty.Value{}
		for _, key := range f.keys(object) {
			v, err := f.part(key).read(object[key], ty.ElementType())
			if err != nil {
				return cty.NilVal, err
			}
			all[key] = v
		}
		if len(all) == 0 {
			return cty.MapValEmpty(ty.ElementType()), nil
		}
		return safely(func() cty.Value { return cty.MapVal(all) })
	case ty.IsListType(), ty.IsSetType(), ty.IsTupleType():
		return f.sequence(raw, ty)
	}
	text, err := json.Marshal(raw)
	if err != nil {
		return cty.NilVal, err
	}
	return ctyjson.Unmarshal(text, ty)
}

func (f form) marked(v cty.Value) cty.Value {
	if f.sensitive == true {
		return v.Mark(marks.Sensitive)
	}
	return v
}

// keys returns the keys of an object: those with values, and those that are unknown.
func (f form) keys(object map[string]any) []string {
	all := maps.Clone(object)
	if all == nil {
		all = map[string]any{}
	}
	if unknown, ok := f.unknown.(map[string]any); ok {
		for key := range unknown {
			all[key] = nil
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func (f form) object(raw any, ty cty.Type) (cty.Value, error) {
	object, ok := raw.(map[string]any)
	if !ok && raw != nil {
		return cty.NilVal, fmt.Errorf("an object is expected")
	}
	all := map[string]cty.Value{}
	for name, attr := range ty.AttributeTypes() {
		v, err := f.part(name).read(object[name], attr)
		if err != nil {
			return cty.NilVal, fmt.Errorf("%s: %w", name, err)
		}
		all[name] = v
	}
	return cty.ObjectVal(all), nil
}

func (f form) sequence(raw any, ty cty.Type) (cty.Value, error) {
	list, ok := raw.([]any)
	if !ok {
		return cty.NilVal, fmt.Errorf("a list is expected")
	}
	var all []cty.Value
	for i, element := range list {
		var ety cty.Type
		switch {
		case !ty.IsTupleType():
			ety = ty.ElementType()
		case i < ty.Length():
			ety = ty.TupleElementType(i)
		default:
			return cty.NilVal, fmt.Errorf("it has too many elements")
		}
		v, err := f.part(i).read(element, ety)
		if err != nil {
			return cty.NilVal, err
		}
		all = append(all, v)
	}
	switch {
	case ty.IsTupleType():
		return cty.TupleVal(all), nil
	case ty.IsListType() && len(all) == 0:
		return cty.ListValEmpty(ty.ElementType()), nil
	case ty.IsListType():
		return safely(func() cty.Value { return cty.ListVal(all) })
	case len(all) == 0:
		return cty.SetValEmpty(ty.ElementType()), nil
	}
	return safely(func() cty.Value { return cty.SetVal(all) })
}

// dynamic decodes a value of dynamic type: it gets the type of its JSON.
func (f form) dynamic(raw any) (cty.Value, error) {
	switch raw := raw.(type) {
	case map[string]any:
		return f.dynamicObject(raw)
	case nil:
		return f.dynamicObject(nil) // some part of it is unknown
	case []any:
		all := []cty.Value{}
		for i, element := range raw {
			v, err := f.part(i).read(element, cty.DynamicPseudoType)
			if err != nil {
				return cty.NilVal, err
			}
			all = append(all, v)
		}
		return cty.TupleVal(all), nil
	case string:
		return cty.StringVal(raw), nil
	case bool:
		return cty.BoolVal(raw), nil
	case json.Number:
		return cty.ParseNumberVal(raw.String())
	}
	return cty.NilVal, fmt.Errorf("a value of the type %T is not expected", raw)
}

func (f form) dynamicObject(raw map[string]any) (cty.Value, error) {
	all := map[string]cty.Value{}
	for _, key := range f.keys(raw) {
		v, err := f.part(key).read(raw[key], cty.DynamicPseudoType)
		if err != nil {
			return cty.NilVal, err
		}
		all[key] = v
	}
	return cty.ObjectVal(all), nil
}

// safely makes a collection. It returns false if the elements have several types, which happens with an element
// type of any.
func safely(collection func() cty.Value) (v cty.Value, err error) {
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("the elements of a collection are of several types")
		}
	}()
	return collection(), nil
}

func readSchemas(in map[string]jsonProvider) (*values.Schemas, error) {
	all := map[addr.Provider]*provider.Schemas{}
	for name, p := range in {
		source, diags := addr.ParseProviderSource(name)
		if diags.HasErrors() {
			return nil, diags.Err()
		}
		s := &provider.Schemas{Provider: schema.Schema{Block: &schema.Block{}}}
		for to, from := range map[*map[string]schema.Schema]map[string]*jsonSchema{
			&s.Managed: p.Managed, &s.Data: p.Data, &s.Ephemeral: p.Ephemeral,
		} {
			*to = map[string]schema.Schema{}
			for kind, form := range from {
				block := &schema.Block{}
				if form == nil {
					continue
				}
				if err := readBlock(form.Block, block); err != nil {
					return nil, fmt.Errorf("reading the schema of %s: %w", kind, err)
				}
				(*to)[kind] = schema.Schema{Version: form.Version, Block: block}
			}
		}
		all[source] = s
	}
	return values.NewSchemas(all), nil
}

func readBlock(in *jsonBlock, out *schema.Block) error {
	if in == nil {
		return nil
	}
	var err error
	if out.Attributes, err = readAttributes(in.Attributes); err != nil {
		return err
	}
	out.Blocks = map[string]*schema.NestedBlock{}
	for name, b := range in.Blocks {
		nested := &schema.NestedBlock{Nesting: readNesting(b.Nesting), MinItems: b.MinItems, MaxItems: b.MaxItems}
		if err := readBlock(b.Block, &nested.Block); err != nil {
			return err
		}
		out.Blocks[name] = nested
	}
	return nil
}

func readAttributes(in map[string]*jsonAttribute) (map[string]*schema.Attribute, error) {
	out := map[string]*schema.Attribute{}
	for name, a := range in {
		attr := &schema.Attribute{Required: a.Required, Optional: a.Optional, Computed: a.Computed,
			Sensitive: a.Sensitive, WriteOnly: a.WriteOnly}
		var err error
		if a.Nested != nil {
			attr.Nested = &schema.Object{Nesting: readNesting(a.Nested.Nesting)}
			attr.Nested.Attributes, err = readAttributes(a.Nested.Attributes)
		} else {
			attr.Type, err = ctyjson.UnmarshalType(a.Type)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = attr
	}
	return out, nil
}

func readNesting(word string) schema.Nesting {
	for _, n := range []schema.Nesting{schema.NestingSingle, schema.NestingGroup, schema.NestingList,
		schema.NestingSet, schema.NestingMap} {
		if nestingWord(n) == word {
			return n
		}
	}
	return schema.NestingInvalid
}
