package catalog_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/encryption"
	"github.com/millipede-iac/millipede/encryption/catalog"
	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/lang/arguments"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/bolt"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/test/stage/clouds/amazon"
	"github.com/millipede-iac/millipede/test/stage/clouds/azure"
	"github.com/millipede-iac/millipede/test/stage/clouds/google"
	"github.com/millipede-iac/millipede/test/stage/clouds/vault"
)

const stateText = `{"version":4,"terraform_version":"1.12.6","serial":3,"lineage":"l",` +
	`"outputs":{"o":{"value":"s3cret","type":"string"}}}`

// world has the key services, and the environment for using them.
type world struct {
	amazon *amazon.Server
	google *google.Server
	vault  *vault.Server
	azure  *azure.Server
	env    map[string]string
}

func newWorld(t *testing.T) *world {
	w := &world{amazon: amazon.New(t), google: google.New(t), vault: vault.New(t, "my key", "other"),
		azure: azure.New(t)}
	w.env = map[string]string{
		"AWS_ACCESS_KEY_ID": amazon.AccessKey, "AWS_SECRET_ACCESS_KEY": amazon.SecretKey, "AWS_REGION": "us-east-1",
		"AWS_ENDPOINT_URL_KMS": w.amazon.URL, "AWS_ENDPOINT_URL_STS": w.amazon.URL,
		"GOOGLE_OAUTH_ACCESS_TOKEN": google.Token, "GOOGLE_KMS_CUSTOM_ENDPOINT": w.google.KMSEndpoint(),
		"BAO_ADDR": w.vault.URL, "BAO_TOKEN": vault.Token, "HOME": t.TempDir(),
	}
	for name, value := range w.azure.Env() {
		w.env[name] = value
	}
	maps.Copy(w.env, map[string]string{
		"NO_PROXY": "127.0.0.1", "ARM_TENANT_ID": azure.Tenant, "ARM_CLIENT_ID": azure.Client,
		"ARM_CLIENT_SECRET": azure.Secret,
	})
	return w
}

// providers has blocks of each key provider, with the field names of their metadata.
var providers = map[string]struct{ block, fields string }{
	"aws_kms": {`key_provider "aws_kms" "k" {
  kms_key_id = "alias/k"
  key_spec   = "AES_256"
}`, "ciphertext_blob"},
	"azure_vault": {`key_provider "azure_vault" "k" {
  vault_uri          = "https://myvault.vault.azure.net"
  vault_key_name     = "kek"
  key_length         = 32
}`, "additional_authenticated_data algo authentication_tag ciphertext iv key_version"},
	"gcp_kms": {`key_provider "gcp_kms" "k" {
  kms_encryption_key = "projects/p/locations/l/keyRings/r/cryptoKeys/k"
  key_length         = 32
}`, "ciphertext"},
	"openbao": {`key_provider "openbao" "k" {
  key_name = "my key"
}`, "ciphertext"},
}

// use encrypts the state with the keys of a provider.
func use(typ string) string {
	return "\nmethod \"aes_gcm\" \"m\" {\n  keys = key_provider." + typ + ".k\n}\nstate {\n  method = " +
		"method.aes_gcm.m\n}\n"
}

func (w *world) open(t *testing.T, text string, kinds ...*encryption.Kind) (*encryption.Encryption, diag.List) {
	t.Helper()
	f, problems := hclsyntax.ParseConfig([]byte(text), "main.tf", hcl.InitialPos)
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	return encryption.New(t.Context(), encryption.Options{
		Block: f.Body, Kinds: append(catalog.All(), kinds...),
		Environment: cloud.Environment{Env: func(name string) string { return w.env[name] }},
	})
}

