// Package provisioner defines the schemas of provisioner and connection blocks: local-exec, remote-exec, file.
//
// The coordinator evaluates the blocks with these schemas, and workers execute the results. The package executes
// nothing.
package provisioner

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/schema"
)

// Block returns the schema of a provisioner type's block, or nil when there is no such provisioner.
func Block(typeName string) *schema.Block { return blocks[typeName] }

// Types returns the names of the provisioners, sorted.
func Types() []string { return []string{"file", "local-exec", "remote-exec"} }

// Problem describes what is wrong with the value of a provisioner's block beyond its schema: OpenTofu's summary,
// and the details; both are empty if nothing is. Marks are ignored, and unknown values are accepted.
func Problem(typeName string, config cty.Value) (summary, detail string) {
	config, _ = config.UnmarkDeep()
	switch typeName {
	case "local-exec":
		if empty(config.GetAttr("command")) {
			return "Invalid local-exec provisioner command",
				"The command of a local-exec provisioner must not be empty."
		}
	case "remote-exec":
		if given(config, "inline", "script", "scripts") != 1 {
			return "Invalid remote-exec provisioner configuration",
				"A remote-exec provisioner needs one of the arguments inline, script and scripts, and only one."
		}
	case "file":
		switch given(config, "source", "content") {
		case 0:
			return "Must provide one of 'source' or 'content'", "A file provisioner copies either the file or " +
				"directory that source names, or the text that content is."
		case 2:
			return "Cannot set both 'source' and 'content'", "A file provisioner copies either the file or directory " +
				"that source names, or the text that content is."
		}
		if empty(config.GetAttr("destination")) {
			return "Invalid file provisioner configuration", "The destination of a file provisioner must not be empty."
		}
	}
	return "", ""
}

// Files returns the paths of files and directories in the value of a block: scripts, or a source. A path that
// begins with ~ is in the home directory of the environment.
func Files(typeName string, config cty.Value, env environ.Variables) []string {
	var out []string
	add := func(v cty.Value) {
		if !v.IsNull() {
			out = append(out, env.ExpandHome(v.AsString()))
		}
	}
	switch typeName {
	case "remote-exec":
		add(config.GetAttr("script"))
		if list := config.GetAttr("scripts"); !list.IsNull() {
			for _, v := range list.AsValueSlice() {
				add(v)
			}
		}
	case "file":
		add(config.GetAttr("source"))
	}
	return out
}

// empty reports whether a value is known to be null or empty.
func empty(v cty.Value) bool { return v.IsKnown() && (v.IsNull() || v.AsString() == "") }

// given counts the arguments that are not null, as far as is known.
func given(config cty.Value, names ...string) int {
	n := 0
	for _, name := range names {
		if !config.GetAttr(name).IsNull() {
			n++
		}
	}
	return n
}

var blocks = map[string]*schema.Block{
	"local-exec": {Ephemeral: true, Attributes: map[string]*schema.Attribute{
		"command":     required(cty.String),
		"interpreter": optional(cty.List(cty.String)),
		"working_dir": optional(cty.String),
		"environment": optional(cty.Map(cty.String)),
		"quiet":       optional(cty.Bool),
	}},
	"remote-exec": {Ephemeral: true, Attributes: map[string]*schema.Attribute{
		"inline":  optional(cty.List(cty.String)),
		"script":  optional(cty.String),
		"scripts": optional(cty.List(cty.String)),
	}},
	"file": {Ephemeral: true, Attributes: map[string]*schema.Attribute{
		"source":      optional(cty.String),
		"content":     optional(cty.String),
		"destination": required(cty.String),
	}},
}

// Connection is the schema of a connection block. The arguments are those of OpenTofu.
var Connection = &schema.Block{Ephemeral: true, Attributes: map[string]*schema.Attribute{
	"type": optional(cty.String), "user": optional(cty.String), "password": optional(cty.String),
	"host": required(cty.String), "port": optional(cty.Number), "timeout": optional(cty.String),
	"script_path": optional(cty.String), "target_platform": optional(cty.String),
	"private_key": optional(cty.String), "certificate": optional(cty.String), "host_key": optional(cty.String),
	"agent": optional(cty.Bool), "agent_identity": optional(cty.String),
	"proxy_scheme": optional(cty.String), "proxy_host": optional(cty.String), "proxy_port": optional(cty.Number),
	"proxy_user_name": optional(cty.String), "proxy_user_password": optional(cty.String),
	"bastion_host": optional(cty.String), "bastion_host_key": optional(cty.String),
	"bastion_port": optional(cty.Number),
	"bastion_user": optional(cty.String), "bastion_password": optional(cty.String),
	"bastion_private_key": optional(cty.String), "bastion_certificate": optional(cty.String),
	"https": optional(cty.Bool), "insecure": optional(cty.Bool), "cacert": optional(cty.String),
	"use_ntlm": optional(cty.Bool),
}}

func required(t cty.Type) *schema.Attribute { return &schema.Attribute{Type: t, Required: true} }
func optional(t cty.Type) *schema.Attribute { return &schema.Attribute{Type: t, Optional: true} }
