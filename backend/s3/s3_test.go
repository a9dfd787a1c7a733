package s3_test

import (
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/backendtest"
	"github.com/millipede-iac/millipede/backend/s3"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/test/stage/clouds/amazon"
)

func place(s *amazon.Server, more map[string]string) backend.Place {
	env := map[string]string{
		"AWS_ACCESS_KEY_ID": amazon.AccessKey, "AWS_SECRET_ACCESS_KEY": amazon.SecretKey, "AWS_REGION": "eu-west-1",
		"AWS_ENDPOINT_URL_S3": s.URL, "AWS_ENDPOINT_URL_DYNAMODB": s.URL, "AWS_ENDPOINT_URL_STS": s.URL,
	}
	for k, v := range more {
		env[k] = v
	}
	return backend.Place{Kinds: backend.Kinds{s3.Kind()}, Env: func(name string) string { return env[name] }}
}

func arguments(more map[string]cty.Value) cty.Value {
	args := map[string]cty.Value{
		"bucket": cty.StringVal("states"), "key": cty.StringVal("p/q/terraform.tfstate"), "use_path_style": cty.True,
		"skip_metadata_api_check": cty.True,
	}
	for name, v := range more {
		args[name] = v
	}
	return cty.ObjectVal(args)
}

func opened(t *testing.T, s *amazon.Server, more map[string]cty.Value) backend.Backend {
	t.Helper()
	b, diags := place(s, nil).Open(t.Context(), "s3", arguments(more))
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	return b
}

func TestTheBackendKeepsTheContractWithEachKindOfLock(t *testing.T) {
	for claim, args := range map[string]map[string]cty.Value{
		"lock file": {"use_lockfile": cty.True},
		"table":     {"dynamodb_table": cty.StringVal("locks")},
		"both":      {"use_lockfile": cty.True, "dynamodb_table": cty.StringVal("locks")},
		"customer key": {"use_lockfile": cty.True, "encrypt": cty.True,
			"sse_customer_key": cty.StringVal("MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")},
	} {
		t.Run(claim, func(t *testing.T) {
			servers := map[string]*amazon.Server{}
			backendtest.Run(t, backendtest.Suite{Open: func(t *testing.T) backend.Backend {
				if servers[t.Name()] == nil {
					servers[t.Name()] = amazon.New(t, "states")
				}
				return opened(t, servers[t.Name()], args)
			}})
		})
	}
}

func TestWhatIsStoredIsWhatOpenTofuStores(t *testing.T) {
	s := amazon.New(t, "states")
	b := opened(t, s, map[string]cty.Value{
		"use_lockfile": cty.True, "dynamodb_table": cty.StringVal("locks"), "acl": cty.StringVal("private"),
		"encrypt":    cty.True,
		"state_tags": cty.MapVal(map[string]cty.Value{"a b": cty.StringVal("c&d")}),
		"lock_tags":  cty.MapVal(map[string]cty.Value{"l": cty.StringVal("1")}),
	})
	ctx := t.Context()
	lock, err := b.Lock(ctx, "w1", backendtest.Info("i", "OperationTypeApply"))
	ok(t, err)
	document := `{"ID":"i","Operation":"OperationTypeApply","Info":"","Who":"me@here","Version":"1.12.6",` +
		`"Created":"2026-11-22T04:54:54.319205105Z","Path":"states/env:/w1/p/q/terraform.tfstate"}`
	file, _ := s.Object("states", "env:/w1/p/q/terraform.tfstate.tflock")
	is(t, string(file.Data), document)
	is(t, file.Header.Get("X-Amz-Tagging"), "l=1")
	is(t, s.Row("states/env:/w1/p/q/terraform.tfstate")["Info"], document)
	ok(t, b.Write(ctx, "w1", []byte("{}\n")))
	state, _ := s.Object("states", "env:/w1/p/q/terraform.tfstate")
	is(t, state.Header.Get("X-Amz-Tagging"), "a+b=c%26d")
	is(t, state.Header.Get("X-Amz-Acl"), "private")
	is(t, state.Header.Get("Content-Type"), "application/json")
	is(t, state.Header.Get("X-Amz-Server-Side-Encryption"), "AES256")
	sum := md5.Sum([]byte("{}\n"))
	is(t, s.Row("states/env:/w1/p/q/terraform.tfstate-md5")["Digest"], hex.EncodeToString(sum[:]))
	ok(t, b.Unlock(ctx, "w1", lock.ID))
	ok(t, b.Delete(ctx, "w1"))
	if row := s.Row("states/env:/w1/p/q/terraform.tfstate-md5"); row != nil {
		t.Errorf("the digest of a deleted workspace was not deleted: %v", row)
	}
	if !strings.Contains(strings.Join(s.Requests(), "\n"), "PUT /states/env%3A/w1/p/q/terraform.tfstate") {
		t.Errorf("the requests are %q", s.Requests())
	}
}