func (w *world) state(t *testing.T, text string, kinds ...*encryption.Kind) *encryption.Target {
	t.Helper()
	e, diags := w.open(t, text, kinds...)
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

func opens(t *testing.T, target *encryption.Target, sealed []byte) {
	t.Helper()
	plain, _, err := target.OpenState(t.Context(), sealed)
	if err != nil || string(plain) != stateText {
		t.Fatalf("%s, %v", plain, err)
	}
}

func TestWhatIsEncryptedNamesItsKeyAndAnotherProcessDecryptsIt(t *testing.T) {
	for typ, p := range providers {
		t.Run(typ, func(t *testing.T) {
			w := newWorld(t)
			first := seal(t, w.state(t, p.block+use(typ)))
			var e struct {
				Meta map[string][]byte `json:"meta"`
			}
			var kept map[string]json.RawMessage
			if json.Unmarshal(first, &e) != nil || json.Unmarshal(e.Meta["key_provider."+typ+".k"], &kept) != nil {
				t.Fatalf("the envelope is %s", first)
			}
			if fields := strings.Join(slices.Sorted(maps.Keys(kept)), " "); fields != p.fields {
				t.Errorf("the metadata has the fields %s, want %s", fields, p.fields)
			}
			if strings.Contains(string(first), "s3cret") {
				t.Errorf("a secret is in the clear: %s", first)
			}
			opens(t, w.state(t, p.block+use(typ)), first)
			second := seal(t, w.state(t, p.block+use(typ)))
			if string(first) == string(second) {
				t.Error("two operations have the same data key")
			}
		})
	}
}

func TestAKeyThatWasRecoveredIsNotAskedForAgain(t *testing.T) {
	w := newWorld(t)
	text := providers["openbao"].block + use("openbao")
	sealed := seal(t, w.state(t, text))
	target := w.state(t, text)
	before := len(w.vault.Requests())
	opens(t, target, sealed)
	opens(t, target, sealed)
	if got := w.vault.Requests()[before:]; len(got) != 1 || got[0] != "PUT /v1/transit/decrypt/my%2520key" {
		t.Errorf("two readings asked %v", got)
	}
}

func TestChainsFallbacksAndAliases(t *testing.T) {
	w := newWorld(t)
	for typ, p := range providers {
		t.Run(typ, func(t *testing.T) {
			plain := seal(t, w.state(t, p.block+use(typ)))
			chain := p.block + `
key_provider "pbkdf2" "k" {
  chain         = key_provider.` + typ + `.k
  iterations    = 200000
  hash_function = "sha256"
}` + use("pbkdf2")
			opens(t, w.state(t, chain), seal(t, w.state(t, chain)))
			rollover := strings.Replace(chain, "state {\n  method = method.aes_gcm.m\n", `
method "aes_gcm" "old" {
  keys = key_provider.`+typ+`.k
}
state {
  method = method.aes_gcm.m
  fallback {
    method = method.aes_gcm.old
  }
`, 1)
			target := w.state(t, rollover)
			if _, stale, err := target.OpenState(t.Context(), plain); err != nil || !stale {
				t.Errorf("with a fallback: %v, %v", stale, err)
			}
			opens(t, target, seal(t, target))
			alias := strings.Replace(p.block, "{", "{\n  encrypted_metadata_alias = \"kept\"", 1)
			renamed := strings.NewReplacer(`"k"`, `"z"`, "."+"k\n", ".z\n").Replace(alias + use(typ))
			opens(t, w.state(t, renamed), seal(t, w.state(t, alias+use(typ))))
		})
	}
}

func TestTheKeyOfTheStoreIsWrappedByEachKeyProvider(t *testing.T) {
	for typ, p := range providers {
		t.Run(typ, func(t *testing.T) {
			w := newWorld(t)
			path := filepath.Join(t.TempDir(), "state.db")
			open := func(wrapper bolt.Wrapper) *bolt.Store {
				t.Helper()
				s, err := bolt.OpenOptions(
					path,
					journal.LockInfo{Who: "me"},
					0,
					bolt.Options{NewID: rand.Text, NoSync: true, Wrapper: wrapper},
				)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			s := open(w.state(t, p.block+use(typ)))
			if err := s.Commit(t.Context(), journal.Commit{
				Workspace: "default",
				Changes: []state.Change{state.SetOutput{Name: "o",
					Output: &state.Output{Value: cty.StringVal("s3cret")}}}, EndVersion: true,
			}); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(w.state(t, p.block+use(typ)))
			if now, err := s.Load(t.Context(), "default"); err != nil || now.Outputs["o"].Value.AsString() != "s3cret" {
				t.Errorf("with the key: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(nil)
			if _, err := s.Load(t.Context(), "default"); !errors.Is(err, journal.ErrSealed) {
				t.Errorf("without the key: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A key is decrypted with the version and the algorithm with which it was encrypted, even if the configuration has
// others now.
func TestAnAzureKeyRemembersItsAlgorithm(t *testing.T) {
	w := newWorld(t)
	block := providers["azure_vault"].block
	symmetric := strings.Replace(block, "key_length ", "symmetric = true\n  symmetric_key_size = 192\n  key_length ", 1)
	sealed := seal(t, w.state(t, symmetric+use("azure_vault")))
	opens(t, w.state(t, symmetric+use("azure_vault")), sealed)
	opens(t, w.state(t, block+use("azure_vault")), sealed)
}

func TestAServiceThatIsBusyForAMomentIsAskedAgain(t *testing.T) {
	w := newWorld(t)
	for typ, fail := range map[string]func(){
		"aws_kms": func() { w.amazon.Fail(0, 503, 429) }, "gcp_kms": func() { w.google.Fail(503, 429) },
		"openbao": func() { w.vault.Fail(503, 429) },
	} {
		t.Run(typ, func(t *testing.T) {
			fail()
			target := w.state(t, providers[typ].block+use(typ))
			opens(t, target, seal(t, target))
		})
	}
}

func TestAServiceThatIsSilentIsGivenUp(t *testing.T) {
	for typ, silence := range map[string]func(w *world){
		"aws_kms": func(w *world) { w.amazon.Hang() },
		"openbao": func(w *world) { w.vault.Fail(vault.Hangs, vault.Hangs, vault.Hangs) },
	} {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			silence(w)
			began := time.Now()
			_, diags := w.open(t, providers[typ].block+use(typ))
			if err := diags.Err(); err == nil || !strings.Contains(diags[0].Detail, "no answer within") ||
				diags[0].Subject == nil {
				t.Errorf("got %v", err)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

func TestTheEndOfTheCommandEndsTheAsking(t *testing.T) {
	w := newWorld(t)
	w.vault.Fail(vault.Hangs)
	f, _ := hclsyntax.ParseConfig([]byte(providers["openbao"].block+use("openbao")), "main.tf", hcl.InitialPos)
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("the user has had enough")
	done := make(chan diag.List, 1)
	go func() {
		_, diags := encryption.New(ctx, encryption.Options{
			Block: f.Body, Kinds: catalog.All(),
			Environment: cloud.Environment{Env: func(name string) string { return w.env[name] }},
		})
		done <- diags
	}()
	for len(w.vault.Requests()) == 0 {
		select {
		case diags := <-done:
			t.Fatalf("it ended early: %v", diags.Err())
		case <-time.After(time.Millisecond):
		}
	}
	cancel(stopped)
	if diags := <-done; !diags.HasErrors() {
		t.Error("it went on")
	}
}

// toy is a key provider that is added by the recipe of ARCHITECTURE.md: a separate file (this function), its line in
// the table (which the test passes).
func toy() *encryption.Kind {
	return &encryption.Kind{
		Name:   "toy",
		Schema: &schema.Block{Attributes: map[string]*schema.Attribute{"shift": {Type: cty.Number, Required: true}}},
		Open: func(_ context.Context, _ cloud.Environment, args arguments.Arguments) (encryption.KeyService,
			diag.List) {
			if args.Int("shift") == 0 {
				return nil, diag.List{args.Problem("shift", "Invalid Value", "The value cannot be 0")}
			}
			return toyKeys(args.Int("shift")), nil
		},
	}
}

type toyKeys byte

func (k toyKeys) Make(context.Context) ([]byte, any, error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	return key, k.turned(key), nil
}

func (k toyKeys) Recover(_ context.Context, meta json.RawMessage) ([]byte, error) {
	var wrapped []byte
	err := json.Unmarshal(meta, &wrapped)
	return k.turned(wrapped), err
}

func (k toyKeys) turned(key []byte) []byte {
	out := slices.Clone(key)
	for i := range out {
		out[i] ^= byte(k)
	}
	return out
}

func TestAKeyProviderIsAddedByTheRecipe(t *testing.T) {
	const block = "key_provider \"toy\" \"k\" {\n  shift = 7\n}\n"
	w := newWorld(t)
	opens(t, w.state(t, block+use("toy"), toy()), seal(t, w.state(t, block+use("toy"), toy())))
	_, diags := w.open(t, strings.Replace(block, "7", "0", 1)+use("toy"), toy())
	if !diags.HasErrors() || diags[0].Subject == nil || diags[0].Subject.Start.Line != 2 {
		t.Errorf("got %v", diags.Err())
	}
}

func TestEachPackageOfAKeyProviderIsInTheTable(t *testing.T) {
	entries, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("catalog.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != "catalog" && e.Name() != "testdata" &&
			!strings.Contains(string(table), e.Name()+".Kind()") {
			t.Errorf("encryption/%s is not in the table", e.Name())
		}
	}
}
