package httpbackend

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/lang/schema"
)

// Kind returns the kind "http".
func Kind() *backend.Kind {
	text := func() *schema.Attribute { return &schema.Attribute{Type: cty.String, Optional: true} }
	number := func() *schema.Attribute { return &schema.Attribute{Type: cty.Number, Optional: true} }
	return &backend.Kind{
		Name: "http",
		Schema: &schema.Block{Attributes: map[string]*schema.Attribute{
			"address":                   {Type: cty.String, Required: true},
			"update_method":             text(),
			"lock_address":              text(),
			"unlock_address":            text(),
			"lock_method":               text(),
			"unlock_method":             text(),
			"username":                  text(),
			"password":                  text(),
			"skip_cert_verification":    {Type: cty.Bool, Optional: true},
			"retry_max":                 number(),
			"retry_wait_min":            number(),
			"retry_wait_max":            number(),
			"client_ca_certificate_pem": text(),
			"client_certificate_pem":    text(),
			"client_private_key_pem":    text(),
			"headers":                   {Type: cty.Map(cty.String), Optional: true},
		}},
		Env: map[string][]string{
			"address":                   {"TF_HTTP_ADDRESS"},
			"update_method":             {"TF_HTTP_UPDATE_METHOD"},
			"lock_address":              {"TF_HTTP_LOCK_ADDRESS"},
			"unlock_address":            {"TF_HTTP_UNLOCK_ADDRESS"},
			"lock_method":               {"TF_HTTP_LOCK_METHOD"},
			"unlock_method":             {"TF_HTTP_UNLOCK_METHOD"},
			"username":                  {"TF_HTTP_USERNAME"},
			"password":                  {"TF_HTTP_PASSWORD"},
			"retry_max":                 {"TF_HTTP_RETRY_MAX"},
			"retry_wait_min":            {"TF_HTTP_RETRY_WAIT_MIN"},
			"retry_wait_max":            {"TF_HTTP_RETRY_WAIT_MAX"},
			"client_ca_certificate_pem": {"TF_HTTP_CLIENT_CA_CERTIFICATE_PEM"},
			"client_certificate_pem":    {"TF_HTTP_CLIENT_CERTIFICATE_PEM"},
			"client_private_key_pem":    {"TF_HTTP_CLIENT_PRIVATE_KEY_PEM"},
		},
		Defaults: map[string]cty.Value{
			"update_method":  cty.StringVal("POST"),
			"lock_method":    cty.StringVal("LOCK"),
			"unlock_method":  cty.StringVal("UNLOCK"),
			"retry_max":      cty.NumberIntVal(2),
			"retry_wait_min": cty.NumberIntVal(1),
			"retry_wait_max": cty.NumberIntVal(30),
		},
		Address: func(_ backend.Place, args backend.Arguments, _ string) string { return located(args) },
		Open:    open,
	}
}
