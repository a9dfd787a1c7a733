package cos_test

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
	"github.com/millipede-iac/millipede/backend/cos"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/test/stage/clouds/tencent"
)

func place(s *tencent.Server, more map[string]string) backend.Place {
	env := s.Env()
	env["TENCENTCLOUD_SECRET_ID"], env["TENCENTCLOUD_SECRET_KEY"] = tencent.KeyID, tencent.Secret
	for k, v := range more {
		env[k] = v
	}
	return backend.Place{
		Kinds: backend.Kinds{cos.Kind()}, Env: func(name string) string { return env[name] },
		LockCheck: 10 * time.Millisecond,
	}
}

func arguments(more map[string]cty.Value) cty.Value {
	args := map[string]cty.Value{"bucket": cty.StringVal(tencent.Bucket), "region": cty.StringVal(tencent.Region)}
	for name, v := range more {
		args[name] = v
	}
	return cty.ObjectVal(args)
}

type values = map[string]cty.Value

func opened(t *testing.T, p backend.Place, more values) backend.Backend {
	t.Helper()
	b, diags := p.Open(t.Context(), "cos", arguments(more))
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	t.Cleanup(func() { ok(t, backend.Close(b)) })
	return b
}

func role(arn string) cty.Value {
	return cty.ListVal([]cty.Value{cty.ObjectVal(values{
		"role_arn": cty.StringVal(arn), "session_name": cty.StringVal("s"), "policy": cty.StringVal("{}"),
	})})
}

func TestTheBackendKeepsTheContract(t *testing.T) {
	for claim, args := range map[string]values{
		"plain": nil,
		"another prefix and key": {"prefix": cty.StringVal("a/b"), "key": cty.StringVal("c/d.tfstate"),
			"encrypt": cty.False},
		"a role, accelerated": {"assume_role": role(tencent.Role), "accelerate": cty.True},
	} {
		t.Run(claim, func(t *testing.T) {
			servers := map[string]*tencent.Server{}
			backendtest.Run(t, backendtest.Suite{Open: func(t *testing.T) backend.Backend {
				if servers[t.Name()] == nil {
					servers[t.Name()] = tencent.New(t)
				}
				return opened(t, place(servers[t.Name()], nil), args)
			}})
		})
	}
}

func sum(text string) string {
	s := md5.Sum([]byte(text))
	return hex.EncodeToString(s[:])
}

func TestWhatIsStoredIsWhatOpenTofuStores(t *testing.T) {
	s := tencent.New(t)
	b, ctx := opened(t, place(s, nil), values{"prefix": cty.StringVal("p")}), t.Context()
	lock, err := b.Lock(ctx, "w1", backendtest.Info("i", "OperationTypeApply"))
	ok(t, err)
	const want = `{"ID":"i","Operation":"OperationTypeApply","Info":"","Who":"me@here","Version":"1.12.6",` +
		`"Created":"2026-11-22T04:54:54.319205105Z","Path":"p/w1/terraform.tfstate.tflock"}`
	file, _ := s.Object("p/w1/terraform.tfstate.tflock")
	is(t, string(file.Data), want)
	is(t, lock.ID, sum(want))
	is(t, len(s.Tags()), 0)
	tag := false
	for _, r := range s.Requests() {
		tag = tag || strings.HasSuffix(r, " CreateTag")
	}
	is(t, tag, true)
	ok(t, b.Write(ctx, "w1", []byte("{}\n")))
	o, _ := s.Object("p/w1/terraform.tfstate")
	is(t, fmt.Sprint(o.Header["X-Cos-Meta-Md5"], o.Header["X-Cos-Acl"], o.Header["X-Cos-Server-Side-Encryption"],
		o.Header["Content-Type"]), "["+sum("{}\n")+"] [private] [AES256] []")
	ok(t, b.Unlock(ctx, "w1", lock.ID))
	ok(t, b.Write(ctx, "default", []byte("{}\n")))
	if _, there := s.Object("p/terraform.tfstate"); !there {
		t.Error("the default workspace is not where OpenTofu has it")
	}
}

func TestALockThatWasStolenIsNoticed(t *testing.T) {
	s := tencent.New(t)
	b := opened(t, place(s, nil), nil)
	lock, err := b.Lock(t.Context(), "default", backendtest.Info("1", "OperationTypeApply"))
	ok(t, err)
	s.Put("terraform.tfstate.tflock", []byte("{}"), sum("{}"))
	<-lock.Lost
	if err := b.Unlock(t.Context(), "default", lock.ID); !errors.Is(err, backend.ErrNotLocked) {
		t.Errorf("releasing a lost lock: %v", err)
	}
}

