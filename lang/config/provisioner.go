package config

import "github.com/hashicorp/hcl/v2"

var provisionerSchema = &hcl.BodySchema{
	Attributes: []hcl.AttributeSchema{{Name: "when"}, {Name: "on_failure"}},
	Blocks:     []hcl.BlockHeaderSchema{{Type: "connection"}, {Type: "_"}, {Type: "lifecycle"}},
}

// provisioner decodes a provisioner block; nil for types that OpenTofu has removed.
func (d *decoder) provisioner(b *hcl.Block) *Provisioner {
	p := &Provisioner{Type: b.Labels[0], Range: b.DefRange}
	c, rest := d.partial(b.Body, provisionerSchema)
	p.Config = rest
	switch p.Type {
	case "chef", "habitat", "puppet", "salt-masterless":
		d.err(b.LabelRanges[0], `The "`+p.Type+`" provisioner has been removed`,
			"OpenTofu has no %q provisioner any more.", p.Type)
		return nil
	}
	if attr, ok := c.Attributes["when"]; ok {
		e := d.unquoteKeyword(attr.Expr)
		switch hcl.ExprAsKeyword(e) {
		case "create":
		case "destroy":
			p.Destroy = true
		default:
			d.err(e.Range(), `Invalid "when" keyword`, "A provisioner runs at create or at destroy.")
		}
	}
	if p.Destroy {
		d.onlySelf(rest)
	}
	if attr, ok := c.Attributes["on_failure"]; ok {
		switch hcl.ExprAsKeyword(d.unquoteKeyword(attr.Expr)) {
		case "continue":
			p.Continue = true
		case "fail":
		default:
			d.err(attr.Expr.Range(), `Invalid "on_failure" keyword`,
				"After a failure a provisioner can continue or fail.")
		}
	}
	var connection, escape *hcl.Block
	for _, b := range c.Blocks {
		switch b.Type {
		case "connection":
			if d.once(&connection, b, "connection") {
				if p.Destroy {
					d.onlySelf(b.Body)
				}
				p.Connection = b.Body
			}
		case "_":
			d.escape(&escape, b, &p.Config)
		default:
			d.reserved(b, "provisioner")
		}
	}
	return p
}

// onlySelf checks that a provisioner that runs at destroy refers only to self: other objects may no longer exist
// then.
func (d *decoder) onlySelf(body hcl.Body) {
	attrs, _ := body.JustAttributes() // the rest of the body is checked when it is decoded
	for _, attr := range inOrder(attrs) {
		for _, trav := range attr.Expr.Variables() {
			if !usableAtDestroy(trav) {
				d.err(attr.Expr.Range(), "Invalid reference from destroy provisioner",
					"When a resource is destroyed, its provisioners and their connections can refer to self, "+
						"count.index and each.key only. "+
						"Other objects may be gone by then, and waiting for them could make a cycle.")
			}
		}
	}
}

func usableAtDestroy(trav hcl.Traversal) bool {
	attr := ""
	if len(trav) == 2 {
		if a, ok := trav[1].(hcl.TraverseAttr); ok {
			attr = a.Name
		}
	}
	switch trav.RootName() {
	case "self", "path", "terraform", "tofu":
		return true
	case "count":
		return attr == "index"
	case "each":
		return attr == "key"
	default:
		return false
	}
}
