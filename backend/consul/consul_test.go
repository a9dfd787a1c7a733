package consul

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/backendtest"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/test/stage/clouds/consul"
)

func opening(t *testing.T, env map[string]string, args map[string]cty.Value) (backend.Backend, diag.List) {
	t.Helper()
	all := map[string]cty.Value{"path": cty.StringVal("tf/state")}
	for name, v := range args {
		all[name] = v
	}
	p := backend.Place{Kinds: backend.Kinds{Kind()}, Env: func(name string) string { return env[name] }}
	return p.Open(t.Context(), "consul", cty.ObjectVal(all))
}

func opened(t *testing.T, address string, args map[string]cty.Value) *store {
	t.Helper()
	b, diags := opening(t, map[string]string{"CONSUL_HTTP_ADDR": address}, args)
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	return b.(*store)
}

// direct passes requests to an agent without a network, so that both use the time of a synctest bubble.
type direct struct{ agent *consul.Agent }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	d.agent.ServeHTTP(w, r)
	return w.Result(), nil
}

// unreachable is a network without the agent.
type unreachable struct{}

func (unreachable) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("connection refused")
}

func bubble(t *testing.T, agent *consul.Agent) *store {
	b := opened(t, "agent:8500", nil)
	b.through(direct{agent})
	return b
}

func (b *store) through(network http.RoundTripper) {
	b.client.once.HTTPClient.Transport, b.client.often.HTTPClient.Transport = network, network
}

func TestTheBackendKeepsTheContractInEachForm(t *testing.T) {
	for claim, args := range map[string]map[string]cty.Value{
		"plain":           nil,
		"gzip":            {"gzip": cty.True},
		"slash at an end": {"path": cty.StringVal("tf/state/")},
	} {
		t.Run(claim, func(t *testing.T) {
			addresses := map[string]string{}
			backendtest.Run(t, backendtest.Suite{Open: func(t *testing.T) backend.Backend {
				if addresses[t.Name()] == "" {
					_, s := consul.Serve(t)
					addresses[t.Name()] = s.URL
				}
				return opened(t, addresses[t.Name()], args)
			}})
		})
	}
}

// noise returns bytes that gzip cannot compress.
func noise(n int) []byte {
	r := rand.NewChaCha8([32]byte{1})
	data := make([]byte, n)
	_, _ = r.Read(data)
	return data
}

func TestWhatIsStoredIsWhatOpenTofuStores(t *testing.T) {
	agent, s := consul.Serve(t)
	plain, packed := opened(t, s.URL, nil), opened(t, s.URL, map[string]cty.Value{"gzip": cty.True})
	ctx := t.Context()
	ok(t, plain.Write(ctx, "w1", []byte("{}\n")))
	is(t, string(agent.Get("tf/state-env:w1").Value), "{}\n")

	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
	ok(t, plain.Write(ctx, "w1", large))
	sum := hash(large)
	is(t, string(agent.Get("tf/state-env:w1").Value), fmt.Sprintf(
		`{"chunks":["tf/state-env:w1/tfstate.%[1]s/0","tf/state-env:w1/tfstate.%[1]s/1"],"current-hash":"%[1]s"}`, sum))
	is(t, len(agent.Get("tf/state-env:w1/tfstate."+sum+"/0").Value), 524288)

	// 400 KB fit into a value, but not into a transaction, which has them in base64.
	middle := noise(400_000)
	ok(t, plain.Write(ctx, "w1", middle))
	is(t, agent.Keys(), []string{"tf/state-env:w1", "tf/state-env:w1/tfstate." + hash(middle) + "/0"})

	other := noise(600_001)
	_, err := packed.Read(ctx, "w1")
	ok(t, err)
	ok(t, packed.Write(ctx, "w1", other))
	is(t, len(agent.Keys()), 3) // the chunks of the former state are gone
	got, err := plain.Read(ctx, "w1")
	ok(t, err)
	if !bytes.Equal(got, other) {
		t.Error("the chunks of a compressed state are decoded wrongly")
	}
	is(t, agent.Get("tf/state-env:w1/tfstate." + hash(other) + "/0").Value[0], 0x1f)
	ok(t, packed.Write(ctx, "w1", []byte("{}")))
	is(t, agent.Keys(), []string{"tf/state-env:w1"})
	is(t, agent.Get("tf/state-env:w1").Value[0], 0x1f)
}

