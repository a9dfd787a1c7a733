package config

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/syntax"
)

var (
	variableSchema = &hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{
			{Name: "description"}, {Name: "default"}, {Name: "type"}, {Name: "sensitive"}, {Name: "ephemeral"},
			{Name: "const"}, {Name: "deprecated"}, {Name: "nullable"},
		},
		Blocks: []hcl.BlockHeaderSchema{{Type: "validation"}},
	}
	outputSchema = &hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{
			{Name: "description"}, {Name: "value", Required: true}, {Name: "depends_on"}, {Name: "sensitive"},
			{Name: "ephemeral"}, {Name: "deprecated"},
		},
		Blocks: []hcl.BlockHeaderSchema{{Type: "precondition"}, {Type: "postcondition"}},
	}
	ruleSchema = &hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{{Name: "condition", Required: true}, {Name: "error_message", Required: true}},
	}
)

func (d *decoder) variable(b *hcl.Block) *Variable {
	v := &Variable{Name: b.Labels[0], Range: b.DefRange, Nullable: true}
	if !d.override {
		v.Type, v.ConstraintType, v.ParseLiteral = cty.DynamicPseudoType, cty.DynamicPseudoType, true
	}
	c := d.content(b.Body, variableSchema)

	d.label(b, 0, "Invalid variable name")
	if reservedVariable(v.Name) {
		d.err(b.LabelRanges[0], "Invalid variable name",
			"A variable cannot be named %q: that has a meaning of its own in the module blocks that would set it.",
			v.Name)
	}
	v.DescriptionSet = d.constant(c, "description", &v.Description)
	if attr, ok := c.Attributes["type"]; ok {
		v.TypeSet = true
		d.variableType(v, attr.Expr)
	}
	v.SensitiveSet = d.constant(c, "sensitive", &v.Sensitive)
	v.EphemeralSet = d.constant(c, "ephemeral", &v.Ephemeral)
	v.NullableSet = d.constant(c, "nullable", &v.Nullable)
	v.ConstSet = d.constant(c, "const", &v.Const)
	if before := len(d.diags); d.constant(c, "deprecated", &v.Deprecated) &&
		!d.diags[before:].HasErrors() && strings.TrimSpace(v.Deprecated) == "" {
		d.err(b.LabelRanges[0], "Invalid `deprecated` value",
			"Users of the variable see the text, so it cannot be empty: name the alternative.")
	}
	if attr, ok := c.Attributes["default"]; ok {
		d.variableDefault(v, attr.Expr)
	}
	for _, b := range c.Blocks {
		v.Validations = append(v.Validations, d.validation(v.Name, b))
	}
	return v
}

// reservedVariable reports whether a variable of this name could not be set by a module block.
func reservedVariable(name string) bool {
	return slices.ContainsFunc(moduleSchema.Attributes, func(a hcl.AttributeSchema) bool { return a.Name == name }) ||
		slices.ContainsFunc(moduleSchema.Blocks, func(b hcl.BlockHeaderSchema) bool { return b.Type == name })
}

func (d *decoder) variableType(v *Variable, e hcl.Expression) {
	v.Type, v.ConstraintType, v.ParseLiteral = cty.DynamicPseudoType, cty.DynamicPseudoType, false
	if isQuoted(e) {
		d.quotedType(v, e)
		return
	}
	var ty cty.Type
	switch hcl.ExprAsKeyword(e) {
	case "list": // of any element type, as before types had arguments
		ty = cty.List(cty.DynamicPseudoType)
	case "map":
		ty = cty.Map(cty.DynamicPseudoType)
	default:
		var defaults *typeexpr.Defaults
		var more hcl.Diagnostics
		ty, defaults, more = typeexpr.TypeConstraintWithDefaults(e)
		if d.add(more) {
			return
		}
		v.TypeDefaults = defaults
	}
	v.ConstraintType, v.Type = ty, ty.WithoutOptionalAttributesDeep()
	v.ParseLiteral = ty.IsPrimitiveType()
}

// quotedType reports a quoted type.
func (d *decoder) quotedType(v *Variable, e hcl.Expression) {
	value, more := e.Value(nil)
	if d.add(more) {
		return
	}
	better := map[string]string{"string": "string", "list": "list(string)", "map": "map(string)"}[value.AsString()]
	if better == "" {
		d.err(e.Range(), "Invalid legacy variable type hint", "A type is an expression: write it without quotes.")
		return
	}
	v.ParseLiteral = better == "string"
	d.err(e.Range(), "Invalid quoted type constraints", "A type is written without quotes: %s.", better)
}

func (d *decoder) variableDefault(v *Variable, e hcl.Expression) {
	const summary = "Invalid default value for variable"
	value, more := e.Value(nil)
	d.add(more)
	if v.ConstraintType != cty.NilType {
		if v.TypeDefaults != nil && !value.IsNull() {
			value = v.TypeDefaults.Apply(value)
		}
		converted, err := syntax.Convert(value, v.ConstraintType)
		if err != nil {
			d.err(e.Range(), summary, "The default is not of the variable's type: %s.", conversionText(err))
			converted = cty.DynamicVal
		}
		value = converted
		d.diags = append(d.diags, IgnoredAttributes(e, v)...)
	}
	if !v.Nullable && value.IsNull() {
		d.err(e.Range(), summary, "The default cannot be null, because nullable is false.")
	}
	v.Default = value
}

