package gcs

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/bucket"
	"github.com/millipede-iac/millipede/internal/cloud/google"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
)

// Kind returns the kind "gcs".
func Kind() *backend.Kind {
	a := map[string]*schema.Attribute{
		"bucket":                                {Type: cty.String, Required: true},
		"impersonate_service_account_delegates": {Type: cty.List(cty.String), Optional: true},
	}
	for _, name := range []string{
		"prefix", "credentials", "access_token", "impersonate_service_account", "encryption_key", "kms_encryption_key",
		"storage_custom_endpoint", "universe_domain",
	} {
		a[name] = &schema.Attribute{Type: cty.String, Optional: true}
	}
	for _, name := range []string{"credentials", "access_token", "encryption_key"} {
		a[name].Sensitive = true
	}
	return &backend.Kind{
		Name:   "gcs",
		Schema: &schema.Block{Attributes: a},
		Env: map[string][]string{
			"credentials":  {"GOOGLE_BACKEND_CREDENTIALS", "GOOGLE_CREDENTIALS"},
			"access_token": {"GOOGLE_OAUTH_ACCESS_TOKEN"},
			"impersonate_service_account": {
				"GOOGLE_BACKEND_IMPERSONATE_SERVICE_ACCOUNT", "GOOGLE_IMPERSONATE_SERVICE_ACCOUNT",
			},
			"encryption_key":          {"GOOGLE_ENCRYPTION_KEY"},
			"kms_encryption_key":      {"GOOGLE_KMS_ENCRYPTION_KEY"},
			"storage_custom_endpoint": {"GOOGLE_BACKEND_STORAGE_CUSTOM_ENDPOINT", "GOOGLE_STORAGE_CUSTOM_ENDPOINT"},
			"universe_domain":         {"GOOGLE_BACKEND_UNIVERSE_DOMAIN"},
		},
		Conflicts: [][2]string{{"encryption_key", "kms_encryption_key"}},
		Located:   []string{"storage_custom_endpoint", "universe_domain", "bucket", "prefix"},
		Open:      open,
	}
}

// scope is the scope of tokens: reading and writing objects.
const scope = "https://www.googleapis.com/auth/devstorage.read_write"

// open checks the arguments, and gets a token with the configured credentials.
func open(ctx context.Context, p backend.Place, args backend.Arguments) (backend.Backend, diag.List) {
	var diags diag.List
	bad := func(name, format string, a ...any) {
		diags = diags.Append(args.Problem(name, "Invalid Value", fmt.Sprintf(format, a...)))
	}
	if args.String("bucket") == "" {
		bad("bucket", "The value cannot be empty")
	}
	if strings.Contains(args.String("bucket"), "/") {
		bad("bucket", "The value is the name of a bucket alone; a folder in it is the argument \"prefix\"")
	}
	if args.Given("encryption_key") && args.Given("kms_encryption_key") {
		bad("encryption_key", "Only one of \"encryption_key\" and \"kms_encryption_key\" can be set, be it here or "+
			"in the environment")
	}
	d := &driver{
		bucket: args.String("bucket"), prefix: strings.TrimLeft(args.String("prefix"), "/"),
		kmsKey: args.String("kms_encryption_key"),
	}
	if d.prefix != "" && !strings.HasSuffix(d.prefix, "/") {
		d.prefix += "/"
	}
	if text := args.String("encryption_key"); text != "" {
		key, err := google.Contents(text, p.Env, p.Path)
		if err != nil {
			bad("encryption_key", "The key cannot be read: %s", err)
		} else if raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(key)); err != nil || len(raw) != 32 {
			bad("encryption_key", "The key must be 32 bytes in base64, or the path of a file that holds them")
		} else {
			d.customerKey = customerKey(raw)
		}
	}
	settings := google.Settings{
		AccessToken: args.String("access_token"), Impersonate: args.String("impersonate_service_account"),
		Delegates: args.Strings("impersonate_service_account_delegates"), Scopes: []string{scope},
		UniverseDomain: args.String("universe_domain"), Env: p.Env, Path: p.Path,
		UserAgent: p.UserAgent,
	}
	if text := args.String("credentials"); text != "" && settings.AccessToken == "" {
		contents, err := google.Contents(text, p.Env, p.Path)
		switch {
		case err != nil:
			bad("credentials", "The credentials cannot be read: %s", err)
		case !json.Valid([]byte(contents)):
			bad("credentials", "The value is neither valid JSON nor the path of a file with it")
		}
		settings.Credentials = contents
	}
	custom := args.String("storage_custom_endpoint")
	if u, err := url.Parse(custom); custom != "" && (err != nil || u.Host == "" || u.Scheme != "http" &&
		u.Scheme != "https") {
		bad("storage_custom_endpoint", "The value must be an address like https://storage.example.com/storage/v1/")
	}
	if diags.HasErrors() {
		return nil, diags
	}
	if emulator := google.StorageEmulator(p.Env); emulator != "" {
		settings.Anonymous = true
		if custom == "" {
			custom = emulator + "/storage/v1/"
		}
	}
	settings.Transport = p.Transport()
	client, err := google.Open(ctx, settings)
	if err != nil {
		return nil, diags.Append(diag.New(diag.Error, "Failed to configure the GCS backend", err.Error()+".", nil))
	}
	d.client, d.transport = client, settings.Transport
	if d.locate(custom) != nil {
		return nil, diags.Append(args.Problem("universe_domain", "Invalid Value", "The value must be a domain"))
	}
	return &bucket.Store{Driver: d, Names: d.names(), Locks: d, LockCheck: p.LockCheck}, diags
}
