package s3

import (
	"maps"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/lang/arguments/awsidentity"
	"github.com/millipede-iac/millipede/lang/schema"
)

// Kind returns the kind "s3".
func Kind() *backend.Kind {
	a := awsidentity.Attributes()
	maps.Copy(a, map[string]*schema.Attribute{
		"bucket":                       {Type: cty.String, Required: true},
		"key":                          {Type: cty.String, Required: true},
		"sse_customer_key":             {Type: cty.String, Optional: true, Sensitive: true},
		"endpoints":                    {Type: object("s3", "iam", "sts", "dynamodb"), Optional: true},
		"state_tags":                   {Type: cty.Map(cty.String), Optional: true},
		"lock_tags":                    {Type: cty.Map(cty.String), Optional: true},
		"assume_role_tags":             {Type: cty.Map(cty.String), Optional: true, Deprecated: true},
		"force_path_style":             {Type: cty.Bool, Optional: true, Deprecated: true},
		"assume_role_duration_seconds": {Type: cty.Number, Optional: true, Deprecated: true},
	})
	add := func(ty cty.Type, deprecated bool, names ...string) {
		for _, n := range names {
			a[n] = &schema.Attribute{Type: ty, Optional: true, Deprecated: deprecated}
		}
	}
	add(cty.String, false, "acl", "kms_key_id", "dynamodb_table", "workspace_key_prefix")
	add(cty.Bool, false, "encrypt", "use_lockfile", "skip_region_validation", "use_path_style", "skip_s3_checksum")
	add(cty.String, true, "endpoint", "iam_endpoint", "sts_endpoint", "dynamodb_endpoint", "shared_credentials_file",
		"role_arn", "session_name", "external_id", "assume_role_policy")
	add(cty.Set(cty.String), true, "assume_role_policy_arns", "assume_role_transitive_tag_keys")
	env := awsidentity.Env()
	maps.Copy(env, map[string][]string{
		"endpoints.s3":       {"AWS_ENDPOINT_URL_S3", "AWS_S3_ENDPOINT"},
		"endpoints.dynamodb": {"AWS_ENDPOINT_URL_DYNAMODB", "AWS_DYNAMODB_ENDPOINT"},
		"sse_customer_key":   {"AWS_SSE_CUSTOMER_KEY"},
	})
	return &backend.Kind{
		Name:   "s3",
		Schema: &schema.Block{Attributes: a},
		Env:    env,
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
		Located: []string{"endpoints.s3", "endpoint", "bucket", "workspace_key_prefix", "key"},
		Open:    open,
	}
}

func object(names ...string) cty.Type {
	atys := map[string]cty.Type{}
	for _, n := range names {
		atys[n] = cty.String
	}
	return cty.ObjectWithOptionalAttrs(atys, names)
}
