package config

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

// Mock is the content of a mock_provider block: values that replace the objects of a provider, which is never
// called.
type Mock struct {
	// Defaults are computed attributes of all objects of a type; the names of the resources are empty.
	Defaults map[addr.Resource]map[string]cty.Value
	// Overrides are computed attributes of certain resources; they take precedence.
	Overrides map[addr.ConfigResource]map[string]cty.Value
}

// Values returns the mocked values of the computed attributes of a resource's objects.
func (m *Mock) Values(r addr.ConfigResource) map[string]cty.Value {
	if v, ok := m.Overrides[r]; ok {
		return v
	}
	return m.Defaults[addr.Resource{Mode: r.Resource.Mode, Type: r.Resource.Type}]
}

// Overrides are the resources and modules of a configuration that tests replace.
type Overrides struct {
	Resources []*ResourceOverride
	Modules   []*ModuleOverride
}

// ResourceOverride is an override_resource or override_data block: the provider is not called for the target.
type ResourceOverride struct {
	// Block is the type of the block.
	Block  string
	Mode   addr.Mode
	Target addr.ConfigResource
	// Values are computed attributes.
	Values map[string]cty.Value
	Range  hcl.Range // the target
}

// ModuleOverride is an override_module block: nothing in the module is executed, and its outputs have the values in
// Outputs.
type ModuleOverride struct {
	Target addr.Module
	// Outputs are the values of outputs; those that are missing are null.
	Outputs map[string]cty.Value
	Range   hcl.Range // the target
}

var (
	overrideResourceSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "target", Required: true},
		{Name: "values"}}}
	overrideModuleSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "target", Required: true},
		{Name: "outputs"}}}
	mockProviderSchema = &hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{{Name: "alias"}, {Name: "for_each"}},
		Blocks: []hcl.BlockHeaderSchema{
			{Type: "mock_resource", LabelNames: []string{"type"}}, {Type: "mock_data", LabelNames: []string{"type"}},
			{Type: "override_resource"}, {Type: "override_data"},
		},
	}
	mockResourceSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "defaults"}}}
)

// addOverride decodes an override block of a file or of a run.
func (d *decoder) addOverride(o *Overrides, b *hcl.Block) {
	if b.Type == "override_module" {
		o.Modules = appendIf(o.Modules, d.overrideModule(b))
	} else {
		o.Resources = appendIf(o.Resources, d.overrideResource(b))
	}
}

func (d *decoder) overrideResource(b *hcl.Block) *ResourceOverride {
	before := len(d.diags)
	o := &ResourceOverride{Block: b.Type, Mode: addr.Managed}
	if b.Type == "override_data" {
		o.Mode = addr.Data
	}
	c := d.content(b.Body, overrideResourceSchema)
	if trav := d.target(c, &o.Range); trav != nil {
		target, more := addr.ParseConfigResource(trav)
		o.Target, d.diags = target, append(d.diags, more...)
	}
	o.Values = d.constantObject(c, "values")
	if d.diags[before:].HasErrors() {
		return nil
	}
	return o
}

func (d *decoder) overrideModule(b *hcl.Block) *ModuleOverride {
	before := len(d.diags)
	o := &ModuleOverride{}
	c := d.content(b.Body, overrideModuleSchema)
	if trav := d.target(c, &o.Range); trav != nil {
		target, more := addr.ParseModule(trav)
		o.Target, d.diags = target, append(d.diags, more...)
	}
	o.Outputs = d.constantObject(c, "outputs")
	if d.diags[before:].HasErrors() {
		return nil
	}
	return o
}

// target decodes the target of a block; nil if it is not an address.
func (d *decoder) target(c *hcl.BodyContent, at *hcl.Range) hcl.Traversal {
	attr, ok := c.Attributes["target"]
	if !ok {
		return nil
	}
	*at = attr.Expr.Range()
	trav, more := hcl.AbsTraversalForExpr(attr.Expr)
	if d.add(more) {
		return nil
	}
	return trav
}

// constantObject decodes an attribute that is an object without references.
func (d *decoder) constantObject(c *hcl.BodyContent, name string) map[string]cty.Value {
	attr, ok := c.Attributes[name]
	if !ok {
		return nil
	}
	v, more := attr.Expr.Value(nil)
	if d.add(more) {
		return nil
	}
	if !v.Type().IsObjectType() || v.IsNull() {
		d.err(attr.Range, "Object expected", "The argument %q takes an object: { NAME = VALUE, ... }.", name)
		return nil
	}
	return v.AsValueMap()
}

// mockProvider decodes a mock_provider block; nil if its name is invalid.
func (d *decoder) mockProvider(b *hcl.Block) *ProviderConfig {
	c := d.content(b.Body, mockProviderSchema)
	if !d.providerName(b.Labels[0], b.DefRange) {
		return nil
	}
	m := &Mock{Defaults: map[addr.Resource]map[string]cty.Value{},
		Overrides: map[addr.ConfigResource]map[string]cty.Value{}}
	p := &ProviderConfig{Name: b.Labels[0], NameRange: b.LabelRanges[0], Config: hcl.EmptyBody(),
		Range: b.DefRange, Mock: m}
	if d.constant(c, "alias", &p.Alias) {
		p.AliasExpr = expr(c, "alias")
		if !addr.ValidIdentifier(p.Alias) {
			d.err(p.AliasExpr.Range(), "Invalid mock provider configuration alias", nameRule)
		}
	}
	p.ForEach = expr(c, "for_each")
	if p.ForEach != nil && p.Alias == "" {
		d.err(p.ForEach.Range(), `Alias required when using "for_each"`, "Several instances of a configuration need "+
			"an alias to be chosen by.")
	}
	for _, b := range c.Blocks {
		switch b.Type {
		case "mock_resource", "mock_data":
			d.mockResource(m, p, b)
		default:
			o := d.overrideResource(b)
			if o == nil {
				continue
			}
			if _, dup := m.Overrides[o.Target]; dup {
				d.err(p.Range, "Duplicated `"+b.Type+"` block", "The mock_provider block overrides %s already.",
					o.Target)
				continue
			}
			if o.Mode == o.Target.Resource.Mode {
				m.Overrides[o.Target] = o.Values
			}
		}
	}
	return p
}

func (d *decoder) mockResource(m *Mock, p *ProviderConfig, b *hcl.Block) {
	of := addr.Resource{Mode: addr.Managed, Type: b.Labels[0]}
	if b.Type == "mock_data" {
		of.Mode = addr.Data
	}
	values := d.constantObject(d.content(b.Body, mockResourceSchema), "defaults")
	if _, dup := m.Defaults[of]; dup {
		d.err(p.Range, "Duplicated `"+b.Type+"` block", "The mock_provider block has a %s block for %s already.",
			b.Type, of.Type)
		return
	}
	m.Defaults[of] = values
}

// duplicates reports targets with two blocks.
func (o *Overrides) duplicates() diag.List {
	var diags diag.List
	resources := map[addr.ConfigResource]bool{}
	for _, r := range o.Resources {
		if resources[r.Target] {
			diags = append(diags, diag.New(diag.Error, "Duplicated `"+r.Block+"` block",
				fmt.Sprintf("There is a block of this type for %s already.", r.Target), &r.Range))
		}
		resources[r.Target] = true
	}
	modules := map[addr.Module]bool{}
	for _, m := range o.Modules {
		if modules[m.Target] {
			diags = append(diags, diag.New(diag.Error, "Duplicated `override_module` block",
				fmt.Sprintf("There is a block of this type for %s already.", m.Target), &m.Range))
		}
		modules[m.Target] = true
	}
	return diags
}