func TestALockIsTheOneThatOpenTofuTakes(t *testing.T) {
	agent, s := consul.Serve(t)
	b := opened(t, s.URL, nil)
	b.now = func() time.Time { return time.Date(2026, 11, 22, 4, 54, 54, 319205105, time.UTC) }
	lock, err := b.Lock(t.Context(), "w1", backendtest.Info("i", "OperationTypeApply"))
	ok(t, err)
	at := agent.Get("tf/state-env:w1/.lock")
	is(t, at.Session, lock.ID)
	is(t, at.Flags, uint64(3304740253564472344))
	is(t, len(at.Value), 0)
	is(t, string(agent.Get("tf/state-env:w1/.lockinfo").Value), `{"ID":"`+lock.ID+
		`","Operation":"OperationTypeApply","Info":"consul session: `+
		lock.ID+`","Who":"me@here","Version":"1.12.6","Created":"2026-11-22T04:54:54.319205105Z","Path":"tf/state-env:w1"}`)
	ok(t, b.Unlock(t.Context(), "w1", lock.ID))
	is(t, agent.Keys(), []string{})
	is(t, agent.Sessions(), 0)
}

func TestDeletingAWorkspaceDeletesItsChunks(t *testing.T) {
	// OpenTofu deletes only the key: the chunks stay for ever, because nothing refers to them.
	agent, s := consul.Serve(t)
	b := opened(t, s.URL, nil)
	ok(t, b.Write(t.Context(), "w1", noise(600_000)))
	ok(t, b.Delete(t.Context(), "w1"))
	is(t, agent.Keys(), []string{})
}

func TestTheSameStateWrittenAgainKeepsItsChunks(t *testing.T) {
	// The chunks of equal states have equal names: deleting those of the former state would delete the new ones.
	_, s := consul.Serve(t)
	state := noise(600_000)
	for _, args := range []map[string]cty.Value{nil, {"gzip": cty.True}, nil} {
		b := opened(t, s.URL, args)
		ok(t, b.Write(t.Context(), "default", state))
		ok(t, b.Write(t.Context(), "default", state))
		got, err := b.Read(t.Context(), "default")
		ok(t, err)
		if !bytes.Equal(got, state) {
			t.Fatal("another state was read")
		}
	}
}

func TestAStateThatAnotherProgramHasChangedIsNotOverwritten(t *testing.T) {
	agent, s := consul.Serve(t)
	b := opened(t, s.URL, nil)
	_, err := b.Read(t.Context(), "default")
	ok(t, err)
	agent.Put("tf/state", []byte(`{"theirs":1}`))
	for _, state := range [][]byte{[]byte(`{"ours":1}`), noise(600_000)} {
		if err := b.Write(t.Context(), "default", state); err == nil || !strings.Contains(err.Error(), "CAS failed") {
			t.Errorf("the error is %v", err)
		}
		is(t, string(agent.Get("tf/state").Value), `{"theirs":1}`)
		is(t, agent.Keys(), []string{"tf/state"}) // the chunks of a state that was not written are gone
	}
}

func TestAWriteWhoseAnswerIsLostIsNoConflict(t *testing.T) {
	// The transaction is sent again, and its condition is no longer true: its own first attempt has changed the index.
	agent, s := consul.Serve(t)
	b := opened(t, s.URL, nil)
	_, err := b.Read(t.Context(), "default")
	ok(t, err)
	agent.Fail(0, -500) // the value is read before it is written
	ok(t, b.Write(t.Context(), "default", []byte(`{"a":1}`)))
	ok(t, b.Write(t.Context(), "default", []byte(`{"a":2}`)))
	is(t, string(agent.Get("tf/state").Value), `{"a":2}`)
}

func TestABrokenStateIsAnError(t *testing.T) {
	agent, s := consul.Serve(t)
	b := opened(t, s.URL, nil)
	for text, want := range map[string]string{
		`{"chunks":["tf/x"],"current-hash":"0"}`: "does not exist",
		`{"chunks":[],"current-hash":"0"}`:       "MD5",
		"\x1f\x8b":                               "unpacking",
	} {
		agent.Put("tf/state", []byte(text))
		if _, err := b.Read(t.Context(), "default"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want one with %q", text, err, want)
		}
	}
}

