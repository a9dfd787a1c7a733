package backends

import (
	"fmt"
	"maps"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/clouds/amazon"
	"github.com/millipede-iac/millipede/test/stage/clouds/azure"
	"github.com/millipede-iac/millipede/test/stage/clouds/google"
	"github.com/millipede-iac/millipede/test/stage/clouds/intercept"
	"github.com/millipede-iac/millipede/test/stage/clouds/vault"
)

// keyServices has, for each key provider that uses a service, its arguments and the environment with the address and
// the credentials of a fake.
var keyServices = map[string]struct {
	arguments string
	env       func(t *testing.T) map[string]string
}{
	"aws_kms": {arguments: `kms_key_id = "alias/k"
		key_spec = "AES_256"`, env: func(t *testing.T) map[string]string {
		s := amazon.New(t)
		return map[string]string{
			"AWS_ACCESS_KEY_ID": amazon.AccessKey, "AWS_SECRET_ACCESS_KEY": amazon.SecretKey, "AWS_REGION": "us-east-1",
			"AWS_ENDPOINT_URL_KMS": s.URL, "AWS_ENDPOINT_URL_STS": s.URL,
		}
	}},
	"azure_vault": {arguments: `vault_uri = "` + azure.VaultURI + `"
		vault_key_name = "kek"
		key_length = 32`, env: func(t *testing.T) map[string]string {
		env := azure.New(t).Env()
		maps.Copy(env, map[string]string{
			"ARM_TENANT_ID": azure.Tenant, "ARM_CLIENT_ID": azure.Client, "ARM_CLIENT_SECRET": azure.Secret,
		})
		return env
	}},
	"gcp_kms": {arguments: `kms_encryption_key = "projects/p/locations/l/keyRings/r/cryptoKeys/k"
		key_length = 32`, env: func(t *testing.T) map[string]string {
		s := google.New(t)
		env := intercept.New(t, s).Env() // OpenTofu uses gRPC, with a fixed address
		env["GOOGLE_OAUTH_ACCESS_TOKEN"], env["GOOGLE_KMS_CUSTOM_ENDPOINT"] = google.Token, s.KMSEndpoint()
		return env
	}},
	"openbao": {arguments: `key_name = "my key"`, env: func(t *testing.T) map[string]string {
		return map[string]string{"BAO_ADDR": vault.New(t, "my key").URL, "BAO_TOKEN": vault.Token}
	}},
}

// The coordinator runs in both directories; with the variable TOFU, OpenTofu runs in the second one.
func TestTwoDirectoriesShareAStateThatAKeyServiceEncrypts(t *testing.T) {
	if testing.Short() {
		t.Skip("dozens of commands are run")
	}
	for name, k := range keyServices {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &server{}
			h := httptest.NewServer(s)
			t.Cleanup(h.Close)
			w := &world{kind: "http", env: k.env(t), body: fmt.Sprintf(`
			address        = "%s/state"
			lock_address   = "%[1]s/lock"
			unlock_address = "%[1]s/lock"`, h.URL)}
			w.env["TF_ENCRYPTION"] = `
				key_provider "` + name + `" "k" {
					` + k.arguments + `
				}
				method "aes_gcm" "m" {
					keys = key_provider.` + name + `.k
				}
				state {
					method   = method.aes_gcm.m
					enforced = true
				}`
			a, b := w.directory(t, w.body, configuration), w.directory(t, w.body, configuration)
			if tofu != "" {
				b.program = tofu
			}
			a.must("init", "-input=false")
			a.must("apply", "-auto-approve")
			b.must("init", "-input=false")
			b.unchanged()
			b.must("apply", "-auto-approve", "-var=value=2")
			a.unchanged("-var=value=2")
			if one, other := a.must("state", "pull"), b.must("state", "pull"); one != other {
				t.Errorf("the directories pull different states:\n%s\n%s", one, other)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if text := string(s.state); !strings.Contains(text, "encrypted_data") || strings.Contains(text, "secret of") {
				t.Errorf("the stored state is not encrypted:\n%s", text)
			}
		})
	}
}
