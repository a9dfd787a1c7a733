package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

var (
	metaArguments = []hcl.AttributeSchema{{Name: "count"}, {Name: "for_each"}, {Name: "provider"}, {Name: "depends_on"}}

	// resourceSchema is for resource and ephemeral blocks.
	resourceSchema = &hcl.BodySchema{Attributes: metaArguments, Blocks: []hcl.BlockHeaderSchema{
		{Type: "lifecycle"}, {Type: "connection"}, {Type: "provisioner", LabelNames: []string{"type"}},
		{Type: "_"}, {Type: "locals"},
	}}
	dataSchema = &hcl.BodySchema{Attributes: metaArguments, Blocks: []hcl.BlockHeaderSchema{
		{Type: "lifecycle"}, {Type: "_"}, {Type: "locals"},
	}}
	lifecycleSchema = &hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{
			{Name: "create_before_destroy"}, {Name: "prevent_destroy"}, {Name: "destroy"}, {Name: "ignore_changes"},
			{Name: "replace_triggered_by"}, {Name: "enabled"},
		},
		Blocks: []hcl.BlockHeaderSchema{{Type: "precondition"}, {Type: "postcondition"}, {Type: "action_trigger"}},
	}
)

// header decodes the arguments that resource, data and ephemeral blocks share.
func (d *decoder) header(r *Resource, c *hcl.BodyContent) repetition {
	r.Count, r.ForEach = expr(c, "count"), expr(c, "for_each")
	r.Provider = addr.LocalProvider{Name: r.Addr.ImpliedProvider()}
	if attr, ok := c.Attributes["provider"]; ok {
		if ref, ok := d.providerReference(attr.Expr, "provider"); ok {
			r.Provider, r.ProviderKeyExpr, r.ProviderSet, r.ProviderRange = ref.local, ref.key, true, ref.nameRange
		}
	}
	r.DependsOn = d.dependsOn(c)
	return repetition{count: c.Attributes["count"], forEach: c.Attributes["for_each"]}
}

func newResource(mode addr.Mode, b *hcl.Block) *Resource {
	return &Resource{
		Addr:  addr.Resource{Mode: mode, Type: b.Labels[0], Name: b.Labels[1]},
		Range: b.DefRange, TypeRange: b.LabelRanges[0],
	}
}

func (d *decoder) resource(b *hcl.Block) *Resource {
	r := newResource(addr.Managed, b)
	c, rest := d.partial(b.Body, resourceSchema)
	r.Config = rest
	d.label(b, 0, "Invalid resource type name")
	d.label(b, 1, "Invalid resource name")
	times := d.header(r, c)
	var lifecycle, connection, escape *hcl.Block
	for _, b := range c.Blocks {
		switch b.Type {
		case "lifecycle":
			if d.once(&lifecycle, b, "lifecycle") {
				c := d.content(b.Body, lifecycleSchema)
				d.lifecycle(r, c)
				times.enabled = c.Attributes["enabled"]
			}
		case "connection":
			if d.once(&connection, b, "connection") {
				r.Connection = b.Body
			}
		case "provisioner":
			r.Provisioners = appendIf(r.Provisioners, d.provisioner(b))
		case "_":
			d.escape(&escape, b, &r.Config)
		default:
			d.reserved(b, "resource")
		}
	}
	times.check(d, "instances of the resource")
	if r.Connection != nil {
		for _, p := range r.Provisioners {
			if p.Destroy {
				d.onlySelf(r.Connection)
				break
			}
		}
	}
	return r
}

// lifecycle decodes the lifecycle block of a managed resource.
func (d *decoder) lifecycle(r *Resource, c *hcl.BodyContent) {
	r.CreateBeforeDestroySet = d.constant(c, "create_before_destroy", &r.CreateBeforeDestroy)
	r.Enabled = expr(c, "enabled")
	r.PreventDestroy = expr(c, "prevent_destroy")
	r.Destroy = expr(c, "destroy")
	if attr, ok := c.Attributes["replace_triggered_by"]; ok {
		r.TriggersReplace = d.triggers(attr.Expr)
	}
	if attr, ok := c.Attributes["ignore_changes"]; ok {
		d.ignoreChanges(r, attr.Expr)
	}
	r.Triggers = d.actionTriggers(r.Addr, c)
	d.rules(r, c.Blocks)
}

// Destroys evaluates lifecycle.destroy: it reports whether removing an object of the resource destroys it, which is
// the default. The argument must be a constant; if it is not, the object is kept.
func (r *Resource) Destroys() (bool, diag.List) {
	if r.Destroy == nil {
		return true, nil
	}
	v, diags := r.Destroy.Value(nil)
	if diags.HasErrors() || v.Type() != cty.Bool || v.IsNull() || !v.IsKnown() || v.IsMarked() {
		return false, diag.List{diag.New(diag.Error, "Invalid lifecycle destroy expression",
			"The lifecycle argument destroy must be a constant, true or false: it decides what becomes of the object "+
				"when the "+
				"configuration says nothing else about it any more.", r.Destroy.Range().Ptr())}
	}
	return v.True(), nil
}

func (d *decoder) ignoreChanges(r *Resource, e hcl.Expression) {
	if hcl.ExprAsKeyword(e) == "all" {
		r.IgnoreAll = true
		return
	}
	list, more := hcl.ExprList(e)
	d.add(more)
	var star hcl.Range
	for _, item := range list {
		if isStar(item) {
			r.IgnoreAll = true
			star = item.Range()
			d.err(e.Range(), "Invalid ignore_changes wildcard",
				`["*"] is no longer understood: write ignore_changes = all.`)
			continue
		}
		trav, more := hcl.RelTraversalForExpr(d.unquote(item))
		d.add(more)
		if len(trav) > 0 {
			r.IgnoreChanges = append(r.IgnoreChanges, trav)
		}
	}
	if r.IgnoreAll && len(r.IgnoreChanges) > 0 {
		d.err(star, "Invalid ignore_changes ruleset",
			`"*" stands for all attributes, so naming some beside it makes no sense.`)
		d.diags[len(d.diags)-1].Context = e.Range().Ptr()
	}
}

