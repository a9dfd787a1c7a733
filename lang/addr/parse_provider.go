package addr

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	regaddr "github.com/opentofu/registry-address/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/syntax"
)

// LegacyNamespace is the namespace of providers in states that are older than source addresses.
const LegacyNamespace = "-"

// IsLegacy reports whether p comes from a state that is older than source addresses, so that its source is unknown.
func (p Provider) IsLegacy() bool { return p.Namespace == LegacyNamespace }

// ParseProviderSource parses [HOST/][NAMESPACE/]TYPE and normalises it. Problems have no source range.
func ParseProviderSource(text string) (Provider, diag.List) {
	if p, ok := scanSource(text); ok {
		return p, nil
	}
	p, err := regaddr.ParseProviderSource(text)
	if err != nil {
		var parse *regaddr.ParserError
		if errors.As(err, &parse) {
			return Provider{}, diag.Errors(parse.Summary, parse.Detail, nil)
		}
		return Provider{}, diag.Errors("Invalid provider source string", err.Error(), nil)
	}
	if !p.HasKnownNamespace() {
		p.Namespace = "hashicorp"
	}
	return Provider{p.Hostname.String(), p.Namespace, p.Type}, nil
}

// ParseProviderLabel normalises a provider's local name, namespace or type.
func ParseProviderLabel(text string) (string, error) {
	if plainLabel(text) {
		return text, nil
	}
	return regaddr.ParseProviderPart(text)
}

// scanSource parses HOST/NAMESPACE/TYPE in its normalized form, as in states and lock files.
func scanSource(text string) (Provider, bool) {
	host, rest, ok := strings.Cut(text, "/")
	namespace, name, ok2 := strings.Cut(rest, "/")
	if !ok || !ok2 || !plainHost(host) || !plainLabel(namespace) || !plainLabel(name) ||
		strings.HasPrefix(name, "terraform-") || strings.HasPrefix(name, "opentofu-") {
		return Provider{}, false
	}
	return Provider{host, namespace, name}, true
}

// plainHost reports whether s is a host name of two or more plain labels, which normalization does not change.
func plainHost(s string) bool {
	label, rest, more := strings.Cut(s, ".")
	return more && plainLabel(label) && (plainHost(rest) || plainLabel(rest))
}

// plainLabel reports whether s consists of lower case letters, digits and single inner dashes.
func plainLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' || strings.Contains(s, "--") {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// ParseProviderInstance parses the forms in states and messages: module.a.provider["host/ns/type"], optionally
// followed by .ALIAS and [KEY], and the legacy provider.aws.ALIAS.
func ParseProviderInstance(text string) (ProviderInstance, diag.List) {
	trav, diags := parseText(text)
	if diags.HasErrors() {
		return ProviderInstance{}, diags
	}
	steps, rest, more := modulePrefix(trav)
	diags = diags.Append(more)
	if diags.HasErrors() {
		return ProviderInstance{}, diags
	}
	p := ProviderInstance{Module: ModuleInstanceOf(steps...)}
	more = p.parseRest(rest, trav.SourceRange())
	return p, diags.Append(more)
}

// ParseProviderConfig is ParseProviderInstance without keys in the modules and the configuration.
func ParseProviderConfig(text string) (ProviderConfig, diag.List) {
	p, diags := ParseProviderInstance(text)
	if diags.HasErrors() {
		return ProviderConfig{}, diags
	}
	if p.Key != NoKey {
		return ProviderConfig{},
			diags.Append(invalidProvider("A key cannot follow the provider configuration here.", nil))
	}
	for _, s := range p.Module.Steps() {
		if s.Key != NoKey {
			return ProviderConfig{}, diags.Append(invalidProvider(
				"A provider configuration belongs to a module, not to one instance of it: leave out the keys of the "+
					"modules.", nil))
		}
	}
	return p.Config(), diags
}

// parseRest parses what follows the module path.
func (p *ProviderInstance) parseRest(rest hcl.Traversal, whole hcl.Range) diag.List {
	if len(rest) < 2 || rest.RootName() != "provider" {
		return invalidProvider(`The address of a provider configuration starts with "provider", then names a provider.`,
			&whole)
	}
	at := func(i int) *hcl.Range { return rest[i].SourceRange().Ptr() }
	legacy := false
	switch s := rest[1].(type) {
	case hcl.TraverseIndex:
		if s.Key.Type() != cty.String {
			return invalidProvider("A provider is named by a string in brackets.", at(1))
		}
		source, diags := ParseProviderSource(s.Key.AsString())
		if diags.HasErrors() {
			return diags.WithSubject(at(1))
		}
		p.Provider = source
	case hcl.TraverseAttr:
		legacy = true
		p.Provider = Provider{DefaultHost, LegacyNamespace, s.Name}
		if s.Name == "terraform" {
			p.Provider = BuiltinTerraform
		}
	default:
		return invalidProvider("A provider has to be named here.", at(1))
	}
	if len(rest) > 2 {
		alias, ok := rest[2].(hcl.TraverseAttr)
		if !ok {
			return invalidProvider("Only a dot with the alias of a configuration can follow the provider.", at(2))
		}
		p.Alias = alias.Name
	}
	if len(rest) > 3 {
		idx, ok := rest[3].(hcl.TraverseIndex)
		if !ok || legacy {
			return invalidProvider("Only a key in brackets can follow the alias of a configuration.", at(3))
		}
		key, err := ParseKey(idx.Key)
		if err != nil {
			return invalidProvider(fmt.Sprintf("Not a provider instance key: %s.", err), at(3))
		}
		p.Key = key
	}
	if len(rest) > 4 {
		return invalidProvider("There is more behind the end of the provider configuration.", at(4))
	}
	return nil
}

// ParseLocalProvider parses NAME or NAME.ALIAS, which refer to a provider configuration within a module.
func ParseLocalProvider(trav hcl.Traversal) (LocalProvider, diag.List) {
	l := LocalProvider{Name: trav.RootName()}
	if len(trav) == 1 {
		return l, nil
	}
	alias, ok := trav[1].(hcl.TraverseAttr)
	if !ok {
		return l, invalidProvider("After the name of a provider, only a dot with an alias can follow.",
			trav[1].SourceRange().Ptr())
	}
	l.Alias = alias.Name
	if len(trav) > 2 {
		return l, invalidProvider("There is more behind the alias of the provider configuration.",
			trav[2:].SourceRange().Ptr())
	}
	return l, nil
}

// ParseLocalProviderText is ParseLocalProvider for text.
func ParseLocalProviderText(text string) (LocalProvider, diag.List) {
	trav, hclDiags := syntax.ParseTraversalAbs([]byte(text), "", hcl.InitialPos)
	diags := diag.List(nil).Append(hclDiags)
	if diags.HasErrors() {
		return LocalProvider{}, diags
	}
	l, more := ParseLocalProvider(trav)
	return l, diags.Append(more)
}

func invalidProvider(detail string, subject *hcl.Range) diag.List {
	return diag.Errors("Invalid provider configuration address", detail, subject)
}
