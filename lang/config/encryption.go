package config

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/pattern"
	"github.com/millipede-iac/millipede/lang/diag"
)

// The structure of an encryption block. Its content is decoded by the package that encrypts.
var (
	encryptionSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "key_provider", LabelNames: []string{"type", "name"}},
		{Type: "method", LabelNames: []string{"type", "name"}},
		{Type: "state"},
		{Type: "plan"},
		{Type: "remote_state_data_sources"},
	}}
	remoteEncryptionSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "default"},
		{Type: "remote_state_data_source", LabelNames: []string{"name"}},
	}}
	targetSchema = &hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{{Name: "method"}},
		Blocks:     []hcl.BlockHeaderSchema{{Type: "fallback"}},
	}
	enforceableTargetSchema = &hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{{Name: "enforced"}, {Name: "method"}},
		Blocks:     []hcl.BlockHeaderSchema{{Type: "fallback"}},
	}
)

// CheckEncryption reports the problems of an encryption block that are visible without evaluation.
func CheckEncryption(body hcl.Body) diag.List {
	d := &decoder{}
	d.encryption(body)
	return d.diags
}

// encryptionName matches valid types and names of key providers and methods, as in OpenTofu.
var encryptionName = pattern.Lazy(`^[a-zA-Z_0-9-]+$`)

// encryption checks the structure of an encryption block.
func (d *decoder) encryption(body hcl.Body) bool {
	before := len(d.diags)
	seen := map[string]*hcl.Block{}
	declared := map[string]bool{}
	for _, b := range d.content(body, encryptionSchema).Blocks {
		switch b.Type {
		case "key_provider":
			d.encryptionLabels(b, "key provider")
			d.declaredOnce(declared, b, "Duplicate key_provider")
		case "method":
			d.encryptionLabels(b, "encryption method")
			d.declaredOnce(declared, b, "Duplicate method")
		case "state", "plan":
			if d.single(seen, b) {
				d.encryptionTarget(b.Body, enforceableTargetSchema)
			}
		case "remote_state_data_sources":
			if !d.single(seen, b) {
				continue
			}
			remote := map[string]*hcl.Block{}
			for _, t := range d.content(b.Body, remoteEncryptionSchema).Blocks {
				if t.Type != "default" {
					d.declaredOnce(declared, t, "Duplicate remote_data_source")
				}
				if t.Type != "default" || d.single(remote, t) {
					d.encryptionTarget(t.Body, targetSchema)
				}
			}
		}
	}
	return !d.diags[before:].HasErrors()
}

func (d *decoder) encryptionLabels(b *hcl.Block, what string) {
	for i, part := range []string{"type", "name"} {
		if !encryptionName().MatchString(b.Labels[i]) {
			d.err(b.LabelRanges[i], "The provided "+what+" "+part+" is invalid", "A "+part+" is made of letters, "+
				"digits, _ and -.")
		}
	}
}

func (d *decoder) declaredOnce(declared map[string]bool, b *hcl.Block, summary string) {
	address := b.Type + "." + strings.Join(b.Labels, ".")
	if declared[address] {
		d.err(b.DefRange, summary, "The encryption block has %s already.", address)
	}
	declared[address] = true
}

func (d *decoder) encryptionTarget(body hcl.Body, schema *hcl.BodySchema) {
	seen := map[string]*hcl.Block{}
	for _, b := range d.content(body, schema).Blocks {
		if d.single(seen, b) {
			d.encryptionTarget(b.Body, targetSchema)
		}
	}
}

// overlaid is an encryption block overridden by another: blocks with the same type and labels are merged, and the
// override's arguments take precedence. Other blocks are added.
type overlaid struct{ base, override hcl.Body }

// MergeEncryption returns the body of an encryption block overridden by that of another.
func MergeEncryption(base, override hcl.Body) hcl.Body { return overlaid{base, override} }

func (b overlaid) Content(schema *hcl.BodySchema) (*hcl.BodyContent, hcl.Diagnostics) {
	base, diags := b.base.Content(schema)
	over, more := b.override.Content(optional(schema))
	return b.merge(base, over), append(diags, more...)
}

func (b overlaid) PartialContent(schema *hcl.BodySchema) (*hcl.BodyContent, hcl.Body, hcl.Diagnostics) {
	base, baseRest, diags := b.base.PartialContent(schema)
	over, overRest, more := b.override.PartialContent(optional(schema))
	return b.merge(base, over), overlaid{baseRest, overRest}, append(diags, more...)
}

func (b overlaid) JustAttributes() (hcl.Attributes, hcl.Diagnostics) {
	return overridden(b).JustAttributes()
}

func (b overlaid) MissingItemRange() hcl.Range { return b.base.MissingItemRange() }

func (b overlaid) merge(base, over *hcl.BodyContent) *hcl.BodyContent {
	out := overlay(&hcl.BodyContent{Attributes: base.Attributes, MissingItemRange: base.MissingItemRange},
		&hcl.BodyContent{Attributes: over.Attributes})
	rest := slices.Clone(over.Blocks)
	for _, block := range base.Blocks {
		i := slices.IndexFunc(rest, func(o *hcl.Block) bool {
			return o.Type == block.Type && slices.Equal(o.Labels, block.Labels)
		})
		if i >= 0 {
			merged := *block
			switch own := (overridden{block.Body, rest[i].Body}); block.Type {
			case "remote_state_data_sources":
				merged.Body = overlaid(own)
			case "state", "plan":
				merged.Body = enforceable{own}
			default:
				merged.Body = own
			}
			block = &merged
			rest = slices.Delete(rest, i, i+1)
		}
		out.Blocks = append(out.Blocks, block)
	}
	out.Blocks = append(out.Blocks, rest...)
	return out
}

// enforceable is a target that is enforced if one of the two bodies enforces it: an override cannot revoke that.
type enforceable struct{ overridden }

func (b enforceable) Content(schema *hcl.BodySchema) (*hcl.BodyContent, hcl.Diagnostics) {
	content, _, diags := b.PartialContent(schema)
	return content, diags
}

func (b enforceable) PartialContent(schema *hcl.BodySchema) (*hcl.BodyContent, hcl.Body, hcl.Diagnostics) {
	content, rest, diags := b.overridden.PartialContent(schema)
	base, _, _ := b.base.PartialContent(enforceableTargetSchema) // its problems are already reported
	if a := base.Attributes["enforced"]; a != nil && content.Attributes["enforced"] != nil {
		if v, problems := a.Expr.Value(nil); !problems.HasErrors() && v.RawEquals(cty.True) {
			content.Attributes["enforced"] = a
		}
	}
	return content, rest, diags
}
