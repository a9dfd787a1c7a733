package config

import (
	"strings"
	"sync"

	goversion "github.com/hashicorp/go-version"
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/marks"
)

// LanguageVersion is the OpenTofu release whose language this package implements. Version constraints on OpenTofu
// are checked against it.
const LanguageVersion = "1.12.6"

// edition is the only edition of the language.
const edition = "tofu2024"

// The versions are parsed when they are first compared: that compiles expressions, which few commands need.
var (
	languageVersion = lazyVersion(LanguageVersion)
	compatibleSince = lazyVersion("1.11.0")
)

func lazyVersion(version string) func() *goversion.Version {
	return sync.OnceValue(func() *goversion.Version { return goversion.Must(goversion.NewVersion(version)) })
}

var (
	languageSchema = &hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{{Name: "edition"}, {Name: "experiments"}},
		Blocks:     []hcl.BlockHeaderSchema{{Type: "compatible_with"}},
	}
	compatibleSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "opentofu"}}}
	engineSchema     = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "required_version"}}}
	compatibleWithIn = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "compatible_with"}}}
)

// incompatible marks the problem that a module does not support this version of the language.
type incompatible struct{}

// onlyIncompatible removes all other problems if there are such, because the others could follow from them.
func onlyIncompatible(diags diag.List) diag.List {
	var out diag.List
	for _, d := range diags {
		if _, is := d.Extra.(incompatible); is {
			out = append(out, d)
		}
	}
	if out == nil {
		return diags
	}
	return out
}

// engineVersions collects the constraints on the version of OpenTofu, and checks those that are enforced. They are
// decoded first and leniently, so that for a module that requires a later version this is reported before other
// problems.
func (d *decoder) engineVersions(file *hcl.BodyContent) []EngineVersion {
	var out []EngineVersion
	for _, b := range file.Blocks {
		switch b.Type {
		case "language":
			c, _, more := b.Body.PartialContent(compatibleWithIn)
			d.add(more)
			for _, b := range c.Blocks {
				c, _, more := b.Body.PartialContent(compatibleSchema)
				d.add(more)
				if attr, ok := c.Attributes["opentofu"]; ok {
					out = d.engineVersion(out, attr, true)
				}
			}
		case "terraform":
			c, _, more := b.Body.PartialContent(engineSchema)
			enforced := isTofuFile(b.DefRange.Filename)
			if enforced {
				d.add(more)
			}
			if attr, ok := c.Attributes["required_version"]; ok {
				out = d.engineVersion(out, attr, enforced)
			}
		}
	}
	return out
}

func (d *decoder) engineVersion(list []EngineVersion, attr *hcl.Attribute, enforced bool) []EngineVersion {
	quiet := &decoder{}
	constraint, ok := quiet.versionAttribute(attr)
	if !enforced {
		if ok && !quiet.diags.HasErrors() {
			list = append(list, EngineVersion{Constraint: constraint.String(), Range: attr.Range})
		}
		return list
	}
	d.diags = append(d.diags, quiet.diags...)
	if !ok || quiet.diags.HasErrors() {
		return list
	}
	for _, c := range constraint {
		if c.Prerelease() {
			d.err(attr.Range, "Invalid required_version constraint",
				"A prerelease cannot be asked for: %s. Leave that part of the version out; prereleases count as the "+
					"release that they precede.", c)
			return list
		}
	}
	if !constraint.Check(languageVersion()) {
		p := diag.New(diag.Error, "Incompatible module",
			"This module says that it is not made for OpenTofu "+LanguageVersion+", whose language Millipede reads. "+
				"Use a version of the module that is, or change the constraint if you know that it is too strict.",
			&attr.Range)
		p.Extra = incompatible{}
		d.diags = append(d.diags, p)
	}
	return append(list, EngineVersion{Constraint: constraint.String(), Range: attr.Range, Enforced: true})
}

