package oss_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/backendtest"
	"github.com/millipede-iac/millipede/backend/oss"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/test/stage/clouds/alibaba"
)

func place(s *alibaba.Server, more map[string]string) backend.Place {
	env := s.Env()
	env["ALICLOUD_ACCESS_KEY"], env["ALICLOUD_SECRET_KEY"], env["ALICLOUD_REGION"] = alibaba.KeyID, alibaba.Secret,
		alibaba.Region
	for k, v := range more {
		env[k] = v
	}
	return backend.Place{
		Kinds: backend.Kinds{oss.Kind()}, Env: func(name string) string { return env[name] },
		LockCheck: 10 * time.Millisecond,
	}
}

func arguments(pairs ...string) cty.Value {
	args := map[string]cty.Value{"bucket": cty.StringVal("states")}
	for i := 0; i < len(pairs); i += 2 {
		args[pairs[i]] = cty.StringVal(pairs[i+1])
	}
	return cty.ObjectVal(args)
}

func opened(t *testing.T, p backend.Place, pairs ...string) backend.Backend {
	t.Helper()
	b, diags := p.Open(t.Context(), "oss", arguments(pairs...))
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	t.Cleanup(func() { ok(t, backend.Close(b)) })
	return b
}

var locked = []string{"tablestore_table", alibaba.Table, "tablestore_endpoint", alibaba.TableURL}

func TestTheBackendKeepsTheContract(t *testing.T) {
	for claim, args := range map[string][]string{
		"plain": locked,
		"another prefix and key": append([]string{"prefix", "a/b/", "key", "c/d.tfstate", "encrypt", "true"},
			locked...),
	} {
		t.Run(claim, func(t *testing.T) {
			servers := map[string]*alibaba.Server{}
			backendtest.Run(t, backendtest.Suite{Open: func(t *testing.T) backend.Backend {
				if servers[t.Name()] == nil {
					servers[t.Name()] = alibaba.New(t, "states")
				}
				return opened(t, place(servers[t.Name()], nil), args...)
			}})
		})
	}
}

func TestWhatIsStoredIsWhatOpenTofuStores(t *testing.T) {
	s := alibaba.New(t, "states")
	b, ctx := opened(t, place(s, nil), append([]string{"acl", "private", "encrypt", "true"}, locked...)...), t.Context()
	lock, err := b.Lock(ctx, "w1", backendtest.Info("i", "OperationTypeApply"))
	ok(t, err)
	is(t, lock.ID, "i")
	is(t, s.Row("states/env:/w1/terraform.tfstate")["Info"], `{"ID":"i","Operation":"OperationTypeApply","Info":"",`+
		`"Who":"me@here","Version":"1.12.6","Created":"2026-11-22T04:54:54.319205105Z",`+
		`"Path":"states/env:/w1/terraform.tfstate"}`)
	ok(t, b.Write(ctx, "w1", []byte("{}\n")))
	is(t, s.Row("states/env:/w1/terraform.tfstate-md5")["Digest"], "8a80554c91d9fca8acb82f023de02f11")
	o, _ := s.Object("states", "env:/w1/terraform.tfstate")
	is(t, fmt.Sprint(o.Header["X-Oss-Object-Acl"], o.Header["X-Oss-Server-Side-Encryption"], o.Header["Content-Type"]),
		"[private] [AES256] [application/json]")
	ok(t, b.Unlock(ctx, "w1", "i"))
	ok(t, b.Write(ctx, "default", []byte("{}\n")))
	if _, there := s.Object("states", "env:/terraform.tfstate"); !there {
		t.Error("the default workspace is not where OpenTofu has it")
	}
	ok(t, b.Delete(ctx, "w1"))
	is(t, len(s.Row("states/env:/w1/terraform.tfstate-md5")), 0)
}

