// Package provisioner says what provisioner and connection blocks hold: local-exec, remote-exec, file.
//
// The coordinator evaluates the blocks by these schemas, workers run what comes out. The package runs nothing.
package provisioner

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/provider/schema"
)

// Block returns the schema of a provisioner type's block, or nil when there is no such provisioner.
func Block(typeName string) *schema.Block { return blocks[typeName] }

// Types are the names of the provisioners, sorted.
func Types() []string { return []string{"file", "local-exec", "remote-exec"} }

// Problem says what is wrong with the value of a provisioner's block beyond its schema; empty when nothing is. Marks
// are ignored, and what is not known yet is lawful.
func Problem(typeName string, config cty.Value) string {
	config, _ = config.UnmarkDeep()
	if typeName != "local-exec" {
		return ""
	}
	switch command := config.GetAttr("command"); {
	case !command.IsKnown():
		return ""
	case command.IsNull() || command.AsString() == "":
		return "The command of a local-exec provisioner must not be empty."
	}
	return ""
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
	"bastion_host": optional(cty.String), "bastion_host_key": optional(cty.String), "bastion_port": optional(cty.Number),
	"bastion_user": optional(cty.String), "bastion_password": optional(cty.String),
	"bastion_private_key": optional(cty.String), "bastion_certificate": optional(cty.String),
	"https": optional(cty.Bool), "insecure": optional(cty.Bool), "cacert": optional(cty.String), "use_ntlm": optional(cty.Bool),
}}

func required(t cty.Type) *schema.Attribute { return &schema.Attribute{Type: t, Required: true} }
func optional(t cty.Type) *schema.Attribute { return &schema.Attribute{Type: t, Optional: true} }
