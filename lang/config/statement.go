package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

var (
	movedSchema = &hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{{Name: "from", Required: true}, {Name: "to", Required: true}},
	}
	removedSchema = &hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{{Name: "from", Required: true}},
		Blocks:     []hcl.BlockHeaderSchema{{Type: "lifecycle"}, {Type: "provisioner", LabelNames: []string{"type"}}},
	}
	removedLifecycleSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "destroy"}}}
	importSchema           = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{
		{Name: "provider"}, {Name: "id"}, {Name: "identity"}, {Name: "to", Required: true}, {Name: "for_each"},
	}}
	checkSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "data", LabelNames: []string{"type", "name"}}, {Type: "assert"},
	}}
)

func (d *decoder) moved(b *hcl.Block) *Moved {
	m := &Moved{Range: b.DefRange}
	before := len(d.diags)
	c := d.content(b.Body, movedSchema)
	m.From = d.moveEndpoint(c, "from", b.DefRange)
	m.To = d.moveEndpoint(c, "to", b.DefRange)
	if d.diags[before:].HasErrors() {
		return m
	}
	if _, ok := addr.NewMove(addr.RootModule, m.From, m.To); !ok {
		d.err(b.DefRange, `Invalid "moved" addresses`, "One of the addresses names a module and the other a "+
			"resource; nothing can move so.")
	}
	return m
}

func (d *decoder) moveEndpoint(c *hcl.BodyContent, name string, block hcl.Range) *addr.MoveEndpoint {
	var e *addr.MoveEndpoint
	if attr, ok := c.Attributes[name]; ok {
		trav, more := hcl.AbsTraversalForExpr(attr.Expr)
		if !d.add(more) {
			var problems diag.List
			e, problems = addr.ParseMoveEndpoint(trav)
			d.diags = append(d.diags, problems...)
		}
	}
	if e == nil || !e.IsModule && e.Resource.Mode == addr.Ephemeral {
		d.err(block, `Invalid "moved" address`, "Objects like %q cannot be moved.", name)
	}
	return e
}

func (d *decoder) removed(b *hcl.Block) *Removed {
	r := &Removed{Range: b.DefRange}
	before := len(d.diags)
	c := d.content(b.Body, removedSchema)
	if attr, ok := c.Attributes["from"]; ok {
		trav, more := hcl.AbsTraversalForExpr(attr.Expr)
		if !d.add(more) {
			from, problems := addr.ParseRemoveTarget(trav)
			d.diags = append(d.diags, problems...)
			r.From = from
		}
	}
	var lifecycle *hcl.Block
	for _, nested := range c.Blocks {
		switch nested.Type {
		case "lifecycle":
			if d.once(&lifecycle, nested, "lifecycle") {
				c := d.content(nested.Body, removedLifecycleSchema)
				r.DestroySet = d.constant(c, "destroy", &r.Destroy)
			}
		case "provisioner":
			p := d.provisioner(nested)
			switch {
			case p == nil:
			case !p.Destroy:
				d.err(nested.DefRange, `Invalid "removed.provisioner" block`, "Nothing is created by a removed "+
					"block, so its provisioners need when = destroy.")
			case r.From != nil && r.From.IsModule:
				d.err(b.DefRange, `Invalid "removed" block`, "A removed block with provisioners has to name a "+
					"resource, and this one names a module.")
			default:
				r.Provisioners = append(r.Provisioners, p)
			}
		}
	}
	if d.diags[before:].HasErrors() {
		return r
	}
	switch {
	case !r.DestroySet:
		d.warn(b.DefRange, "Missing lifecycle from the removed block",
			"The block does not say whether to destroy the object or only to forget it; without a word, it is "+
				"forgotten. Write lifecycle { destroy = false } or true.")
	case !r.Destroy && len(r.Provisioners) > 0:
		d.warn(b.DefRange, "Removed block provisioners will not be executed",
			"The object is forgotten and not destroyed, so the provisioners of the block never run.")
	}
	return r
}

