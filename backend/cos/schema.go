package cos

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/lang/schema"
)

// Kind returns the kind "cos".
func Kind() *backend.Kind {
	a := map[string]*schema.Attribute{
		"region":     {Type: cty.String, Required: true},
		"bucket":     {Type: cty.String, Required: true},
		"encrypt":    {Type: cty.Bool, Optional: true},
		"accelerate": {Type: cty.Bool, Optional: true},
	}
	for _, name := range []string{"secret_id", "secret_key", "security_token", "prefix", "key", "acl"} {
		a[name] = &schema.Attribute{Type: cty.String, Optional: true}
	}
	for _, name := range []string{"secret_key", "security_token"} {
		a[name].Sensitive = true
	}
	return &backend.Kind{
		Name: "cos",
		Schema: &schema.Block{
			Attributes: a,
			Blocks: map[string]*schema.NestedBlock{"assume_role": {Nesting: schema.NestingSet, MaxItems: 1,
				Block: schema.Block{
					Attributes: map[string]*schema.Attribute{
						"role_arn":         {Type: cty.String, Optional: true},
						"session_name":     {Type: cty.String, Optional: true},
						"session_duration": {Type: cty.Number, Optional: true},
						"policy":           {Type: cty.String, Optional: true},
					},
				}}},
		},
		Env: map[string][]string{
			"secret_id":      {"TENCENTCLOUD_SECRET_ID"},
			"secret_key":     {"TENCENTCLOUD_SECRET_KEY"},
			"security_token": {"TENCENTCLOUD_SECURITY_TOKEN"},
			"region":         {"TENCENTCLOUD_REGION"},
		},
		Defaults: map[string]cty.Value{
			"key":     cty.StringVal("terraform.tfstate"),
			"encrypt": cty.True,
			"acl":     cty.StringVal("private"),
		},
		Located: []string{"region", "bucket", "prefix", "key"},
		Open:    open,
	}
}
