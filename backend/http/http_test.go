package httpbackend_test

import (
	"crypto/md5"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/backendtest"
	httpbackend "github.com/millipede-iac/millipede/backend/http"
	"github.com/millipede-iac/millipede/state/journal"
)

// server is a web server that stores a state, as users of the protocol write them.
type server struct {
	*httptest.Server
	mu       sync.Mutex // guards the fields below
	state    []byte
	lock     []byte
	requests []string
	failures int // how many requests are to be answered with 503
	status   int // the status with which every request is answered, if it is not 0
}

func newServer(t *testing.T) *server {
	s := &server{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	s.requests = append(s.requests, r.Method+" "+r.URL.RequestURI())
	if s.failures > 0 {
		s.failures--
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if s.status != 0 {
		w.WriteHeader(s.status)
		return
	}
	if len(body) > 0 {
		sum := md5.Sum(body)
		if r.Header.Get("Content-MD5") != base64.StdEncoding.EncodeToString(sum[:]) ||
			r.Header.Get("Content-Type") != "application/json" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
	}
	switch r.Method {
	case http.MethodGet:
		if s.state == nil {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write(s.state)
	case http.MethodPost:
		holder, _ := backend.DecodeLock(s.lock)
		if s.lock != nil && r.URL.Query().Get("ID") != holder.ID {
			w.WriteHeader(http.StatusConflict)
			return
		}
		s.state = body
	case "LOCK":
		if s.lock != nil {
			w.WriteHeader(http.StatusLocked)
			_, _ = w.Write(s.lock)
			return
		}
		s.lock = body
	case "UNLOCK":
		holder, _ := backend.DecodeLock(s.lock)
		asked, _ := backend.DecodeLock(body)
		if s.lock == nil || asked.ID != holder.ID {
			w.WriteHeader(http.StatusConflict)
			return
		}
		s.lock = nil
	}
}

func (s *server) open(t *testing.T, more map[string]cty.Value) backend.Backend {
	t.Helper()
	args := map[string]cty.Value{
		"address": cty.StringVal(s.URL + "/state?team=a"), "lock_address": cty.StringVal(s.URL + "/lock"),
		"unlock_address": cty.StringVal(s.URL + "/lock"), "retry_wait_min": cty.Zero, "retry_wait_max": cty.Zero,
	}
	for name, v := range more {
		args[name] = v
	}
	b, diags := place(nil).Open(t.Context(), "http", cty.ObjectVal(args))
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	return b
}

func place(env map[string]string) backend.Place {
	return backend.Place{Kinds: backend.Kinds{httpbackend.Kind()}, Env: func(name string) string { return env[name] }}
}

func TestTheBackendKeepsTheContract(t *testing.T) {
	servers := map[string]*server{}
	backendtest.Run(t, backendtest.Suite{
		OneState: true,
		Open: func(t *testing.T) backend.Backend {
			if servers[t.Name()] == nil {
				servers[t.Name()] = newServer(t)
			}
			return servers[t.Name()].open(t, nil)
		},
	})
}

func TestTheRequestsAreThoseOfTheProtocol(t *testing.T) {
	s := newServer(t)
	b := s.open(t, map[string]cty.Value{"username": cty.StringVal("u"), "password": cty.StringVal("p")})
	lock, err := b.Lock(t.Context(), "default", backendtest.Info("1", "OperationTypeApply"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"ID":"1","Operation":"OperationTypeApply","Info":"","Who":"me@here","Version":"1.12.6",` +
		`"Created":"2026-11-22T04:54:54.319205105Z","Path":""}`
	if string(s.lock) != want {
		t.Errorf("the lock is %s, want %s", s.lock, want)
	}
	if err := b.Write(t.Context(), "default", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	if err := b.Unlock(t.Context(), "default", lock.ID); err != nil {
		t.Fatal(err)
	}
	if err := b.Write(t.Context(), "default", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	if want := []string{"LOCK /lock", "POST /state?ID=1&team=a", "UNLOCK /lock", "POST /state?team=a"}; !slices.Equal(
		s.requests, want) {
		t.Errorf("the requests are %q, want %q", s.requests, want)
	}
}

// Without an address for locks, no lock is acquired. The end of the command released one nevertheless, which belonged
// to somebody else, or failed.
func TestALockThatWasNotAskedForIsNotReleased(t *testing.T) {
	s := newServer(t)
	b := s.open(t, map[string]cty.Value{"lock_address": cty.NullVal(cty.String)})
	lock, err := b.Lock(t.Context(), "default", backendtest.Info("1", "plan"))
	if err == nil {
		err = b.Write(t.Context(), "default", []byte(`{}`))
	}
	if err == nil {
		err = b.Unlock(t.Context(), "default", lock.ID)
	}
	if want := []string{"POST /state?team=a"}; err != nil || !slices.Equal(s.requests, want) {
		t.Errorf("the requests are %q (%v), want %q", s.requests, err, want)
	}
}

// The response to a lock request was lost, and the request repeated: the server then names the requester as the holder,
// and the command failed because of its own lock.
func TestALockWhoseAnswerWasLostIsOurs(t *testing.T) {
	s := newServer(t)
	b := s.open(t, nil)
	info := backendtest.Info("1", "plan")
	s.lock = backend.EncodeLock(info)
	lock, err := b.Lock(t.Context(), "default", info)
	if err == nil {
		err = b.Unlock(t.Context(), "default", lock.ID)
	}
	if err != nil || s.lock != nil {
		t.Errorf("the lock is %s: %v", s.lock, err)
	}
}

func TestABusyServerIsAskedAgain(t *testing.T) {
	s := newServer(t)
	s.failures = 2
	if err := s.open(t, nil).Write(t.Context(), "default", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	s.failures = 3
	err := s.open(t, nil).Write(t.Context(), "default", []byte(`{}`))
	if err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("after three tries the error is %v", err)
	}
}

func TestARefusalSaysWhatIsWrong(t *testing.T) {
	s := newServer(t)
	for status, want := range map[int]string{401: "requires authentication", 403: "denies access", 500: "500"} {
		s.status = status
		b := s.open(t, map[string]cty.Value{"retry_max": cty.Zero})
		if _, err := b.Read(t.Context(), "default"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("status %d: the error is %v, want one with %q", status, err, want)
		}
		if _, err := b.Lock(t.Context(), "default", journal.LockInfo{ID: "1"}); err == nil {
			t.Errorf("status %d: locked", status)
		}
	}
}

func TestAPasswordInTheAddressIsNotShown(t *testing.T) {
	b, diags := place(map[string]string{"TF_HTTP_ADDRESS": "http://u:secret@127.0.0.1:1/x", "TF_HTTP_RETRY_MAX": "0"}).
		Open(t.Context(), "http", cty.EmptyObjectVal)
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	_, err := b.Read(t.Context(), "default")
	if err == nil || strings.Contains(err.Error(), "secret") ||
		strings.Contains(b.Describe("default").Where, "secret") {
		t.Errorf("the error is %v at %s", err, b.Describe("default").Where)
	}
}

// A variable with an invalid value was ignored, and the default used.
func TestAVariableThatDoesNotFitIsADiagnostic(t *testing.T) {
	_, diags := place(map[string]string{"TF_HTTP_RETRY_MAX": "many"}).Open(t.Context(), "http",
		cty.ObjectVal(map[string]cty.Value{"address": cty.StringVal("http://127.0.0.1:1")}))
	if !diags.HasErrors() || !strings.Contains(diags[0].Detail, "TF_HTTP_RETRY_MAX") {
		t.Errorf("the problems are %v", diags.Err())
	}
}

func TestWrongArgumentsAreDiagnostics(t *testing.T) {
	for claim, c := range map[string]struct {
		name, value, want string
	}{
		"an address without a scheme":     {"address", "example.com/x", "http:// or https://"},
		"a lock address of another kind":  {"lock_address", "ftp://example.com", "http:// or https://"},
		"a certificate without its key":   {"client_certificate_pem", "x", `needs "client_private_key_pem"`},
		"an authority that is not PEM":    {"client_ca_certificate_pem", "x", "no certificate"},
		"a number that is none":           {"retry_max", "many", "Inappropriate value"},
		"a number beyond all bounds":      {"retry_wait_max", "1e30", "cannot be negative, nor above"},
		"a negative number":               {"retry_max", "-1", "cannot be negative"},
		"no address":                      {"address", "", "required"},
		"an argument that does not exist": {"adress", "http://x", "not expected"},
	} {
		t.Run(claim, func(t *testing.T) {
			args := map[string]cty.Value{"address": cty.StringVal("http://127.0.0.1:1")}
			args[c.name] = cty.StringVal(c.value)
			_, diags := place(nil).Open(t.Context(), "http", cty.ObjectVal(args))
			if !diags.HasErrors() || !strings.Contains(diags[0].Detail, c.want) || len(diags[0].Path) == 0 {
				t.Errorf("the problems are %v, want one with %q and a path", diags.Err(), c.want)
			}
		})
	}
	for name, value := range map[string]string{"x y": "1", "X-A": " ", "X-B": "ü", "Content-MD5": "1",
		"Authorization": "1"} {
		args := cty.ObjectVal(map[string]cty.Value{
			"address": cty.StringVal("http://127.0.0.1:1"), "username": cty.StringVal("u"),
			"headers": cty.MapVal(map[string]cty.Value{name: cty.StringVal(value)}),
		})
		if _, diags := place(nil).Open(t.Context(), "http", args); !diags.HasErrors() {
			t.Errorf("the header %q: %q is accepted", name, value)
		}
	}
}