func (d *decoder) importBlock(b *hcl.Block) *Import {
	i := &Import{Range: b.DefRange}
	c := d.content(b.Body, importSchema)
	i.ID, i.Identity, i.ForEach = expr(c, "id"), expr(c, "identity"), expr(c, "for_each")
	if attr, ok := c.Attributes["to"]; ok && !d.importTarget(i, attr.Expr) {
		return i
	}
	i.Provider = addr.LocalProvider{Name: i.StaticTo.Resource.ImpliedProvider()}
	if attr, ok := c.Attributes["provider"]; ok {
		i.ProviderRange = attr.Range
		if !i.StaticTo.Module.IsRoot() {
			d.err(attr.Range, "Invalid import provider argument",
				"The provider argument only serves to generate configuration in this module. Imports into other modules use "+
					"the provider configurations of these modules.")
		}
		if ref, ok := d.providerReference(attr.Expr, "provider"); ok {
			i.Provider, i.ProviderKeyExpr, i.ProviderSet = ref.local, ref.key, true
		}
	}
	switch id, identity := c.Attributes["id"], c.Attributes["identity"]; {
	case id == nil && identity == nil:
		d.err(b.DefRange, "Missing required import argument", "Say by id or by identity which object to import.")
	case id != nil && identity != nil:
		first, last := id.Range, identity.Range
		if last.Start.Byte < first.Start.Byte {
			first, last = last, first
		}
		d.err(hcl.RangeBetween(first, last), "Conflicting import arguments", "An object is named by its id or by its "+
			"identity, not by both.")
	}
	return i
}

// importTarget decodes the target of an import block: an address whose keys can be expressions.
func (d *decoder) importTarget(i *Import, e hcl.Expression) bool {
	e, ok := d.native(e)
	if !ok {
		return false
	}
	i.To = e
	trav, ok := withoutKeys(e)
	if !ok {
		d.err(e.Range(), "Invalid import address expression",
			"This is the address of a resource, in which only the keys in brackets can be expressions: "+
				"module.a[var.x].aws_s3_bucket.b[each.key].")
		return false
	}
	target, problems := addr.ParseTargetTraversal(trav)
	d.diags = append(d.diags, problems...)
	if problems.HasErrors() {
		return false
	}
	if target.Kind == addr.TargetModuleInstance {
		d.err(trav.SourceRange(), "Invalid address", "A resource has to be named here, behind the module path.")
		return false
	}
	i.StaticTo = target.AsInstance().Config()
	if exact, diags := hcl.AbsTraversalForExpr(e); !diags.HasErrors() {
		if target, problems := addr.ParseTargetTraversal(exact); !problems.HasErrors() {
			to := target.AsInstance()
			i.ResolvedTo = &to
		}
	}
	return true
}

// withoutKeys returns the traversal of an address without the keys that are expressions.
func withoutKeys(e hcl.Expression) (hcl.Traversal, bool) {
	switch e := e.(type) {
	case *hclsyntax.IndexExpr:
		return withoutKeys(e.Collection)
	case *hclsyntax.RelativeTraversalExpr:
		source, ok := withoutKeys(e.Source)
		return append(source[:len(source):len(source)], e.Traversal...), ok
	case *hclsyntax.ScopeTraversalExpr:
		return e.Traversal, true
	default:
		return nil, false
	}
}

func (d *decoder) check(b *hcl.Block) *Check {
	c := &Check{Name: b.Labels[0], Range: b.DefRange}
	if d.override {
		d.err(b.DefRange, "Can't override check blocks", "Check blocks cannot stand in override files.")
		return c
	}
	content := d.content(b.Body, checkSchema)
	d.label(b, 0, "Invalid check block name")
	for _, b := range content.Blocks {
		before := len(d.diags)
		switch b.Type {
		case "data":
			if c.Data != nil {
				d.err(b.DefRange, "Multiple data resource blocks", "The check has a data block already, at %s.",
					c.Data.Range)
				continue
			}
			if data := d.data(b, c.Name); !d.diags[before:].HasErrors() {
				c.Data = data
			}
		case "assert":
			if rule := d.rule(b); !d.diags[before:].HasErrors() {
				c.Asserts = append(c.Asserts, rule)
			}
		}
	}
	if len(c.Asserts) == 0 {
		d.err(b.DefRange, "Zero assert blocks", "A check without an assert block checks nothing.")
	}
	return c
}
