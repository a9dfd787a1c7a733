package catalog_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/lang/diag"
)

// mistakes has invalid configurations: the text to replace in a block, its replacement, the expected summary, the line,
// and a part of the detail.
var mistakes = map[string]struct {
	typ, from, to, summary string
	line                   int
	detail                 string
	env                    map[string]string
}{
	"aws_kms, no key": {
		"aws_kms",
		"  kms_key_id = \"alias/k\"\n",
		"",
		"Missing required argument",
		1,
		"kms_key_id",
		nil,
	},
	"aws_kms, an empty key": {"aws_kms", "alias/k", "", "Invalid Value", 2, "empty", nil},
	"aws_kms, another spec": {"aws_kms", "AES_256", "RSA", "Invalid Value", 3, "AES_128", nil},
	"aws_kms, unknown argument": {
		"aws_kms",
		"kms_key_id",
		"bucket = 1\n kms_key_id",
		"Unsupported argument",
		2,
		"bucket",
		nil,
	},
	"aws_kms, no region": {
		"aws_kms",
		"",
		"",
		"Missing region value",
		1,
		"AWS_REGION",
		map[string]string{"AWS_REGION": ""},
	},
	"aws_kms, no such region": {
		"aws_kms",
		"kms_key_id",
		"region = \"mars\"\n kms_key_id",
		"Invalid region value",
		2,
		"mars",
		nil,
	},
	"aws_kms, accounts": {
		"aws_kms",
		"kms_key_id",
		"allowed_account_ids = [\"1\"]\n forbidden_account_ids = [\"2\"]\n kms_key_id",
		"Invalid combination of arguments",
		2,
		"conflicts",
		nil,
	},
	"aws_kms, forbidden account": {
		"aws_kms",
		"kms_key_id",
		"forbidden_account_ids = [\"123456789012\"]\n kms_key_id",
		"Invalid account ID",
		1,
		"123456789012",
		nil,
	},
	"aws_kms, two endpoints": {
		"aws_kms",
		"kms_key_id",
		"endpoints {}\n endpoints {}\n kms_key_id",
		"Too many endpoints blocks",
		3,
		"No more than 1",
		nil,
	},
	"aws_kms, a role without name": {
		"aws_kms",
		"kms_key_id",
		"assume_role = {}\n kms_key_id",
		"Incorrect attribute value type",
		2,
		"role_arn",
		nil,
	},
	"aws_kms, retry mode": {
		"aws_kms",
		"kms_key_id",
		"retry_mode = \"often\"\n kms_key_id",
		"Invalid Value",
		2,
		"adaptive",
		nil,
	},
	"aws_kms, wrong credentials": {
		"aws_kms",
		"",
		"",
		"Failed to configure the key provider aws_kms",
		1,
		"403",
		map[string]string{"AWS_SECRET_ACCESS_KEY": "wrong-secret-of-mine"},
	},
	"gcp_kms, no key": {
		"gcp_kms",
		"  kms_encryption_key = \"projects/p/locations/l/keyRings/r/cryptoKeys/k\"\n",
		"",
		"Missing required argument",
		1,
		"kms_encryption_key",
		nil,
	},
	"gcp_kms, half a name": {"gcp_kms", "projects/p/locations/l/", "", "Invalid Value", 2, "full name", nil},
	"gcp_kms, no length":   {"gcp_kms", "= 32", "= 0", "Invalid Value", 3, "1024", nil},
	"gcp_kms, too long":    {"gcp_kms", "= 32", "= 1025", "Invalid Value", 3, "1024", nil},
	"gcp_kms, no number":   {"gcp_kms", "= 32", "= \"x\"", "Incorrect attribute value type", 3, "number", nil},
	"gcp_kms, broken credentials": {
		"gcp_kms",
		"key_length",
		"credentials = \"wrong-secret-of-mine\"\n key_length",
		"Invalid Value",
		3,
		"neither valid JSON",
		map[string]string{"GOOGLE_OAUTH_ACCESS_TOKEN": ""},
	},
	"gcp_kms, a wrong token": {
		"gcp_kms",
		"",
		"",
		"Unable to fetch encryption key data",
		1,
		"Invalid Credentials",
		map[string]string{"GOOGLE_OAUTH_ACCESS_TOKEN": "wrong-secret-of-mine"},
	},
	"gcp_kms, no such key": {
		"gcp_kms",
		"projects/p",
		"projects/q",
		"Unable to fetch encryption key data",
		1,
		"not found",
		nil,
	},
	"openbao, no key": {
		"openbao",
		"  key_name = \"my key\"\n",
		"",
		"Missing required argument",
		1,
		"key_name",
		nil,
	},
	"openbao, an empty key": {"openbao", "my key", "", "Invalid Value", 2, "empty", nil},
	"openbao, another length": {
		"openbao",
		"key_name",
		"key_length = 24\n key_name",
		"Invalid Value",
		2,
		"16, 32 or 64",
		nil,
	},
	"openbao, no address": {
		"openbao",
		"key_name",
		"address = \"wrong-secret-of-mine\"\n key_name",
		"Invalid Value",
		2,
		"address like",
		nil,
	},
	"openbao, a wrong token": {
		"openbao",
		"",
		"",
		"Unable to fetch encryption key data",
		1,
		"permission denied",
		map[string]string{"BAO_TOKEN": "wrong-secret-of-mine"},
	},
	"openbao, no token": {
		"openbao",
		"",
		"",
		"Unable to fetch encryption key data",
		1,
		"no token was sent",
		map[string]string{"BAO_TOKEN": ""},
	},
	"openbao, no such key": {
		"openbao",
		"my key",
		"your key",
		"Unable to fetch encryption key data",
		1,
		"encryption key not found",
		nil,
	},
	"openbao, nobody there": {
		"openbao",
		"",
		"",
		"Unable to fetch encryption key data",
		1,
		"refused",
		map[string]string{"BAO_ADDR": "http://127.0.0.1:1"},
	},
	"openbao, no certificate": {
		"openbao",
		"",
		"",
		"Failed to configure the key provider openbao",
		1,
		"BAO_CACERT",
		map[string]string{"BAO_CACERT": "/does/not/exist"},
	},
}

