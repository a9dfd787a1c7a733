package encryption_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/millipede-iac/millipede/encryption"
	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/lang/diag"
)

// The cheapest permitted derivation, so that the tests are fast.
const (
	derived = `
key_provider "pbkdf2" "k" {
  passphrase = "correct-horse-battery"
  iterations    = 200000
  hash_function = "sha256"
}
method "aes_gcm" "m" {
  keys = key_provider.pbkdf2.k
}
method "unencrypted" "u" {}
`
	stateText = `{"version":4,"terraform_version":"1.12.6","serial":3,"lineage":"l",` +
		`"outputs":{"o":{"value":"s3cret","type":"string"}}}`
)

func block(t *testing.T, text string) hcl.Body {
	t.Helper()
	f, diags := hclsyntax.ParseConfig([]byte(text), "main.tf", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return f.Body
}

func setUp(t *testing.T, text, environment string) (*encryption.Encryption, diag.List) {
	t.Helper()
	o := encryption.Options{FromEnvironment: environment, Environment: cloud.Environment{Environ: os.Environ()}}
	if text != "" {
		o.Block = block(t, text)
	}
	return encryption.New(t.Context(), o)
}

func state(t *testing.T, text string) *encryption.Target {
	t.Helper()
	e, diags := setUp(t, text, "")
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	return e.State()
}

func seal(t *testing.T, target *encryption.Target) []byte {
	t.Helper()
	sealed, err := target.SealState(t.Context(), []byte(stateText))
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func TestAStateThatOpenTofuHasEncryptedIsRead(t *testing.T) {
	sealed, err := os.ReadFile("testdata/opentofu.tfstate") // by OpenTofu 1.12.6
	if err != nil {
		t.Fatal(err)
	}
	plain, stale, err := state(t, derived+"state {\n method = method.aes_gcm.m\n}").OpenState(t.Context(), sealed)
	if err != nil || stale || !strings.Contains(string(plain), `"value":"hello"`) {
		t.Fatalf("%s, %v, %v", plain, stale, err)
	}
}

func TestTheEnvelopeHoldsWhatOpenTofuNeedsAndNothingInTheClear(t *testing.T) {
	target := state(t, derived+"state {\n method = method.aes_gcm.m\n}")
	sealed := seal(t, target)
	var e map[string]any
	if err := json.Unmarshal(sealed, &e); err != nil {
		t.Fatal(err)
	}
	if e["serial"] != 3.0 || e["lineage"] != "l" || e["encryption_version"] != "v0" ||
		e["meta"].(map[string]any)["key_provider.pbkdf2.k"] == nil {
		t.Errorf("the envelope is %s", sealed)
	}
	if len(e) != 5 || strings.Contains(string(sealed), "s3cret") {
		t.Errorf("too much is in the envelope: %s", sealed)
	}
	again := state(t, derived+"state {\n method = method.aes_gcm.m\n}") // another process, with another salt
	plain, stale, err := again.OpenState(t.Context(), sealed)
	if err != nil || stale || string(plain) != stateText {
		t.Fatalf("%s, %v, %v", plain, stale, err)
	}
}

func TestWhatIsReadWithAFallbackIsStale(t *testing.T) {
	const second = `
key_provider "pbkdf2" "n" {
  passphrase = "another-passphrase-22"
  iterations    = 200000
  hash_function = "sha256"
}
method "aes_gcm" "n" {
  keys = key_provider.pbkdf2.n
}
`
	old := seal(t, state(t, derived+"state {\n method = method.aes_gcm.m\n}"))
	for name, c := range map[string]struct{ config, content string }{
		"rollover": {derived + second + "state {\n method = method.aes_gcm.n\n fallback {\n method = " +
			"method.aes_gcm.m\n }\n}", string(old)},
		"from unencrypted": {derived + "state {\n method = method.aes_gcm.m\n fallback {\n method = " +
			"method.unencrypted.u\n }\n}", stateText},
		"to unencrypted": {derived + "state {\n method = method.unencrypted.u\n fallback {\n method = " +
			"method.aes_gcm.m\n }\n}", string(old)},
		"a fallback's own": {derived + second + "state {\n method = method.aes_gcm.n\n fallback {\n method = " +
			"method.unencrypted.u\n fallback {\n method = method.aes_gcm.m\n }\n }\n}", string(old)},
		"encrypted with both": {derived + second + "state {\n method = method.aes_gcm.n\n fallback {\n method = " +
			"method.aes_gcm.m\n }\n}", string(old)},
	} {
		t.Run(name, func(t *testing.T) {
			target := state(t, c.config)
			plain, stale, err := target.OpenState(t.Context(), []byte(c.content))
			if err != nil || !stale || string(plain) != stateText {
				t.Fatalf("%s, %v, %v", plain, stale, err)
			}
			if _, stale, err = target.OpenState(t.Context(), seal(t, target)); err != nil || stale {
				t.Fatalf("what is written now: %v, %v", stale, err)
			}
		})
	}
}

func TestWhatCannotBeOpenedSaysWhy(t *testing.T) {
	encrypted := derived + "state {\n method = method.aes_gcm.m\n}"
	sealed := string(seal(t, state(t, encrypted)))
	for name, c := range map[string]struct{ config, content, want string }{
		"another passphrase": {strings.ReplaceAll(encrypted, "correct", "incorrect"), sealed,
			"decryption failed for all provided methods"},
		"another name": {strings.NewReplacer(`"k"`, `"q"`, "pbkdf2.k", "pbkdf2.q").Replace(encrypted), sealed,
			"there is no key for decrypting"},
		"in the clear": {encrypted, stateText, "encountered unencrypted payload without unencrypted method " +
			"configured"},
		"a serial changed": {encrypted, strings.Replace(sealed, `"serial":3`, `"serial":4`, 1),
			"serial field mismatch 4 vs 3"},
		"a lineage changed": {encrypted, strings.Replace(sealed, `"lineage":"l"`, `"lineage":"x"`, 1),
			"linage field mismatch x vs l"},
		"another version": {encrypted, strings.Replace(sealed, `"v0"`, `"v9"`, 1), "invalid encrypted payload " +
			"version: v9 != v0"},
		"no state": {encrypted, `{}`, "Given payload is not a state file"},
		"no JSON":  {encrypted, `garbage`, "invalid data format for decryption"},
		"only the unencrypted": {derived + "state {\n method = method.unencrypted.u\n}", sealed,
			"decryption failed for all provided methods"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := state(t, c.config).OpenState(t.Context(), []byte(c.content))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestMistakesHaveTheSummariesOfOpenTofu(t *testing.T) {
	const use = "\nstate {\n method = method.aes_gcm.m\n}\n"
	changed := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(derived + use) }
	for name, c := range map[string]struct{ config, want string }{
		"a short passphrase": {changed("correct-horse-battery", "short"),
			"Unable to build encryption key data"},
		"few iterations": {changed("200000", "1000"), "Unable to build encryption key data"},
		// A billion iterations took half an hour that nothing interrupts, and a long salt all memory.
		"many iterations": {changed("200000", "2000000000"), "Unable to build encryption key data"},
		"a long salt": {changed("iterations", "salt_length = 2000000000\n iterations"),
			"Unable to build encryption key data"},
		"an unknown hash": {changed("sha256", "md5"), "Unable to build encryption key data"},
		"a key of a wrong length": {changed("iterations", "key_length = 7\n iterations"),
			"Invalid method configuration"},
		"an unknown argument": {changed("iterations", "rounds"), "Unsupported argument"},
		"no keys":             {changed("keys = key_provider.pbkdf2.k", ""), "Missing required argument"},
		"keys that are text":  {changed("key_provider.pbkdf2.k\n", "\"abc\"\n"), "Expected key_provider value"},
		"keys without the one": {changed("key_provider.pbkdf2.k\n", "{ a = 1 }\n"),
			"Missing encryption_key value"},
		"an undeclared key provider": {changed("key_provider.pbkdf2.k\n", "key_provider.pbkdf2.q\n"),
			"Reference to undeclared key provider"},
		"an index": {changed("key_provider.pbkdf2.k\n", "key_provider.pbkdf2[\"k\"]\n"),
			"Invalid Key Provider expression format"},
		"an undeclared method": {derived + "state {\n method = method.aes_gcm.q\n}",
			"Reference to undeclared encryption method"},
		"no method's name": {derived + "state {\n method = foo.aes_gcm.m\n}", "Invalid encryption method " +
			"identifier"},
		"no method": {derived + "state {\n enforced = true\n}", "Invalid expression"},
		"enforced and in the clear": {derived + "state {\n enforced = true\n method = method.unencrypted.u\n}",
			"Unencrypted method is forbidden"},
		"enforced, a fallback": {derived + "state {\n enforced = true\n method = method.aes_gcm.m\n fallback " +
			"{\n method = method.unencrypted.u\n }\n}", "Unencrypted method is forbidden"},
		"an unknown key provider": {derived + "key_provider \"foo\" \"x\" {}\nmethod \"aes_gcm\" \"x\" {\n keys " +
			"= key_provider.foo.x\n}\nstate {\n method = method.aes_gcm.x\n}", `Error fetching key_provider "foo"`},
		"a key service": {derived + "key_provider \"aws_kms\" \"x\" {}\nmethod \"aes_gcm\" \"x\" {\n " +
			"keys = key_provider.aws_kms.x\n}\nstate {\n method = method.aes_gcm.x\n}",
			`Error fetching key_provider "aws_kms"`},
		"an unknown method": {derived + "method \"foo\" \"x\" {}\nstate {\n method = method.foo.x\n}",
			`Error fetching encryption method "foo"`},
		"passphrase and chain": {changed("iterations", "chain = key_provider.pbkdf2.o\n iterations") +
			"key_provider \"pbkdf2\" \"o\" {\n passphrase = \"0123456789abcdef\"\n}", "Unable to build encryption " +
			"key data"},
		"a circle": {changed(`passphrase = "correct-horse-battery"`,
			"chain = key_provider.pbkdf2.k"), "Expected key_provider value"},
		"one name for two metadata": {changed(`passphrase = "correct-horse-battery"`,
			"chain = key_provider.pbkdf2.o\n encrypted_metadata_alias = \"a\"") + "key_provider \"pbkdf2\" \"o\" {\n " +
			"passphrase = \"0123456789abcdef\"\n encrypted_metadata_alias = \"a\"\n}", "Duplicate metadata key"},
		"a program that is not there": {derived + "key_provider \"external\" \"x\" {\n command = " +
			"[\"/does/not/exist\"]\n}\nmethod \"aes_gcm\" \"x\" {\n keys = key_provider.external.x\n}\nstate {\n " +
			"method = method.aes_gcm.x\n}", "Unable to fetch encryption key data"},
		"no program": {derived + "key_provider \"external\" \"x\" {\n command = []\n}\nmethod " +
			"\"aes_gcm\" \"x\" {\n keys = key_provider.external.x\n}\nstate {\n method = method.aes_gcm.x\n}",
			"Unable to build encryption key data"},
		"no program of a method": {derived + "method \"external\" \"x\" {\n encrypt_command = []\n " +
			"decrypt_command = [\"true\"]\n}\nstate {\n method = method.external.x\n}", "Invalid method configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			_, diags := setUp(t, c.config, "")
			if !diags.HasErrors() ||
				!slices.ContainsFunc(diags, func(d *diag.Diagnostic) bool {
					return d.Severity == diag.Error &&
						d.Summary == c.want
				}) {
				t.Fatalf("got %v, want %s", diags.Err(), c.want)
			}
		})
	}
}

func TestWhatIsNotUsedMayBeWrong(t *testing.T) {
	target := state(t, derived+"key_provider \"foo\" \"x\" {}\nmethod \"bar\" \"y\" {}\nstate {\n method = "+
		"method.aes_gcm.m\n}")
	if !target.Encrypts() {
		t.Fatal("nothing is encrypted")
	}
}

func TestTheEnvironmentOverridesTheBlock(t *testing.T) {
	const use = "state {\n method = method.aes_gcm.m\n}\n"
	sealed := seal(t, state(t, derived+use))
	asJSON := `{"key_provider":{"pbkdf2":{"k":{"passphrase":"correct-horse-battery","iterations":200000}}},
		"method":{"aes_gcm":{"m":{"keys":"key_provider.pbkdf2.k"}}},"state":{"method":"method.aes_gcm.m"}}`
	for name, c := range map[string]struct{ block, environment string }{
		"alone":          {"", derived + use},
		"alone, in JSON": {"", asJSON},
		"the passphrase": {strings.ReplaceAll(derived+use, "correct-horse-battery", "short"),
			"key_provider \"pbkdf2\" \"k\" {\n passphrase = \"correct-horse-battery\"\n}"},
		"everything but the enforced": {"state {\n enforced = true\n}", derived + use},
	} {
		t.Run(name, func(t *testing.T) {
			e, diags := setUp(t, c.block, c.environment)
			if diags.HasErrors() {
				t.Fatal(diags.Err())
			}
			if _, stale, err := e.State().OpenState(t.Context(), sealed); err != nil || stale {
				t.Fatalf("%v, %v", stale, err)
			}
		})
	}
	t.Run("but does not lift enforced", func(t *testing.T) {
		_, diags := setUp(t, derived+"state {\n enforced = true\n method = method.aes_gcm.m\n}",
			"state {\n enforced = false\n method = method.unencrypted.u\n}")
		if err := diags.Err(); err == nil || !strings.Contains(err.Error(), "Unencrypted method is forbidden") {
			t.Fatal(err)
		}
	})
}

func TestAChainOfKeyProvidersDecryptsByItsMetadata(t *testing.T) {
	chain := derived + `
key_provider "pbkdf2" "outer" {
  chain                    = key_provider.pbkdf2.k
  iterations               = 200000
  encrypted_metadata_alias = "outside"
}
method "aes_gcm" "c" {
  keys = key_provider.pbkdf2.outer
  aad  = [1, 2, 3]
}
state {
  method = method.aes_gcm.c
}
`
	sealed := seal(t, state(t, chain))
	renamed := strings.NewReplacer(`"outer"`, `"other"`, "pbkdf2.outer", "pbkdf2.other").Replace(chain)
	if _, _, err := state(t, renamed).OpenState(t.Context(), sealed); err != nil {
		t.Errorf("with an alias the name does not matter: %v", err)
	}
	if _, _, err := state(t, strings.Replace(chain, "[1, 2, 3]", "[1, 2]", 1)).OpenState(t.Context(),
		sealed); err == nil {
		t.Error("the additional data was not authenticated")
	}
}

func TestRemoteStatesAreFoundByTheNameOfTheDataSource(t *testing.T) {
	e, diags := setUp(t, derived+`
remote_state_data_sources {
  default {
    method = method.unencrypted.u
  }
  remote_state_data_source "child.r[0]" {
    method = method.aes_gcm.m
  }
}`, "")
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	if !e.RemoteState("child.r[0]").Encrypts() || e.RemoteState("r").Encrypts() || e.RemoteState("r") == nil ||
		e.State() != nil || e.Plan() != nil {
		t.Error("the wrong target was found")
	}
}

// program writes a shell script that implements a protocol.
func program(t *testing.T, name, body string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+body), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestProgramsGiveKeysAndAreGivenTheirMetadataAgain(t *testing.T) {
	// The metadata has the number of the key; key number one is 16 bytes of zeros.
	keys := program(t, "keys", `
echo '{"magic":"OpenTofu-External-Key-Provider","version":1}'
read -r input
key=AAAAAAAAAAAAAAAAAAAAAA==
case "$input" in
null) echo '{"keys":{"encryption_key":"'$key'"},"meta":{"external_data":{"number":1}}}' ;;
'{"external_data":{"number":1}}') echo '{"keys":{"encryption_key":"'$key'","decryption_key":"'$key'"},"meta":{"external_data":{"number":1}}}' ;;
*) echo "what is $input?" >&2; exit 1 ;;
esac
`)
	target := state(t, `
key_provider "external" "x" {
  command = ["sh", "`+keys+`"]
}
method "aes_gcm" "m" {
  keys = key_provider.external.x
}
state {
  method = method.aes_gcm.m
}`)
	sealed := seal(t, target)
	if plain, _, err := target.OpenState(t.Context(), sealed); err != nil || string(plain) != stateText {
		t.Fatalf("%s, %v", plain, err)
	}
}

func TestProgramsEncryptAndDecrypt(t *testing.T) {
	// Encryption that does not change the data.
	echo := program(t, "method", `
echo '{"magic":"OpenTofu-External-Encryption-Method","version":1}'
cat
`)
	target := state(t, `
method "external" "x" {
  encrypt_command = ["sh", "`+echo+`"]
  decrypt_command = ["sh", "`+echo+`"]
}
state {
  method = method.external.x
}`)
	sealed := seal(t, target)
	if plain, _, err := target.OpenState(t.Context(), sealed); err != nil || string(plain) != stateText {
		t.Fatalf("%s, %v", plain, err)
	}

	silent := program(t, "silent", "echo not sure what to say; echo help >&2")
	_, err := state(t, `
method "external" "x" {
  encrypt_command = ["sh", "`+silent+`"]
  decrypt_command = ["sh", "`+silent+`"]
}
state {
  method = method.external.x
}`).SealState(t.Context(), []byte(stateText))
	if err == nil || !strings.Contains(err.Error(), "not sure what to say") || !strings.Contains(err.Error(), "help") {
		t.Errorf("got %v", err)
	}
}

func TestAPlanIsAnythingThatItsOwnerTakesForOne(t *testing.T) {
	e, diags := setUp(t, derived+"plan {\n method = method.aes_gcm.m\n}", "")
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	sealed, err := e.Plan().Seal(t.Context(), []byte{0, 1, 2})
	if err != nil || !encryption.IsEncrypted(sealed) {
		t.Fatalf("%s, %v", sealed, err)
	}
	if plain, _, err := e.Plan().Open(t.Context(), sealed, nil); err != nil || string(plain) != "\x00\x01\x02" {
		t.Fatalf("%v, %v", plain, err)
	}
	broken := errors.New("no plan")
	if _, _, err := e.Plan().Open(t.Context(), []byte("x"), func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
