package azurerm_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/azurerm"
	"github.com/millipede-iac/millipede/backend/backendtest"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/test/stage/clouds/azure"
)

const (
	key  = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=" // 32 bytes
	id   = "a650e987-46d5-66a2-ccda-85882fc7ed05"
	id2  = "0b6c1f0e-1a0f-4a3c-9d3e-5f7a8b9c0d1e"
	name = "p/q.tfstate"
)

func place(s *azure.Server, more map[string]string) backend.Place {
	env := s.Env()
	env["ARM_USE_CLI"] = "false"
	for k, v := range more {
		env[k] = v
	}
	return backend.Place{
		Kinds: backend.Kinds{
			azurerm.Kind(),
		}, Env: func(name string) string { return env[name] }, Environ: os.Environ(), LockCheck: 10 * time.Millisecond,
	}
}

func arguments(pairs ...string) cty.Value {
	args := map[string]cty.Value{
		"storage_account_name": cty.StringVal(
			azure.Account,
		), "container_name": cty.StringVal("states"), "key": cty.StringVal(name),
	}
	for i := 0; i < len(pairs); i += 2 {
		args[pairs[i]] = cty.StringVal(pairs[i+1])
	}
	return cty.ObjectVal(args)
}

func opened(t *testing.T, p backend.Place, pairs ...string) backend.Backend {
	t.Helper()
	b, diags := p.Open(t.Context(), "azurerm", arguments(pairs...))
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	t.Cleanup(func() { ok(t, backend.Close(b)) })
	return b
}

func TestTheBackendKeepsTheContract(t *testing.T) {
	for claim, args := range map[string][]string{
		"access key": {"access_key", azure.AccessKey}, "customer key": {"access_key", azure.AccessKey,
			"customer_provided_key", key},
		"scope": {"access_key", azure.AccessKey, "encryption_scope", "s"}, "snapshots": {"access_key", azure.AccessKey,
			"snapshot", "true"},
		"SAS": {"sas_token", azure.SAS},
		"tokens": {
			"use_azuread_auth", "true", "tenant_id", azure.Tenant, "client_id", azure.Client,
			"client_secret", azure.Secret,
		},
	} {
		t.Run(claim, func(t *testing.T) {
			servers := map[string]*azure.Server{}
			backendtest.Run(t, backendtest.Suite{Open: func(t *testing.T) backend.Backend {
				if servers[t.Name()] == nil {
					servers[t.Name()] = azure.New(t, "states")
				}
				return opened(t, place(servers[t.Name()], nil), args...)
			}})
		})
	}
}

func TestWhatIsStoredIsWhatOpenTofuStores(t *testing.T) {
	s := azure.New(t, "states")
	b, ctx := opened(
		t,
		place(s, nil),
		"access_key",
		azure.AccessKey,
		"encryption_scope",
		"s",
		"snapshot",
		"true",
	), t.Context()
	s.Change("states", name, func(*azure.Blob) *azure.Blob {
		return &azure.Blob{Data: []byte("{}\n"), Meta: map[string]string{"theirs": "stays"}}
	})
	lock, err := b.Lock(ctx, "default", backendtest.Info(id, "OperationTypeApply"))
	ok(t, err)
	is(t, lock.ID, id)
	blob, _ := s.Blob("states", name)
	is(t, blob.Lease, id)
	text, err := base64.StdEncoding.DecodeString(blob.Meta["terraformlockid"])
	ok(t, err)
	is(t, string(text), `{"ID":"`+id+`","Operation":"OperationTypeApply","Info":"","Who":"me@here","Version":"1.12.6",`+
		`"Created":"2026-11-22T04:54:54.319205105Z",`+
		`"Path":"https://statesaccount.blob.core.windows.net/states/p%2Fq.tfstate"}`)
	ok(t, b.Write(ctx, "default", []byte("{ }\n")))
	blob, _ = s.Blob("states", name)
	is(t, string(blob.Data), "{ }\n")
	is(
		t,
		fmt.Sprintf("%s %s %d %d", blob.ContentType, blob.Scope, blob.Snapshots, len(blob.Meta)),
		"application/json s 1 2",
	)
	ok(t, b.Unlock(ctx, "default", id))
	blob, _ = s.Blob("states", name)
	is(t, fmt.Sprint(blob.Lease, blob.Meta), "map[theirs:stays]")
	ok(t, b.Create(ctx, "w1"))
	if _, there := s.Blob("states", name+"env:w1"); !there {
		t.Error("the workspace is not where OpenTofu has it")
	}
	ok(t, b.Write(ctx, "w1", []byte("{}")))
	ok(t, b.Delete(ctx, "w1")) // although there are snapshots of it
}

