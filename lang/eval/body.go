package eval

import (
	"slices"
	"sync"

	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
)

// Template is a body whose structure and references have been analysed for a schema. It is immutable and safe for
// concurrent use.
type Template struct {
	body    hcl.Body
	block   *schema.Block
	shape   *shape
	program *program
	// layout is the body in the form for fast decoding; nil if hcldec has to decode it, and report its errors.
	layout *layout
	// dynamic is set if there are dynamic blocks in the body, at any depth.
	dynamic bool
}

// layout is one body: those of its attributes and blocks that its shape allows.
type layout struct {
	shape  *shape
	attrs  []attrLayout
	groups []groupLayout
	referenceRange
	// scratch holds maps with the values of absent attributes and blocks, in which every evaluation replaces those
	// that are present.
	scratch sync.Pool
}

// attrLayout is an attribute of a body.
type attrLayout struct {
	name string
	expr hcl.Expression
	attrShape
	referenceRange
}

// groupLayout is the group of all blocks of one type in a body.
type groupLayout struct {
	name   string
	shape  *blockShape
	blocks []blockLayout
	referenceRange
}

// blockLayout is a block, or a dynamic block that produces any number of them.
type blockLayout struct {
	label   string // of a NestingMap block
	body    *layout
	dynamic *dynamicLayout
}

// dynamicLayout is the specification of the blocks that a dynamic block produces.
type dynamicLayout struct {
	iterator string
	forEach  hcl.Expression
	label    hcl.Expression // of a NestingMap block
}

// referenceRange is the range of references of a part of a body, and whether its value is the same in all instances.
type referenceRange struct {
	from, to int
	impure   bool
	// shared is set once all references are known.
	shared bool
}

// The schemas of dynamic blocks.
var (
	dynamicHeader = hcl.BlockHeaderSchema{Type: "dynamic", LabelNames: []string{"type"}}
	dynamicBody   = &hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{{Name: "for_each"}, {Name: "iterator"}, {Name: "labels"}},
		Blocks:     []hcl.BlockHeaderSchema{{Type: "content"}},
	}
)

// PrepareBody finds the structure and the references of a body for a schema. The schema must not change afterwards.
func PrepareBody(body hcl.Body, block *schema.Block) *Template {
	return prepareBody(body, block, addr.ParseReference)
}

// PrepareActionBody is PrepareBody for the config block of an action, where caller is what self is in other bodies.
func PrepareActionBody(body hcl.Body, block *schema.Block) *Template {
	return prepareBody(body, block, addr.ParseActionReference)
}

func prepareBody(body hcl.Body, block *schema.Block,
	parse func(hcl.Traversal) (*addr.Reference, diag.List)) *Template {
	c := &compiler{finding: finding{parse: parse}, exact: true}
	t := &Template{body: body, block: block, shape: shapeOf(block)}
	if body == nil {
		body = hcl.EmptyBody()
		t.body = body
	}
	layout := c.body(body, t.shape, nil)
	t.program = newProgram(&c.finding)
	t.dynamic = c.dynamic
	if c.exact {
		layout.settle(t.program)
		t.layout = layout
	}
	return t
}

// References returns the references of the body: in its attributes, then in its blocks, each in the order of the
// source. This includes those of dynamic blocks.
func (t *Template) References() []Reference { return t.program.refs }

// Calls returns the provider functions that the body calls.
func (t *Template) Calls() []Call { return t.program.calls }

// Invalid returns the problems that are visible without evaluating: invalid references.
func (t *Template) Invalid() diag.List { return t.program.invalid }

// compiler makes the layout of a body. It also finds the references, since it visits all expressions.
type compiler struct {
	finding
	// exact becomes false if the body does not match its schema.
	exact   bool
	dynamic bool
}

// body compiles one body. hidden are the iterators of the enclosing dynamic blocks.
func (c *compiler) body(body hcl.Body, s *shape, hidden []string) *layout {
	asBlocks := s.writtenAsBlocks(body, false)
	want := withBlocks(s.body, asBlocks)
	content, diags := body.Content(&hcl.BodySchema{
		Attributes: want.Attributes,
		Blocks:     append(want.Blocks[:len(want.Blocks):len(want.Blocks)], dynamicHeader),
	})
	if len(diags) > 0 {
		c.exact = false
	}
	l := &layout{shape: s}
	if content == nil {
		return l
	}
	l.from = len(c.refs)
	for _, name := range attributesInOrder(content) {
		a := content.Attributes[name]
		al := attrLayout{name: name, expr: quick(a.Expr), attrShape: s.attrs[name]}
		al.referenceRange = c.expr(a.Expr, hidden)
		l.attrs = append(l.attrs, al)
		l.impure = l.impure || al.impure
		if al.custom {
			c.exact = false
		}
	}
	for _, block := range content.Blocks {
		c.block(l, block, hidden)
	}
	l.to = len(c.refs)
	c.count(l)
	return l
}

