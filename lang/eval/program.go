package eval

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/syntax"
)

// program describes the values that an expression or a body needs from its scope, determined once.
//
// Each referenced object is one source. A source whose value can differ between the instances of one resource
// (b[count.index]) is local; the others are fetched once per binding.
type program struct {
	refs  []Reference
	calls []Call
	// invalid are the problems that are visible without values; nothing is evaluated if there are any.
	invalid diag.List

	sources []source
	// sourceOf is the index of the source of each of refs; -1 for count, each and self.
	sourceOf []int
	// shared and local are the trees of the roots without and with local sources.
	shared, local []*branch
	// count, each and self are the references to those.
	count, each, self []Reference
	// loops are the loops and long templates in strings of the JSON syntax; see program.within.
	loops []hclsyntax.Expression
}

// within reports whether loops and templates in strings of the JSON syntax stay within the bounds. HCL evaluates those
// strings itself, without bounds, so this evaluates them before. Those that refer to the iterator of a dynamic block
// are not evaluated here, but by the fast decoder.
func (p *program) within(ctx *hcl.EvalContext) hcl.Diagnostics {
	for _, e := range p.loops {
		_, diags := e.Value(ctx)
		for _, d := range diags {
			if syntax.Exceeds(d) {
				return hcl.Diagnostics{d}
			}
		}
	}
	return nil
}

// source is one object to fetch.
type source struct {
	subject addr.Named // Variable, Local, Output, PathAttr, EngineAttr, Resource or ModuleCall
	rng     hcl.Range
	// instances are the instances to fetch; nil means the complete object.
	instances []instance
	local     bool
}

// instance is one element of a resource or a module call, by a fixed key or by an expression.
type instance struct {
	key  addr.Key
	expr *Expr
}

// branch is a node in the tree of names in a scope: data, aws_ami, x.
type branch struct {
	name   string
	kids   []*branch
	source int // of a leaf, else -1
}

// newProgram makes a program from the references found.
func newProgram(f *finding) *program {
	p := &program{refs: f.refs, calls: f.calls, invalid: f.invalid, loops: f.loops, sourceOf: make([]int, len(f.refs))}
	bySubject := map[addr.Named]int{}
	var roots []*branch
	for i, r := range f.refs {
		p.sourceOf[i] = -1
		switch subject := r.Subject.(type) {
		case addr.Self:
			p.self = append(p.self, r)
			continue
		case addr.CountAttr:
			p.count = append(p.count, r)
			if subject.Name != "index" {
				p.reject(r, `Invalid "count" attribute`, fmt.Sprintf(
					`"count" has no attribute %q. There is only count.index, the number of the instance in a block with the count argument.`, subject.Name))
			}
			continue
		case addr.ForEachAttr:
			p.each = append(p.each, r)
			if subject.Name != "key" && subject.Name != "value" {
				p.reject(r, `Invalid "each" attribute`, fmt.Sprintf(
					`"each" has no attribute %q. There are each.key and each.value, the current element of the for_each argument.`, subject.Name))
			}
			continue
		case addr.PathAttr:
			p.checkPath(r, subject)
		case addr.EngineAttr:
			p.checkEngine(r, subject)
		case addr.Check:
			p.reject(r, `Reference to "check" in invalid context`,
				`"check" can only be named in the expect_failures argument of a run block in a test.`)
			continue
		}
		whole, wanted := target(r)
		n, ok := bySubject[whole]
		if !ok {
			n = len(p.sources)
			bySubject[whole] = n
			p.sources = append(p.sources, source{subject: whole, rng: r.Range})
		}
		p.sourceOf[i] = n
		p.sources[n].ask(wanted, !ok)
		roots = plant(roots, r.path, n)
	}
	p.settle()
	for _, root := range roots {
		if root.any(func(n int) bool { return p.sources[n].local }) {
			p.local = append(p.local, root)
		} else {
			p.shared = append(p.shared, root)
		}
	}
	return p
}