// language checks a language block. Its constraints were handled by engineVersions.
func (d *decoder) language(b *hcl.Block) {
	if d.override {
		d.err(b.DefRange, "Language selections in override file", "A language block cannot stand in an override file.")
		return
	}
	c := d.content(b.Body, languageSchema)
	if attr, ok := c.Attributes["edition"]; ok {
		d.edition(attr)
	}
	if attr, ok := c.Attributes["experiments"]; ok {
		d.experiments(attr)
	}
	var seen *hcl.Block
	for _, b := range c.Blocks {
		if !d.once(&seen, b, "compatible_with") {
			continue
		}
		c, _, _ := b.Body.PartialContent(compatibleSchema) // engineVersions has reported its problems
		attr, ok := c.Attributes["opentofu"]
		if !ok {
			continue
		}
		quiet := &decoder{}
		constraint, ok := quiet.versionAttribute(attr)
		if ok && constraint.Check(compatibleSince()) {
			d.warn(attr.Range, "Ineffective version constraint",
				"OpenTofu knows compatible_with since 1.12.0, so the constraint should leave out all earlier "+
					"versions. "+
					"For those, write required_version in a terraform block of a file whose name ends in .tofu.")
		}
	}
}

func (d *decoder) edition(attr *hcl.Attribute) {
	at := attr.Expr.Range()
	switch word := hcl.ExprAsKeyword(attr.Expr); {
	case word == "":
		d.err(at, "Invalid language edition", "An edition is a bare word. The only one so far is %s, which is the "+
			"default.", edition)
	case strings.HasPrefix(word, "TF"):
		d.err(at, "Unsupported language edition", "%s is not an edition of OpenTofu's language. The module may be made "+
			"for other software.", word)
	case word != edition:
		d.err(at, "Unsupported language edition", "The only edition so far is %s. The module may be made for a later "+
			"version of OpenTofu.", edition)
	}
}

func (d *decoder) experiments(attr *hcl.Attribute) {
	list, more := hcl.ExprList(attr.Expr)
	if d.add(more) {
		return
	}
	for _, e := range list {
		if word := hcl.ExprAsKeyword(e); word == "" {
			d.err(e.Range(), "Invalid experiment keyword", "Experiments are named by bare words.")
		} else {
			d.err(e.Range(), "Unknown experiment keyword", "There is no experiment %q at present.", word)
		}
	}
}

// versionAttribute decodes version constraints, which must not contain references.
func (d *decoder) versionAttribute(attr *hcl.Attribute) (goversion.Constraints, bool) {
	v, more := attr.Expr.Value(nil)
	if d.add(more) {
		return nil, false
	}
	return d.versionValue(attr, v)
}

// versionValue decodes version constraints. It returns false for null and unknown, without a problem.
func (d *decoder) versionValue(attr *hcl.Attribute, v cty.Value) (goversion.Constraints, bool) {
	const summary = "Invalid version constraint"
	at := attr.Expr.Range()
	for _, mark := range []struct {
		mark any
		name string
	}{{marks.Sensitive, "sensitive"}, {marks.Ephemeral, "ephemeral"}} {
		if marks.Has(v, mark.mark) {
			d.err(at, summary, "The %s argument cannot depend on values that are %s.", attr.Name, mark.name)
			return nil, false
		}
	}
	v, _ = v.Unmark()
	v, err := convert.Convert(v, cty.String)
	if err != nil {
		d.err(at, summary, "The %s argument takes a string.", attr.Name)
		return nil, false
	}
	if v.IsNull() || !v.IsKnown() {
		return nil, false
	}
	return d.versionText(v.AsString(), at)
}

func (d *decoder) versionText(text string, at hcl.Range) (goversion.Constraints, bool) {
	c, err := goversion.NewConstraint(text)
	if err != nil {
		d.err(at, "Invalid version constraint",
			`%q is not in the form of version constraints, such as "~> 1.2" or ">= 1.0, < 2.0".`, text)
		return nil, false
	}
	return c, true
}