// block compiles one block into the group of its type.
func (c *compiler) block(l *layout, block *hcl.Block, hidden []string) {
	if block.Type == "dynamic" {
		c.dynamicBlock(l, block, hidden)
		return
	}
	if inner := l.shape.blocky[block.Type]; inner != nil {
		c.exact = false
		c.body(block.Body, inner, hidden)
		return
	}
	g := l.group(block.Type)
	from := len(c.refs)
	bl := blockLayout{body: c.body(block.Body, g.shape.shape, hidden)}
	if len(block.Labels) > 0 {
		bl.label = block.Labels[0]
	}
	g.add(bl, referenceRange{from: from, to: len(c.refs), impure: bl.body.impure})
	l.impure = l.impure || bl.body.impure
}

// dynamicBlock compiles a dynamic block. Its problems are reported by hcldec.
func (c *compiler) dynamicBlock(l *layout, block *hcl.Block, hidden []string) {
	c.dynamic = true
	name := block.Labels[0]
	content, diags := block.Body.Content(dynamicBody)
	if diags.HasErrors() {
		c.exact = false
	}
	if content == nil {
		return
	}
	d := &dynamicLayout{iterator: name}
	if a := content.Attributes["iterator"]; a != nil {
		t, diags := hcl.AbsTraversalForExpr(a.Expr)
		if diags.HasErrors() || len(t) != 1 {
			c.exact = false
		}
		if len(t) > 0 {
			d.iterator = t.RootName()
		}
	}
	from := len(c.refs)
	impure := false
	if a := content.Attributes["for_each"]; a != nil {
		d.forEach = a.Expr
		impure = c.expr(a.Expr, hidden).impure
	} else {
		c.exact = false
	}
	inside := append(slices.Clone(hidden), d.iterator)
	if a := content.Attributes["labels"]; a != nil {
		impure = c.expr(a.Expr, inside).impure || impure
		labels, diags := hcl.ExprList(a.Expr)
		if diags.HasErrors() || len(labels) != 1 {
			c.exact = false
		} else {
			d.label = labels[0]
		}
	}
	bs := l.shape.blocks[name]
	inner := l.shape.blocky[name]
	if bs != nil {
		inner = bs.shape
	}
	if inner == nil {
		c.exact = false // not a block type: hcldec reports it
		return
	}
	if len(content.Blocks) != 1 || bs == nil || (bs.nesting == schema.NestingMap) != (d.label != nil) {
		c.exact = false
	}
	for _, made := range content.Blocks {
		bl := blockLayout{body: c.body(made.Body, inner, inside), dynamic: d}
		impure = impure || bl.body.impure
		if bs != nil {
			l.group(name).add(bl, referenceRange{from: from, to: len(c.refs), impure: impure})
		}
	}
	l.impure = l.impure || impure
}

// expr collects the references of one expression.
func (c *compiler) expr(expr hcl.Expression, hidden []string) referenceRange {
	from := len(c.refs)
	pure := c.expression(expr, hidden)
	return referenceRange{from: from, to: len(c.refs), impure: !pure}
}

// count checks for groups whose number of blocks is wrong for any result of the dynamic blocks.
func (c *compiler) count(l *layout) {
	for name, bs := range l.shape.blocks {
		if bs.min == 0 {
			continue
		}
		if !slices.ContainsFunc(l.groups, func(g groupLayout) bool { return g.name == name }) {
			c.exact = false
		}
	}
}

// group returns the group of a block type, adding it if necessary.
func (l *layout) group(name string) *groupLayout {
	for i := range l.groups {
		if l.groups[i].name == name {
			return &l.groups[i]
		}
	}
	l.groups = append(l.groups,
		groupLayout{name: name, shape: l.shape.blocks[name], referenceRange: referenceRange{from: -1}})
	return &l.groups[len(l.groups)-1]
}

// add adds a block to the group. The references of a group are all those from its first block to its last one.
func (g *groupLayout) add(b blockLayout, s referenceRange) {
	if g.from < 0 {
		g.from = s.from
	}
	g.to = s.to
	g.impure = g.impure || s.impure
	g.blocks = append(g.blocks, b)
}

// settle determines the values that all instances share.
func (l *layout) settle(p *program) {
	l.shared = l.referenceRange.same(p)
	for i := range l.attrs {
		l.attrs[i].shared = l.attrs[i].referenceRange.same(p)
	}
	for i := range l.groups {
		l.groups[i].shared = l.groups[i].referenceRange.same(p)
	}
}

func (s referenceRange) same(p *program) bool { return !s.impure && !p.varies(s.from, s.to) }

// attributesInOrder returns the names of the attributes of a body in the order of the source.
func attributesInOrder(content *hcl.BodyContent) []string {
	names := make([]string, 0, len(content.Attributes))
	for name := range content.Attributes {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		ra, rb := content.Attributes[a].Range, content.Attributes[b].Range
		if ra.Filename != rb.Filename {
			if ra.Filename < rb.Filename {
				return -1
			}
			return 1
		}
		return ra.Start.Byte - rb.Start.Byte
	})
	return names
}
