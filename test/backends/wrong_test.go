package backends

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// wrongTime is how long a command may take to report a wrong configuration.
const wrongTime = 10 * time.Second

// wrong are wrong configurations of backends: the valid arguments of the kind, with one argument set to a wrong value,
// about which the diagnostic says the given text.
var wrong = []struct{ kind, argument, value, says string }{
	{"azurerm", "storage_account_name", `"Upper"`, "3 to 24"},
	{"azurerm", "container_name", `"a--b"`, "stands alone"},
	{"azurerm", "key", `""`, "cannot be empty"},
	{"azurerm", "environment", `"moon"`, "no such environment"},
	{"azurerm", "metadata_host", `"a/b"`, "not a host"},
	{"azurerm", "access_key", `"?"`, "not base64"},
	{"azurerm", "timeout_seconds", `-1`, "negative"},
	{"azurerm", "customer_provided_key", `"YQ=="`, "32 bytes"},
	{"azurerm", "snapshot", `"perhaps"`, "bool"},
	{"azurerm", "blob", `"x"`, "not expected"},
	{"consul", "scheme", `"ftp"`, "http"},
	{"consul", "ca_file", `"/nowhere"`, "/nowhere"},
	{"cos", "bucket", `"states"`, "number of its account"},
	{"cos", "region", `"a/b"`, "name of a region"},
	{"cos", "prefix", `"/a"`, "must not start"},
	{"cos", "key", `"a/"`, "end with"},
	{"cos", "acl", `"everybody"`, "public-read"},
	{"gcs", "bucket", `"a/b"`, "name of a bucket"},
	{"gcs", "encryption_key", `"short"`, "32 bytes"},
	{"gcs", "storage_custom_endpoint", `"nowhere"`, "must be an address"},
	{"http", "address", `"example.com"`, "http:// or https://"},
	{"http", "lock_address", `"ftp://example.com"`, "http:// or https://"},
	{"http", "client_certificate_pem", `"x"`, "client_private_key_pem"},
	{"http", "retry_max", `"many"`, "number"},
	{"kubernetes", "secret_suffix", `"Upper_case"`, "cannot be part"},
	{"kubernetes", "namespace", `"a.b"`, "not the name of a namespace"},
	{"kubernetes", "host", `"ftp://h"`, "http:// or https://"},
	{"kubernetes", "in_cluster_config", `true`, "service account"},
	{"oss", "bucket", `"a/b"`, "name of a bucket"},
	{"oss", "prefix", `"./a"`, "must not start"},
	{"oss", "key", `"/a"`, "start or end"},
	{"oss", "acl", `"everybody"`, "public-read-write"},
	{"oss", "tablestore_table", `"missing"`, "OTSObjectNotExist"},
	{"oss", "endpoint", `"https://h/p"`, "without a path"},
	{"oss", "assume_role_session_expiration", `1`, "900 to 3600"},
	{"pg", "conn_str", `"postgres://u:secret@127.0.0.1:1/x?sslmode=disable"`, "connection refused"},
	{"pg", "conn_str", `"host=127.0.0.1 sslmode=nonsense"`, "sslmode"},
	{"s3", "bucket", `""`, "cannot be empty"},
	{"s3", "key", `"a/"`, "start or end"},
	{"s3", "region", `"nowhere"`, "no region"},
	{"s3", "kms_key_id", `"?"`, "ARN of a KMS key"},
	{"s3", "retry_mode", `"often"`, "adaptive"},
	{"s3", "custom_ca_bundle", `"/nowhere"`, "/nowhere"},
	{"s3", "workspace_key_prefix", `"/a"`, "start or end"},
}

func TestAWrongConfigurationIsADiagnosticWithTheArgumentsLine(t *testing.T) {
	if testing.Short() {
		t.Skip("dozens of commands are run")
	}
	for _, c := range wrong {
		t.Run(c.kind+" "+c.argument+" "+strings.ReplaceAll(c.value, "/", "_"), func(t *testing.T) {
			t.Parallel()
			w := &world{kind: c.kind, body: "bucket = \"b\""}
			if c.kind != "pg" { // the wrong values of pg need no server
				w = worlds[c.kind](t)
				w.kind = c.kind
			}
			var lines []string
			for _, line := range strings.Split(w.body, "\n") {
				if name, _, ok := strings.Cut(line, "="); ok && strings.TrimSpace(name) != c.argument &&
					c.kind != "pg" {
					lines = append(lines, line)
				}
			}
			body := strings.Join(append(lines, c.argument+" = "+c.value), "\n")
			d := w.directory(t, body, "")
			begun := time.Now()
			text := d.fails(c.says, "init")
			if took := time.Since(begun); took > wrongTime {
				t.Errorf("init took %s, more than %s", took, wrongTime)
			}
			if at := fmt.Sprintf("backend.tf line %d", len(lines)+3); !strings.Contains(text, at) {
				t.Errorf("the diagnostic does not name %s:\n%s", at, text)
			}
			if strings.Contains(text, "secret@") {
				t.Errorf("the diagnostic shows the password:\n%s", text)
			}
		})
	}
}