func TestALockThatOneOfTheTwoRefusesIsNotHeld(t *testing.T) {
	s := amazon.New(t, "states")
	table := opened(t, s, map[string]cty.Value{"dynamodb_table": cty.StringVal("locks")})
	both := opened(t, s, map[string]cty.Value{"use_lockfile": cty.True, "dynamodb_table": cty.StringVal("locks")})
	if _, err := table.Lock(t.Context(), "default", backendtest.Info("1", "plan")); err != nil {
		t.Fatal(err)
	}
	var held *journal.Held
	if _, err := both.Lock(t.Context(), "default", backendtest.Info("2", "plan")); !errors.As(err, &held) ||
		held.Holder.ID != "1" {
		t.Errorf("the error is %v", err)
	}
	if _, there := s.Object("states", "p/q/terraform.tfstate.tflock"); there {
		t.Error("the lock file was not deleted although the lock was refused")
	}
}

// The response to a lock request was lost, and the request repeated: the condition then failed because of the process's
// own lock, and the command failed and left the lock behind.
func TestALockWhoseAnswerWasLostIsOurs(t *testing.T) {
	s := amazon.New(t, "states")
	b := opened(t, s, map[string]cty.Value{"use_lockfile": cty.True, "dynamodb_table": cty.StringVal("locks")})
	info := backendtest.Info("1", "plan")
	for range 2 {
		lock, err := b.Lock(t.Context(), "default", info)
		ok(t, err)
		is(t, lock.ID, "1")
	}
	ok(t, b.Unlock(t.Context(), "default", "1"))
}

func TestAStateThatIsNotTheOneOfItsDigestIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("the state is read again for ten seconds")
	}
	t.Parallel()
	s := amazon.New(t, "states")
	b := opened(t, s, map[string]cty.Value{"dynamodb_table": cty.StringVal("locks")})
	ok(t, b.Write(t.Context(), "default", []byte("{}\n")))
	s.Put("states", "p/q/terraform.tfstate", []byte("{ }\n"))
	_, err := b.Read(t.Context(), "default")
	if err == nil || !strings.Contains(err.Error(), "states/p/q/terraform.tfstate-md5") {
		t.Errorf("the error is %v", err)
	}
}

func TestABusyServiceIsAskedAgainAndABrokenOneIsAnError(t *testing.T) {
	s := amazon.New(t, "states")
	b := opened(t, s, map[string]cty.Value{"max_retries": cty.NumberIntVal(2)})
	s.Fail(503)
	ok(t, b.Write(t.Context(), "default", []byte("{}")))
	s.Fail(500, 500)
	if err := b.Write(t.Context(), "default", []byte("{}")); err == nil {
		t.Error("two failed attempts out of two return no error")
	}
}