func TestEveryIdentityIsTaken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json")
	ok(t, os.WriteFile(file, []byte(`{"profiles":[{"name":"other","mode":"AK"},
		{"name":"ak","mode":"AK","access_key_id":"`+alibaba.KeyID+`","access_key_secret":"`+alibaba.Secret+`","region_id":"eu-central-1"},
		{"name":"sts","mode":"StsToken","access_key_id":"`+alibaba.RoleID+`","access_key_secret":"`+alibaba.RoleKey+`",
		 "sts_token":"`+alibaba.Token+`","region_id":"eu-central-1"},
		{"name":"role","mode":"RamRoleArn","access_key_id":"`+alibaba.KeyID+`","access_key_secret":"`+alibaba.Secret+`",
		 "ram_role_arn":"`+alibaba.Role+`","region_id":"eu-central-1"},
		{"name":"ecs","mode":"EcsRamRole","ram_role_name":"`+alibaba.Machine+`","region_id":"eu-central-1"}]}`), 0o600))
	none := map[string]string{"ALICLOUD_ACCESS_KEY": "", "ALICLOUD_SECRET_KEY": "", "ALICLOUD_REGION": ""}
	profile := func(name string) []string { return []string{"shared_credentials_file", file, "profile", name} }
	for claim, c := range map[string]struct {
		args []string
		env  map[string]string
		asks string // a part of a request
	}{
		"keys of the environment": {},
		"a role": {args: []string{"assume_role_role_arn", alibaba.Role},
			asks: "sts.eu-central-1.aliyuncs.com"},
		"the machine's role": {
			args: []string{"ecs_role_name", alibaba.Machine, "region", alibaba.Region}, env: none,
			asks: "100.100.100.200",
		},
		"a profile with keys":    {args: profile("ak"), env: none, asks: "location-readonly.aliyuncs.com"},
		"a profile with a token": {args: profile("sts"), env: none},
		"a profile with a role":  {args: profile("role"), env: none, asks: "sts.eu-central-1.aliyuncs.com"},
		"a machine's profile":    {args: profile("ecs"), env: none, asks: "100.100.100.200"},
		"a region that nobody knows has the usual address": {
			args: []string{"region", "new-1"}, asks: "states.oss-new-1.aliyuncs.com",
		},
	} {
		t.Run(claim, func(t *testing.T) {
			s := alibaba.New(t, "states")
			b := opened(t, place(s, c.env), append(c.args, locked...)...)
			lock, err := b.Lock(t.Context(), "default", backendtest.Info("1", "OperationTypeApply"))
			ok(t, err)
			ok(t, b.Write(t.Context(), "default", []byte("{}")))
			ok(t, b.Unlock(t.Context(), "default", lock.ID))
			if all := strings.Join(s.Requests(), "\n"); !strings.Contains(all, c.asks) {
				t.Errorf("the requests are\n%s", all)
			}
		})
	}
}

func TestALockThatWasStolenIsNoticed(t *testing.T) {
	s := alibaba.New(t, "states")
	b := opened(t, place(s, nil), locked...)
	lock, err := b.Lock(t.Context(), "default", backendtest.Info("1", "OperationTypeApply"))
	ok(t, err)
	theirs := string(backend.EncodeLock(backendtest.Info("2", "OperationTypePlan")))
	s.SetRow("states/env:/terraform.tfstate", map[string]string{"Info": theirs})
	<-lock.Lost
	if err := b.Unlock(t.Context(), "default", "1"); !errors.Is(err, backend.ErrNotLocked) {
		t.Errorf("releasing what is lost: %v", err)
	}
}

func TestALockWhoseAnswerWasLostIsOurs(t *testing.T) {
	s := alibaba.New(t, "states")
	b := opened(t, place(s, nil), locked...)
	s.Fail(-500)
	lock, err := b.Lock(t.Context(), "default", backendtest.Info("1", "OperationTypeApply"))
	ok(t, err)
	ok(t, b.Unlock(t.Context(), "default", lock.ID))
}

func TestWithoutATableNothingIsLocked(t *testing.T) {
	s := alibaba.New(t, "states")
	b := opened(t, place(s, nil))
	if !b.Describe("default").Unlockable {
		t.Error("the place does not say that it has no locks")
	}
	for range 2 {
		_, err := b.Lock(t.Context(), "default", journal.LockInfo{ID: "1"})
		ok(t, err)
	}
}

