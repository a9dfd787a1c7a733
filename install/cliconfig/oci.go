package cliconfig

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/hcl/ast"
	hcl2 "github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/cloud/oci"
	"github.com/millipede-iac/millipede/internal/pattern"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/syntax"
)

const (
	invalidOCICredentials = "Invalid oci_credentials block"
	invalidOCIDefaults    = "Invalid oci_default_credentials block"
)

// ociPrefix is HOST[:PORT][/PATH].
var ociPrefix = pattern.Lazy(`^[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$`)

// ociCredentials decodes an oci_credentials block: its label is a host, or a prefix of repositories' names.
func (c *Config) ociCredentials(r *reader, item *ast.ObjectItem) {
	object, ok := item.Val.(*ast.ObjectType)
	if !ok || len(item.Keys) != 2 {
		r.fail(
			item,
			invalidOCICredentials,
			"The block has one label: the name of a registry's host, with or without the beginning of a path.",
		)
		return
	}
	prefix, _ := item.Keys[1].Token.Value().(string)
	if !ociPrefix().MatchString(prefix) {
		r.fail(
			item,
			invalidOCICredentials,
			fmt.Sprintf("%q is neither a host nor a host and the beginning of a path.", prefix),
		)
		return
	}
	values := map[string]string{}
	for _, arg := range object.List.Items {
		switch key := keyOf(arg); key {
		case "username", "password", "access_token", "refresh_token", "docker_credentials_helper":
			if v, ok := r.text(arg); ok {
				values[key] = v
			}
		default:
			r.warn(
				arg,
				"Unknown argument in the CLI configuration",
				fmt.Sprintf("An oci_credentials block has no argument %q.", key),
			)
		}
	}
	rule := oci.Rule{Prefix: prefix, Helper: values["docker_credentials_helper"], Credentials: oci.Credentials{
		Username: values["username"], Password: values["password"],
		AccessToken: values["access_token"], RefreshToken: values["refresh_token"],
	}}
	kinds := 0
	for _, names := range [][]string{{"username", "password"}, {"access_token", "refresh_token"},
		{"docker_credentials_helper"}} {
		given := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return values[n] == "" })
		if len(given) > 0 && len(given) < len(names) {
			r.fail(item, invalidOCICredentials, fmt.Sprintf("%s needs %s beside it.", given[0],
				strings.Join(names, " and ")))
			return
		}
		if len(given) > 0 {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		r.fail(
			item,
			invalidOCICredentials,
			"The block needs one kind of credentials, no more: username and password, or access_token "+
				"and refresh_token, or docker_credentials_helper.",
		)
	case rule.Helper != "" && strings.Contains(prefix, "/"):
		r.fail(
			item,
			invalidOCICredentials,
			"A docker_credentials_helper has credentials for whole hosts, so the label cannot have a path.",
		)
	case rule.Helper != "" && !oci.HelperName().MatchString(rule.Helper):
		r.fail(item, invalidOCICredentials, fmt.Sprintf("%q is not the name of a credentials helper.", rule.Helper))
	case slices.ContainsFunc(c.OCI.Rules, func(have oci.Rule) bool { return have.Prefix == prefix }):
		r.fail(item, "Duplicate oci_credentials block", fmt.Sprintf("There are credentials for %q already.", prefix))
	default:
		c.OCI.Rules = append(c.OCI.Rules, rule)
	}
}

// ociDefaults decodes the oci_default_credentials block.
func (c *Config) ociDefaults(r *reader, item *ast.ObjectItem) {
	if c.defaultsForOCI {
		r.fail(item, "Duplicate oci_default_credentials block", "There can be only one oci_default_credentials block.")
		return
	}
	c.defaultsForOCI = true
	discover := true
	for _, arg := range r.body(item) {
		switch key := keyOf(arg); key {
		case "discover_ambient_credentials":
			r.decode(arg, &discover, "true or false")
		case "docker_style_config_files":
			files := []string{}
			r.decode(arg, &files, "a list of strings")
			c.OCI.Files = []string{}
			for _, f := range files {
				if f = c.expand(f); !filepath.IsAbs(f) {
					f = filepath.Join(filepath.Dir(r.name), f)
				}
				c.OCI.Files = append(c.OCI.Files, f)
			}
		case "docker_credentials_helper":
			c.OCI.Helper, _ = r.text(arg)
			if c.OCI.Helper != "" && !oci.HelperName().MatchString(c.OCI.Helper) {
				r.fail(arg, invalidOCIDefaults, fmt.Sprintf("%q is not the name of a credentials helper.",
					c.OCI.Helper))
				c.OCI.Helper = ""
			}
		default:
			r.warn(arg, "Unknown argument in the CLI configuration",
				fmt.Sprintf("An oci_default_credentials block has no argument %q.", key))
		}
	}
	c.OCI.NoDiscovery = !discover
	if !discover && c.OCI.Files != nil {
		r.fail(
			item,
			invalidOCIDefaults,
			"With discover_ambient_credentials = false no files are read, so docker_style_config_files cannot be set.",
		)
	}
}

// The symbols of a repository_template, by the part of a pattern that they represent.
var templateSymbols = []string{"hostname", "namespace", "type"}

// checkTemplate describes the problem with the template of an OCI mirror; empty if there is none. Two providers
// must not share a repository, so each part that include leaves open has to be used.
func checkTemplate(template string, include []string) string {
	e, problems := syntax.ParseTemplate([]byte(template), "repository_template", hcl2.InitialPos)
	if problems.HasErrors() {
		return strings.TrimSuffix(problems[0].Detail, ".")
	}
	used := map[string]bool{}
	for _, t := range e.Variables() {
		if !slices.Contains(templateSymbols, t.RootName()) {
			return fmt.Sprintf("there is no %q in it, only hostname, namespace and type", t.RootName())
		}
		used[t.RootName()] = true
	}
	for i, symbol := range templateSymbols {
		one := map[string]bool{}
		for _, pattern := range include {
			if parts := patternParts(pattern); len(parts) == 3 {
				one[parts[i]] = true
			}
		}
		if (len(one) != 1 || one["*"]) && !used[symbol] {
			return fmt.Sprintf(
				"it has to use ${%s}, or several providers would share a repository (include names more than one %s)",
				symbol,
				symbol,
			)
		}
	}
	return ""
}

// Repository returns the host and the path of the repository that has a provider, by the template of an OCI mirror.
func (m Method) Repository(p addr.Provider) (host, path string, err error) {
	e, problems := syntax.ParseTemplate([]byte(m.Location), "repository_template", hcl2.InitialPos)
	if problems.HasErrors() {
		return "", "", problems
	}
	v, problems := e.Value(&hcl2.EvalContext{Variables: map[string]cty.Value{
		"hostname": cty.StringVal(p.Host), "namespace": cty.StringVal(p.Namespace), "type": cty.StringVal(p.Type),
	}})
	if problems.HasErrors() {
		return "", "", fmt.Errorf("the repository_template %q: %s", m.Location, problems[0].Detail)
	}
	if v.Type() != cty.String || v.IsNull() {
		return "", "", fmt.Errorf("the repository_template %q does not give a string", m.Location)
	}
	host, path, ok := strings.Cut(v.AsString(), "/")
	if !ok || host == "" || path == "" {
		return "", "", fmt.Errorf(
			"the repository_template %q gives %q for %s, which is no HOST/PATH",
			m.Location,
			v.AsString(),
			p,
		)
	}
	return host, path, nil
}
