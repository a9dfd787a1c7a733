package cliconfig

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/hcl"
	"github.com/hashicorp/hcl/hcl/ast"
	"github.com/hashicorp/hcl/hcl/token"
	hcl2 "github.com/hashicorp/hcl/v2"
	"github.com/opentofu/svchost"

	"github.com/millipede-iac/millipede/internal/bounds"
	"github.com/millipede-iac/millipede/lang/diag"
)

// hostBlocks are the blocks that configure hosts. HCL decodes them from both syntaxes.
type hostBlocks struct {
	Hosts map[string]*struct {
		Services map[string]any `hcl:"services"`
	} `hcl:"host"`
	Credentials map[string]map[string]any `hcl:"credentials"`
	Helpers     map[string]*struct {
		Args []string `hcl:"args"`
	} `hcl:"credentials_helper"`
	MayBreak bool `hcl:"plugin_cache_may_break_dependency_lock_file"`
}

// nested reports whether a text is nested so deeply that the parser, which recurses, must not see it. Brackets in texts
// and comments count, too: there are not that many.
func nested(text []byte) bool {
	depth := 0
	for _, b := range text {
		switch b {
		case '{', '[':
			if depth++; depth > bounds.Depth {
				return true
			}
		case '}', ']':
			depth = max(0, depth-1)
		}
	}
	return false
}

// parse adds the content of a file, which is in the first version of HCL: keys may be quoted. Unknown settings are
// ignored, as in OpenTofu.
func (c *Config) parse(name string, text []byte) diag.List {
	unclear := func(why string) diag.List {
		diags := diag.Errors("Error parsing the CLI configuration file", why, nil)
		c.Unclear = c.Unclear.Append(diags)
		return diags
	}
	if nested(text) {
		return unclear(fmt.Sprintf("The file %s is nested more than %d levels deep.", name, bounds.Depth))
	}
	file, err := hcl.ParseBytes(text)
	if err != nil {
		return unclear(fmt.Sprintf("The file %s cannot be parsed: %s.", name, err))
	}
	r := &reader{name: name}
	root, ok := file.Node.(*ast.ObjectList)
	if !ok {
		return unclear(fmt.Sprintf("The file %s holds no settings.", name))
	}
	protocols := 0
	for _, item := range root.Items {
		switch keyOf(item) {
		case "plugin_cache_dir":
			if dir, ok := r.text(item); ok && c.CacheDir == "" { // the main file takes precedence
				c.CacheDir = c.expand(dir)
			}
		case "provider_installation":
			of := &reader{name: name}
			c.installation(of, item)
			r.diags = r.diags.Append(of.diags)
			for _, d := range of.diags {
				if d.Severity == diag.Error {
					c.Unclear = c.Unclear.Append(d)
				}
			}
		case "oci_credentials":
			c.ociCredentials(r, item)
		case "oci_default_credentials":
			c.ociDefaults(r, item)
		case "registry_protocols":
			if protocols++; protocols > 1 {
				r.fail(item, "Duplicate registry_protocols block", "There can be only one registry_protocols block "+
					"in a file.")
				continue
			}
			c.protocols(r, item)
		}
	}
	var blocks hostBlocks
	if err := hcl.DecodeObject(&blocks, file); err != nil {
		return r.diags.Append(diag.New(diag.Error, "Error parsing the CLI configuration file",
			fmt.Sprintf("A setting in %s has the wrong type: %s.", name, err), nil))
	}
	return r.diags.Append(c.hosts(name, blocks))
}

