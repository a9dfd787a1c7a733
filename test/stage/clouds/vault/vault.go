// Package vault is a fake of the calls that Millipede and OpenTofu make to OpenBao and to HashiCorp Vault: the data
// keys of the transit engine.
//
// It is written from the public documentation of the engine, for these calls alone. It does not encrypt anything.
package vault

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Token is the token that the server accepts.
const Token = "s.fake-token-of-a-test"

// Server is a running server. It is closed at the end of the test.
type Server struct {
	*httptest.Server
	t testing.TB

	mu       sync.Mutex // guards the fields below
	keys     map[string]bool
	requests []string
	headers  []http.Header
	failures []int // statuses of the next responses; 0 executes the request
}

// New starts a server whose engine "transit" has keys.
func New(t testing.TB, keys ...string) *Server {
	s := &Server{t: t, keys: map[string]bool{}}
	for _, k := range keys {
		s.keys[k] = true
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// Requests returns the requests until now, as "METHOD PATH".
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Header returns the headers of the last request.
func (s *Server) Header() http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.headers[len(s.headers)-1]
}

// Hangs is the status of a response that is never sent.
const Hangs = -1

// Fail sets the statuses of the next responses. A request with the status 0 is executed, and one with Hangs gets no
// response.
func (s *Server) Fail(statuses ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = statuses
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Errorf("reading a request: %v", err)
	}
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.EscapedPath())
	s.headers = append(s.headers, r.Header.Clone())
	status := 0
	if len(s.failures) > 0 {
		status, s.failures = s.failures[0], s.failures[1:]
	}
	s.mu.Unlock()
	switch {
	case status == Hangs:
		<-r.Context().Done()
	case status != 0:
		refuse(w, status, "the server is out of order")
	case r.Header.Get("X-Vault-Token") != Token:
		refuse(w, http.StatusForbidden, "permission denied")
	case r.Method != http.MethodPut && r.Method != http.MethodPost:
		refuse(w, http.StatusMethodNotAllowed, "unsupported operation")
	default:
		s.transit(w, r, body)
	}
}

func refuse(w http.ResponseWriter, status int, text string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string][]string{"errors": {text}})
}

// transit handles the two calls on a key. The key's name is escaped twice in the path.
func (s *Server) transit(w http.ResponseWriter, r *http.Request, body []byte) {
	call, ok := strings.CutPrefix(r.URL.Path, "/v1/transit/")
	name := call[strings.LastIndex(call, "/")+1:]
	operation := strings.TrimSuffix(call, "/"+name)
	name, err := url.PathUnescape(name)
	if !ok || err != nil || !s.keys[name] {
		refuse(w, http.StatusBadRequest, "encryption key not found")
		return
	}
	var in struct {
		Bits       int
		Ciphertext string
	}
	if json.Unmarshal(body, &in) != nil {
		refuse(w, http.StatusBadRequest, "no JSON")
		return
	}
	prefix := "vault:v1:" + base64.StdEncoding.EncodeToString([]byte(name)) + "."
	switch operation {
	case "datakey/plaintext":
		if in.Bits != 128 && in.Bits != 256 && in.Bits != 512 {
			refuse(w, http.StatusBadRequest, "invalid bit length")
			return
		}
		key := make([]byte, in.Bits/8)
		_, _ = rand.Read(key)
		answer(w, map[string]string{"plaintext": base64.StdEncoding.EncodeToString(key),
			"ciphertext": prefix + inverted(key)})
	case "decrypt":
		text, ok := strings.CutPrefix(in.Ciphertext, prefix)
		key, err := base64.StdEncoding.DecodeString(text)
		if !ok || err != nil {
			refuse(w, http.StatusBadRequest, "cipher: message authentication failed")
			return
		}
		plain, _ := base64.StdEncoding.DecodeString(inverted(key))
		answer(w, map[string]string{"plaintext": base64.StdEncoding.EncodeToString(plain)})
	default:
		refuse(w, http.StatusNotFound, fmt.Sprintf("no handler for route %q", operation))
	}
}

func inverted(key []byte) string {
	out := make([]byte, len(key))
	for i, b := range key {
		out[i] = b ^ 0xff
	}
	return base64.StdEncoding.EncodeToString(out)
}

func answer(w http.ResponseWriter, data map[string]string) {
	_ = json.NewEncoder(w).Encode(map[string]any{"data": data})
}