func TestWrongConfigurationsAreDiagnostics(t *testing.T) {
	s := amazon.New(t, "states")
	text := cty.StringVal
	for claim, c := range map[string]struct {
		args map[string]cty.Value
		env  map[string]string
		want string
	}{
		"an empty bucket": {args: map[string]cty.Value{"bucket": text("")}, want: "cannot be empty"},
		"an ARN that is no access point": {args: map[string]cty.Value{"bucket": text("arn:aws:s3:::states")},
			want: "must be that of an access point"},
		"an access point elsewhere": {args: map[string]cty.Value{"use_path_style": cty.False,
			"bucket": text("arn:aws:s3:us-east-1:123456789012:accesspoint/ap")}, want: "region us-east-1"},
		"an access point with path style": {args: map[string]cty.Value{
			"bucket": text("arn:aws:s3:eu-west-1:123456789012:accesspoint/ap")}, want: "path-style"},
		"a directory bucket": {args: map[string]cty.Value{"bucket": text("states--euw1-az1--x-s3")},
			want: "not supported"},
		"a key with a slash at the end": {args: map[string]cty.Value{"key": text("a/")},
			want: `start or end with "/"`},
		"a prefix with a slash": {args: map[string]cty.Value{"workspace_key_prefix": text("/a")},
			want: `start or end with "/"`},
		"a region that there is not": {args: map[string]cty.Value{"region": text("nowhere")},
			want: `no region "nowhere"`},
		"no region": {env: map[string]string{"AWS_REGION": ""}, want: "AWS_DEFAULT_REGION"},
		"a short customer key": {args: map[string]cty.Value{"sse_customer_key": text("abc")},
			want: "44 characters"},
		"a KMS key that is none": {args: map[string]cty.Value{"kms_key_id": text("?")},
			want: "ARN of a KMS key"},
		"both kinds of keys": {args: map[string]cty.Value{"kms_key_id": text("alias/a"),
			"sse_customer_key": text("b")}, want: "conflicts with"},
		"a duration that is too short": {args: map[string]cty.Value{"assume_role": object("role_arn", "r",
			"duration", "1m")}, want: "15m to 12h"},
		"old and new arguments of a role": {args: map[string]cty.Value{"assume_role": object("role_arn", "r"),
			"role_arn": text("r")}, want: "cannot be configured together"},
		"a role without its ARN": {args: map[string]cty.Value{"assume_role": object("policy", "p")},
			want: "role_arn"},
		"an account that is forbidden": {args: map[string]cty.Value{"forbidden_account_ids": cty.SetVal(
			[]cty.Value{text(amazon.Account)})}, want: amazon.Account},
		"allowed and forbidden accounts": {args: map[string]cty.Value{"forbidden_account_ids": cty.SetVal(
			[]cty.Value{text("1")}), "allowed_account_ids": cty.SetVal([]cty.Value{text("1")})},
			want: "conflicts with"},
		"credentials that are wrong": {args: map[string]cty.Value{"secret_key": text("wrong"),
			"access_key": text(amazon.AccessKey), "max_retries": cty.NumberIntVal(1)}, want: "asking STS whose " +
			"credentials these are"},
		"a certificate file that is absent": {args: map[string]cty.Value{"custom_ca_bundle": text("/nowhere")},
			want: "custom_ca_bundle"},
		"an unknown retry mode": {args: map[string]cty.Value{"retry_mode": text("often")},
			want: "adaptive"},
		"an argument that does not exist": {args: map[string]cty.Value{"buckets": text("x")}, want: "not expected"},
	} {
		t.Run(claim, func(t *testing.T) {
			_, diags := place(s, c.env).Open(t.Context(), "s3", arguments(c.args))
			all := ""
			for _, d := range diags {
				all += d.Summary + ": " + d.Detail + "\n"
			}
			if !diags.HasErrors() || !strings.Contains(all, c.want) {
				t.Errorf("the problems are %q, want one with %q", all, c.want)
			}
		})
	}
	b := opened(t, s, map[string]cty.Value{"bucket": text("nowhere")})
	if _, err := b.Read(t.Context(), "default"); err == nil ||
		!strings.Contains(err.Error(), `S3 bucket does not exist: the bucket "nowhere"`) {
		t.Errorf("a bucket that does not exist: %v", err)
	}
}

func object(pairs ...string) cty.Value {
	values := map[string]cty.Value{}
	for i := 0; i < len(pairs); i += 2 {
		values[pairs[i]] = cty.StringVal(pairs[i+1])
	}
	return cty.ObjectVal(values)
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

// The holder of a lock that an operator had broken did not notice that, and overwrote the changes of the next holder.
func TestALockThatWasStolenIsNoticed(t *testing.T) {
	for claim, steal := range map[string]func(*amazon.Server, []byte){
		"the file": func(s *amazon.Server, theirs []byte) { s.Put("states", "p/q/terraform.tfstate.tflock", theirs) },
		"the row":  func(s *amazon.Server, theirs []byte) { s.SetRow("states/p/q/terraform.tfstate", theirs) },
	} {
		t.Run(claim, func(t *testing.T) {
			s := amazon.New(t, "states")
			p := place(s, nil)
			p.LockCheck = 10 * time.Millisecond
			b, diags := p.Open(t.Context(), "s3", arguments(map[string]cty.Value{
				"use_lockfile": cty.True, "dynamodb_table": cty.StringVal("locks"),
			}))
			if diags.HasErrors() {
				t.Fatal(diags.Err())
			}
			defer func() { ok(t, backend.Close(b)) }()
			lock, err := b.Lock(t.Context(), "default", backendtest.Info("1", "OperationTypeApply"))
			ok(t, err)
			steal(s, backend.EncodeLock(backendtest.Info("2", "OperationTypePlan")))
			<-lock.Lost
		})
	}
}