// azureMistakes has the mistakes in azure_vault, in the form of mistakes.
func init() {
	for name, c := range map[string]struct {
		from, to, summary string
		line              int
		detail            string
		env               map[string]string
	}{
		"no vault": {"  vault_uri          = \"https://myvault.vault.azure.net\"\n", "",
			"Missing required argument", 1, "vault_uri", nil},
		"a plain vault":  {"https:", "http:", "Invalid Value", 2, "address like", nil},
		"a vault's name": {"myvault", "my--vault", "Invalid Value", 2, "single hyphens", nil},
		"a key's name":   {"\"kek\"", "\"k_k\"", "Invalid Value", 3, "hyphens", nil},
		"no length":      {"= 32", "= 0", "Invalid Value", 4, "at least 1", nil},
		"no size of a key": {"key_length ", "symmetric = true\n key_length ", "Invalid Value", 1,
			"128, 192 or 256", nil},
		"an environment": {"key_length ", "environment = \"mars\"\n key_length ", "Invalid Value", 4, "public", nil},
		"no such key":    {"\"kek\"", "\"q\"", "Unable to fetch encryption key data", 1, "KeyNotFound", nil},
		"a wrong secret": {"", "", "Unable to fetch encryption key data", 1, "AADSTS7000215",
			map[string]string{"ARM_CLIENT_SECRET": "wrong-secret-of-mine"}},
	} {
		m := mistakes["aws_kms, no key"]
		m.typ, m.from, m.to, m.summary, m.line, m.detail, m.env = "azure_vault", c.from, c.to, c.summary, c.line,
			c.detail, c.env
		mistakes["azure_vault, "+name] = m
	}
}
func TestMistakesAreToldWithTheirLineAndWithoutSecrets(t *testing.T) {
	for name, c := range mistakes {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			maps.Copy(w.env, c.env)
			began := time.Now()
			_, diags := w.open(t, strings.Replace(providers[c.typ].block, c.from, c.to, 1)+use(c.typ))
			i := slices.IndexFunc(
				diags,
				func(d *diag.Diagnostic) bool { return d.Severity == diag.Error && d.Summary == c.summary },
			)
			if i < 0 {
				t.Fatalf("got %v, want %s", diags.Err(), c.summary)
			}
			d := diags[i]
			if d.Subject == nil || d.Subject.Filename != "main.tf" || d.Subject.Start.Line != c.line ||
				!strings.Contains(d.Detail, c.detail) {
				t.Errorf("%s: %s at %v, want line %d and %q", d.Summary, d.Detail, d.Subject, c.line, c.detail)
			}
			if strings.Contains(diags.Err().Error()+d.Detail, "wrong-secret-of-mine") {
				t.Errorf("a secret is shown: %v", diags.Err())
			}
			if time.Since(began) > 10*time.Second {
				t.Errorf("it took %s", time.Since(began))
			}
		})
	}
}
