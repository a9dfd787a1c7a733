package gcs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/backendtest"
	"github.com/millipede-iac/millipede/backend/gcs"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/test/stage/clouds/google"
)

const key = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=" // 32 bytes

func place(s *google.Server, more map[string]string) backend.Place {
	env := map[string]string{
		"GOOGLE_OAUTH_ACCESS_TOKEN": google.Token, "GOOGLE_STORAGE_CUSTOM_ENDPOINT": s.Endpoint(),
	}
	for k, v := range more {
		env[k] = v
	}
	return backend.Place{Kinds: backend.Kinds{gcs.Kind()}, Env: func(name string) string { return env[name] }}
}

func arguments(pairs ...string) cty.Value {
	args := map[string]cty.Value{"bucket": cty.StringVal("states"), "prefix": cty.StringVal("/p/q")}
	for i := 0; i < len(pairs); i += 2 {
		args[pairs[i]] = cty.StringVal(pairs[i+1])
	}
	return cty.ObjectVal(args)
}

func opened(t *testing.T, s *google.Server, pairs ...string) backend.Backend {
	t.Helper()
	b, diags := place(s, nil).Open(t.Context(), "gcs", arguments(pairs...))
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	return b
}

func TestTheBackendKeepsTheContract(t *testing.T) {
	for claim, args := range map[string][]string{
		"plain": nil, "customer key": {"encryption_key", key}, "KMS key": {"kms_encryption_key", "projects/p/k"},
		"without a prefix": {"prefix", ""},
	} {
		t.Run(claim, func(t *testing.T) {
			servers := map[string]*google.Server{}
			backendtest.Run(t, backendtest.Suite{Open: func(t *testing.T) backend.Backend {
				if servers[t.Name()] == nil {
					servers[t.Name()] = google.New(t, "states")
				}
				return opened(t, servers[t.Name()], args...)
			}})
		})
	}
}

func TestWhatIsStoredIsWhatOpenTofuStores(t *testing.T) {
	s := google.New(t, "states")
	b, ctx := opened(t, s, "kms_encryption_key", "projects/p/k"), t.Context()
	lock, err := b.Lock(ctx, "w1", backendtest.Info("i", "OperationTypeApply"))
	ok(t, err)
	file, _ := s.Object("states", "p/q/w1.tflock")
	is(t, string(file.Data), `{"ID":"i","Operation":"OperationTypeApply","Info":"","Who":"me@here","Version":"1.12.6",`+
		`"Created":"2026-11-22T04:54:54.319205105Z","Path":"gs://states/p/q/w1.tflock"}`)
	is(t, lock.ID, file.Generation)
	is(t, file.KMSKey, "")
	is(t, file.ContentType, "text/plain; charset=utf-8")
	ok(t, b.Write(ctx, "w1", []byte("{}\n")))
	ok(t, b.Write(ctx, "default", []byte("{}\n")))
	state, _ := s.Object("states", "p/q/w1.tfstate")
	is(t, state.KMSKey, "projects/p/k")
	if _, there := s.Object("states", "p/q/default.tfstate"); !there {
		t.Error("the default workspace is not where OpenTofu has it")
	}
	ok(t, b.Delete(ctx, "w1"))
	if _, there := s.Object("states", "p/q/w1.tflock"); !there {
		t.Error("deleting a workspace has deleted its lock")
	}
	ok(t, b.Delete(ctx, "w1"))
}

// Requests went to Google although STORAGE_EMULATOR_HOST named an emulator.
func TestAnEmulatorIsAskedWithoutAToken(t *testing.T) {
	s := google.New(t, "states")
	s.Emulate()
	for _, at := range []string{s.URL, strings.TrimPrefix(s.URL, "http://"), s.URL + "/storage/v1/"} {
		b, diags := place(s, map[string]string{
			"STORAGE_EMULATOR_HOST": at, "GOOGLE_STORAGE_CUSTOM_ENDPOINT": "",
		}).Open(t.Context(), "gcs", arguments())
		if diags.HasErrors() {
			t.Fatal(diags.Err())
		}
		ok(t, b.Write(t.Context(), "default", []byte("{}\n")))
		state, err := b.Read(t.Context(), "default")
		ok(t, err)
		is(t, string(state), "{}\n")
	}
}

func TestACustomersKeyGoesWithStatesAndNeverWithLocks(t *testing.T) {
	s := google.New(t, "states")
	file := filepath.Join(t.TempDir(), "key")
	ok(t, os.WriteFile(file, []byte(key+"\n"), 0o600))
	b, ctx := opened(t, s, "encryption_key", file), t.Context()
	_, err := b.Lock(ctx, "default", backendtest.Info("i", "OperationTypeApply"))
	ok(t, err)
	ok(t, b.Write(ctx, "default", []byte("{}\n")))
	state, _ := s.Object("states", "p/q/default.tfstate")
	is(t, state.Customer, key)
	lock, _ := s.Object("states", "p/q/default.tflock")
	is(t, lock.Customer, "")
	_, err = opened(t, s).Read(ctx, "default")
	if err == nil || !strings.Contains(err.Error(), "customer-supplied") || strings.Contains(err.Error(), key) {
		t.Errorf("reading without the key: %v", err)
	}
}

