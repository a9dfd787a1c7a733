// Package azurevault is the key provider "azure_vault": a key of Azure Key Vault, or of a Managed HSM, encrypts data
// keys.
//
// The keys are generated here. The credentials are found by internal/cloud/azure; the names of the arguments are those
// of the backend "azurerm".
package azurevault

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/encryption"
	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/internal/cloud/azure"
	"github.com/millipede-iac/millipede/internal/cloud/call"
	"github.com/millipede-iac/millipede/internal/pattern"
	"github.com/millipede-iac/millipede/lang/arguments"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
)

// Kind returns the kind "azure_vault".
func Kind() *encryption.Kind {
	a := map[string]*schema.Attribute{
		"vault_uri":          {Type: cty.String, Required: true},
		"vault_key_name":     {Type: cty.String, Required: true},
		"key_length":         {Type: cty.Number, Required: true},
		"symmetric_key_size": {Type: cty.Number, Optional: true},
	}
	env := map[string][]string{}
	for _, name := range []string{
		"client_id", "client_id_file_path", "client_secret", "client_secret_file_path", "client_certificate",
		"client_certificate_password", "client_certificate_path", "oidc_token", "oidc_token_file_path",
		"oidc_request_url",
		"oidc_request_token", "metadata_host", "environment", "subscription_id", "tenant_id",
	} {
		a[name] = &schema.Attribute{Type: cty.String, Optional: true}
		env[name] = []string{"ARM_" + strings.ToUpper(name)}
	}
	env["oidc_request_url"] = append(env["oidc_request_url"], "ACTIONS_ID_TOKEN_REQUEST_URL")
	env["oidc_request_token"] = append(env["oidc_request_token"], "ACTIONS_ID_TOKEN_REQUEST_TOKEN")
	a["msi_endpoint"] = &schema.Attribute{Type: cty.String, Optional: true}
	for _, name := range []string{"use_cli", "use_oidc", "use_msi", "use_aks_workload_identity", "symmetric"} {
		a[name] = &schema.Attribute{Type: cty.Bool, Optional: true}
	}
	for _, name := range []string{
		"client_secret", "client_certificate", "client_certificate_password", "oidc_token", "oidc_request_token",
	} {
		a[name].Sensitive = true
	}
	return &encryption.Kind{
		Name: "azure_vault", Schema: &schema.Block{Attributes: a}, Env: env,
		Defaults: map[string]cty.Value{"use_cli": cty.True}, Open: open,
	}
}

// The names that Azure allows.
var (
	vaultName = pattern.Lazy(`^[a-zA-Z](-?[0-9a-zA-Z]){2,23}$`)
	keyName   = pattern.Lazy(`^[0-9a-zA-Z-]{1,127}$`)
)

type service struct {
	caller    *call.Caller
	key       string // the address of the key, without a version
	algorithm string
	length    int
}

func open(ctx context.Context, s cloud.Environment, args arguments.Arguments) (encryption.KeyService, diag.List) {
	k := &service{length: args.Int("key_length"), algorithm: "RSA-OAEP-256"}
	var diags diag.List
	bad := func(name, format string, a ...any) {
		diags = diags.Append(args.Problem(name, "Invalid Value", fmt.Sprintf(format, a...)))
	}
	vault, err := url.Parse(args.String("vault_uri"))
	label, domain := "", ""
	if err == nil {
		label, domain, _ = strings.Cut(vault.Hostname(), ".")
	}
	switch {
	case err != nil || vault.Scheme != "https" || domain == "" || vault.User != nil:
		bad("vault_uri", "The value must be an address like https://NAME.vault.azure.net")
	case !vaultName().MatchString(label) || len(label) > 24:
		bad("vault_uri", "The name of a vault has 3 to 24 letters, digits and single hyphens, begins with a letter "+
			"and ends with none")
	}
	if !keyName().MatchString(args.String("vault_key_name")) {
		bad("vault_key_name", "The name of a key has 1 to 127 letters, digits and hyphens")
	}
	if k.length < 1 || k.length > 1<<20 {
		bad("key_length", "The value must be at least 1 byte")
	}
	if args.Bool("symmetric") {
		switch size := args.Int("symmetric_key_size"); size {
		case 128, 192, 256:
			k.algorithm = fmt.Sprintf("A%dGCM", size)
		default:
			bad("symmetric_key_size", "With symmetric = true the value must be 128, 192 or 256")
		}
	}
	if diags.HasErrors() {
		return nil, diags
	}
	in, err := azure.Open(ctx, azure.Settings{
		Environment: args.String("environment"), MetadataHost: args.String("metadata_host"), Identity: identity(args),
		Transport: s.Transport(), Env: s.Env, Environ: s.Environ, Path: s.Path, UserAgent: s.UserAgent,
	})
	switch {
	case errors.Is(err, azure.ErrEnvironment):
		return nil, diags.Append(args.Problem("environment", "Invalid Value", err.Error()))
	case err != nil:
		return nil, diags.Append(args.Problem("metadata_host", "Invalid Value", err.Error()))
	}
	if k.caller, err = in.Service(ctx, "https://"+domain); err != nil {
		return nil, diags.Append(diag.New(diag.Error, "Failed to configure the key provider azure_vault",
			err.Error()+".", nil))
	}
	k.key = "https://" + vault.Host + "/keys/" + args.String("vault_key_name")
	return k, diags
}

