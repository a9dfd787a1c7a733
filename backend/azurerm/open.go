package azurerm

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/bucket"
	"github.com/millipede-iac/millipede/internal/cloud/azure"
	"github.com/millipede-iac/millipede/internal/pattern"
	"github.com/millipede-iac/millipede/lang/diag"
)

// The names that Azure accepts.
var (
	accountName   = pattern.Lazy(`^[0-9a-z]{3,24}$`)
	containerName = pattern.Lazy(`^[0-9a-z](-?[0-9a-z]){2,62}$`)
)

// open checks the arguments, determines the cloud, and chooses the authorization.
func open(ctx context.Context, p backend.Place, args backend.Arguments) (backend.Backend, diag.List) {
	d := &driver{
		container: args.String("container_name"), key: args.String("key"), snapshots: args.Bool("snapshot"),
		transport: p.Transport(),
	}
	diags := d.check(args)
	if diags.HasErrors() {
		return nil, diags
	}
	cloud, err := azure.Open(ctx, azure.Settings{
		Environment: args.String("environment"), MetadataHost: args.String("metadata_host"),
		Identity:  identity(p, args),
		Transport: d.transport, Env: p.Env, Environ: p.Environ, Path: p.Path, UserAgent: p.UserAgent,
		Timeout: time.Duration(args.Int("timeout_seconds")) * time.Second,
	})
	switch {
	case errors.Is(err, azure.ErrEnvironment):
		return nil, diags.Append(args.Problem("environment", "Invalid environment", err.Error()))
	case err != nil:
		return nil, diags.Append(args.Problem("metadata_host", "Invalid metadata_host", err.Error()))
	}
	d.address, d.blobs, err = cloud.Blobs(ctx, azure.Account{
		Name: args.String("storage_account_name"), AccessKey: args.String("access_key"), SAS: args.String("sas_token"),
		Directory: args.Bool("use_azuread_auth"), ResourceGroup: args.String("resource_group_name"),
		SubscriptionID: args.String("subscription_id"),
	})
	switch {
	case errors.Is(err, azure.ErrAccessKey):
		return nil, diags.Append(args.Problem("access_key", "Invalid access_key", err.Error()))
	case errors.Is(err, azure.ErrSAS):
		return nil, diags.Append(args.Problem("sas_token", "Invalid sas_token", err.Error()))
	case err != nil:
		return nil, diags.Append(diag.New(diag.Error, "Failed to configure the azurerm backend", err.Error()+".", nil))
	}
	return &bucket.Store{
		Driver: d, Names: d.names(), EmptyIsNone: true, Locks: d, LockCheck: p.LockCheck,
	}, diags
}

// check reports problems with the arguments that the schema cannot express.
func (d *driver) check(args backend.Arguments) diag.List {
	var diags diag.List
	bad := func(name, format string, a ...any) {
		diags = diags.Append(args.Problem(name, "Invalid "+name, fmt.Sprintf(format, a...)))
	}
	if !accountName().MatchString(args.String("storage_account_name")) {
		bad("storage_account_name", "The name of a storage account has 3 to 24 lower-case letters and digits")
	}
	if !containerName().MatchString(d.container) {
		bad(
			"container_name",
			`The name of a container has 3 to 63 lower-case letters, digits and "-", which stands alone and `+
				`neither first nor last`,
		)
	}
	if d.key == "" {
		bad("key", "The value cannot be empty")
	}
	if args.Int("timeout_seconds") < 0 {
		bad("timeout_seconds", "The value cannot be negative")
	}
	if args.Given("customer_provided_key") && args.Given("encryption_scope") {
		bad(
			"customer_provided_key",
			"Only one of customer_provided_key and encryption_scope can be set, be it here or in the environment",
		)
	}
	if args.Given("environment") && args.Given("metadata_host") {
		bad("environment", "Only one of environment and metadata_host can be set, be it here or in the environment")
	}
	if key := args.String("customer_provided_key"); key != "" {
		raw, err := base64.StdEncoding.DecodeString(key)
		if err != nil || len(raw) != 32 {
			bad("customer_provided_key", "The key must be 32 bytes in base64")
		}
		sum := sha256.Sum256(raw)
		d.customerKey = http.Header{
			"X-Ms-Encryption-Key": {key}, "X-Ms-Encryption-Key-Sha256": {base64.StdEncoding.EncodeToString(sum[:])},
			"X-Ms-Encryption-Algorithm": {"AES256"},
		}
	}
	if scope := args.String("encryption_scope"); scope != "" {
		d.scope = http.Header{"X-Ms-Encryption-Scope": {scope}}
	}
	if text := args.String("oidc_request_url"); text != "" {
		if u, err := url.Parse(text); err != nil || u.Host == "" || !strings.HasPrefix(u.Scheme, "http") {
			bad("oidc_request_url", "The value must be a URL")
		}
	}
	return diags
}

func identity(p backend.Place, args backend.Arguments) azure.Identity {
	id := azure.Identity{
		TenantID: args.String("tenant_id"), SubscriptionID: args.String("subscription_id"),
		ClientID: args.String("client_id"), ClientIDFile: args.String("client_id_file_path"),
		ClientSecret: args.String("client_secret"), ClientSecretFile: args.String("client_secret_file_path"),
		Certificate: args.String("client_certificate"), CertificateFile: args.String("client_certificate_path"),
		CertificatePassword: args.String("client_certificate_password"),
		OIDCToken:           args.String("oidc_token"), OIDCTokenFile: args.String("oidc_token_file_path"),
		OIDCRequestURL: args.String("oidc_request_url"), OIDCRequestToken: args.String("oidc_request_token"),
		ServiceConnected: args.String("ado_service_connection_id"), MSIEndpoint: args.String("msi_endpoint"),
		UseOIDC: args.Bool("use_oidc"), UseMSI: args.Bool("use_msi"), UseAKS: args.Bool("use_aks_workload_identity"),
		UseCLI: args.Bool("use_cli"),
	}
	if text := p.Env("MSI_ENDPOINT"); text != "" { // it takes precedence, as in Microsoft's libraries
		id.MSIEndpoint = text
	}
	return id
}
