package s3store

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/provider/schema"
	"github.com/millipede-iac/millipede/state/snapshot"
)

// Kind returns the kind "s3".
func Kind() *snapshot.Kind {
	a := map[string]*schema.Attribute{
		"bucket":                        {Type: cty.String, Required: true},
		"key":                           {Type: cty.String, Required: true},
		"sse_customer_key":              {Type: cty.String, Optional: true, Sensitive: true},
		"secret_key":                    {Type: cty.String, Optional: true, Sensitive: true},
		"token":                         {Type: cty.String, Optional: true, Sensitive: true},
		"endpoints":                     {Type: object("s3", "iam", "sts", "dynamodb"), Optional: true},
		"max_retries":                   {Type: cty.Number, Optional: true},
		"state_tags":                    {Type: cty.Map(cty.String), Optional: true},
		"lock_tags":                     {Type: cty.Map(cty.String), Optional: true},
		"assume_role_tags":              {Type: cty.Map(cty.String), Optional: true, Deprecated: true},
		"assume_role":                   {Type: roleType(), Optional: true},
		"force_path_style":              {Type: cty.Bool, Optional: true, Deprecated: true},
		"assume_role_duration_seconds":  {Type: cty.Number, Optional: true, Deprecated: true},
		"assume_role_with_web_identity": {Type: identityType(), Optional: true},
	}
	add := func(ty cty.Type, deprecated bool, names ...string) {
		for _, n := range names {
			a[n] = &schema.Attribute{Type: ty, Optional: true, Deprecated: deprecated}
		}
	}
	add(cty.String, false, "region", "sts_region", "acl", "access_key", "kms_key_id", "dynamodb_table", "profile", "workspace_key_prefix",
		"retry_mode", "custom_ca_bundle", "ec2_metadata_service_endpoint", "ec2_metadata_service_endpoint_mode",
		"http_proxy", "https_proxy", "no_proxy")
	add(cty.Bool, false, "encrypt", "use_lockfile", "skip_credentials_validation", "skip_metadata_api_check",
		"skip_region_validation", "skip_requesting_account_id", "use_path_style", "insecure", "use_dualstack_endpoint",
		"use_fips_endpoint", "skip_s3_checksum")
	add(cty.Set(cty.String), false, "shared_credentials_files", "shared_config_files", "allowed_account_ids", "forbidden_account_ids")
	add(cty.String, true, "endpoint", "iam_endpoint", "sts_endpoint", "dynamodb_endpoint", "shared_credentials_file",
		"role_arn", "session_name", "external_id", "assume_role_policy")
	add(cty.Set(cty.String), true, "assume_role_policy_arns", "assume_role_transitive_tag_keys")
	return &snapshot.Kind{
		Name:   "s3",
		Schema: &schema.Block{Attributes: a},
		Env: map[string][]string{
			"region":                             {"AWS_REGION", "AWS_DEFAULT_REGION"},
			"endpoints.s3":                       {"AWS_ENDPOINT_URL_S3", "AWS_S3_ENDPOINT"},
			"endpoints.iam":                      {"AWS_ENDPOINT_URL_IAM", "AWS_IAM_ENDPOINT"},
			"endpoints.sts":                      {"AWS_ENDPOINT_URL_STS", "AWS_STS_ENDPOINT"},
			"endpoints.dynamodb":                 {"AWS_ENDPOINT_URL_DYNAMODB", "AWS_DYNAMODB_ENDPOINT"},
			"sse_customer_key":                   {"AWS_SSE_CUSTOMER_KEY"},
			"shared_credentials_files":           {"AWS_SHARED_CREDENTIALS_FILE"},
			"shared_config_files":                {"AWS_SHARED_CONFIG_FILE"},
			"custom_ca_bundle":                   {"AWS_CA_BUNDLE"},
			"ec2_metadata_service_endpoint":      {"AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_METADATA_URL"},
			"ec2_metadata_service_endpoint_mode": {"AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE"},
		},
		Defaults: map[string]cty.Value{
			"workspace_key_prefix": cty.StringVal("env:"),
			"max_retries":          cty.NumberIntVal(5),
		},
		Conflicts: [][2]string{
			{"shared_credentials_file", "shared_credentials_files"},
			{"force_path_style", "use_path_style"},
			{"allowed_account_ids", "forbidden_account_ids"},
			{"kms_key_id", "sse_customer_key"},
		},
		Open: open,
	}
}

func object(names ...string) cty.Type {
	atys := map[string]cty.Type{}
	for _, n := range names {
		atys[n] = cty.String
	}
	return cty.ObjectWithOptionalAttrs(atys, names)
}

func roleType() cty.Type {
	return cty.ObjectWithOptionalAttrs(map[string]cty.Type{
		"role_arn": cty.String, "duration": cty.String, "external_id": cty.String, "policy": cty.String, "session_name": cty.String,
		"policy_arns": cty.Set(cty.String), "tags": cty.Map(cty.String), "transitive_tag_keys": cty.Set(cty.String),
	}, []string{"duration", "external_id", "policy", "session_name", "policy_arns", "tags", "transitive_tag_keys"})
}

func identityType() cty.Type {
	atys := map[string]cty.Type{
		"role_arn": cty.String, "web_identity_token": cty.String, "web_identity_token_file": cty.String,
		"session_name": cty.String, "policy": cty.String, "policy_arns": cty.Set(cty.String), "duration": cty.String,
	}
	return cty.ObjectWithOptionalAttrs(atys, []string{
		"role_arn", "web_identity_token", "web_identity_token_file", "session_name", "policy", "policy_arns", "duration",
	})
}
