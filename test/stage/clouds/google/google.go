// Package google is a fake of the calls that Millipede and OpenTofu make to Google Cloud: Cloud Storage (its JSON API,
// and media on the path of its XML API), Cloud KMS (REST and gRPC), tokens for service accounts, and impersonation.
//
// It implements generations, preconditions, checksums and customer-supplied keys, and rejects requests without a token
// that it has issued. It is written from the public documentation of the services, for these calls alone.
package google

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/test/stage/clouds/faults"
)

// Token is an access token that is valid without a request for it.
const Token = "ya29.fake"

// tokenScope is the scope of Token. The fakes of other services accept it, too.
const tokenScope = "https://www.googleapis.com/auth/devstorage.read_write"

// Object is a stored object.
type Object struct {
	Data        []byte
	Generation  int64
	ContentType string
	KMSKey      string
	Customer    string // the customer-supplied key in base64; empty without one
}

// Server is a running server. It is closed at the end of the test.
type Server struct {
	*httptest.Server
	Faults faults.Faults

	t   testing.TB
	key *rsa.PrivateKey

	mu         sync.Mutex // guards the fields below
	buckets    map[string]map[string]Object
	generation int64
	tokens     map[string]string // scopes by token
	requests   []string
	bodies     []string // the bodies of requests for tokens
	failures   []int    // statuses of the next responses; 0 executes the request
	lose       bool     // whether the next request is executed and its response lost
	before     func(method, name string)
	emulator   bool // whether requests with a token are an error
	projects   []string
}

// New starts a server with buckets.
func New(t testing.TB, buckets ...string) *Server { return start(t, false, buckets) }

// NewTLS starts a server with HTTPS, for services whose addresses cannot be configured.
func NewTLS(t testing.TB, buckets ...string) *Server { return start(t, true, buckets) }

func start(t testing.TB, tls bool, buckets []string) *Server {
	s := &Server{
		t: t, buckets: map[string]map[string]Object{}, generation: 1790000000000000,
		tokens: map[string]string{Token: tokenScope},
	}
	for _, b := range buckets {
		s.buckets[b] = map[string]Object{}
	}
	s.Server = httptest.NewUnstartedServer(s.Faults.Before(s))
	if tls {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// Endpoint returns the URL of the JSON API.
func (s *Server) Endpoint() string { return s.URL + "/storage/v1/" }

// Requests returns the requests until now, as "METHOD PATH?QUERY".
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Exchanges returns the bodies of the requests for tokens.
func (s *Server) Exchanges() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bodies)
}

// Fail sets the statuses of the next responses; a request with the status 0 is executed.
func (s *Server) Fail(statuses ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = statuses
}

// LoseAnswer makes the server execute the next request and respond with 503, like a proxy that loses its connection.
func (s *Server) LoseAnswer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose = true
}

// Before sets a function that is called before each request about an object; it may call Remove and Put.
func (s *Server) Before(f func(method, name string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = f
}

// Emulate makes the server an emulator, which rejects requests with a token: no token may be sent to an emulator.
func (s *Server) Emulate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.emulator = true
}

// Projects returns the billing projects of the requests with a token, without repetitions; "" means the project of the
// credentials.
func (s *Server) Projects() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Compact(slices.Clone(s.projects))
}

// Object returns a stored object.
func (s *Server) Object(bucket, name string) (Object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.buckets[bucket][name]
	return o, ok
}

// Put stores an object, like another client, and returns its generation.
func (s *Server) Put(bucket, name string, data []byte) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation++
	s.buckets[bucket][name] = Object{Data: data, Generation: s.generation}
	return s.generation
}

// Remove deletes an object, like another client.
func (s *Server) Remove(bucket, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.buckets[bucket], name)
}

// ServiceAccount returns the JSON key file of a service account that gets its tokens from this server.
func (s *Server) ServiceAccount() string {
	var err error
	if s.key, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		s.t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(s.key)
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "me@project.iam.gserviceaccount.com", "private_key_id": "1",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"token_uri":   s.URL + "/token",
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Errorf("reading a request: %v", err)
	}
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.RequestURI())
	before, status := s.before, 0
	if len(s.failures) > 0 {
		status, s.failures = s.failures[0], s.failures[1:]
	}
	s.mu.Unlock()
	if status != 0 {
		refuse(w, status, "failed", "The service is out of order.")
		return
	}
	if before != nil {
		before(r.Method, r.URL.Path)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lose {
		s.lose = false
		s.answer(httptest.NewRecorder(), r, body)
		refuse(w, http.StatusServiceUnavailable, "backendError", "The answer is lost.")
		return
	}
	s.answer(w, r, body)
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, body []byte) {
	if r.URL.Path == "/token" {
		s.exchange(w, r, body)
		return
	}
	if s.emulator && r.Header.Get("Authorization") == "" {
		s.storage(w, r, body)
		return
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	scope, ok := s.tokens[token]
	ok = ok && !s.emulator
	s.projects = append(s.projects, r.Header.Get("X-Goog-User-Project"))
	if !ok {
		refuse(w, http.StatusUnauthorized, "authError", "Invalid Credentials")
		return
	}
	if account, ok := strings.CutSuffix(r.URL.Path, ":generateAccessToken"); ok {
		s.impersonate(w, scope, account, body)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/kms/v1/") {
		s.kms(w, r, scope, body)
		return
	}
	if method, ok := strings.CutPrefix(r.URL.Path, kmsMethod); ok {
		s.kmsOverGRPC(w, method, scope, body)
		return
	}
	s.storage(w, r, body)
}

// exchange issues a token for an assertion that the service account has signed.
func (s *Server) exchange(w http.ResponseWriter, r *http.Request, body []byte) {
	s.bodies = append(s.bodies, string(body))
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	parts := strings.Split(r.FormValue("assertion"), ".")
	var claims struct{ Scope string }
	ok := len(parts) == 3 && s.key != nil
	if ok {
		sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
		signature, err := base64.RawURLEncoding.DecodeString(parts[2])
		text, err2 := base64.RawURLEncoding.DecodeString(parts[1])
		ok = err == nil && err2 == nil && json.Unmarshal(text, &claims) == nil &&
			rsa.VerifyPKCS1v15(&s.key.PublicKey, crypto.SHA256, sum[:], signature) == nil
	}
	w.Header().Set("Content-Type", "application/json")
	if !ok {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"invalid_grant","error_description":"Invalid JWT Signature."}`)
		return
	}
	token := fmt.Sprintf("ya29.exchanged-%d", len(s.bodies))
	s.tokens[token] = claims.Scope
	fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":3599}`, token)
}

// impersonate issues a token of another service account to a client that has the scope for all services.
func (s *Server) impersonate(w http.ResponseWriter, scope, account string, body []byte) {
	s.bodies = append(s.bodies, account+" "+string(body))
	var in struct{ Scope []string }
	if json.Unmarshal(body, &in) != nil || len(in.Scope) == 0 || !strings.HasSuffix(scope, "/cloud-platform") {
		refuse(w, http.StatusForbidden, "forbidden", "Permission 'iam.serviceAccounts.getAccessToken' denied.")
		return
	}
	token := fmt.Sprintf("ya29.impersonated-%d", len(s.bodies))
	s.tokens[token] = strings.Join(in.Scope, " ")
	_ = json.NewEncoder(w).Encode(map[string]any{"accessToken": token,
		"expireTime": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)})
}

func refuse(w http.ResponseWriter, status int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{
		"code": status, "message": message, "errors": []map[string]string{{"reason": reason, "message": message}},
	}})
}
