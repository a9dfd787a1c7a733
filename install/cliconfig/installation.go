package cliconfig

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/hcl/ast"

	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/addr"
)

// MethodKind is an installation method.
type MethodKind byte

// The installation methods.
const (
	FilesystemMirror MethodKind = iota + 1
	NetworkMirror
	Direct
	OCIMirror
)

// Method is one place to look for packages.
type Method struct {
	Kind MethodKind
	// Location is the directory, the URL or the template of the repository of a mirror.
	Location         string
	Include, Exclude []string
	// Retries is the number of retries of a download; nil for the value of Config.
	Retries *int
	// TrustAllHashes adds the hashes that a network mirror reports for other platforms to the lock file.
	TrustAllHashes bool
	// MayMiss allows that the directory of a FilesystemMirror does not exist: then it has no packages.
	MayMiss bool
}

// Covers reports whether the method applies to a provider.
func (m Method) Covers(p addr.Provider) bool {
	if slices.ContainsFunc(m.Exclude, func(pattern string) bool { return matches(pattern, p) }) {
		return false
	}
	return len(m.Include) == 0 ||
		slices.ContainsFunc(m.Include, func(pattern string) bool { return matches(pattern, p) })
}

// matches reports whether a pattern such as registry.example.com/*/* covers a provider.
func matches(pattern string, p addr.Provider) bool {
	parts := patternParts(pattern)
	if len(parts) != 3 {
		return false
	}
	for i, have := range []string{p.Host, p.Namespace, p.Type} {
		if parts[i] != "*" && parts[i] != have {
			return false
		}
	}
	return true
}

// patternParts splits a pattern into host, namespace and type; the host may be left out for the default one.
func patternParts(pattern string) []string {
	parts := strings.Split(pattern, "/")
	if len(parts) == 2 {
		parts = append([]string{addr.DefaultHost}, parts...)
	}
	return parts
}

// checkPattern describes the problem with a pattern of include or exclude; empty if there is none.
func checkPattern(pattern string) string {
	parts := patternParts(pattern)
	switch {
	case len(parts) != 3:
		return "it has to have two or three parts with slashes between them"
	case parts[0] == "*" && (parts[1] != "*" || parts[2] != "*"):
		return "the host can be * only when all else is, too"
	case parts[1] == "*" && parts[2] != "*":
		return "the namespace can be * only when the type is, too"
	}
	for i, part := range parts { // wildcards are replaced, so that the rest can be parsed
		if part == "*" {
			parts[i] = []string{"example.com", "any", "any"}[i]
		}
	}
	if _, diags := addr.ParseProviderSource(strings.Join(parts, "/")); diags.HasErrors() {
		return diags[0].Error()
	}
	return ""
}

// installation decodes the provider_installation block.
func (c *Config) installation(r *reader, block *ast.ObjectItem) {
	if c.Methods != nil {
		r.fail(block, "Invalid provider_installation block", "There can be only one provider_installation block.")
		return
	}
	c.Methods = []Method{}
	for _, item := range r.body(block) {
		kind := keyOf(item)
		if kind == "dev_overrides" {
			if len(c.Methods) > 0 {
				r.fail(item, invalidMethod, "The dev_overrides block has to come before all methods, because it "+
					"takes precedence over them.")
				continue
			}
			c.overrides(r, item)
			continue
		}
		if m, ok := c.method(r, item, kind); ok {
			c.Methods = append(c.Methods, m)
		}
	}
}

// methodKinds are the methods by their names, with the argument that has the location.
var methodKinds = map[string]struct {
	kind   MethodKind
	needed string
}{
	"filesystem_mirror": {FilesystemMirror, "path"},
	"network_mirror":    {NetworkMirror, "url"},
	"oci_mirror":        {OCIMirror, "repository_template"},
	"direct":            {Direct, ""},
}

// method decodes one installation method.
func (c *Config) method(r *reader, item *ast.ObjectItem, name string) (Method, bool) {
	k, ok := methodKinds[name]
	if !ok {
		r.fail(item, invalidMethod, fmt.Sprintf("There is no installation method %q.", name))
		return Method{}, false
	}
	m := Method{Kind: k.kind}
	for _, arg := range r.body(item) {
		switch key := keyOf(arg); {
		case key == "include":
			m.Include = r.patterns(arg)
		case key == "exclude":
			m.Exclude = r.patterns(arg)
		case key == k.needed && key != "":
			m.Location, _ = r.text(arg)
		case key == "download_retry_count" && (m.Kind == Direct || m.Kind == NetworkMirror):
			r.decode(arg, &m.Retries, "a number")
		case key == "trust_all_hashes" && m.Kind == NetworkMirror:
			r.decode(arg, &m.TrustAllHashes, "true or false")
		default: // ignored, as in OpenTofu: a later version may support it
			r.warn(arg, "Unknown argument in the CLI configuration",
				fmt.Sprintf("A %s block has no argument %q.", name, key))
		}
	}
	if k.needed != "" && m.Location == "" {
		r.fail(item, invalidMethod, fmt.Sprintf("A %s block needs the argument %s.", name, k.needed))
		return m, false
	}
	switch m.Kind {
	case FilesystemMirror:
		m.Location = c.expand(m.Location)
	case OCIMirror:
		if problem := checkTemplate(m.Location, m.Include); problem != "" {
			r.fail(item, "Invalid oci_mirror repository template", fmt.Sprintf("The template %q cannot be used: %s.",
				m.Location, problem))
			return m, false
		}
	case NetworkMirror:
		if u, err := url.Parse(m.Location); err != nil || u.Scheme != "https" || u.Host == "" {
			r.fail(item, "Invalid URL for provider installation source",
				fmt.Sprintf("A network mirror has to be at a URL that begins with https://, and %q does not.",
					m.Location))
			return m, false // so that it is not used
		}
	}
	return m, true
}

const invalidMethod = "Invalid provider_installation method block"

// patterns decodes the value of include or exclude.
func (r *reader) patterns(item *ast.ObjectItem) []string {
	var out []string
	r.decode(item, &out, "a list of strings")
	for _, p := range out {
		if problem := checkPattern(p); problem != "" {
			r.fail(item, invalidMethod, fmt.Sprintf("%q is not a pattern of provider addresses: %s.", p, problem))
		}
	}
	return out
}

func (c *Config) overrides(r *reader, block *ast.ObjectItem) {
	for _, item := range r.body(block) {
		p, diags := addr.ParseProviderSource(keyOf(item))
		r.diags = append(r.diags, diags.WithSubject(r.at(item))...)
		dir, ok := r.text(item)
		if !ok || diags.HasErrors() {
			continue
		}
		if c.DevOverrides == nil {
			c.DevOverrides = map[addr.Provider]string{}
		}
		c.DevOverrides[p] = filepath.Clean(environ.Path(c.dir, c.expand(dir)))
	}
}