// validation decodes a validation block, whose condition must refer to the variable.
func (d *decoder) validation(variable string, b *hcl.Block) *CheckRule {
	r := d.rule(b)
	if r.Condition == nil {
		return r
	}
	for _, trav := range r.Condition.Variables() {
		ref, diags := addr.ParseReference(trav)
		if !diags.HasErrors() && ref.Subject == (addr.Variable{Name: variable}) {
			return r
		}
	}
	d.err(r.Condition.Range(), "Invalid variable validation condition",
		"The condition does not look at var.%s, so it validates nothing.", variable)
	return r
}

// rule decodes the arguments that all checks share.
func (d *decoder) rule(b *hcl.Block) *CheckRule {
	r := &CheckRule{Range: b.DefRange}
	if d.override {
		d.err(b.DefRange, "Can't override "+b.Type+" blocks", "%q blocks cannot stand in override files.", b.Type)
		return r
	}
	c := d.content(b.Body, ruleSchema)
	r.Condition, r.ErrorMessage = expr(c, "condition"), expr(c, "error_message")
	if r.Condition != nil && len(r.Condition.Variables()) == 0 {
		d.err(r.Condition.Range(), "Invalid "+b.Type+" expression",
			"The condition refers to nothing, so its result is always the same and checks nothing.")
	}
	return r
}

// rules decodes precondition and postcondition blocks. They can refer to their own resource only by self.
func (d *decoder) rules(r *Resource, blocks hcl.Blocks) {
	for _, b := range blocks {
		if b.Type == "action_trigger" {
			continue
		}
		rule := d.rule(b)
		for _, e := range []hcl.Expression{rule.Condition, rule.ErrorMessage} {
			if e != nil && refersTo(e, r.Addr) {
				d.err(e.Range(), "Invalid reference in "+b.Type,
					"%s cannot refer to itself by its name in its own conditions. In a postcondition, use self.",
					r.Addr)
			}
		}
		if b.Type == "precondition" {
			r.Preconditions = append(r.Preconditions, rule)
		} else {
			r.Postconditions = append(r.Postconditions, rule)
		}
	}
}

func refersTo(e hcl.Expression, r addr.Resource) bool {
	for _, trav := range e.Variables() {
		ref, diags := addr.ParseReference(trav)
		if diags.HasErrors() {
			continue
		}
		switch s := ref.Subject.(type) {
		case addr.Resource:
			if s == r {
				return true
			}
		case addr.ResourceRef:
			if s.Resource == r {
				return true
			}
		}
	}
	return false
}

func (d *decoder) locals(b *hcl.Block) []*Local {
	attrs, more := b.Body.JustAttributes()
	d.add(more)
	out := make([]*Local, 0, len(attrs))
	for _, attr := range inOrder(attrs) {
		if !addr.ValidIdentifier(attr.Name) {
			d.err(attr.NameRange, "Invalid local value name", nameRule)
		}
		out = append(out, &Local{Name: attr.Name, Expr: attr.Expr, Range: attr.Range})
	}
	return out
}

// inOrder returns attributes in the order of the source.
func inOrder(attrs hcl.Attributes) []*hcl.Attribute {
	out := make([]*hcl.Attribute, 0, len(attrs))
	for _, a := range attrs {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b *hcl.Attribute) int {
		if a.Range.Filename != b.Range.Filename {
			return strings.Compare(a.Range.Filename, b.Range.Filename)
		}
		return a.Range.Start.Byte - b.Range.Start.Byte
	})
	return out
}

func (d *decoder) output(b *hcl.Block) *Output {
	o := &Output{Name: b.Labels[0], Range: b.DefRange}
	schema := outputSchema
	if d.override {
		schema = optional(schema)
	}
	before := len(d.diags)
	c := d.content(b.Body, schema)
	d.label(b, 0, "Invalid output name")
	d.constant(c, "description", &o.Description)
	o.Expr = expr(c, "value")
	o.SensitiveSet = d.constant(c, "sensitive", &o.Sensitive)
	if d.constant(c, "deprecated", &o.Deprecated) && !d.diags[before:].HasErrors() &&
		strings.TrimSpace(o.Deprecated) == "" {
		d.err(c.Attributes["deprecated"].Expr.Range(), "Invalid `deprecated` attribute",
			"Users of the output see the text, so it cannot be empty: name the alternative.")
	}
	o.EphemeralSet = d.constant(c, "ephemeral", &o.Ephemeral)
	o.DependsOn = d.dependsOn(c)
	for _, b := range c.Blocks {
		if b.Type == "postcondition" {
			d.err(b.TypeRange, "Postconditions are not allowed", "An output can have preconditions only.")
			continue
		}
		o.Preconditions = append(o.Preconditions, d.rule(b))
	}
	return o
}

// optional returns a schema in which nothing is required.
func optional(schema *hcl.BodySchema) *hcl.BodySchema {
	out := &hcl.BodySchema{Attributes: slices.Clone(schema.Attributes), Blocks: schema.Blocks}
	for i := range out.Attributes {
		out.Attributes[i].Required = false
	}
	return out
}