// isStar reports whether an expression is the string "*" of earlier versions of the language.
func isStar(e hcl.Expression) bool {
	v, diags := e.Value(nil)
	return !diags.HasErrors() && v.Type() == cty.String && !v.IsNull() && v.IsKnown() && v.AsString() == "*"
}

// triggers decodes replace_triggered_by: each element refers to one resource, or to an attribute of it.
func (d *decoder) triggers(e hcl.Expression) []hcl.Expression {
	list, more := hcl.ExprList(e)
	d.add(more)
	var out []hcl.Expression
	for _, item := range list {
		item, ok := d.native(item)
		if !ok {
			continue
		}
		out = append(out, item)
		d.trigger(item)
	}
	return out
}

func (d *decoder) trigger(e hcl.Expression) {
	at := e.Range()
	resources := 0
	for _, trav := range e.Variables() {
		ref, diags := addr.ParseReference(trav)
		if diags.HasErrors() {
			for _, p := range diags {
				d.err(at, p.Summary, "%s", p.Detail)
			}
			return
		}
		switch s := ref.Subject.(type) {
		case addr.Resource, addr.ResourceRef:
			resources++
		case addr.ForEachAttr:
			if s.Name != "key" {
				d.err(at, "Invalid each reference in replace_triggered_by expression", "Of each, only each.key can "+
					"be used in replace_triggered_by.")
			}
		case addr.CountAttr:
			if s.Name != "index" {
				d.err(at, "Invalid count reference in replace_triggered_by expression", "Of count, only count.index "+
					"can be used in replace_triggered_by.")
			}
		default:
			d.err(at, "Invalid reference in replace_triggered_by expression",
				"replace_triggered_by takes references to resources, with count.index or each.key as their key.")
		}
	}
	switch {
	case resources == 0:
		d.err(at, "Invalid replace_triggered_by expression", "This refers to no resource.")
	case resources > 1:
		d.err(at, "Invalid replace_triggered_by expression", "This refers to several resources. Give each its own "+
			"element.")
	}
}

// data decodes a data block. inCheck is the name of the check block around it, empty for others.
func (d *decoder) data(b *hcl.Block, inCheck string) *Resource {
	r := newResource(addr.Data, b)
	r.Check = inCheck
	nested := inCheck != ""
	c, rest := d.partial(b.Body, dataSchema)
	r.Config = rest
	d.label(b, 0, "Invalid data source name")
	d.label(b, 1, "Invalid data resource name")
	times := d.header(r, c)
	if nested {
		for _, attr := range []*hcl.Attribute{times.count, times.forEach} {
			if attr != nil {
				d.err(attr.NameRange, `Invalid "`+attr.Name+`" attribute`,
					"%q cannot be used in the data block of a check: it is read once.", attr.Name)
			}
		}
		r.Count, r.ForEach, times = nil, nil, repetition{}
	}
	var lifecycle, escape *hcl.Block
	for _, b := range c.Blocks {
		switch b.Type {
		case "lifecycle":
			if nested {
				d.err(b.DefRange, "Invalid lifecycle block", "The data block of a check has no life cycle of its own.")
			}
			if d.once(&lifecycle, b, "lifecycle") {
				c := d.content(b.Body, lifecycleSchema)
				for _, attr := range inOrder(c.Attributes) {
					if attr.Name != "enabled" {
						d.err(attr.NameRange, "Invalid data resource lifecycle argument",
							"%q has a meaning for managed resources only.", attr.Name)
					}
				}
				r.Enabled, times.enabled = expr(c, "enabled"), c.Attributes["enabled"]
				d.noActionTriggers(c)
				d.rules(r, c.Blocks)
			}
		case "_":
			d.escape(&escape, b, &r.Config)
		default:
			d.reserved(b, "data")
		}
	}
	times.check(d, "instances of the data source")
	return r
}

func (d *decoder) ephemeral(b *hcl.Block) *Resource {
	r := newResource(addr.Ephemeral, b)
	c, rest := d.partial(b.Body, resourceSchema)
	r.Config = rest
	d.label(b, 0, "Invalid ephemeral resource type name")
	d.label(b, 1, "Invalid ephemeral resource name")
	times := d.header(r, c)
	var lifecycle, escape *hcl.Block
	for _, b := range c.Blocks {
		switch b.Type {
		case "lifecycle":
			if d.once(&lifecycle, b, "lifecycle") {
				c := d.content(b.Body, lifecycleSchema)
				for _, attr := range inOrder(c.Attributes) {
					if attr.Name != "enabled" {
						d.err(b.DefRange, "Invalid lifecycle configuration for ephemeral resource",
							"%q has a meaning for managed resources only.", attr.Name)
					}
				}
				r.Enabled, times.enabled = expr(c, "enabled"), c.Attributes["enabled"]
				d.noActionTriggers(c)
				d.rules(r, c.Blocks)
			}
		case "connection", "provisioner":
			d.err(b.DefRange, "Invalid configuration block for ephemeral resource",
				"%q blocks have a meaning for managed resources only.", b.Type)
		case "_":
			d.escape(&escape, b, &r.Config)
		default:
			d.reserved(b, "ephemeral")
		}
	}
	times.check(d, "instances of the ephemeral resource")
	return r
}
