package encryption

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"

	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/syntax"
)

// Variable is the environment variable with a configuration, in the native syntax or in JSON: the content of an
// encryption block. It takes precedence over the block in the configuration.
const Variable = "TF_ENCRYPTION"

// settings are a decoded encryption block.
type settings struct {
	KeyProviders []keyProvider      `hcl:"key_provider,block"`
	Methods      []methodBlock      `hcl:"method,block"`
	State        *enforceableTarget `hcl:"state,block"`
	Plan         *enforceableTarget `hcl:"plan,block"`
	Remote       *remoteTargets     `hcl:"remote_state_data_sources,block"`

	at hcl.Range // of the block's header
}

type keyProvider struct {
	Type string `hcl:"type,label"`
	Name string `hcl:"name,label"`
	// Alias is the name under which the provider's metadata is stored with the encrypted data; default: its
	// address.
	Alias string    `hcl:"encrypted_metadata_alias,optional"`
	Body  hcl.Body  `hcl:",remain"`
	At    hcl.Range `hcl:",def_range"`
}

func (k keyProvider) address() string { return "key_provider." + k.Type + "." + k.Name }

// metaKey is the name of the provider's metadata.
func (k keyProvider) metaKey() string {
	if k.Alias != "" {
		return k.Alias
	}
	return k.address()
}

type methodBlock struct {
	Type string   `hcl:"type,label"`
	Name string   `hcl:"name,label"`
	Body hcl.Body `hcl:",remain"`
}

type targetBlock struct {
	Method   hcl.Expression `hcl:"method,optional"`
	Fallback *targetBlock   `hcl:"fallback,block"`
}

type enforceableTarget struct {
	Enforced bool           `hcl:"enforced,optional"`
	Method   hcl.Expression `hcl:"method,optional"`
	Fallback *targetBlock   `hcl:"fallback,block"`
}

type remoteTargets struct {
	Default *targetBlock  `hcl:"default,block"`
	Named   []namedTarget `hcl:"remote_state_data_source,block"`
}

type namedTarget struct {
	Name     string         `hcl:"name,label"`
	Method   hcl.Expression `hcl:"method,optional"`
	Fallback *targetBlock   `hcl:"fallback,block"`
}

func (s *settings) keyProvider(typ, name string) (keyProvider, bool) {
	for _, k := range s.KeyProviders {
		if k.Type == typ && k.Name == name {
			return k, true
		}
	}
	return keyProvider{}, false
}

func (s *settings) method(typ, name string) (methodBlock, bool) {
	for _, m := range s.Methods {
		if m.Type == typ && m.Name == name {
			return m, true
		}
	}
	return methodBlock{}, false
}

// read returns the settings of the block and of the environment; nil if there are none.
func read(o Options) (*settings, diag.List) {
	env, at, diags := parseEnvironment(o.FromEnvironment)
	if diags.HasErrors() {
		return nil, diags
	}
	switch {
	case o.Block == nil && env == nil:
		return nil, nil
	case env == nil:
		return decode(o.Block, o.Range)
	case o.Block == nil:
		return decode(env, at)
	}
	return decode(config.MergeEncryption(o.Block, env), o.Range)
}

func parseEnvironment(text string) (hcl.Body, hcl.Range, diag.List) {
	text = strings.TrimSpace(text)
	at := hcl.Range{Filename: Variable, Start: hcl.InitialPos, End: hcl.InitialPos}
	if text == "" {
		return nil, at, nil
	}
	var file *hcl.File
	var problems hcl.Diagnostics
	if text[0] == '{' {
		file, problems = syntax.ParseJSON([]byte(text), Variable)
	} else {
		file, problems = syntax.ParseConfig([]byte(text), Variable, hcl.InitialPos)
	}
	var diags diag.List
	diags = diags.Append(problems)
	if file != nil && file.Body != nil {
		diags = diags.Append(config.CheckEncryption(file.Body))
	}
	if diags.HasErrors() {
		return nil, at, diags
	}
	return file.Body, at, diags
}

func decode(body hcl.Body, at hcl.Range) (*settings, diag.List) {
	s := &settings{at: at}
	var diags diag.List
	if diags = diags.Append(gohcl.DecodeBody(body, nil, s)); diags.HasErrors() {
		return nil, diags
	}
	return s, diags
}
