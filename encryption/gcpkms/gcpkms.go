// Package gcpkms is the key provider "gcp_kms": the Key Management Service of Google Cloud encrypts data keys.
//
// The keys are generated here. The credentials are found by internal/cloud/google.
package gcpkms

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/encryption"
	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/internal/cloud/call"
	"github.com/millipede-iac/millipede/internal/cloud/google"
	"github.com/millipede-iac/millipede/internal/pattern"
	"github.com/millipede-iac/millipede/lang/arguments"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
)

// Kind returns the kind "gcp_kms".
func Kind() *encryption.Kind {
	return &encryption.Kind{
		Name: "gcp_kms",
		Schema: &schema.Block{Attributes: map[string]*schema.Attribute{
			"kms_encryption_key":                    {Type: cty.String, Required: true},
			"key_length":                            {Type: cty.Number, Required: true},
			"credentials":                           {Type: cty.String, Optional: true, Sensitive: true},
			"access_token":                          {Type: cty.String, Optional: true, Sensitive: true},
			"impersonate_service_account":           {Type: cty.String, Optional: true},
			"impersonate_service_account_delegates": {Type: cty.List(cty.String), Optional: true},
		}},
		Env: map[string][]string{
			"credentials":  {"GOOGLE_CREDENTIALS"},
			"access_token": {"GOOGLE_OAUTH_ACCESS_TOKEN"},
			"impersonate_service_account": {"GOOGLE_BACKEND_IMPERSONATE_SERVICE_ACCOUNT",
				"GOOGLE_IMPERSONATE_SERVICE_ACCOUNT"},
		},
		Open: open,
	}
}

// scope is the scope of tokens; longest is the maximum length of a key that the service encrypts, in bytes.
const (
	scope   = "https://www.googleapis.com/auth/cloudkms"
	longest = 1024
)

// endpointVariable is the environment variable with another address of the service, as for the Google provider;
// private endpoints need it.
const endpointVariable = "GOOGLE_KMS_CUSTOM_ENDPOINT"

// keyName matches the full name of a key.
var keyName = pattern.Lazy(
	`^projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+(/cryptoKeyVersions/[^/]+)?$`,
)

type service struct {
	client *google.Client
	// encrypt and decrypt are the addresses of the key for the two calls.
	encrypt, decrypt string
	length           int
}

func open(ctx context.Context, s cloud.Environment, args arguments.Arguments) (encryption.KeyService, diag.List) {
	var diags diag.List
	bad := func(name, format string, a ...any) {
		diags = diags.Append(args.Problem(name, "Invalid Value", fmt.Sprintf(format, a...)))
	}
	name := args.String("kms_encryption_key")
	if !keyName().MatchString(name) {
		bad("kms_encryption_key", "The value must be the full name of a key: "+
			"projects/P/locations/L/keyRings/R/cryptoKeys/K")
	}
	length := args.Int("key_length")
	if length < 1 || length > longest {
		bad("key_length", "The value must be from 1 to %d bytes", longest)
	}
	settings := google.Settings{
		AccessToken: args.String("access_token"), Impersonate: args.String("impersonate_service_account"),
		Delegates: args.Strings(
			"impersonate_service_account_delegates",
		), Scopes: []string{scope}, Env: s.Env, Path: s.Path, UserAgent: s.UserAgent,
	}
	if text := args.String("credentials"); text != "" && settings.AccessToken == "" {
		contents, err := google.Contents(text, s.Env, s.Path)
		switch {
		case err != nil:
			bad("credentials", "The credentials cannot be read: %s", err)
		case !json.Valid([]byte(contents)):
			bad("credentials", "The value is neither valid JSON nor the path of a file with it")
		}
		settings.Credentials = contents
	}
	custom := s.Either(endpointVariable)
	if u, err := url.Parse(custom); custom != "" && (err != nil || u.Host == "") {
		diags = diags.Append(diag.New(diag.Error, "Invalid environment variable",
			endpointVariable+" must be an address like https://cloudkms.example.com/v1/.", nil))
	}
	if diags.HasErrors() {
		return nil, diags
	}
	settings.Transport = s.Transport()
	client, err := google.Open(ctx, settings)
	if err != nil {
		return nil, diags.Append(diag.New(diag.Error, "Failed to configure the key provider gcp_kms",
			err.Error()+".", nil))
	}
	if custom == "" {
		custom = client.Endpoint("cloudkms") + "/v1/"
	}
	key, _, _ := strings.Cut(name, "/cryptoKeyVersions/") // ciphertexts contain the version
	at := strings.TrimSuffix(custom, "/") + "/"
	return &service{
		client:  client,
		encrypt: at + name + ":encrypt",
		decrypt: at + key + ":decrypt",
		length:  length,
	}, diags
}

// metadata is stored with the encrypted data, in OpenTofu's form.
type metadata struct {
	Ciphertext []byte `json:"ciphertext"`
}

// answer is the response of both calls; each sets one field.
type answer struct {
	Plaintext  []byte `json:"plaintext"`
	Ciphertext []byte `json:"ciphertext"`
}

func (k *service) ask(ctx context.Context, address string, in map[string][]byte) (answer, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return answer{}, err
	}
	header := http.Header{"Content-Type": {"application/json"}}
	got, err := k.client.Do(ctx, call.Request{Method: http.MethodPost, URL: address, Header: header, Body: body})
	if err != nil {
		return answer{}, err
	}
	var out answer
	if json.Unmarshal(got.Body, &out) != nil {
		return answer{}, errors.New("the answer is not what the service's protocol has")
	}
	return out, nil
}

// Make implements encryption.KeyService.
func (k *service) Make(ctx context.Context) ([]byte, any, error) {
	key := make([]byte, k.length)
	_, _ = rand.Read(key) // never fails
	out, err := k.ask(ctx, k.encrypt, map[string][]byte{"plaintext": key})
	if err == nil && len(out.Ciphertext) == 0 {
		err = errors.New("the answer holds no encrypted key")
	}
	if err != nil {
		return nil, nil, err
	}
	return key, metadata{out.Ciphertext}, nil
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
	out, err := k.ask(ctx, k.decrypt, map[string][]byte{"ciphertext": was.Ciphertext})
	if err == nil && len(out.Plaintext) == 0 {
		err = errors.New("the answer holds no key")
	}
	return out.Plaintext, err
}