func TestALockThatGoesWhileItsHolderIsAskedForIsTakenAtOnce(t *testing.T) {
	s := google.New(t, "states")
	b := opened(t, s)
	s.Put("states", "p/q/default.tflock", backend.EncodeLock(backendtest.Info("other", "OperationTypePlan")))
	s.Before(func(method, _ string) {
		if method == "GET" {
			s.Remove("states", "p/q/default.tflock")
		}
	})
	lock, err := b.Lock(t.Context(), "default", backendtest.Info("mine", "OperationTypeApply"))
	ok(t, err)
	file, _ := s.Object("states", "p/q/default.tflock")
	is(t, lock.ID, file.Generation)
	if !strings.Contains(string(file.Data), `"mine"`) {
		t.Errorf("the lock is %s", file.Data)
	}
}

// A lock object was written and the response was lost; the second attempt was refused because of the first one's
// object, and the state stayed locked without a holder.
func TestALockAndItsReleaseSurviveALostAnswer(t *testing.T) {
	s := google.New(t, "states")
	b := opened(t, s)
	s.LoseAnswer()
	lock, err := b.Lock(t.Context(), "default", backendtest.Info("mine", "OperationTypeApply"))
	ok(t, err)
	file, _ := s.Object("states", "p/q/default.tflock")
	is(t, lock.ID, file.Generation)
	s.LoseAnswer()
	ok(t, b.Unlock(t.Context(), "default", lock.ID))
	if _, there := s.Object("states", "p/q/default.tflock"); there {
		t.Error("the lock still exists")
	}
	if err := b.Unlock(t.Context(), "default", "a650e987"); !errors.Is(err, backend.ErrNotLocked) {
		t.Errorf("an ID that is not a generation: %v", err)
	}
}

func TestALockWhoseContentIsBrokenCanStillBeNamed(t *testing.T) {
	s := google.New(t, "states")
	id := s.Put("states", "p/q/default.tflock", []byte("?"))
	b := opened(t, s)
	_, err := b.Lock(t.Context(), "default", backendtest.Info("mine", "OperationTypeApply"))
	var held *journal.Held
	if !errors.As(err, &held) || held.Holder.ID != strconv.FormatInt(id, 10) {
		t.Fatalf("the error is %v", err)
	}
	ok(t, b.Unlock(t.Context(), "default", held.Holder.ID))
}

func TestNobodysWorkspaceIsWrittenOverByCreatingIt(t *testing.T) {
	s := google.New(t, "states")
	s.Put("states", "p/q/w.tfstate", []byte(`{"theirs":1}`))
	s.Put("states", "p/q/deep/x.tfstate", nil)
	b := opened(t, s)
	ok(t, b.Create(t.Context(), "w"))
	data, err := b.Read(t.Context(), "w")
	ok(t, err)
	is(t, string(data), `{"theirs":1}`)
	names, err := b.Workspaces(t.Context())
	ok(t, err)
	is(t, names, []string{"default", "w"})
}

func TestWorkspacesOnAllPagesAreListed(t *testing.T) {
	s := google.New(t, "states") // two objects to a page
	b := opened(t, s)
	want := []string{"default"}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		ok(t, b.Create(t.Context(), name))
		want = append(want, name)
	}
	names, err := b.Workspaces(t.Context())
	ok(t, err)
	is(t, names, want)
}

func TestABusyServiceIsAskedAgainAndACancelledCallEnds(t *testing.T) {
	s := google.New(t, "states")
	b := opened(t, s)
	s.Fail(429, 503)
	ok(t, b.Write(t.Context(), "default", []byte("{}")))
	s.Fail(403)
	if err := b.Write(t.Context(), "default", []byte("{}")); err == nil {
		t.Error("a refused request returns no error")
	}
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	s.Fail(500, 500, 500, 500, 500, 500, 500)
	cancel(why)
	if err := b.Write(ctx, "default", []byte("{}")); !errors.Is(err, why) {
		t.Errorf("a cancelled call: %v", err)
	}
}

func TestAServiceAccountsKeyIsGivenAsTextOrAsAFile(t *testing.T) {
	s := google.New(t, "states")
	text := s.ServiceAccount()
	home := t.TempDir()
	ok(t, os.WriteFile(filepath.Join(home, "key.json"), []byte(text), 0o600))
	for claim, env := range map[string]map[string]string{
		"text":                {"GOOGLE_CREDENTIALS": text},
		"file":                {"GOOGLE_BACKEND_CREDENTIALS": "~/key.json", "GOOGLE_CREDENTIALS": "{", "HOME": home},
		"application default": {"GOOGLE_APPLICATION_CREDENTIALS": filepath.Join(home, "key.json")},
	} {
		t.Run(claim, func(t *testing.T) {
			env["GOOGLE_OAUTH_ACCESS_TOKEN"] = ""
			b, diags := place(s, env).Open(t.Context(), "gcs", arguments())
			ok(t, diags.Err())
			ok(t, b.Write(t.Context(), "default", []byte("{}")))
		})
	}
}