func TestALockIsHeldForAsLongAsItsProcessLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent := consul.New()
		b, other := bubble(t, agent), bubble(t, agent)
		lock, err := b.Lock(t.Context(), "default", backendtest.Info("1", "OperationTypeApply"))
		ok(t, err)
		select {
		case <-lock.Lost:
			t.Fatal("the lock is lost")
		case <-time.After(time.Hour):
		}
		var held *journal.Held
		if _, err := other.Lock(t.Context(), "default", backendtest.Info("2", "OperationTypePlan")); !errors.As(err,
			&held) {
			t.Errorf("after an hour the lock can be taken: %v", err)
		}
		ok(t, b.Unlock(t.Context(), "default", lock.ID))
		is(t, agent.Sessions(), 0)
	})
}

func TestTheLockOfAProcessThatDiesIsFreeAfterItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent := consul.New()
		b, other := bubble(t, agent), bubble(t, agent)
		lock, err := b.Lock(t.Context(), "default", backendtest.Info("1", "OperationTypeApply"))
		ok(t, err)
		b.through(unreachable{}) // nothing is renewed, or released
		begun := time.Now()
		again, err := backend.Acquire(t.Context(), other, "default", backendtest.Info("2", "OperationTypeApply"),
			time.Minute, nil)
		ok(t, err)
		if took := time.Since(begun); took < 30*time.Second || took > 50*time.Second {
			t.Errorf("the lock was free after %s", took)
		}
		<-lock.Lost
		b.through(direct{agent})
		if err := b.Write(t.Context(), "default", []byte("{}")); err == nil || !strings.Contains(err.Error(), "lost") {
			t.Errorf("writing under the lost lock: %v", err)
		}
		if err := b.Unlock(t.Context(), "default", lock.ID); !errors.Is(err, backend.ErrNotLocked) {
			t.Errorf("releasing the lost lock: %v", err)
		}
		ok(t, other.Write(t.Context(), "default", []byte("{}")))
		ok(t, other.Unlock(t.Context(), "default", again.ID))
	})
}

func TestALostLockIsToldAndWritesNothing(t *testing.T) {
	for claim, lose := range map[string]func(agent *consul.Agent, b, other *store, lock backend.Lock) error{
		"the session ends": func(agent *consul.Agent, _, _ *store, lock backend.Lock) error {
			agent.Destroy(lock.ID)
			return nil
		},
		"force-unlock": func(_ *consul.Agent, _, other *store, lock backend.Lock) error {
			return other.Unlock(context.Background(), "default", lock.ID)
		},
		"the key is deleted": func(_ *consul.Agent, _, other *store, _ backend.Lock) error {
			return other.client.remove(context.Background(), "tf/state/.lock", false)
		},
	} {
		t.Run(claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				agent := consul.New()
				b, other := bubble(t, agent), bubble(t, agent)
				lock, err := b.Lock(t.Context(), "default", backendtest.Info("1", "OperationTypeApply"))
				ok(t, err)
				begun := time.Now()
				ok(t, lose(agent, b, other, lock))
				for _, state := range [][]byte{[]byte("{}"), noise(600_000)} {
					if err := b.Write(t.Context(), "default", state); err == nil ||
						!strings.Contains(err.Error(), "was lost") {
						t.Errorf("a write under a lost lock, before the loss was reported: %v", err)
					}
				}
				if got := agent.Get("tf/state"); got.Key != "" {
					t.Errorf("the state was written: %s", got.Value)
				}
				<-lock.Lost
				if took := time.Since(begun); took > sessionTTL/2 {
					t.Errorf("the loss of the lock was reported after %s", took)
				}
				again, err := other.Lock(t.Context(), "default", backendtest.Info("2", "OperationTypeApply"))
				ok(t, err)
				ok(t, other.Unlock(t.Context(), "default", again.ID))
			})
		})
	}
}

func TestAnAgentThatIsAwayForAMomentLosesNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent := consul.New()
		b := bubble(t, agent)
		lock, err := b.Lock(t.Context(), "default", backendtest.Info("1", "OperationTypeApply"))
		ok(t, err)
		agent.Fail(500, 500, 503)
		select {
		case <-lock.Lost:
			t.Fatal("the lock is lost")
		case <-time.After(time.Minute):
		}
		ok(t, b.Unlock(t.Context(), "default", lock.ID))
	})
}

