package config

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
)

// overlaid is an encryption block overridden by another: blocks with the same type and labels become one, in
// which what the override says counts. Other blocks are added.
type overlaid struct{ base, override hcl.Body }

func mergeEncryption(base, override hcl.Body) hcl.Body { return overlaid{base, override} }

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
			if block.Type == "remote_state_data_sources" {
				merged.Body = overlaid{block.Body, rest[i].Body}
			} else {
				merged.Body = overridden{block.Body, rest[i].Body}
			}
			block = &merged
			rest = slices.Delete(rest, i, i+1)
		}
		out.Blocks = append(out.Blocks, block)
	}
	out.Blocks = append(out.Blocks, rest...)
	return out
}
