package azurerm

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/lang/schema"
)

// Kind returns the kind "azurerm".
func Kind() *backend.Kind {
	a := map[string]*schema.Attribute{
		"storage_account_name": {Type: cty.String, Required: true},
		"container_name":       {Type: cty.String, Required: true},
		"key":                  {Type: cty.String, Required: true},
		"timeout_seconds":      {Type: cty.Number, Optional: true},
		"endpoint":             {Type: cty.String, Optional: true, Deprecated: true},
		"msi_endpoint":         {Type: cty.String, Optional: true, Deprecated: true},
	}
	add := func(ty cty.Type, names ...string) {
		for _, n := range names {
			a[n] = &schema.Attribute{Type: ty, Optional: true}
		}
	}
	add(cty.String, "environment", "metadata_host", "access_key", "sas_token", "resource_group_name", "client_id",
		"client_id_file_path", "subscription_id", "tenant_id", "client_certificate", "client_certificate_path",
		"client_certificate_password", "client_secret", "client_secret_file_path", "oidc_token", "oidc_token_file_path",
		"oidc_request_url", "oidc_request_token", "ado_service_connection_id", "customer_provided_key",
		"encryption_scope")
	add(cty.Bool, "snapshot", "use_msi", "use_oidc", "use_aks_workload_identity", "use_azuread_auth", "use_cli")
	for _, name := range []string{
		"access_key", "sas_token", "client_certificate", "client_certificate_password", "client_secret", "oidc_token",
		"oidc_request_token", "customer_provided_key",
	} {
		a[name].Sensitive = true
	}
	return &backend.Kind{
		Name:   "azurerm",
		Schema: &schema.Block{Attributes: a},
		Env: map[string][]string{
			"environment":                 {"ARM_ENVIRONMENT"},
			"metadata_host":               {"ARM_METADATA_HOST"},
			"access_key":                  {"ARM_ACCESS_KEY"},
			"sas_token":                   {"ARM_SAS_TOKEN"},
			"snapshot":                    {"ARM_SNAPSHOT"},
			"client_id":                   {"ARM_CLIENT_ID"},
			"client_id_file_path":         {"ARM_CLIENT_ID_FILE_PATH"},
			"timeout_seconds":             {"ARM_TIMEOUT_SECONDS"},
			"subscription_id":             {"ARM_SUBSCRIPTION_ID"},
			"tenant_id":                   {"ARM_TENANT_ID"},
			"client_certificate":          {"ARM_CLIENT_CERTIFICATE"},
			"client_certificate_path":     {"ARM_CLIENT_CERTIFICATE_PATH"},
			"client_certificate_password": {"ARM_CLIENT_CERTIFICATE_PASSWORD"},
			"client_secret":               {"ARM_CLIENT_SECRET"},
			"client_secret_file_path":     {"ARM_CLIENT_SECRET_FILE_PATH"},
			"use_msi":                     {"ARM_USE_MSI"},
			"msi_endpoint":                {"ARM_MSI_ENDPOINT"},
			"use_oidc":                    {"ARM_USE_OIDC"},
			"oidc_token":                  {"ARM_OIDC_TOKEN"},
			"oidc_token_file_path":        {"ARM_OIDC_TOKEN_FILE_PATH", "AZURE_FEDERATED_TOKEN_FILE"},
			"oidc_request_url": {"ARM_OIDC_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_URL",
				"SYSTEM_OIDCREQUESTURI"},
			"oidc_request_token": {"ARM_OIDC_REQUEST_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
				"SYSTEM_ACCESSTOKEN"},
			"ado_service_connection_id": {
				"ARM_ADO_PIPELINE_SERVICE_CONNECTION_ID", "ARM_OIDC_AZURE_SERVICE_CONNECTION_ID",
				"AZURESUBSCRIPTION_SERVICE_CONNECTION_ID",
			},
			"use_aks_workload_identity": {"ARM_USE_AKS_WORKLOAD_IDENTITY"},
			"use_azuread_auth":          {"ARM_USE_AZUREAD"},
			"use_cli":                   {"ARM_USE_CLI"},
			"customer_provided_key":     {"ARM_CUSTOMER_PROVIDED_KEY"},
			// The second name is OpenTofu's spelling.
			"encryption_scope": {"ARM_ENCRYPTION_SCOPE", "ARM_ENCYRPTION_SCOPE"},
		},
		Defaults: map[string]cty.Value{
			"timeout_seconds": cty.NumberIntVal(300),
			"use_cli":         cty.True,
		},
		Conflicts: [][2]string{{"environment", "metadata_host"}, {"customer_provided_key", "encryption_scope"}},
		Located:   []string{"environment", "metadata_host", "storage_account_name", "container_name", "key"},
		Open:      open,
	}
}
