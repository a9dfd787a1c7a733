package config

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/syntax"
)

// decoder decodes the blocks of one file into the model, and collects the problems.
type decoder struct {
	override bool
	diags    diag.List
}

// nameRule describes valid names, in the details of problems.
const nameRule = "A name starts with a letter or an underscore; letters, digits, underscores and dashes can follow."

func (d *decoder) err(subject hcl.Range, summary, format string, args ...any) {
	d.diags = append(d.diags, diag.New(diag.Error, summary, text(format, args), &subject))
}

func (d *decoder) warn(subject hcl.Range, summary, format string, args ...any) {
	d.diags = append(d.diags, diag.New(diag.Warning, summary, text(format, args), &subject))
}

func text(format string, args []any) string {
	if len(args) == 0 {
		return format
	}
	return fmt.Sprintf(format, args...)
}

// add adds diagnostics, and reports whether there are errors among them.
func (d *decoder) add(more hcl.Diagnostics) (failed bool) {
	d.diags = d.diags.Append(more)
	return more.HasErrors()
}

// content decodes a body. Anything that the schema does not allow is an error.
func (d *decoder) content(body hcl.Body, schema *hcl.BodySchema) *hcl.BodyContent {
	c, more := body.Content(schema)
	d.add(more)
	return c
}

// partial decodes a part of a body, and returns the rest.
func (d *decoder) partial(body hcl.Body, schema *hcl.BodySchema) (*hcl.BodyContent, hcl.Body) {
	c, rest, more := body.PartialContent(schema)
	d.add(more)
	return c, rest
}

// constant decodes an attribute that must not contain references. It reports whether the attribute is set.
func (d *decoder) constant(c *hcl.BodyContent, name string, into any) bool {
	attr, ok := c.Attributes[name]
	if ok {
		d.decodeConstant(attr.Expr, into)
	}
	return ok
}

func (d *decoder) decodeConstant(e hcl.Expression, into any) {
	if _, more := e.Value(nil); more.HasErrors() {
		d.add(more)
		return
	}
	d.add(gohcl.DecodeExpression(e, nil, into))
}

// expr returns the expression of an attribute; nil if it is not set.
func expr(c *hcl.BodyContent, name string) hcl.Expression {
	if attr, ok := c.Attributes[name]; ok {
		return attr.Expr
	}
	return nil
}

// label checks that the n-th label of a block is a name.
func (d *decoder) label(b *hcl.Block, n int, summary string) {
	if !addr.ValidIdentifier(b.Labels[n]) {
		d.err(b.LabelRanges[n], summary, nameRule)
	}
}

// once reports whether a nested block is the first of its type within its parent, and adds an error if not. seen
// holds the first one.
func (d *decoder) once(seen **hcl.Block, b *hcl.Block, what string) bool {
	if *seen != nil {
		d.err(b.DefRange, "Duplicate "+what+" block", "There is one already, at %s.", (*seen).DefRange)
		return false
	}
	*seen = b
	return true
}

// escape adds the content of a "_" block, whose arguments are never meta-arguments, to a body.
func (d *decoder) escape(seen **hcl.Block, b *hcl.Block, body *hcl.Body) {
	if d.once(seen, b, "escaping") {
		*body = &joined{hcl.MergeBodies([]hcl.Body{*body, b.Body})}
	}
}

// joined is a body made of several. Bodies are used as map keys, so it is a pointer: hcl's own merged body is a
// slice.
type joined struct{ hcl.Body }

// reserved reports the use of a reserved block type.
func (d *decoder) reserved(b *hcl.Block, in string) {
	d.err(b.TypeRange, "Reserved block type name in "+in+" block",
		"The block type %q is kept free for later versions of the language.", b.Type)
}

// repetition holds the arguments that repeat a block: at most one of them may be set.
type repetition struct{ count, forEach, enabled *hcl.Attribute }

// check reports an error if several are set.
func (r repetition) check(d *decoder, of string) {
	var names []string
	var whole hcl.Range
	for _, a := range []struct {
		name string
		attr *hcl.Attribute
	}{{"count", r.count}, {"enabled", r.enabled}, {"for_each", r.forEach}} {
		if a.attr == nil {
			continue
		}
		names = append(names, `"`+a.name+`"`)
		at := a.attr.NameRange
		switch {
		case len(names) == 1:
			whole = at
		case at.Start.Byte < whole.Start.Byte:
			whole = hcl.RangeBetween(at, whole)
		default:
			whole = hcl.RangeBetween(whole, at)
		}
	}
	if len(names) < 2 {
		return
	}
	list := names[0] + " and " + names[1]
	if len(names) == 3 {
		list = names[0] + ", " + names[1] + ", and " + names[2]
	}
	d.err(whole, "Invalid combination of "+list,
		"Each of %s says how many %s there are, so at most one of them can be used.", list, of)
}

// dependsOn decodes a depends_on argument.
func (d *decoder) dependsOn(c *hcl.BodyContent) []hcl.Traversal { return d.references(c, "depends_on") }

// references decodes an argument that is a list of references.
func (d *decoder) references(c *hcl.BodyContent, argument string) []hcl.Traversal {
	attr, ok := c.Attributes[argument]
	if !ok {
		return nil
	}
	exprs, more := hcl.ExprList(attr.Expr)
	d.add(more)
	var out []hcl.Traversal
	for _, e := range exprs {
		trav, more := hcl.AbsTraversalForExpr(d.unquote(e))
		d.add(more)
		if len(trav) > 0 {
			out = append(out, trav)
		}
	}
	return out
}

