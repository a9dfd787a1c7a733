package kubernetes

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/lang/schema"
)

// Kind returns the kind "kubernetes".
func Kind() *backend.Kind {
	text := func() *schema.Attribute { return &schema.Attribute{Type: cty.String, Optional: true} }
	flag := func() *schema.Attribute { return &schema.Attribute{Type: cty.Bool, Optional: true} }
	return &backend.Kind{
		Name: "kubernetes",
		Schema: &schema.Block{
			Attributes: map[string]*schema.Attribute{
				"secret_suffix":            {Type: cty.String, Required: true},
				"labels":                   {Type: cty.Map(cty.String), Optional: true},
				"namespace":                text(),
				"in_cluster_config":        flag(),
				"load_config_file":         flag(), // has no effect in OpenTofu either
				"host":                     text(),
				"username":                 text(),
				"password":                 text(),
				"insecure":                 flag(),
				"client_certificate":       text(),
				"client_key":               text(),
				"cluster_ca_certificate":   text(),
				"config_path":              text(),
				"config_paths":             {Type: cty.List(cty.String), Optional: true},
				"config_context":           text(),
				"config_context_auth_info": text(),
				"config_context_cluster":   text(),
				"token":                    text(),
			},
			Blocks: map[string]*schema.NestedBlock{"exec": {
				Nesting: schema.NestingList, MaxItems: 1,
				Block: schema.Block{Attributes: map[string]*schema.Attribute{
					"api_version": {Type: cty.String, Required: true},
					"command":     {Type: cty.String, Required: true},
					"args":        {Type: cty.List(cty.String), Optional: true},
					"env":         {Type: cty.Map(cty.String), Optional: true},
				}},
			}},
		},
		// KUBE_CONFIG_PATHS is a list with separators: kubeconfigs reads it.
		Env: map[string][]string{
			"namespace":                {"KUBE_NAMESPACE"},
			"in_cluster_config":        {"KUBE_IN_CLUSTER_CONFIG"},
			"load_config_file":         {"KUBE_LOAD_CONFIG_FILE"},
			"host":                     {"KUBE_HOST"},
			"username":                 {"KUBE_USER"},
			"password":                 {"KUBE_PASSWORD"},
			"insecure":                 {"KUBE_INSECURE"},
			"client_certificate":       {"KUBE_CLIENT_CERT_DATA"},
			"client_key":               {"KUBE_CLIENT_KEY_DATA"},
			"cluster_ca_certificate":   {"KUBE_CLUSTER_CA_CERT_DATA"},
			"config_path":              {"KUBE_CONFIG_PATH"},
			"config_context":           {"KUBE_CTX"},
			"config_context_auth_info": {"KUBE_CTX_AUTH_INFO"},
			"config_context_cluster":   {"KUBE_CTX_CLUSTER"},
			"token":                    {"KUBE_TOKEN"},
		},
		Defaults: map[string]cty.Value{"namespace": cty.StringVal("default")},
		Located: []string{
			"host", "config_path", "config_paths", "config_context", "config_context_cluster", "namespace", "secret_suffix",
		},
		Open: open,
	}
}
