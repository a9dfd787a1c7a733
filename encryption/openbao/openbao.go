// Package openbao is the key provider "openbao": the transit engine of OpenBao, or of HashiCorp Vault, generates
// data keys.
//
// The package implements the two calls itself; environment variables about servers have the same meaning as for
// their command line tools.
package openbao

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/encryption"
	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/lang/arguments"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
)

// Kind returns the kind "openbao".
func Kind() *encryption.Kind {
	return &encryption.Kind{
		Name: "openbao",
		Schema: &schema.Block{Attributes: map[string]*schema.Attribute{
			"key_name":            {Type: cty.String, Required: true},
			"key_length":          {Type: cty.Number, Optional: true},
			"address":             {Type: cty.String, Optional: true},
			"token":               {Type: cty.String, Optional: true, Sensitive: true},
			"transit_engine_path": {Type: cty.String, Optional: true},
		}},
		Env: map[string][]string{
			"address": {"BAO_ADDR", "VAULT_ADDR"}, "token": {"BAO_TOKEN", "VAULT_TOKEN"},
		},
		Defaults: map[string]cty.Value{
			"address": cty.StringVal("https://127.0.0.1:8200"), "key_length": cty.NumberIntVal(32),
			"transit_engine_path": cty.StringVal("/transit"),
		},
		Open: open,
	}
}

type service struct {
	server *server
	// dataKey and decrypt are the paths of the two calls.
	dataKey, decrypt string
	bits             int
}

func open(_ context.Context, s cloud.Environment, args arguments.Arguments) (encryption.KeyService, diag.List) {
	var diags diag.List
	bad := func(name, format string, a ...any) {
		diags = diags.Append(args.Problem(name, "Invalid Value", fmt.Sprintf(format, a...)))
	}
	name, length := args.String("key_name"), args.Int("key_length")
	if name == "" {
		bad("key_name", "The value cannot be empty")
	}
	if length == 0 {
		length = 32
	}
	if length != 16 && length != 32 && length != 64 {
		bad("key_length", "The value must be 16, 32 or 64 bytes")
	}
	engine := args.String("transit_engine_path")
	if strings.Trim(engine, "/") == "" {
		engine = "/transit"
	}
	address := args.String("address")
	if agent := variable(s, "AGENT_ADDR"); agent != "" {
		address = agent
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" && u.Scheme != "unix" ||
		u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "unix" {
		bad(
			"address",
			"The value must be an address like https://bao.example.com:8200",
		) // it is not shown: it may contain secrets
	}
	if diags.HasErrors() {
		return nil, diags
	}
	server, err := connect(s, u, args.String("token"))
	if err != nil {
		return nil, diags.Append(diag.New(diag.Error, "Failed to configure the key provider openbao",
			err.Error()+".", nil))
	}
	// The name is a segment of a path that is itself a segment, so it is escaped twice.
	within := func(call string) string { return path.Join("/v1", engine, call, url.PathEscape(name)) }
	return &service{server, within("datakey/plaintext"), within("decrypt"), length * 8}, diags
}

// metadata is stored with the encrypted data, in OpenTofu's form: the text from the engine.
type metadata struct {
	Ciphertext []byte `json:"ciphertext"`
}

// Make implements encryption.KeyService.
func (k *service) Make(ctx context.Context) ([]byte, any, error) {
	out, err := k.server.put(ctx, k.dataKey, map[string]any{"bits": k.bits})
	if err != nil {
		return nil, nil, err
	}
	key, err := plaintext(out)
	if err == nil && out.Ciphertext == "" {
		err = errors.New("the answer holds no encrypted key")
	}
	return key, metadata{[]byte(out.Ciphertext)}, err
}

// Recover implements encryption.KeyService.
func (k *service) Recover(ctx context.Context, meta json.RawMessage) ([]byte, error) {
	var was metadata
	if err := json.Unmarshal(meta, &was); err != nil {
		return nil, fmt.Errorf("%w: %w", encryption.ErrMetadata, err)
	}
	if len(was.Ciphertext) == 0 {
		return nil, nil
	}
	out, err := k.server.put(ctx, k.decrypt, map[string]any{"ciphertext": string(was.Ciphertext)})
	if err != nil {
		return nil, err
	}
	return plaintext(out)
}

func plaintext(out answer) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(out.Plaintext)
	if err != nil || len(key) == 0 {
		return nil, errors.New("the answer holds no key")
	}
	return key, nil
}

// variable returns an environment variable by OpenBao's name, or else by Vault's.
func variable(s cloud.Environment, name string) string { return s.Either("BAO_"+name, "VAULT_"+name) }

// header are the headers of every request.
func header(s cloud.Environment, token string) http.Header {
	h := http.Header{"X-Vault-Request": {"true"}, "Content-Type": {"application/json"}, "User-Agent": {s.UserAgent}}
	if token != "" {
		h.Set("X-Vault-Token", token)
	}
	if namespace := variable(s, "NAMESPACE"); namespace != "" {
		h.Set("X-Vault-Namespace", namespace)
	}
	return h
}