func TestEveryIdentityIsTaken(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	ok(t, os.WriteFile(token, []byte(azure.Assertion+"\n"), 0o600))
	pem := certificate(t)
	app := []string{"tenant_id", azure.Tenant, "client_id", azure.Client}
	directory := append(slices.Clone(app), "use_azuread_auth", "true")
	for claim, c := range map[string]struct {
		args  []string
		env   map[string]string
		grant string // a part of the request for a token
	}{
		"a client's secret": {args: append(slices.Clone(directory), "client_secret", azure.Secret),
			grant: "client_secret"},
		"a certificate": {args: append(slices.Clone(directory), "client_certificate_path", pem),
			grant: "client_assertion=eyJ"},
		"a token of OpenID Connect": {
			args:  append(slices.Clone(directory), "use_oidc", "true", "oidc_token", azure.Assertion),
			grant: "client_assertion=",
		},
		"a file with such a token": {
			args:  append(slices.Clone(directory), "use_oidc", "true", "oidc_token_file_path", token),
			grant: "client_assertion=",
		},
		"a service of such tokens": {
			args: append(slices.Clone(directory), "use_oidc", "true"), grant: "client_assertion=",
			env: map[string]string{"ACTIONS_ID_TOKEN_REQUEST_URL": "https://oidc.example/a",
				"ACTIONS_ID_TOKEN_REQUEST_TOKEN": "request-token"},
		},
		"Azure DevOps": {
			args:  append(slices.Clone(directory), "use_oidc", "true", "ado_service_connection_id", "c"),
			grant: "client_assertion=",
			env: map[string]string{"SYSTEM_OIDCREQUESTURI": "https://oidc.example/b",
				"SYSTEM_ACCESSTOKEN": "request-token"},
		},
		"the machine's identity": {args: []string{"use_azuread_auth", "true", "use_msi", "true"},
			grant: "GET 169.254.169.254 https://storage"},
		"an MSI endpoint": {
			args:  []string{"use_azuread_auth", "true", "use_msi", "true", "msi_endpoint", "https://msi.example/t"},
			grant: "POST msi.example https://storage",
		},
		"a workload identity": {
			args: []string{"use_azuread_auth", "true", "use_aks_workload_identity", "true"}, grant: "client_assertion=",
			env: map[string]string{"AZURE_CLIENT_ID": azure.Client, "AZURE_TENANT_ID": azure.Tenant,
				"AZURE_FEDERATED_TOKEN_FILE": token},
		},
		"the account's key, of the resource manager": {
			args: append(slices.Clone(app), "client_secret", azure.Secret, "resource_group_name", azure.Group,
				"subscription_id", azure.Subscription),
			grant: "management",
		},
		"a cloud of one's own": {
			args:  append(slices.Clone(directory), "client_secret", azure.Secret, "metadata_host", azure.PrivateHost),
			grant: "client_secret",
		},
		"another cloud of Azure": {
			args:  append(slices.Clone(directory), "client_secret", azure.Secret, "environment", "usgovernment"),
			grant: "client_secret",
		},
	} {
		t.Run(claim, func(t *testing.T) {
			s := azure.New(t, "states")
			b := opened(t, place(s, c.env), c.args...)
			for range 2 {
				ok(t, b.Write(t.Context(), "default", []byte("{}")))
			}
			asked := s.Grants()
			if len(asked) != 1 || !strings.Contains(asked[0], c.grant) {
				t.Errorf("tokens were asked for by %q, want one with %q", asked, c.grant)
			}
		})
	}
}

