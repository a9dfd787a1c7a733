package s3_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/s3"
	"github.com/millipede-iac/millipede/test/stage/clouds/intercept"
)

// Requests went to Amazon although AWS_ENDPOINT_URL or a profile named another service. They went to a host name that
// does not exist if the bucket cannot be a part of one, and to addresses without FIPS although the environment asked
// for it. OpenTofu sends its requests to the wanted addresses.
func TestTheAddressIsTheOneThatAWSsLibrariesChoose(t *testing.T) {
	text := cty.StringVal
	const point = "arn:aws:s3:eu-west-1:123456789012:accesspoint/ap"
	for claim, c := range map[string]struct {
		args, env    map[string]string
		profile      string // of the shared configuration
		state, table string
	}{
		"plain": {state: "https://states.s3.eu-west-1.amazonaws.com/k", table: "https://dynamodb.eu-west-1.amazonaws.com/"},
		"common endpoint in a variable": {
			env:   map[string]string{"AWS_ENDPOINT_URL": "http://cloud.example:4566"},
			state: "http://states.cloud.example:4566/k", table: "http://cloud.example:4566/",
		},
		"endpoint of the service before the common one": {
			env:   map[string]string{"AWS_ENDPOINT_URL": "http://cloud.example", "AWS_ENDPOINT_URL_S3": "http://s3.example"},
			state: "http://states.s3.example/k", table: "http://cloud.example/",
		},
		"endpoint of a profile": {
			profile: "endpoint_url = https://cloud.example", state: "https://states.cloud.example/k",
			table: "https://cloud.example/",
		},
		"endpoint of a service of a profile": {
			profile: "services = x\n[services x]\ns3 =\n  endpoint_url = https://s3.example",
			state:   "https://states.s3.example/k", table: "https://dynamodb.eu-west-1.amazonaws.com/",
		},
		"endpoints that are to be ignored": {
			env:     map[string]string{"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"},
			profile: "endpoint_url = https://cloud.example",
			state:   "https://states.s3.eu-west-1.amazonaws.com/k", table: "https://dynamodb.eu-west-1.amazonaws.com/",
		},
		"FIPS in a variable": {
			args: map[string]string{"region": "us-east-1"}, env: map[string]string{"AWS_USE_FIPS_ENDPOINT": "true"},
			state: "https://states.s3-fips.us-east-1.amazonaws.com/k", table: "https://dynamodb-fips.us-east-1.amazonaws.com/",
		},
		"FIPS in a profile": {
			args: map[string]string{"region": "us-east-1"}, profile: "use_fips_endpoint = true",
			state: "https://states.s3-fips.us-east-1.amazonaws.com/k", table: "https://dynamodb-fips.us-east-1.amazonaws.com/",
		},
		"FIPS for the government": {
			args:  map[string]string{"region": "us-gov-west-1", "use_fips_endpoint": "true"},
			state: "https://states.s3-fips.us-gov-west-1.amazonaws.com/k",
			table: "https://dynamodb.us-gov-west-1.amazonaws.com/",
		},
		"dual stack in a variable": {
			env:   map[string]string{"AWS_USE_DUALSTACK_ENDPOINT": "true"},
			state: "https://states.s3.dualstack.eu-west-1.amazonaws.com/k", table: "https://dynamodb.eu-west-1.api.aws/",
		},
		"dual stack in China": {
			args:  map[string]string{"region": "cn-north-1", "use_dualstack_endpoint": "true"},
			state: "https://states.s3.dualstack.cn-north-1.amazonaws.com.cn/k",
			table: "https://dynamodb.cn-north-1.api.amazonwebservices.com.cn/",
		},
		"path style": {
			args:  map[string]string{"use_path_style": "true"},
			state: "https://s3.eu-west-1.amazonaws.com/states/k", table: "https://dynamodb.eu-west-1.amazonaws.com/",
		},
		"a bucket with capitals": {
			args:  map[string]string{"bucket": "My_States"},
			state: "https://s3.eu-west-1.amazonaws.com/My_States/k", table: "https://dynamodb.eu-west-1.amazonaws.com/",
		},
		"a bucket with dots": {
			args:  map[string]string{"bucket": "my.states"},
			state: "https://s3.eu-west-1.amazonaws.com/my.states/k", table: "https://dynamodb.eu-west-1.amazonaws.com/",
		},
		"an IP address": {
			env:   map[string]string{"AWS_ENDPOINT_URL_S3": "http://192.0.2.1:9000"},
			state: "http://192.0.2.1:9000/states/k", table: "https://dynamodb.eu-west-1.amazonaws.com/",
		},
		"an access point": {
			args:  map[string]string{"bucket": point},
			state: "https://ap-123456789012.s3-accesspoint.eu-west-1.amazonaws.com/k",
			table: "https://dynamodb.eu-west-1.amazonaws.com/",
		},
	} {
		t.Run(claim, func(t *testing.T) {
			var mu sync.Mutex
			var asked []string
			proxy := intercept.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				scheme := "http"
				if r.TLS != nil {
					scheme = "https"
				}
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, fmt.Sprintf("%s://%s%s", scheme, r.Host, r.URL.Path))
				if r.Method == http.MethodPost {
					_, _ = w.Write([]byte("{}"))
					return
				}
				w.WriteHeader(http.StatusNotFound)
			}))
			env := proxy.Env()
			for k, v := range c.env {
				env[k] = v
			}
			file := filepath.Join(t.TempDir(), "config")
			ok(t, os.WriteFile(file, []byte("[profile p]\naws_access_key_id = A\naws_secret_access_key = s\n"+c.profile), 0o600))
			args := map[string]cty.Value{
				"bucket": text("states"), "key": text("k"), "region": text("eu-west-1"), "dynamodb_table": text("locks"),
				"skip_credentials_validation": cty.True, "skip_requesting_account_id": cty.True, "profile": text("p"),
				"shared_config_files": cty.SetVal([]cty.Value{text(file)}),
			}
			for k, v := range c.args {
				args[k] = text(v)
				if v == "true" {
					args[k] = cty.True
				}
			}
			p := backend.Place{Kinds: backend.Kinds{s3.Kind()}, Env: func(name string) string { return env[name] }}
			b, diags := p.Open(t.Context(), "s3", cty.ObjectVal(args))
			if diags.HasErrors() {
				t.Fatal(diags.Err())
			}
			if _, err := b.Read(t.Context(), "default"); err != nil {
				t.Fatal(err)
			}
			is(t, strings.Join(asked, " "), c.state+" "+c.table)
		})
	}
}