// target returns the object to fetch for a reference, and which instance of it; nil for all of it.
func target(r Reference) (whole addr.Named, wanted *instance) {
	switch subject := r.Subject.(type) {
	case addr.ResourceRef:
		whole, wanted = subject.Resource, &instance{key: subject.Key}
	case addr.ModuleCallInstance:
		whole, wanted = addr.ModuleCall{Name: subject.Name}, &instance{key: subject.Key}
	case addr.ModuleOutput:
		whole, wanted = addr.ModuleCall{Name: subject.Call.Name}, &instance{key: subject.Call.Key}
	default:
		whole = r.Subject
		if r.Key != nil {
			wanted = &instance{expr: PrepareExpr(r.Key)}
		}
	}
	if wanted != nil && wanted.expr == nil && wanted.key == addr.NoKey {
		wanted = nil
	}
	return whole, wanted
}

// ask adds one use: once the complete object is needed, instances are not fetched individually.
func (s *source) ask(wanted *instance, first bool) {
	switch {
	case wanted == nil:
		s.instances = nil
	case first || s.instances != nil:
		s.instances = append(s.instances, *wanted)
	}
}

// settle determines which sources are local. A key may refer to shared sources, but not to sources that are, or
// could be, looked up by a key: resources and modules. Otherwise the complete object is fetched.
func (p *program) settle() {
	for i := range p.sources {
		s := &p.sources[i]
		for _, in := range s.instances {
			if in.expr == nil {
				continue
			}
			k := in.expr.program
			if len(k.invalid) > 0 || !k.plain() {
				s.instances, s.local = nil, false
				break
			}
			if k.repeats() {
				s.local = true
			}
		}
	}
}

// plain reports whether a program refers to named values only.
func (p *program) plain() bool {
	for _, s := range p.sources {
		if repeats(s.subject) {
			return false
		}
	}
	return true
}

// repeats reports whether a program refers to count, each or self.
func (p *program) repeats() bool { return len(p.count)+len(p.each)+len(p.self) > 0 }

// varies reports whether any of a range of references has a value of its own in each instance.
func (p *program) varies(from, to int) bool {
	for _, n := range p.sourceOf[from:to] {
		if n < 0 || p.sources[n].local {
			return true
		}
	}
	return false
}

func (p *program) reject(r Reference, summary, detail string) {
	p.invalid = append(p.invalid, diag.New(diag.Error, summary, detail, &r.Range))
}

func (p *program) checkPath(r Reference, a addr.PathAttr) {
	switch a.Name {
	case "cwd", "module", "root":
	default:
		p.reject(r, `Invalid "path" attribute`,
			fmt.Sprintf(`"path" has no attribute %q.%s`, a.Name, didYouMean(a.Name, []string{"cwd", "module", "root"})))
	}
}

func (p *program) checkEngine(r Reference, a addr.EngineAttr) {
	summary := fmt.Sprintf("Invalid %q attribute", a.Prefix)
	switch a.Name {
	case "workspace", "applying":
	case "env":
		p.reject(r, summary, fmt.Sprintf("%s.env is gone since version 0.12; the name of the workspace is "+
			"%[1]s.workspace.", a.Prefix))
	default:
		p.reject(r, summary, fmt.Sprintf("%q has no attribute %q. The name of the current workspace is "+
			"%[1]s.workspace.", a.Prefix, a.Name))
	}
}

// plant adds a leaf at the end of a path of names.
func plant(level []*branch, path []string, source int) []*branch {
	var b *branch
	for _, candidate := range level {
		if candidate.name == path[0] {
			b = candidate
		}
	}
	if b == nil {
		b = &branch{name: path[0], source: -1}
		level = append(level, b)
	}
	if len(path) == 1 {
		b.source = source
	} else {
		b.kids = plant(b.kids, path[1:], source)
	}
	return level
}

// any reports whether test holds for a source in the tree.
func (b *branch) any(test func(source int) bool) bool {
	if b.source >= 0 {
		return test(b.source)
	}
	for _, k := range b.kids {
		if k.any(test) {
			return true
		}
	}
	return false
}

// value builds the object of a branch from the values of the sources.
func (b *branch) value(values []cty.Value) cty.Value {
	if b.source >= 0 {
		return values[b.source]
	}
	attrs := make(map[string]cty.Value, len(b.kids))
	for _, k := range b.kids {
		attrs[k.name] = k.value(values)
	}
	return cty.ObjectVal(attrs)
}