func TestWrongConfigurationsAreDiagnostics(t *testing.T) {
	s := google.New(t, "states")
	account := s.ServiceAccount()
	none := map[string]string{"GOOGLE_OAUTH_ACCESS_TOKEN": ""}
	for claim, c := range map[string]struct {
		args       []string
		env        map[string]string
		path, want string
	}{
		"an empty bucket":        {args: []string{"bucket", ""}, path: "bucket", want: "cannot be empty"},
		"a bucket with a folder": {args: []string{"bucket", "a/b"}, path: "bucket", want: `"prefix"`},
		"a short customer key": {args: []string{"encryption_key", "c2VjcmV0"}, path: "encryption_key",
			want: "32 bytes"},
		"both keys": {args: []string{"encryption_key", key, "kms_encryption_key", "k"},
			path: "encryption_key", want: "conflicts"},
		"both keys, by environment": {args: []string{"encryption_key", key},
			env: map[string]string{"GOOGLE_KMS_ENCRYPTION_KEY": "k"}, path: "encryption_key", want: "Only one"},
		"credentials that are none": {args: []string{"credentials", "hunter2"}, env: none, path: "credentials",
			want: "neither valid JSON"},
		"credentials of no type": {args: []string{"credentials", `{"a":"hunter2"}`}, env: none,
			want: "no valid credentials"},
		"a directory": {args: []string{"credentials", "/"}, env: none, path: "credentials",
			want: "directory"},
		"an endpoint without scheme": {args: []string{"storage_custom_endpoint", "h/storage"},
			path: "storage_custom_endpoint", want: "https://"},
		"another universe": {args: []string{"credentials", account, "universe_domain", "example.com"},
			env: none, want: "universe domain"},
		"a key of somebody else": {args: []string{"credentials", google.New(t).ServiceAccount()}, env: none,
			want: "asking for a token"},
		"an unknown argument": {args: []string{"buckets", "x"}, path: "buckets", want: "not expected"},
	} {
		t.Run(claim, func(t *testing.T) {
			if claim == "a key of somebody else" {
				c.args[1] = strings.Replace(account, "BEGIN PRIVATE KEY-----\\n", "BEGIN PRIVATE KEY-----\\nAAAA", 1)
				c.want = "no valid credentials"
			}
			_, diags := place(s, c.env).Open(t.Context(), "gcs", arguments(c.args...))
			found := false
			for _, d := range diags {
				at := ""
				if len(d.Path) > 0 {
					at = d.Path[0].(cty.GetAttrStep).Name
				}
				found = found || at == c.path && strings.Contains(d.Detail, c.want)
				if strings.Contains(d.Detail, "hunter2") || strings.Contains(d.Detail, key) ||
					strings.Contains(d.Detail, google.Token) {
					t.Errorf("a secret is shown: %s", d.Detail)
				}
			}
			if !found {
				t.Errorf("the problems are %v, want one of %q with %q", diags.Err(), c.path, c.want)
			}
		})
	}
	b := opened(t, s, "bucket", "nowhere")
	if _, err := b.Read(t.Context(), "default"); err == nil ||
		!strings.Contains(err.Error(), `the bucket "nowhere": it does not exist`) {
		t.Errorf("a bucket that does not exist: %v", err)
	}
	b = opened(t, s, "access_token", "hunter2")
	if _, err := b.Read(t.Context(), "default"); err == nil || !strings.Contains(err.Error(), "Invalid Credentials") {
		t.Errorf("a wrong token: %v", err)
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

// The holder of a lock that an operator had broken did not notice that, and overwrote the changes of the next holder.
func TestALockThatWasStolenIsNoticed(t *testing.T) {
	for claim, steal := range map[string]func(*google.Server){
		"taken":  func(s *google.Server) { s.Put("states", "p/q/default.tflock", []byte("{}")) },
		"broken": func(s *google.Server) { s.Remove("states", "p/q/default.tflock") },
	} {
		t.Run(claim, func(t *testing.T) {
			s := google.New(t, "states")
			p := place(s, nil)
			p.LockCheck = 10 * time.Millisecond
			b, diags := p.Open(t.Context(), "gcs", arguments())
			if diags.HasErrors() {
				t.Fatal(diags.Err())
			}
			defer func() { ok(t, backend.Close(b)) }()
			lock, err := b.Lock(t.Context(), "default", backendtest.Info("1", "OperationTypeApply"))
			ok(t, err)
			steal(s)
			<-lock.Lost
		})
	}
}
