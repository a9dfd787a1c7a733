package remote

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/install/services"
	"github.com/millipede-iac/millipede/internal/cloud/tfc"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
)

// Cloud returns the kind of the cloud block.
func Cloud() *backend.Kind {
	return kind(backend.Cloud, map[string]*schema.Attribute{
		"name":    {Type: cty.String, Optional: true},
		"project": {Type: cty.String, Optional: true},
		"tags":    {Type: cty.Set(cty.String), Optional: true},
	}, map[string][]string{"hostname": {"TF_CLOUD_HOSTNAME"}, "organization": {"TF_CLOUD_ORGANIZATION"}})
}

// Remote returns the kind "remote".
func Remote() *backend.Kind {
	return kind(remoteKind, map[string]*schema.Attribute{
		"name":   {Type: cty.String, Optional: true},
		"prefix": {Type: cty.String, Optional: true},
	}, nil)
}

const remoteKind = "remote"

func kind(name string, workspaces map[string]*schema.Attribute, env map[string][]string) *backend.Kind {
	return &backend.Kind{
		Name: name,
		Schema: &schema.Block{
			Attributes: map[string]*schema.Attribute{
				"hostname":     {Type: cty.String, Optional: true},
				"organization": {Type: cty.String, Optional: true},
				"token":        {Type: cty.String, Optional: true, Sensitive: true},
			},
			Blocks: map[string]*schema.NestedBlock{"workspaces": {
				Nesting: schema.NestingSingle, MaxItems: 1, Block: schema.Block{Attributes: workspaces},
			}},
		},
		Env:     env,
		Located: []string{"hostname", "organization", "workspaces"},
		Open: func(ctx context.Context, p backend.Place, a backend.Arguments) (backend.Backend, diag.List) {
			return open(ctx, name, p, a)
		},
	}
}

// integrated reports whether requests are those of a cloud block.
func (s *Store) integrated() bool { return s.kind == backend.Cloud }

func open(ctx context.Context, kind string, p backend.Place, a backend.Arguments) (backend.Backend, diag.List) {
	s := &Store{
		kind: kind, host: a.String("hostname"), organization: a.String("organization"), engine: p.EngineVersion,
		anyVersion: p.AnyVersion, lockCheck: p.LockCheck, tell: p.Tell, run: p.Env("TFE_RUN_ID"),
		known: map[string]*tfc.Workspace{}, seen: map[string]versionID{}, held: map[string]string{},
	}
	if diags := s.mapping(p, a); diags.HasErrors() {
		return nil, diags
	}
	if p.Hosts == nil {
		return nil, diag.Errors("No access to services", fmt.Sprintf(
			"The backend %q is a service of a host on the network, and none can be asked here.", kind), nil)
	}
	client, diags := s.connect(ctx, p, a)
	if diags.HasErrors() {
		return nil, diags
	}
	s.client = client
	operations, err := client.Entitlements(ctx, s.organization)
	switch {
	case tfc.NotFound(err):
		return nil, diag.List{a.Problem("organization", fmt.Sprintf("Failed to read organization %q at host %s",
			s.organization, s.host), fmt.Sprintf("The service has no such organization, or the token for %s gives no "+
			"access to it.", s.host))}
	case err != nil:
		return nil, diag.List{a.Problem("organization", fmt.Sprintf("Failed to read organization %q at host %s",
			s.organization, s.host), "Asking the service has failed: "+err.Error())}
	}
	s.here = !operations || p.Env("TF_FORCE_LOCAL_BACKEND") != ""
	return s, nil
}