func identity(args arguments.Arguments) azure.Identity {
	return azure.Identity{
		TenantID: args.String("tenant_id"), SubscriptionID: args.String("subscription_id"),
		ClientID: args.String("client_id"), ClientIDFile: args.String("client_id_file_path"),
		ClientSecret: args.String("client_secret"), ClientSecretFile: args.String("client_secret_file_path"),
		Certificate: args.String("client_certificate"), CertificateFile: args.String("client_certificate_path"),
		CertificatePassword: args.String("client_certificate_password"),
		OIDCToken:           args.String("oidc_token"), OIDCTokenFile: args.String("oidc_token_file_path"),
		OIDCRequestURL: args.String("oidc_request_url"), OIDCRequestToken: args.String("oidc_request_token"),
		MSIEndpoint: args.String("msi_endpoint"),
		UseOIDC:     args.Bool("use_oidc"), UseMSI: args.Bool("use_msi"),
		UseAKS: args.Bool("use_aks_workload_identity"),
		UseCLI: args.Bool("use_cli"),
	}
}

// metadata is stored with the encrypted data, in OpenTofu's form.
type metadata struct {
	Ciphertext     []byte `json:"ciphertext"`
	IV             []byte `json:"iv"`
	Tag            []byte `json:"authentication_tag"`
	AdditionalData []byte `json:"additional_authenticated_data"`
	KeyVersion     string `json:"key_version"`
	Algorithm      string `json:"algo"`
}

// operation is the body of both requests and of their responses; bytes are in base64url without padding.
type operation struct {
	Algorithm      string `json:"alg,omitempty"`
	KeyID          string `json:"kid,omitempty"`
	Value          string `json:"value"`
	IV             string `json:"iv,omitempty"`
	Tag            string `json:"tag,omitempty"`
	AdditionalData string `json:"aad,omitempty"`
}

// apiVersion is the version of the service's API.
const apiVersion = "?api-version=7.4"

func (k *service) ask(ctx context.Context, address string, in operation) (operation, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return operation{}, err
	}
	answer, err := k.caller.Do(ctx, call.Request{
		Method: http.MethodPost, URL: address + apiVersion, Body: body,
		Header: http.Header{"Content-Type": {"application/json"}},
	})
	if err != nil {
		return operation{}, err
	}
	var out operation
	if json.Unmarshal(answer.Body, &out) != nil || out.Value == "" {
		return operation{}, errors.New("the answer is not what the service's protocol has")
	}
	return out, nil
}

// Make implements encryption.KeyService. The current version of the key encrypts; the version is part of the
// metadata.
func (k *service) Make(ctx context.Context) ([]byte, any, error) {
	key := make([]byte, k.length)
	_, _ = rand.Read(key) // never fails
	out, err := k.ask(ctx, k.key+"/encrypt", operation{Algorithm: k.algorithm,
		Value: base64.RawURLEncoding.EncodeToString(key)})
	if err != nil {
		return nil, nil, err
	}
	m := metadata{KeyVersion: out.KeyID[strings.LastIndexByte(out.KeyID, '/')+1:], Algorithm: k.algorithm}
	for _, part := range []struct {
		from string
		into *[]byte
	}{{out.Value, &m.Ciphertext}, {out.IV, &m.IV}, {out.Tag, &m.Tag}, {out.AdditionalData, &m.AdditionalData}} {
		if part.from == "" {
			continue // null, as in OpenTofu
		}
		if *part.into, err = base64.RawURLEncoding.DecodeString(part.from); err != nil {
			return nil, nil, errors.New("the answer is not what the service's protocol has")
		}
	}
	return key, m, nil
}

// Recover implements encryption.KeyService: with the version and the algorithm that the key was encrypted with.
func (k *service) Recover(ctx context.Context, meta json.RawMessage) ([]byte, error) {
	var was metadata
	if err := json.Unmarshal(meta, &was); err != nil {
		return nil, fmt.Errorf("%w: %w", encryption.ErrMetadata, err)
	}
	if len(was.Ciphertext) == 0 {
		return nil, nil
	}
	if was.Algorithm == "" {
		was.Algorithm = k.algorithm
	}
	address := k.key
	if was.KeyVersion != "" {
		address += "/" + url.PathEscape(was.KeyVersion)
	}
	text := base64.RawURLEncoding.EncodeToString
	out, err := k.ask(ctx, address+"/decrypt", operation{
		Algorithm: was.Algorithm, Value: text(was.Ciphertext), IV: text(was.IV), Tag: text(was.Tag),
		AdditionalData: text(was.AdditionalData),
	})
	if err != nil {
		return nil, err
	}
	key, err := base64.RawURLEncoding.DecodeString(out.Value)
	if err != nil || len(key) == 0 {
		return nil, errors.New("the answer holds no key")
	}
	return key, nil
}