func TestAStateThatIsNotTheOneOfItsCheckSumIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("the state is read again for ten seconds")
	}
	t.Parallel()
	s := alibaba.New(t, "states")
	b := opened(t, place(s, nil), locked...)
	ok(t, b.Write(t.Context(), "default", []byte("{}\n")))
	s.Put("states", "env:/terraform.tfstate", []byte("{ }\n"))
	_, err := b.Read(t.Context(), "default")
	if err == nil || !strings.Contains(err.Error(), "states/env:/terraform.tfstate-md5") {
		t.Errorf("the error is %v", err)
	}
}

func TestABusyServiceIsAskedAgainAndABrokenOneIsAnError(t *testing.T) {
	s := alibaba.New(t, "states")
	b := opened(t, place(s, nil), locked...)
	s.Fail(503, 500, 429)
	ok(t, b.Write(t.Context(), "default", []byte("{}")))
	s.Fail(501)
	if err := b.Write(t.Context(), "default", []byte("{}")); err == nil {
		t.Error("a refusal is no error")
	}
	none := opened(t, place(s, nil), "bucket", "nowhere")
	if _, err := none.Read(t.Context(), "default"); err == nil ||
		!strings.Contains(err.Error(), `the bucket "nowhere"`) {
		t.Errorf("a bucket that is missing: %v", err)
	}
	wrong := opened(t, place(s, nil), "secret_key", "wrong-and-secret")
	_, err := wrong.Read(t.Context(), "default")
	if err == nil || !strings.Contains(err.Error(), "SignatureDoesNotMatch") || strings.Contains(err.Error(),
		"wrong-and-secret") {
		t.Errorf("a wrong secret: %v", err)
	}
}

func TestWrongConfigurationsAreDiagnostics(t *testing.T) {
	s := alibaba.New(t, "states")
	for claim, c := range map[string]struct {
		args []string
		env  map[string]string
		want string
	}{
		"a bucket that is a path":  {args: []string{"bucket", "a/b"}, want: "name of a bucket"},
		"a prefix with a slash":    {args: []string{"prefix", "/a"}, want: `not start with "/"`},
		"a key with a slash":       {args: []string{"key", "a/"}, want: `end with "/"`},
		"an ACL that there is not": {args: []string{"acl", "everybody"}, want: "public-read-write"},
		"a table without a place":  {args: []string{"tablestore_table", "locks"}, want: "tablestore_endpoint"},
		"a table that there is not": {args: []string{"tablestore_table", "x", "tablestore_endpoint", alibaba.TableURL},
			want: "OTSObjectNotExist"},
		"a wrong table endpoint": {args: []string{"tablestore_table", "x", "tablestore_endpoint", "http://%zz"},
			want: "host, or a URL"},
		"an endpoint with a path": {args: []string{"endpoint", "https://h/p"}, want: "without a path"},
		"a session that is short": {args: []string{"assume_role_session_expiration", "1"}, want: "900 to 3600"},
		"a role that there is not": {args: []string{"assume_role_role_arn", "acs:ram::1:role/no"},
			want: "EntityNotExist.Role"},
		"a profile that there isn't": {args: []string{"profile", "no", "shared_credentials_file", "/nowhere"},
			want: `the profile "no"`},
		"no keys":   {env: map[string]string{"ALICLOUD_ACCESS_KEY": ""}, want: "access_key and secret_key"},
		"no region": {env: map[string]string{"ALICLOUD_REGION": ""}, want: "ALICLOUD_OSS_ENDPOINT"},
	} {
		t.Run(claim, func(t *testing.T) {
			_, diags := place(s, c.env).Open(t.Context(), "oss", arguments(c.args...))
			all := ""
			for _, d := range diags {
				all += d.Summary + ": " + d.Detail + "\n"
			}
			if !diags.HasErrors() || !strings.Contains(all, c.want) {
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

func is(t *testing.T, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