func TestForceUnlockComparesBeforeItDeletes(t *testing.T) {
	// OpenTofu destroys the session with the given ID, whatever it is, and then deletes the keys of the actual lock
	// holder.
	agent, s := consul.Serve(t)
	b, other := opened(t, s.URL, nil), opened(t, s.URL, nil)
	lock, err := b.Lock(t.Context(), "default", backendtest.Info("1", "OperationTypeApply"))
	ok(t, err)
	elsewhere, err := b.Lock(t.Context(), "w1", backendtest.Info("1", "OperationTypeApply"))
	ok(t, err)
	for _, id := range []string{elsewhere.ID, "b3e9e0c4-1d0a-4f64-8f0f-2d3a9d8d7c11", "../x"} {
		if err := other.Unlock(t.Context(), "default", id); !errors.Is(err, backend.ErrNotLocked) ||
			!strings.Contains(err.Error(), "me@here") {
			t.Errorf("%s: the error is %v", id, err)
		}
	}
	is(t, agent.Sessions(), 2)
	is(t, agent.Get("tf/state/.lock").Session, lock.ID)
	ok(t, other.Unlock(t.Context(), "default", lock.ID))
	is(t, agent.Sessions(), 1)
	ok(t, other.Unlock(t.Context(), "w1", elsewhere.ID))
}

func TestWhatADeadHolderLeavesCanBeRemovedAndIsNotTakenForTheHolder(t *testing.T) {
	agent, s := consul.Serve(t)
	b := opened(t, s.URL, nil)
	dead := backendtest.Info("b3e9e0c4-1d0a-4f64-8f0f-2d3a9d8d7c11", "OperationTypeApply")
	agent.Put("tf/state/.lockinfo", backend.EncodeLock(dead))
	ok(t, b.Unlock(t.Context(), "default", dead.ID))
	is(t, agent.Keys(), []string{})
	if err := b.Unlock(t.Context(), "default", dead.ID); !errors.Is(err, backend.ErrNotLocked) {
		t.Errorf("releasing the lock a second time: %v", err)
	}
	lock, err := b.Lock(t.Context(), "default", backendtest.Info("1", "OperationTypeApply"))
	ok(t, err)
	agent.Put("tf/state/.lockinfo", backend.EncodeLock(dead))
	var held *journal.Held
	if _, err := b.Lock(t.Context(), "default", backendtest.Info("2", "x")); !errors.As(err, &held) ||
		held.Holder.ID != lock.ID {
		t.Errorf("the error names the holder %v, want %s", err, lock.ID)
	}
	if err := b.Unlock(t.Context(), "default", dead.ID); !errors.Is(err, backend.ErrNotLocked) {
		t.Errorf("the dead holder's ID releases the lock of another one: %v", err)
	}
	ok(t, b.Unlock(t.Context(), "default", lock.ID))
}

func TestAKeyThatIsNoLockIsLeftAlone(t *testing.T) {
	agent, s := consul.Serve(t)
	agent.Put("tf/state/.lock", []byte("mine"))
	if _, err := opened(t, s.URL, nil).Lock(t.Context(), "default", backendtest.Info("1", "x")); err == nil {
		t.Error("the key is treated as a lock")
	}
	is(t, string(agent.Get("tf/state/.lock").Value), "mine")
	is(t, agent.Sessions(), 0)
}

func TestWithoutLockingNothingIsLocked(t *testing.T) {
	agent, s := consul.Serve(t)
	b := opened(t, s.URL, map[string]cty.Value{"lock": cty.False})
	lock, err := b.Lock(t.Context(), "default", backendtest.Info("1", "x"))
	ok(t, err)
	is(t, lock.ID, "1")
	is(t, b.Describe("default").Unlockable, true)
	ok(t, b.Unlock(t.Context(), "default", "1"))
	is(t, agent.Requests(), []string{})
}

func TestStoppingIsHeardWhileALockIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent := consul.New()
		b := bubble(t, agent)
		lock, err := b.Lock(t.Context(), "default", backendtest.Info("1", "x"))
		ok(t, err)
		agent.Destroy(lock.ID) // the delay begins
		<-lock.Lost
		stopped, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		begun := time.Now()
		agent.Fail(0, 0, 500, 500, 500, 500)
		if _, err := b.Lock(stopped, "default", backendtest.Info("2", "x")); err == nil {
			t.Error("locked")
		}
		if took := time.Since(begun); took > cleanupTime {
			t.Errorf("the lock request took %s", took)
		}
		synctest.Wait()
	})
}