// hosts adds the host blocks of one file.
func (c *Config) hosts(name string, blocks hostBlocks) diag.List {
	const invalid = "Invalid hostname in the CLI configuration"
	var diags diag.List
	c.CacheMayBreakLockFile = c.CacheMayBreakLockFile || blocks.MayBreak
	services := map[svchost.Hostname]map[string]any{}
	for given, block := range blocks.Hosts {
		host, err := svchost.ForComparison(given)
		if err != nil {
			diags = diags.Append(diag.New(diag.Error, invalid, fmt.Sprintf("The block host %q in %s names no host: %s.",
				given, name, err), nil))
			continue
		}
		services[host] = block.Services
	}
	merge(&c.Hosts, services)
	credentials := map[svchost.Hostname]Credentials{}
	for given, block := range blocks.Credentials {
		host, err := svchost.ForComparison(given)
		if err != nil {
			diags = diags.Append(diag.New(diag.Error, invalid, fmt.Sprintf("The block credentials %q in %s names no "+
				"host: %s.", given, name, err), nil))
			continue
		}
		token, _ := block["token"].(string) // no service supports other kinds of credentials yet
		credentials[host] = Credentials{Token: token, File: name}
	}
	merge(&c.Credentials, credentials)
	for helper, block := range blocks.Helpers {
		if c.Helper != nil {
			diags = diags.Append(diag.New(diag.Error, "No more than one credentials_helper block may be specified",
				fmt.Sprintf("Credentials come from the helper %q already, so %s cannot name %q, too.", c.Helper.Name,
					name, helper), nil))
			continue
		}
		c.Helper = &Helper{Name: helper, Args: block.Args}
	}
	return diags
}

// protocols decodes the settings of registry protocols.
func (c *Config) protocols(r *reader, block *ast.ObjectItem) {
	var raw struct {
		Retries *int `hcl:"retry_count"`
		Timeout *int `hcl:"request_timeout_seconds"`
	}
	if err := hcl.DecodeObject(&raw, block.Val); err != nil {
		r.fail(block, "Invalid registry_protocols block", fmt.Sprintf("The settings for registries cannot be read: %s.",
			err))
		return
	}
	if raw.Retries != nil {
		c.Retries = *raw.Retries
	}
	if raw.Timeout != nil {
		c.Timeout = time.Duration(*raw.Timeout) * time.Second
	}
}

// expand replaces a leading ~ and environment variables in a path.
func (c *Config) expand(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := c.env.Home(); err == nil {
			path = filepath.Join(home, rest)
		}
	}
	return c.env.Expand(path)
}

// reader decodes the settings of a file, and collects the problems.
type reader struct {
	name  string
	diags diag.List
}

func keyOf(item *ast.ObjectItem) string {
	if len(item.Keys) == 0 {
		return ""
	}
	key, _ := item.Keys[0].Token.Value().(string) // the parser makes no other keys
	return key
}

func (r *reader) at(item *ast.ObjectItem) *hcl2.Range {
	pos := hcl2.Pos{Line: item.Pos().Line, Column: item.Pos().Column, Byte: item.Pos().Offset}
	return &hcl2.Range{Filename: r.name, Start: pos, End: pos}
}

func (r *reader) fail(item *ast.ObjectItem, summary, detail string) {
	r.diags = append(r.diags, diag.New(diag.Error, summary, detail, r.at(item)))
}

func (r *reader) warn(item *ast.ObjectItem, summary, detail string) {
	r.diags = append(r.diags, diag.New(diag.Warning, summary, detail, r.at(item)))
}

// body returns the content of a block.
func (r *reader) body(item *ast.ObjectItem) []*ast.ObjectItem {
	object, ok := item.Val.(*ast.ObjectType)
	assigned := item.Assign.Line != 0 && len(item.Keys) > 0 && !item.Keys[0].Token.JSON
	if !ok || len(item.Keys) != 1 || assigned {
		r.fail(item, "Invalid CLI configuration", fmt.Sprintf("%s has to be a block without labels.", keyOf(item)))
		return nil
	}
	return object.List.Items
}

// text returns the value of an argument that is a string.
func (r *reader) text(item *ast.ObjectItem) (string, bool) {
	literal, ok := item.Val.(*ast.LiteralType)
	if ok && (literal.Token.Type == token.STRING || literal.Token.Type == token.HEREDOC) {
		if s, ok := literal.Token.Value().(string); ok {
			return s, true
		}
	}
	r.fail(item, "Invalid CLI configuration", fmt.Sprintf("The value of %q has to be a string.", keyOf(item)))
	return "", false
}

// decode decodes the value of an argument into a variable; the parameter what describes the accepted kind of values.
func (r *reader) decode(item *ast.ObjectItem, to any, what string) {
	if err := hcl.DecodeObject(to, item.Val); err != nil {
		r.fail(item, "Invalid CLI configuration", fmt.Sprintf("The value of %q has to be %s.", keyOf(item), what))
	}
}
