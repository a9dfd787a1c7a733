package oss

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/lang/schema"
)

// Kind returns the kind "oss".
func Kind() *backend.Kind {
	a := map[string]*schema.Attribute{
		"bucket":                         {Type: cty.String, Required: true},
		"encrypt":                        {Type: cty.Bool, Optional: true},
		"assume_role_session_expiration": {Type: cty.Number, Optional: true},
	}
	for _, name := range []string{
		"access_key", "secret_key", "security_token", "ecs_role_name", "region", "sts_endpoint", "tablestore_endpoint",
		"endpoint",
		"prefix", "key", "tablestore_table", "acl", "shared_credentials_file", "profile", "assume_role_role_arn",
		"assume_role_session_name", "assume_role_policy",
	} {
		a[name] = &schema.Attribute{Type: cty.String, Optional: true}
	}
	for _, name := range []string{"secret_key", "security_token"} {
		a[name].Sensitive = true
	}
	return &backend.Kind{
		Name: "oss",
		Schema: &schema.Block{
			Attributes: a,
			Blocks: map[string]*schema.NestedBlock{"assume_role": {Nesting: schema.NestingSet, MaxItems: 1,
				Block: schema.Block{
					Attributes: map[string]*schema.Attribute{
						"role_arn":           {Type: cty.String, Required: true},
						"session_name":       {Type: cty.String, Optional: true},
						"policy":             {Type: cty.String, Optional: true},
						"session_expiration": {Type: cty.Number, Optional: true},
					},
				}}},
		},
		Env: map[string][]string{
			"access_key":                     {"ALICLOUD_ACCESS_KEY", "ALICLOUD_ACCESS_KEY_ID"},
			"secret_key":                     {"ALICLOUD_SECRET_KEY", "ALICLOUD_ACCESS_KEY_SECRET"},
			"security_token":                 {"ALICLOUD_SECURITY_TOKEN"},
			"ecs_role_name":                  {"ALICLOUD_ECS_ROLE_NAME"},
			"region":                         {"ALICLOUD_REGION", "ALICLOUD_DEFAULT_REGION"},
			"sts_endpoint":                   {"ALICLOUD_STS_ENDPOINT"},
			"tablestore_endpoint":            {"ALICLOUD_TABLESTORE_ENDPOINT"},
			"endpoint":                       {"ALICLOUD_OSS_ENDPOINT", "OSS_ENDPOINT"},
			"shared_credentials_file":        {"ALICLOUD_SHARED_CREDENTIALS_FILE"},
			"profile":                        {"ALICLOUD_PROFILE"},
			"assume_role_role_arn":           {"ALICLOUD_ASSUME_ROLE_ARN"},
			"assume_role_session_name":       {"ALICLOUD_ASSUME_ROLE_SESSION_NAME"},
			"assume_role_session_expiration": {"ALICLOUD_ASSUME_ROLE_SESSION_EXPIRATION"},
		},
		Defaults: map[string]cty.Value{
			"prefix": cty.StringVal("env:"),
			"key":    cty.StringVal("terraform.tfstate"),
		},
		Located: []string{"endpoint", "region", "bucket", "prefix", "key"},
		Open:    open,
	}
}
