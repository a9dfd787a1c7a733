package config

import (
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

// Query files are loaded for queries alone: other commands ignore them.

var (
	queryFileSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "list", LabelNames: []string{"type", "name"}},
		{Type: "provider", LabelNames: []string{"name"}},
		{Type: "variable", LabelNames: []string{"name"}},
		{Type: "locals"},
	}}
	listSchema = &hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{
			{Name: "provider", Required: true}, {Name: "count"}, {Name: "for_each"}, {Name: "include_resource"},
			{Name: "limit"},
		},
		Blocks: []hcl.BlockHeaderSchema{{Type: "config"}},
	}
)

// HasQueries reports whether the directory contains query files.
func (l *Loader) HasQueries(dir string) bool { return len(l.listQueries(dir)) > 0 }

// listQueries finds the query files of a directory. A .tofuquery file replaces the .tfquery file of the same name.
func (l *Loader) listQueries(dir string) []string {
	entries, err := l.fs.ReadDir(dir)
	if err != nil {
		return nil // reported when the other files are read
	}
	present := map[string]bool{}
	for _, e := range entries {
		present[e.Name()] = !e.IsDir()
	}
	var names []string
	for _, e := range entries {
		if is, rival := queryFileName(e.Name()); is && !e.IsDir() && !ignoredFile(e.Name()) && !present[rival] {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	return names
}

// queryFileName reports whether a file of this name contains queries, and the name of the file that would replace it.
func queryFileName(name string) (is bool, rival string) {
	for _, ext := range []string{".hcl", ".json"} {
		if stem, ok := strings.CutSuffix(name, ".tfquery"+ext); ok {
			return true, stem + ".tofuquery" + ext
		}
		if strings.HasSuffix(name, ".tofuquery"+ext) {
			return true, ""
		}
	}
	return false, ""
}

// assembleWith is assemble, after which the query files of the directory are added if queries is set. The module's
// Files are then those.
func (l *Loader) assembleWith(dir string, primary, override []*file, queries bool) (*Module, diag.List) {
	if !queries {
		return assemble(dir, primary, override)
	}
	names := l.listQueries(dir)
	var diags diag.List
	for _, p := range l.parseAll(names) {
		f, more := decodeQueryFile(p.body)
		diags = append(append(diags, p.diags...), more...)
		primary = append(primary, f)
	}
	m, more := assemble(dir, primary, override)
	m.Files = names
	return m, append(diags, more...)
}

// decodeQueryFile decodes the body of one query file.
func decodeQueryFile(body hcl.Body) (*file, diag.List) {
	d := &decoder{}
	f := &file{}
	for _, b := range d.content(body, queryFileSchema).Blocks {
		switch b.Type {
		case "list":
			f.resources = append(f.resources, d.list(b))
		case "provider":
			f.providers = appendIf(f.providers, d.provider(b))
		case "variable":
			f.variables = append(f.variables, d.variable(b))
		case "locals":
			f.locals = append(f.locals, d.locals(b)...)
		}
	}
	return f, d.diags
}

// list decodes a list block.
func (d *decoder) list(b *hcl.Block) *Resource {
	r := newResource(addr.List, b)
	c := d.content(b.Body, listSchema)
	d.label(b, 0, "Invalid resource type name")
	d.label(b, 1, "Invalid list block name")
	times := d.header(r, c)
	r.IncludeResource, r.Limit = expr(c, "include_resource"), expr(c, "limit")
	d.configBlock(r, c.Blocks)
	times.check(d, "instances of the list block")
	return r
}

// configBlock sets Config from the config block; without one it is empty.
func (d *decoder) configBlock(r *Resource, blocks hcl.Blocks) {
	r.ConfigRange = r.Range
	r.Config = &hclsyntax.Body{SrcRange: r.Range, EndRange: r.Range}
	var config *hcl.Block
	for _, b := range blocks {
		if d.once(&config, b, "config") {
			r.Config, r.ConfigRange = b.Body, b.DefRange
		}
	}
}
