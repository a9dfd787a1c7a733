package config

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

// TestRun is one run of a test file: a plan, optionally applied, with assertions about the result.
type TestRun struct {
	Name string
	// Apply is true if the plan is applied.
	Apply bool
	// RefreshOnly and Refresh are the options of the plan; Replace and Target are the addresses of its options.
	RefreshOnly     bool
	Refresh         bool
	Replace, Target []hcl.Traversal
	// Variables take precedence over those of the file.
	Variables map[string]hcl.Expression
	// Providers selects which of the file's providers the run uses, and under which names; if empty, it uses all.
	Providers []PassedProvider
	Asserts   []*CheckRule
	// ExpectFailures name objects of the root module whose conditions must fail.
	ExpectFailures []hcl.Traversal
	// Module is the call of the tested module; nil for the module under test. Tree is its configuration.
	Module    *ModuleCall
	Tree      *Tree
	Overrides Overrides
	Range     hcl.Range

	variables, options hcl.Range
}

var testRunSchema = &hcl.BodySchema{
	Attributes: []hcl.AttributeSchema{{Name: "command"}, {Name: "providers"}, {Name: "expect_failures"}},
	Blocks: []hcl.BlockHeaderSchema{
		{Type: "plan_options"}, {Type: "assert"}, {Type: "variables"}, {Type: "module"},
		{Type: "override_resource"}, {Type: "override_data"}, {Type: "override_module"},
	},
}

var (
	testOptionsSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{
		{Name: "mode"}, {Name: "refresh"}, {Name: "replace"}, {Name: "target"},
	}}
	testModuleSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "source"}, {Name: "version"}}}
)

// testRun decodes a run block; nil if it contains errors.
func (d *decoder) testRun(b *hcl.Block) *TestRun {
	before := len(d.diags)
	r := &TestRun{Name: b.Labels[0], Range: b.DefRange, Refresh: true}
	c := d.content(b.Body, testRunSchema)
	d.label(b, 0, "Invalid run block name")
	hasOptions := false
	for _, b := range c.Blocks {
		switch b.Type {
		case "assert":
			r.Asserts = append(r.Asserts, d.rule(b))
		case "plan_options":
			if hasOptions {
				d.err(b.DefRange, `Multiple "plan_options" blocks`,
					"A run has one plan_options block. The first is at %s.", r.options)
				continue
			}
			hasOptions, r.options = true, b.DefRange
			d.testOptions(r, b)
		case "variables":
			if r.Variables != nil {
				d.err(b.DefRange, `Multiple "variables" blocks`, "A run has one variables block. The first is at %s.",
					r.variables)
				continue
			}
			r.Variables, r.variables = d.testVariables(b), b.DefRange
		case "module":
			if r.Module != nil {
				d.err(b.DefRange, `Multiple "module" blocks`, "A run has one module block. The first is at %s.",
					r.Module.Range)
			}
			r.Module = d.testModule(r.Name, b)
		default:
			d.addOverride(&r.Overrides, b)
		}
	}
	if attr, ok := c.Attributes["command"]; ok {
		switch hcl.ExprAsKeyword(attr.Expr) {
		case "apply":
			r.Apply = true
		case "plan":
		default:
			d.err(attr.Expr.Range(), `Invalid "command" keyword`, "The command is plan or apply, without quotes.")
		}
	} else {
		r.Apply = true
	}
	if attr, ok := c.Attributes["providers"]; ok {
		r.Providers = d.passedProviders(attr)
	}
	r.ExpectFailures = d.references(c, "expect_failures")
	if d.diags[before:].HasErrors() {
		return nil
	}
	return r
}

// testOptions decodes a plan_options block.
func (d *decoder) testOptions(r *TestRun, b *hcl.Block) {
	c := d.content(b.Body, testOptionsSchema)
	if attr, ok := c.Attributes["mode"]; ok {
		switch hcl.ExprAsKeyword(attr.Expr) {
		case "refresh-only":
			r.RefreshOnly = true
		case "normal":
		default:
			d.err(attr.Expr.Range(), `Invalid "mode" keyword`, "The mode is normal or refresh-only, without quotes.")
		}
	}
	d.constant(c, "refresh", &r.Refresh)
	r.Replace, r.Target = d.references(c, "replace"), d.references(c, "target")
	if !r.Refresh && r.RefreshOnly {
		d.err(c.Attributes["refresh"].Range, "Incompatible plan options", "Refreshing is all that the mode "+
			"refresh-only does, so it cannot be turned off there.")
	}
}

// testModule decodes the module block of a run.
func (d *decoder) testModule(run string, b *hcl.Block) *ModuleCall {
	c := d.content(b.Body, testModuleSchema)
	m := &ModuleCall{Name: run, Config: hcl.EmptyBody(), Range: b.DefRange}
	for name, into := range map[string]*hcl.Expression{"source": &m.SourceExpr, "version": &m.VersionExpr} {
		if attr, ok := c.Attributes[name]; ok {
			var text string
			d.constant(c, name, &text)
			*into = attr.Expr
		}
	}
	if attr, ok := c.Attributes["version"]; ok {
		m.VersionRange = attr.Range
	}
	if attr, ok := c.Attributes["source"]; ok {
		m.SourceRange = attr.Range
	} else {
		d.err(b.DefRange, `Missing "source" attribute for module block`, "The module block of a run says by its "+
			"source which module the run is about.")
	}
	return m
}

// staticValue returns the value that the run gives to a variable of its module that is needed before planning. A
// value that depends on an earlier run is unknown.
func (r *TestRun) staticValue(root *Node, v *Variable) (cty.Value, diag.List) {
	if e, ok := r.Variables[v.Name]; ok {
		return root.static.Value(e, StaticUse{"var." + v.Name, e.Range()})
	}
	if v.Required() {
		return cty.DynamicVal, nil
	}
	return cty.NilVal, nil
}

// Local reports whether the module that the run is about is in a local directory.
func (r *TestRun) Local() bool { return r.Module != nil && r.Module.parsed.Kind == LocalSource }

// Check checks the run beyond its syntax.
func (r *TestRun) Check() diag.List {
	var diags diag.List
	for _, t := range r.ExpectFailures {
		_, more := CheckableOf(t)
		diags = append(diags, more...)
	}
	return append(diags, r.Overrides.duplicates()...)
}

// CheckableOf returns the object of the root module to which an element of expect_failures refers: a variable, an
// output, a check block, a resource or an instance of one.
func CheckableOf(t hcl.Traversal) (*addr.Reference, diag.List) {
	ref, diags := addr.ParseTestReference(t)
	if diags.HasErrors() {
		return nil, diags
	}
	switch ref.Subject.(type) {
	case addr.Variable, addr.Output, addr.Check, addr.Resource, addr.ResourceRef:
		return ref, diags
	}
	return nil, append(diags, diag.New(diag.Error, "Invalid `expect_failures` reference", fmt.Sprintf(
		"%s has no conditions that could fail. Variables, outputs, check blocks and resources have.", ref.Subject),
		&ref.Range))
}