func TestTheCLIsIdentityIsTaken(t *testing.T) {
	s := azure.New(t, "states")
	dir := t.TempDir()
	// The fake did not issue this token, so it refuses requests with it.
	script := "#!/bin/sh\ncase \"$1 $2\" in\n'account show') echo '{\"id\":\"" + azure.Subscription + "\"}';;\n" +
		"*) echo '{\"accessToken\":\"of-the-cli\",\"expires_on\":4102444800}';;\nesac\n"
	ok(t, os.WriteFile(filepath.Join(dir, "az"), []byte(script), 0o700))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	b := opened(t, place(s, map[string]string{"ARM_USE_CLI": "true"}), "use_azuread_auth", "true")
	_, err := b.Read(t.Context(), "default")
	if err == nil || !strings.Contains(err.Error(), "AuthenticationFailed") ||
		strings.Contains(err.Error(), "of-the-cli") {
		t.Errorf("the error is %v", err)
	}
}

// If an operator had broken a lease, only the next write noticed it, minutes later.
func TestALeaseThatWasStolenIsNoticedAndKeepsOutWrites(t *testing.T) {
	for claim, steal := range map[string]func(*azure.Blob) *azure.Blob{
		"broken":  func(b *azure.Blob) *azure.Blob { b.Lease = ""; return b },
		"taken":   func(b *azure.Blob) *azure.Blob { b.Lease = id2; return b },
		"deleted": func(*azure.Blob) *azure.Blob { return nil },
	} {
		t.Run(claim, func(t *testing.T) {
			s := azure.New(t, "states")
			b := opened(t, place(s, nil), "access_key", azure.AccessKey)
			lock, err := b.Lock(t.Context(), "default", backendtest.Info(id, "OperationTypeApply"))
			ok(t, err)
			s.Change("states", name, steal)
			<-lock.Lost
			if err := b.Write(t.Context(), "default", []byte("{}")); claim != "deleted" && err == nil {
				t.Error("written without the lock")
			}
			if err := b.Unlock(t.Context(), "default", id); !errors.Is(err, backend.ErrNotLocked) {
				t.Errorf("releasing what is lost: %v", err)
			}
		})
	}
}

func TestALockAndItsReleaseSurviveLostAnswers(t *testing.T) {
	s := azure.New(t, "states")
	b := opened(t, place(s, nil), "access_key", azure.AccessKey)
	lost := azure.Failure{Status: 500, Lost: true}
	pass := azure.Failure{}
	s.Fail(pass, lost, pass, lost, pass, pass, lost) // the blob, the lease, the metadata
	lock, err := b.Lock(t.Context(), "default", backendtest.Info(id, "OperationTypeApply"))
	ok(t, err)
	s.Fail(pass, lost, pass, lost)
	ok(t, b.Unlock(t.Context(), "default", lock.ID))
	blob, _ := s.Blob("states", name)
	is(t, blob.Lease, "")
}

func TestALeaseWithoutAHolderIsReleasedUnderItsIDAlone(t *testing.T) {
	s := azure.New(t, "states")
	s.Change("states", name, func(*azure.Blob) *azure.Blob { return &azure.Blob{Lease: id} })
	b := opened(t, place(s, nil), "access_key", azure.AccessKey)
	_, err := b.Lock(t.Context(), "default", backendtest.Info(id2, "OperationTypePlan"))
	var held *journal.Held
	if !errors.As(err, &held) || held.Holder.Info == "" {
		t.Errorf("the lock is refused with %v", err)
	}
	if err := b.Unlock(t.Context(), "default", id2); !errors.Is(err, backend.ErrNotLocked) {
		t.Errorf("another ID: %v", err)
	}
	ok(t, b.Unlock(t.Context(), "default", id))
}