func TestWhoMeetsATagLearnsThatSomebodyTakesTheLock(t *testing.T) {
	s := tencent.New(t)
	value := sum(tencent.Bucket + ":terraform.tfstate.tflock")
	s.SetTag(value)
	b := opened(t, place(s, nil), nil)
	_, err := b.Lock(t.Context(), "default", backendtest.Info("1", "OperationTypeApply"))
	var held *journal.Held
	if !errors.As(err, &held) || !strings.Contains(held.Holder.Info, value) {
		t.Errorf("the lock is refused with %v", err)
	}
	is(t, len(s.Tags()), 1) // it is not ours to delete
	// No command of Millipede could delete it, so users had to use the cloud's own tools.
	if err := b.Unlock(t.Context(), "default", "another"); !errors.Is(err, backend.ErrNotLocked) {
		t.Errorf("releasing the lock with another ID: %v", err)
	}
	ok(t, b.Unlock(t.Context(), "default", held.Holder.ID))
	is(t, len(s.Tags()), 0)
}

// If a tag could not be deleted at once, nobody could ever acquire the lock again.
func TestATagIsDeletedAlthoughItsServiceIsBusy(t *testing.T) {
	s := tencent.New(t)
	b := opened(t, place(s, nil), nil)
	s.Fail(0, 0, 0, 500, 500, 0, -500) // of the requests after the lock object those about the tag
	lock, err := b.Lock(t.Context(), "default", backendtest.Info("1", "OperationTypeApply"))
	ok(t, err)
	is(t, len(s.Tags()), 0)
	ok(t, b.Unlock(t.Context(), "default", lock.ID))
}

func TestAnObjectThatIsNotWhatItsCheckSumSaysIsRefused(t *testing.T) {
	s := tencent.New(t)
	b := opened(t, place(s, nil), nil)
	for _, meta := range []string{"", sum("another text")} {
		s.Put("terraform.tfstate", []byte("{}"), meta)
		if _, err := b.Read(t.Context(), "default"); err == nil || !strings.Contains(err.Error(), "check sum") {
			t.Errorf("the error is %v", err)
		}
	}
}

func TestABusyServiceIsAskedAgainAndABrokenOneIsAnError(t *testing.T) {
	s := tencent.New(t)
	b := opened(t, place(s, nil), nil)
	s.Fail(503, 500, 429)
	ok(t, b.Write(t.Context(), "default", []byte("{}")))
	none := opened(t, place(s, nil), values{"bucket": cty.StringVal("nowhere-1")})
	if _, err := none.Read(t.Context(), "default"); err == nil || !strings.Contains(err.Error(),
		`the bucket "nowhere-1"`) {
		t.Errorf("a bucket that does not exist: %v", err)
	}
	wrong := opened(t, place(s, nil), values{"secret_key": cty.StringVal("wrong-and-secret")})
	_, err := wrong.Read(t.Context(), "default")
	if err == nil || !strings.Contains(err.Error(), "SignatureDoesNotMatch") || strings.Contains(err.Error(),
		"wrong-and-secret") {
		t.Errorf("a wrong secret: %v", err)
	}
	_, err = wrong.Lock(t.Context(), "default", backendtest.Info("1", "OperationTypeApply"))
	if err == nil || !strings.Contains(err.Error(), "AuthFailure") {
		t.Errorf("a wrong secret for tags: %v", err)
	}
}

func TestWrongConfigurationsAreDiagnostics(t *testing.T) {
	s := tencent.New(t)
	text := cty.StringVal
	for claim, c := range map[string]struct {
		args values
		env  map[string]string
		want string
	}{
		"a bucket without its account": {args: values{"bucket": text("states")}, want: "number of its account"},
		"a region that is none":        {args: values{"region": text("a/b")}, want: "name of a region"},
		"a prefix with a slash":        {args: values{"prefix": text("./a")}, want: `not start with "/"`},
		"a key with a slash":           {args: values{"key": text("/a")}, want: `end with "/"`},
		"an ACL that there is not":     {args: values{"acl": text("everybody")}, want: "public-read"},
		"no keys": {env: map[string]string{"TENCENTCLOUD_SECRET_ID": ""},
			want: "TENCENTCLOUD_SECRET_ID"},
		"a role that there is not": {args: values{"assume_role": role("no")}, want: "RoleNotExist"},
		"a role without a name": {args: values{"assume_role": cty.ListVal([]cty.Value{cty.EmptyObjectVal})},
			want: "is required"},
		"a duration that is not a number": {args: values{"assume_role": role("no")},
			env: map[string]string{"TENCENTCLOUD_ASSUME_ROLE_SESSION_DURATION": "x"}, want: "not a number"},
		"a duration that is too long": {args: values{"assume_role": role("no")},
			env: map[string]string{"TENCENTCLOUD_ASSUME_ROLE_SESSION_DURATION": "43201"}, want: "43200"},
	} {
		t.Run(claim, func(t *testing.T) {
			_, diags := place(s, c.env).Open(t.Context(), "cos", arguments(c.args))
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
