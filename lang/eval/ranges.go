package eval

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/lang/schema"
)

// ConfigRange returns the source range in a body of the value at a path: the attribute, an element of a literal in
// it, or the block. For something that is not written, it returns where it could be written. The result is nil if
// nothing in the body corresponds to the path, as with elements of sets.
//
// The body's dynamic blocks should be expanded (Bound.Expanded).
func ConfigRange(body hcl.Body, path cty.Path) *hcl.Range {
	if body == nil {
		return nil
	}
	missing := body.MissingItemRange()
	for len(path) > 0 {
		step, ok := path[0].(cty.GetAttrStep)
		if !ok {
			return &missing
		}
		path = path[1:]
		content, _, _ := body.PartialContent(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: step.Name}}})
		if content != nil && content.Attributes[step.Name] != nil {
			return expressionRange(content.Attributes[step.Name].Expr, path)
		}
		block, rest := findBlock(body, step.Name, path)
		if block == nil {
			return &missing
		}
		if len(rest) == 0 {
			return block.DefRange.Ptr()
		}
		body, path = block.Body, rest
		missing = body.MissingItemRange()
	}
	return &missing
}

// findBlock finds the block that a path passes through, and returns the rest of the path.
func findBlock(body hcl.Body, name string, path cty.Path) (*hcl.Block, cty.Path) {
	var index *cty.IndexStep
	if len(path) > 0 {
		if step, ok := path[0].(cty.IndexStep); ok {
			index, path = &step, path[1:]
		}
	}
	for _, labels := range [][]string{nil, {"key"}} {
		content, _, _ := body.PartialContent(
			&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: name, LabelNames: labels}}})
		if content == nil || len(content.Blocks) == 0 {
			continue
		}
		for i, block := range content.Blocks {
			if index == nil || isIndex(index.Key, i, block.Labels) {
				return block, path
			}
		}
		if len(content.Blocks) == 1 { // the only element of a set
			return content.Blocks[0], path
		}
	}
	return nil, nil
}

// isIndex reports whether a key selects the block with this number or these labels.
func isIndex(key cty.Value, number int, labels []string) bool {
	key, _ = key.Unmark()
	if !key.IsKnown() || key.IsNull() {
		return false
	}
	switch {
	case key.Type() == cty.Number:
		return key.RawEquals(cty.NumberIntVal(int64(number)))
	case key.Type() == cty.String:
		return len(labels) > 0 && labels[0] == key.AsString()
	default:
		return false
	}
}

// expressionRange follows a path into an expression as long as the expression is an object or list literal.
func expressionRange(expr hcl.Expression, path cty.Path) *hcl.Range {
	for ; len(path) > 0; path = path[1:] {
		next := element(expr, path[0])
		if next == nil {
			break
		}
		expr = next
	}
	return expr.Range().Ptr()
}

func element(expr hcl.Expression, step cty.PathStep) hcl.Expression {
	var name string
	switch step := step.(type) {
	case cty.GetAttrStep:
		name = step.Name
	case cty.IndexStep:
		key, _ := step.Key.Unmark()
		if !key.IsKnown() || key.IsNull() {
			return nil
		}
		if key.Type() == cty.Number {
			list, diags := hcl.ExprList(expr)
			n, _ := key.AsBigFloat().Int64()
			if diags.HasErrors() || n < 0 || n >= int64(len(list)) {
				return nil
			}
			return list[n]
		}
		if key.Type() != cty.String {
			return nil
		}
		name = key.AsString()
	}
	pairs, diags := hcl.ExprMap(expr)
	if diags.HasErrors() {
		return nil
	}
	for _, p := range pairs {
		k, diags := p.Key.Value(nil)
		if !diags.HasErrors() && k.Type() == cty.String && k.IsKnown() && !k.IsNull() && !k.IsMarked() &&
			k.AsString() == name {
			return p.Value
		}
	}
	return nil
}

// AtSource sets the source ranges of the diagnostics that have a path, by the position of the path in a body (see
// ConfigRange).
func AtSource(diags diag.List, body hcl.Body) diag.List {
	out := make(diag.List, len(diags))
	for i, d := range diags {
		if d.Path != nil && d.Subject == nil {
			d = d.WithSubject(ConfigRange(body, d.Path))
		}
		out[i] = d
	}
	return out
}

// refuseEphemeral reports ephemeral values in attributes that are stored.
func refuseEphemeral(v cty.Value, block *schema.Block) diag.List {
	var diags diag.List
	for _, path := range marks.PathsWith(v, marks.Ephemeral) {
		at := path
		var attr *schema.Attribute
		if block != nil {
			for ; len(at) > 0; at = at[:len(at)-1] {
				if attr = block.AttributeAt(at); attr != nil {
					break
				}
			}
		}
		if attr != nil && attr.WriteOnly {
			continue
		}
		if attr == nil {
			at = path
		}
		d := diag.New(diag.Error, "Ephemeral value used in non-ephemeral context", fmt.Sprintf(
			"The value of %q is ephemeral, and it would be stored. Ephemeral values can go only to write-only attributes "+
				"and to other ephemeral values.",
			pathText(at)), nil)
		d.Path = at.Copy()
		diags = append(diags, d)
	}
	return diags
}
