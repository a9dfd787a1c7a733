// Package lock reads and writes the dependency lock file: which version of each provider is selected, with the hashes
// of its packages.
//
// The file has OpenTofu's format, byte for byte, so that both programs can be used alternately. The package does
// not select versions.
package lock

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/apparentlymart/go-versions/versions"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/bounds"
	"github.com/millipede-iac/millipede/internal/wholefile"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/syntax"
)

// FileName is the name of the lock file, beside the configuration.
const FileName = ".terraform.lock.hcl"

// Locks are the selections. The zero value has none.
type Locks struct {
	Providers map[addr.Provider]*Provider
}

// Provider is one selection.
type Provider struct {
	Version versions.Version
	// Constraints are the constraints for which the selection was made, in normalised form.
	Constraints string
	// Hashes are sorted and unique, with their schemes (h1:, zh:).
	Hashes []string
}

// Get returns the selection of a provider, or nil.
func (l *Locks) Get(p addr.Provider) *Provider {
	if l == nil {
		return nil
	}
	return l.Providers[p]
}

// Set sets the selection of a provider.
func (l *Locks) Set(p addr.Provider, s *Provider) {
	if l.Providers == nil {
		l.Providers = map[addr.Provider]*Provider{}
	}
	slices.Sort(s.Hashes)
	s.Hashes = slices.Compact(s.Hashes)
	l.Providers[p] = s
}

// Sorted returns the providers with a selection, in the order of the file.
func (l *Locks) Sorted() []addr.Provider {
	return slices.SortedFunc(maps.Keys(l.Providers),
		func(a, b addr.Provider) int { return strings.Compare(a.String(), b.String()) })
}

// AdoptPredecessors copies the selections in a lock file of OpenTofu's predecessor to the providers of the same
// name in OpenTofu's registry, and returns their old addresses. The versions are kept; the hashes are not, because
// the packages differ. The caller decides whether the old selections are still required.
func (l *Locks) AdoptPredecessors() []addr.Provider {
	var adopted []addr.Provider
	for _, old := range l.Sorted() {
		now := addr.Provider{Host: addr.DefaultHost, Namespace: old.Namespace, Type: old.Type}
		if old.Host != addr.PredecessorHost || old.Namespace != "hashicorp" || l.Providers[now] != nil {
			continue
		}
		l.Set(now, &Provider{Version: l.Providers[old].Version, Constraints: l.Providers[old].Constraints})
		adopted = append(adopted, old)
	}
	return adopted
}

// Read reads a lock file. If it does not exist, there are no selections.
func Read(name string) (*Locks, diag.List) {
	text, err := bounds.ReadFile(name, bounds.Text)
	if errors.Is(err, fs.ErrNotExist) {
		return &Locks{}, nil
	}
	if err != nil {
		return &Locks{}, diag.Errors("Failed to read dependency lock file", err.Error()+".", nil)
	}
	return Parse(name, text)
}

// Parse parses the content of a lock file; name is for diagnostics.
func Parse(name string, text []byte) (*Locks, diag.List) {
	l := &Locks{}
	var diags diag.List
	file, hclDiags := syntax.ParseConfig(text, name, hcl.InitialPos)
	diags = diags.Append(hclDiags)
	if file == nil {
		return l, diags
	}
	content, hclDiags := file.Body.Content(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "provider", LabelNames: []string{"source_addr"}},
		{Type: "module", LabelNames: []string{"path"}},
	}})
	diags = diags.Append(hclDiags)
	for _, b := range content.Blocks {
		if b.Type != "provider" {
			continue
		}
		p, s, more := parseProvider(b)
		diags = diags.Append(more)
		if s == nil {
			continue
		}
		if l.Providers[p] != nil {
			diags = diags.Append(diag.New(diag.Error, "Duplicate provider lock",
				fmt.Sprintf("This file has a selection of %s already.", p), b.DefRange.Ptr()))
			continue
		}
		l.Set(p, s)
	}
	return l, diags
}