func TestABusyServiceIsAskedAgainAndABrokenOneIsAnError(t *testing.T) {
	s := azure.New(t, "states")
	b := opened(t, place(s, nil), "access_key", azure.AccessKey)
	s.Fail(azure.Failure{Status: 429, RetryAfter: "1"}, azure.Failure{Status: 503})
	begun := time.Now()
	ok(t, b.Write(t.Context(), "default", []byte("{}")))
	if time.Since(begun) < time.Second {
		t.Error("the service's wish to wait was not heard")
	}
	bad := opened(t, place(s, nil), "access_key", base64.StdEncoding.EncodeToString([]byte("another key")))
	if _, err := bad.Read(t.Context(), "default"); err == nil ||
		!strings.Contains(err.Error(), "AuthenticationFailed") {
		t.Errorf("a wrong key: %v", err)
	}
	none := opened(t, place(s, nil), "access_key", azure.AccessKey, "container_name", "nowhere")
	if _, err := none.Read(t.Context(), "default"); err == nil ||
		!strings.Contains(err.Error(), `container "nowhere"`) {
		t.Errorf("a container that is missing: %v", err)
	}
	sas := opened(t, place(s, nil), "sas_token", "?sv=1&sig=wrong-and-secret")
	if _, err := sas.Read(t.Context(), "default"); err == nil || strings.Contains(err.Error(), "wrong-and-secret") {
		t.Errorf("a wrong signature: %v", err)
	}
}

func TestWrongConfigurationsAreDiagnostics(t *testing.T) {
	s := azure.New(t, "states")
	for claim, c := range map[string]struct {
		args []string
		want string
	}{
		"a name that no account has":       {[]string{"storage_account_name", "Upper"}, "3 to 24 lower-case"},
		"a name that no container has":     {[]string{"container_name", "a--b"}, "stands alone"},
		"an empty key":                     {[]string{"key", ""}, "cannot be empty"},
		"an environment that there is not": {[]string{"environment", "moon"}, `"moon"`},
		"a metadata host that is silent":   {[]string{"metadata_host", "nowhere.example"}, "metadata host"},
		"a metadata host that is none":     {[]string{"metadata_host", "a/b"}, "not a host"},
		"environment and metadata host":    {[]string{"environment", "public", "metadata_host", "x"}, "conflicts with"},
		"a key that is not base64":         {[]string{"access_key", "?"}, "not base64"},
		"a SAS token that is none":         {[]string{"sas_token", "x"}, "SAS token"},
		"a customer's key that is short": {[]string{"access_key", azure.AccessKey, "customer_provided_key", "YQ=="},
			"32 bytes"},
		"a customer's key and a scope": {[]string{"customer_provided_key", key, "encryption_scope", "s"},
			"conflicts with"},
		"a negative time":           {[]string{"timeout_seconds", "-1"}, "negative"},
		"no credentials":            {nil, "use_msi is not set"},
		"a secret without a tenant": {[]string{"client_id", "c", "client_secret", "s"}, "tenant_id is not given"},
		"a wrong secret": {
			[]string{"tenant_id", azure.Tenant, "client_id", azure.Client, "client_secret", "wrong",
				"resource_group_name",
				"g", "subscription_id", "s"},
			"AADSTS7000215",
		},
		"no resource group": {
			[]string{"tenant_id", azure.Tenant, "client_id", azure.Client, "client_secret", azure.Secret},
			"resource_group_name and subscription_id",
		},
		"a group that there is not": {
			[]string{
				"tenant_id", azure.Tenant, "client_id", azure.Client, "client_secret", azure.Secret,
				"resource_group_name", "g",
				"subscription_id", "s",
			}, "ResourceNotFound",
		},
	} {
		t.Run(claim, func(t *testing.T) {
			_, diags := place(s, nil).Open(t.Context(), "azurerm", arguments(c.args...))
			all := ""
			for _, d := range diags {
				all += d.Summary + ": " + d.Detail + "\n"
			}
			if !diags.HasErrors() || !strings.Contains(all, c.want) || strings.Contains(all, azure.Secret) {
				t.Errorf("the problems are %q, want one with %q", all, c.want)
			}
		})
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
