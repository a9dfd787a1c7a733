package s3_test

import (
	"path/filepath"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/s3"
)

// Missing credentials were reported as a backend that cannot be configured. Terragrunt explains them by the summary.
func TestWithoutCredentialsTheSummarySaysSo(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	env := map[string]string{"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": none,
		"AWS_SHARED_CREDENTIALS_FILE": none}
	p := backend.Place{Kinds: backend.Kinds{s3.Kind()}, Env: func(name string) string { return env[name] }}
	_, diags := p.Open(t.Context(), "s3", cty.ObjectVal(map[string]cty.Value{"bucket": cty.StringVal("states"),
		"key": cty.StringVal("k"), "region": cty.StringVal("eu-west-1")}))
	for _, d := range diags {
		if d.Summary == "No valid credential sources found" {
			return
		}
	}
	t.Errorf("the problems are %v", diags.Err())
}