func parseProvider(b *hcl.Block) (addr.Provider, *Provider, diag.List) {
	p, diags := addr.ParseProviderSource(b.Labels[0])
	if diags.HasErrors() {
		return p, nil, diags.WithSubject(b.LabelRanges[0].Ptr())
	}
	var raw struct {
		Version     string   `hcl:"version"`
		Constraints string   `hcl:"constraints,optional"`
		Hashes      []string `hcl:"hashes,optional"`
		Rest        hcl.Body `hcl:",remain"`
	}
	diags = diags.Append(gohcl.DecodeBody(b.Body, nil, &raw))
	if diags.HasErrors() {
		return p, nil, diags
	}
	v, err := versions.ParseVersion(raw.Version)
	if err != nil {
		return p, nil, diags.Append(diag.New(diag.Error, "Invalid provider version number",
			fmt.Sprintf("The selected version number for provider %s is invalid: %s.", p, err), b.DefRange.Ptr()))
	}
	var known []string
	for _, h := range raw.Hashes {
		scheme, rest, ok := strings.Cut(h, ":")
		if slices.Contains(schemes, scheme) {
			known = append(known, h)
		}
		if !ok || scheme == "" || rest == "" {
			diags = diags.Append(diag.New(diag.Error, "Invalid provider hash string",
				fmt.Sprintf("The string %q is not a provider hash: it must begin with a scheme, such as h1:.", h),
				b.DefRange.Ptr()))
		}
	}
	if len(known) == 0 && len(raw.Hashes) > 0 && !diags.HasErrors() {
		diags = diags.Append(diag.New(diag.Warning, "Provider hashes of an unknown scheme", fmt.Sprintf("All hashes that "+
			"are recorded for the provider %s have schemes that this version does not know, so that its package is not "+
			"verified. The next init records hashes of the schemes %s.", p, strings.Join(schemes, " and ")),
			b.DefRange.Ptr()))
	}
	return p, &Provider{Version: v, Constraints: raw.Constraints, Hashes: known}, diags
}

// schemes are the schemes of the hashes that are verified. Hashes of others, which a later version may record, are
// ignored, as OpenTofu ignores them.
var schemes = []string{"h1", "zh"}

// Encode returns the content of the file.
func (l *Locks) Encode() []byte {
	f := hclwrite.NewEmptyFile()
	body := f.Body()
	body.AppendUnstructuredTokens(hclwrite.Tokens{
		{Type: hclsyntax.TokenComment, Bytes: []byte("# This file is maintained automatically by \"tofu init\".\n")},
		{Type: hclsyntax.TokenComment, Bytes: []byte("# Manual edits may be lost in future updates.\n")},
	})
	for _, p := range l.Sorted() {
		s := l.Providers[p]
		body.AppendNewline()
		block := body.AppendNewBlock("provider", []string{p.String()}).Body()
		block.SetAttributeValue("version", cty.StringVal(s.Version.String()))
		if s.Constraints != "" {
			block.SetAttributeValue("constraints", cty.StringVal(s.Constraints))
		}
		if len(s.Hashes) > 0 {
			block.SetAttributeRaw("hashes", hashTokens(s.Hashes))
		}
	}
	return f.Bytes()
}

// hashTokens writes one hash per line, so that version control shows the changed hashes.
func hashTokens(hashes []string) hclwrite.Tokens {
	newline := &hclwrite.Token{Type: hclsyntax.TokenNewline, Bytes: []byte("\n")}
	out := hclwrite.Tokens{{Type: hclsyntax.TokenOBrack, Bytes: []byte("[")}, newline}
	for _, h := range hashes {
		out = append(out, hclwrite.TokensForValue(cty.StringVal(h))...)
		out = append(out, &hclwrite.Token{Type: hclsyntax.TokenComma, Bytes: []byte(",")}, newline)
	}
	return append(out, &hclwrite.Token{Type: hclsyntax.TokenCBrack, Bytes: []byte("]")})
}

// Write writes the file atomically if its content has changed.
func (l *Locks) Write(name string) error {
	text := l.Encode()
	if old, err := bounds.ReadFile(name, bounds.Text); err == nil && bytes.Equal(old, text) {
		return nil
	}
	return wholefile.Write(name, wholefile.Public, wholefile.Bytes(text))
}