// unquote converts a quoted reference into an expression, with a warning.
func (d *decoder) unquote(e hcl.Expression) hcl.Expression {
	e, quoted := d.insideQuotes(e)
	if quoted {
		d.warn(e.Range(), "Quoted references are deprecated",
			"A reference is not put into quotes here. Take them away: later versions of the language will refuse them.")
	}
	return e
}

// unquoteKeyword converts a quoted keyword into an expression, with a warning.
func (d *decoder) unquoteKeyword(e hcl.Expression) hcl.Expression {
	e, quoted := d.insideQuotes(e)
	if quoted {
		d.warn(e.Range(), "Quoted keywords are deprecated",
			"A keyword is not put into quotes here. Take them away: later versions of the language will refuse them.")
	}
	return e
}

func (d *decoder) insideQuotes(e hcl.Expression) (hcl.Expression, bool) {
	if key, ok := e.(*hclsyntax.ObjectConsKeyExpr); ok {
		e = key.Wrapped
	}
	if !isQuoted(e) {
		return e, false
	}
	v, hclDiags := e.Value(nil)
	if hclDiags.HasErrors() || v.IsNull() || !v.IsKnown() {
		return e, false
	}
	start := e.Range().Start
	start.Column++
	start.Byte++
	trav, more := syntax.ParseTraversalAbs([]byte(v.AsString()), e.Range().Filename, start)
	d.add(more)
	return &hclsyntax.ScopeTraversalExpr{Traversal: trav, SrcRange: e.Range()}, true
}

// isQuoted reports whether an expression is a quoted string of the native syntax.
func isQuoted(e hcl.Expression) bool {
	native, ok := e.(hclsyntax.Expression)
	if !ok {
		return false
	}
	_, ok = syntax.Plain(native).(*hclsyntax.TemplateExpr)
	return ok
}

// native returns an expression of the native syntax. In JSON, expressions are written as strings.
func (d *decoder) native(e hcl.Expression) (hcl.Expression, bool) {
	if !json.IsJSONExpression(e) {
		return e, true
	}
	v, more := e.Value(nil)
	if d.add(more) {
		return nil, false
	}
	if v.Type() != cty.String || v.IsNull() {
		d.err(e.Range(), "Expected string expression",
			"A string with an expression in it is needed here, and this is %s.", v.Type().FriendlyName())
		return nil, false
	}
	out, more := syntax.ParseExpression([]byte(v.AsString()), e.Range().Filename, e.Range().Start)
	return out, !d.add(more)
}

// providerRef is a reference to a provider configuration: NAME, NAME.ALIAS or NAME.ALIAS[KEY].
type providerRef struct {
	local addr.LocalProvider
	key   hcl.Expression
	// nameRange is the range of the name.
	nameRange hcl.Range
}

// providerReference decodes the provider argument of a block, or one side of a providers entry.
func (d *decoder) providerReference(e hcl.Expression, argument string) (ref providerRef, ok bool) {
	const summary = "Invalid provider configuration reference"
	if e, ok = d.native(e); !ok {
		return ref, false
	}
	longest := 3
	if index, ok := e.(*hclsyntax.IndexExpr); ok {
		ref.key, e, longest = index.Key, index.Collection, 2
	}
	before := len(d.diags)
	e = d.unquote(e)
	if d.diags[before:].HasErrors() {
		return ref, false
	}
	trav, more := hcl.AbsTraversalForExpr(e)
	if len(trav) == 0 || more.HasErrors() || len(trav) > longest {
		if isQuoted(e) {
			d.err(e.Range(), summary, "A provider configuration is named without quotes.")
		} else {
			d.err(e.Range(), summary,
				"%q takes the local name of a provider, perhaps with a dot and the alias of a configuration, and a "+
					"key behind that.", argument)
		}
		return ref, false
	}
	ref.local.Name, ref.nameRange = trav.RootName(), trav[0].SourceRange()
	if !d.providerName(ref.local.Name, ref.nameRange) {
		return ref, false
	}
	ok = true
	if len(trav) > 1 {
		alias, is := trav[1].(hcl.TraverseAttr)
		if !is {
			d.err(trav[1].SourceRange(), summary, "Only a dot with the alias of a configuration can follow the name "+
				"of a provider.")
			return ref, false
		}
		ref.local.Alias = alias.Name
	}
	if len(trav) > 2 {
		index, is := trav[2].(hcl.TraverseIndex)
		if !is {
			d.err(trav[2].SourceRange(), summary, "Only a key in brackets can follow the alias of a configuration.")
			return ref, false
		}
		ref.key = hcl.StaticExpr(index.Key, trav.SourceRange())
	}
	if ref.key != nil && ref.local.Alias == "" {
		d.err(trav.SourceRange(), summary, "A key can only follow an alias: NAME.ALIAS[KEY].")
		return ref, false
	}
	return ref, ok
}

// providerName checks that a local name of a provider is in its normalized form.
func (d *decoder) providerName(name string, at hcl.Range) bool {
	const summary = "Invalid provider local name"
	normal, err := addr.ParseProviderLabel(name)
	switch {
	case err != nil:
		d.err(at, summary, "%q cannot be the local name of a provider: %s.", name, err)
	case normal != name:
		d.err(at, summary, "Local names of providers are written in lower case: write %q for %q.", normal, name)
	}
	return err == nil && normal == name
}