func TestABusyAgentIsAskedAgainAndARefusalShowsNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent := consul.New()
		agent.Token = "other"
		b := bubble(t, agent)
		b.client.token = "s3cr3t"
		agent.Fail(500, 429, 503)
		_, err := b.Read(t.Context(), "default")
		if err == nil || !strings.Contains(err.Error(), "Permission denied") ||
			strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("the error is %v", err)
		}
		b.client.token = "other"
		ok(t, b.Write(t.Context(), "default", []byte("{}")))
		begun := time.Now()
		agent.Fail(500, 500, 500, 500, 500)
		if _, err := b.Read(t.Context(), "default"); err == nil || !strings.Contains(err.Error(), "No cluster leader") {
			t.Errorf("the error is %v", err)
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("the request was repeated for %s", took)
		}
	})
	if got := (&client{token: "s3cr3t"}).shown([]byte("no\ntoken s3cr3t")); got != "no token (the token)" {
		t.Errorf("shown as %q", got)
	}
}

func TestTheOperationsEnvironmentStandsInForArguments(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "token")
	ok(t, os.WriteFile(tokens, []byte("of a file\n"), 0o600))
	for claim, c := range map[string]struct {
		env  map[string]string
		args map[string]cty.Value
		want string
	}{
		"nothing": {want: "http://127.0.0.1:8500/v1/kv/tf/state"},
		"address": {env: map[string]string{"CONSUL_HTTP_ADDR": "https://c.example/front/"},
			want: "https://c.example/front/v1/kv/tf/state"},
		"TLS": {env: map[string]string{"CONSUL_HTTP_SSL": "1"},
			want: "https://127.0.0.1:8500/v1/kv/tf/state"},
		"an argument is more": {env: map[string]string{"CONSUL_HTTP_SSL": "1"}, args: strs("scheme", "http"),
			want: "http://127.0.0.1:8500/v1/kv/tf/state"},
		"an empty argument": {env: map[string]string{"CONSUL_HTTP_ADDR": "c:1"}, args: strs("address", ""),
			want: "http://c:1/v1/kv/tf/state"},
		"places": {env: map[string]string{"CONSUL_NAMESPACE": "n", "CONSUL_PARTITION": "p"},
			args: strs("datacenter", "d"),
			want: "http://127.0.0.1:8500/v1/kv/tf/state?dc=d&ns=n&partition=p"},
	} {
		t.Run(claim, func(t *testing.T) {
			b, diags := opening(t, c.env, c.args)
			if diags.HasErrors() {
				t.Fatal(diags.Err())
			}
			is(t, b.Describe("default").Where, c.want)
		})
	}
	b, diags := opening(t, map[string]string{"CONSUL_HTTP_TOKEN_FILE": tokens, "CONSUL_HTTP_TOKEN": "t",
		"CONSUL_HTTP_AUTH": "u:p:q"}, nil)
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	c := b.(*store).client
	is(t, []string{c.token, c.user, c.password}, []string{"of a file", "u", "p:q"})
}

func TestWrongArgumentsAreDiagnostics(t *testing.T) {
	for claim, c := range map[string]struct{ name, value, want string }{
		"no path":                         {"path", "", "cannot be empty"},
		"a path from the root":            {"path", "/tf", "cannot begin with"},
		"a scheme that there is not":      {"scheme", "ftp", "http or https"},
		"an address of another kind":      {"address", "tcp://a:1", "http://, https:// or unix://"},
		"an address that is none":         {"address", "a b:secret", "a host with a port"},
		"a password in the address":       {"address", "http://u:secret@a:1", "http_auth"},
		"an authority that is not there":  {"ca_file", "/nowhere", "/nowhere"},
		"a certificate without its key":   {"cert_file", "x", "key_file"},
		"a key without its certificate":   {"key_file", "x", "cert_file"},
		"a lock that is neither":          {"lock", "maybe", "Inappropriate value"},
		"an argument that does not exist": {"token", "x", "not expected"},
	} {
		t.Run(claim, func(t *testing.T) {
			_, diags := opening(t, nil, strs(c.name, c.value))
			if !diags.HasErrors() || !strings.Contains(diags[0].Detail, c.want) ||
				!slices.Equal(diags[0].Path, cty.GetAttrPath(c.name)) ||
				strings.Contains(diags[0].Detail, "secret") {
				t.Errorf("the problems are %v at %v, want one with %q", diags.Err(), diags[0].Path, c.want)
			}
		})
	}
}

func strs(pairs ...string) map[string]cty.Value {
	out := map[string]cty.Value{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = cty.StringVal(pairs[i+1])
	}
	return out
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
