package config

import (
	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/lang/diag"
)

// file has the declarations of one file, before the files of a module are merged.
type file struct {
	engine     []EngineVersion
	backends   []*Backend
	clouds     []*Backend
	encryption []encryption
	required   []*requiredProviders
	metas      []providerMeta
	providers  []*ProviderConfig

	variables []*Variable
	locals    []*Local
	outputs   []*Output
	calls     []*ModuleCall
	resources []*Resource // in the order managed, data, ephemeral, actions
	checks    []*Check

	moved   []*Moved
	removed []*Removed
	imports []*Import
}

type encryption struct {
	body hcl.Body
	rng  hcl.Range
}

var fileSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
	{Type: "terraform"},
	{Type: "language"},
	{Type: "required_providers"},
	{Type: "provider", LabelNames: []string{"name"}},
	{Type: "variable", LabelNames: []string{"name"}},
	{Type: "locals"},
	{Type: "output", LabelNames: []string{"name"}},
	{Type: "module", LabelNames: []string{"name"}},
	{Type: "resource", LabelNames: []string{"type", "name"}},
	{Type: "data", LabelNames: []string{"type", "name"}},
	{Type: "ephemeral", LabelNames: []string{"type", "name"}},
	{Type: "action", LabelNames: []string{"type", "name"}},
	{Type: "check", LabelNames: []string{"name"}},
	{Type: "moved"},
	{Type: "removed"},
	{Type: "import"},
}}

var terraformSchema = &hcl.BodySchema{
	Attributes: []hcl.AttributeSchema{
		{Name: "required_version"},
		{Name: "experiments"},
		{Name: "language"},
	},
	Blocks: []hcl.BlockHeaderSchema{
		{Type: "backend", LabelNames: []string{"type"}},
		{Type: "cloud"},
		{Type: "required_providers"},
		{Type: "provider_meta", LabelNames: []string{"provider"}},
		{Type: "encryption"},
	},
}

// decodeFile decodes the body of one file. override is true for files whose content overrides other declarations.
func decodeFile(body hcl.Body, override bool) (*file, diag.List) {
	d := &decoder{override: override}
	f := &file{}
	content := d.content(body, fileSchema)
	f.engine = d.engineVersions(content)
	var data, ephemeral, actions []*Resource
	for _, b := range content.Blocks {
		switch b.Type {
		case "terraform":
			d.terraform(b, f)
		case "language":
			d.language(b)
		case "required_providers":
			d.err(b.TypeRange, "Invalid required_providers block", "A required_providers block stands inside of a "+
				"terraform block.")
		case "provider":
			f.providers = appendIf(f.providers, d.provider(b))
		case "variable":
			f.variables = append(f.variables, d.variable(b))
		case "locals":
			f.locals = append(f.locals, d.locals(b)...)
		case "output":
			f.outputs = append(f.outputs, d.output(b))
		case "module":
			f.calls = append(f.calls, d.module(b))
		case "resource":
			f.resources = append(f.resources, d.resource(b))
		case "data":
			data = append(data, d.data(b, ""))
		case "ephemeral":
			ephemeral = append(ephemeral, d.ephemeral(b))
		case "action":
			actions = append(actions, d.action(b))
		case "check":
			f.checks = append(f.checks, d.check(b))
		case "moved":
			f.moved = append(f.moved, d.moved(b))
		case "removed":
			f.removed = append(f.removed, d.removed(b))
		case "import":
			f.imports = append(f.imports, d.importBlock(b))
		}
	}
	f.resources = append(append(append(f.resources, data...), ephemeral...), actions...)
	return f, d.diags
}

func appendIf[T any](list []*T, v *T) []*T {
	if v == nil {
		return list
	}
	return append(list, v)
}

func (d *decoder) terraform(b *hcl.Block, f *file) {
	content := d.content(b.Body, terraformSchema)
	for _, b := range content.Blocks {
		switch b.Type {
		case "backend":
			f.backends = append(f.backends, &Backend{Type: b.Labels[0], Body: b.Body, Range: b.DefRange,
				TypeRange: b.LabelRanges[0]})
		case "cloud":
			f.clouds = append(f.clouds, &Backend{Type: "cloud", Body: b.Body, Range: b.DefRange,
				TypeRange: b.TypeRange, OwnBlock: true})
		case "required_providers":
			f.required = append(f.required, d.requiredProviders(b))
		case "provider_meta":
			if m, ok := d.providerMeta(b); ok {
				f.metas = append(f.metas, m)
			}
		case "encryption":
			if d.encryption(b.Body) {
				f.encryption = append(f.encryption, encryption{b.Body, b.DefRange})
			}
		}
	}
}

// single reports the second block of a type.
func (d *decoder) single(seen map[string]*hcl.Block, b *hcl.Block) bool {
	if first := seen[b.Type]; first != nil {
		d.err(b.DefRange, "Duplicate "+b.Type+" block", "Only one %s block is allowed here. The first is at %s.",
			b.Type, first.DefRange)
		return false
	}
	seen[b.Type] = b
	return true
}