// mapping decodes which workspaces are used, and checks what the schema cannot express.
func (s *Store) mapping(p backend.Place, a backend.Arguments) diag.List {
	var diags diag.List
	if s.host == "" {
		detail := "The argument \"hostname\" says where the service is, and has no default."
		if s.integrated() {
			detail += " Set it in the block, or in the environment as TF_CLOUD_HOSTNAME."
		}
		diags = diags.Append(a.Problem("hostname", "Hostname is required", detail))
	}
	if s.organization == "" {
		detail := "The argument \"organization\" is required: set it in the block."
		if s.integrated() {
			detail = "The argument \"organization\" is required: set it in the block, or in the environment as " +
				"TF_CLOUD_ORGANIZATION."
		}
		diags = diags.Append(a.Problem("organization", "Invalid or missing required argument", detail))
	}
	w, _ := a.Nested("workspaces")
	s.name, s.prefix = w.String("name"), w.String("prefix")
	other := "prefix"
	if s.integrated() {
		other = "tags"
		s.project, s.tags = w.String("project"), w.Strings("tags")
		if s.project == "" {
			s.project = p.Env("TF_CLOUD_PROJECT")
		}
		selected := p.Env("TF_WORKSPACE")
		switch {
		case selected == "" || s.name == selected:
		case s.name != "":
			return diags.Append(a.Problem("workspaces", "Invalid workspaces configuration", fmt.Sprintf("The "+
				"environment variable TF_WORKSPACE selects %q, and the block names the workspace %q. Unset the "+
				"variable, or leave the name out of the block.", selected, s.name)))
		case len(s.tags) == 0:
			s.name = selected
		}
	}
	others := s.prefix != "" || len(s.tags) > 0
	switch {
	case s.name == "" && !others && s.kind == remoteKind:
		return diags.Append(a.Problem("workspaces", "Invalid workspaces configuration", "Either workspace \"name\" or "+
			"\"prefix\" is required."))
	case s.name == "" && !others:
		return diags.Append(a.Problem("workspaces", "Invalid workspaces configuration", "The block has to say which "+
			"workspaces there are: one with \"name\", or all with certain \"tags\". The environment variable "+
			"TF_WORKSPACE may name the one instead."))
	case s.name != "" && others:
		return diags.Append(a.Problem("workspaces", "Invalid workspaces configuration", fmt.Sprintf(
			"Only one of workspace \"name\" or %q is allowed.", other)))
	}
	return diags
}

// connect discovers the service and its token.
func (s *Store) connect(ctx context.Context, p backend.Place, a backend.Arguments) (*tfc.Client, diag.List) {
	offered := "tfe.v2"
	if s.kind == remoteKind {
		offered = "tfe.v2.1"
		if p.Env("TF_FORCE_LOCAL_BACKEND") != "" {
			offered = "state.v2"
		}
	}
	base, err := p.Hosts.Find(ctx, s.host, offered)
	var missing *services.NoServiceError
	if errors.As(err, &missing) && s.kind == remoteKind { // some hosts only have the service's first name
		base, err = p.Hosts.Find(ctx, s.host, "tfe.v2")
	}
	switch {
	case errors.As(err, &missing):
		return nil, diag.List{a.Problem("hostname", "The host has no such service", fmt.Sprintf("The host %s has no "+
			"service for the backend %q (%s), as far as its discovery document says.", s.host, s.kind, offered))}
	case err != nil:
		return nil, diag.List{a.Problem("hostname", "The host cannot be asked", err.Error())}
	}
	token := a.String("token")
	if token == "" {
		if token, err = p.Hosts.Token(ctx, s.host); err != nil {
			return nil, diag.List{a.Problem("hostname", "The token cannot be read", err.Error())}
		}
	}
	if token == "" {
		return nil, diag.Errors("Required token could not be found", fmt.Sprintf("There is no token for %s. To get "+
			"one, run:\n  %s login %s\n\nAn environment variable can hold one, too: %s.", s.host, diag.Program(),
			s.host, tokenVariable(s.host)), nil)
	}
	return tfc.New(tfc.Options{
		Base: base, Token: token, HTTP: p.Hosts.HTTP(), Agent: p.UserAgent, Version: p.EngineVersion,
		Integrated: s.integrated(), Repeating: s.repeating, Pause: p.Pause,
	}), nil
}

// tokenVariable is the name of the environment variable with the token for a host.
func tokenVariable(host string) string {
	return "TF_TOKEN_" + strings.NewReplacer(".", "_", "-", "__").Replace(host)
}

// repeating tells the user that requests to the service fail: at first, and periodically.
func (s *Store) repeating(attempt int, why error) {
	if s.tell != nil && (attempt == 2 || attempt%8 == 0) {
		s.tell(fmt.Sprintf("The service %s cannot do what it is asked at the moment: %s. It is asked again.\n", s.host,
			why))
	}
}
