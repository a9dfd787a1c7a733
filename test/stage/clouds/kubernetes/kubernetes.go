// Package kubernetes is a fake of the calls that engines make to the API server of a Kubernetes cluster: secrets and
// leases, one by one and as lists.
//
// It implements conflicts of resource versions and names (409), label selectors, the maximum size of a secret, and
// preconditions of deletions. It is written from the public documentation, for these calls alone.
package kubernetes

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/clouds/faults"
)

// The credentials that the server accepts.
const (
	Token    = "the-bearer-token"
	Username = "someone"
	Password = "the-password"
)

// maxSecret is the maximum size of the data of a secret, in bytes.
const maxSecret = 1 << 20

// Object is an object of the API, as decoded JSON.
type Object = map[string]any

// Server is a running server with TLS. It is closed at the end of the test.
type Server struct {
	*httptest.Server
	Faults faults.Faults

	mu       sync.Mutex // guards the fields below
	objects  map[string]Object
	version  int
	requests []string
	before   func(method, path string)
	failures []int
	acting   http.Header
}

// New starts a server.
func New(t testing.TB) *Server {
	s := &Server{objects: map[string]Object{}}
	s.Server = httptest.NewTLSServer(s.Faults.Before(s))
	t.Cleanup(s.Close)
	return s
}

// Before sets a function that is called before each request that is executed; it may use the server.
func (s *Server) Before(f func(method, path string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = f
}

// Fail sets the statuses of the next responses.
func (s *Server) Fail(statuses ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = statuses
}

// Requests returns the requests until now, as "METHOD NAME".
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Acting returns the headers of the last request that asked for impersonation.
func (s *Server) Acting() http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acting.Clone()
}

// Get returns the object whose path has the given end; nil if there is none.
func (s *Server) Get(path string) Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, o := range s.objects {
		if strings.HasSuffix(at, "/"+path) {
			return o
		}
	}
	return nil
}

// Put stores an object in a collection, like another client.
func (s *Server) Put(collection string, o Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(collection+"/"+metadata(o)["name"].(string), o)
}

func (s *Server) store(path string, o Object) Object {
	s.version++
	o["kind"], o["apiVersion"] = "Secret", "v1"
	if strings.Contains(path, "/leases/") {
		o["kind"], o["apiVersion"] = "Lease", "coordination.k8s.io/v1"
	}
	m := metadata(o)
	m["resourceVersion"] = strconv.Itoa(s.version)
	if m["uid"] == nil {
		m["uid"] = fmt.Sprintf("uid-%d", s.version)
	}
	s.objects[path] = o
	return o
}

func metadata(o Object) map[string]any {
	m, ok := o["metadata"].(map[string]any)
	if !ok {
		m = map[string]any{}
		o["metadata"] = m
	}
	return m
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the client may have closed the connection
}

func refuse(w http.ResponseWriter, code int, reason, message string) {
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "0")
	}
	answer(w, code, Object{
		"kind": "Status", "apiVersion": "v1", "metadata": Object{}, "status": "Failure", "message": message,
		"reason": reason, "code": code,
	})
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	before := s.before
	s.mu.Unlock()
	if before != nil {
		before(r.Method, r.URL.Path)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acting = http.Header{}
	for name, values := range r.Header {
		if strings.HasPrefix(name, "Impersonate-") {
			s.acting[name] = values
		}
	}
	path := strings.TrimSuffix(r.URL.Path, "/")
	s.requests = append(s.requests, r.Method+" "+path[strings.LastIndex(path, "/")+1:])
	if len(s.failures) > 0 {
		code := s.failures[0]
		s.failures = s.failures[1:]
		refuse(w, code, "Failure", "injected by the test")
		return
	}
	user, password, basic := r.BasicAuth()
	certified := r.TLS != nil && len(r.TLS.PeerCertificates) > 0
	named := basic && user == Username && password == Password
	if r.Header.Get("Authorization") != "Bearer "+Token && !named && !certified {
		refuse(w, http.StatusUnauthorized, "Unauthorized", "Unauthorized")
		return
	}
	parts := strings.Split(path, "/") // "", api, v1, namespaces, NS, secrets[, NAME]; paths of apis have one part more
	at := slices.Index(parts, "namespaces")
	if at < 0 || len(parts) < at+3 || parts[at+2] != "secrets" && parts[at+2] != "leases" {
		refuse(w, http.StatusNotFound, "NotFound", "the server could not find the requested resource")
		return
	}
	if len(parts) == at+3 {
		s.collection(w, r, path, body)
		return
	}
	s.object(w, r, path, body)
}

func (s *Server) collection(w http.ResponseWriter, r *http.Request, path string, body []byte) {
	if r.Method == http.MethodGet {
		items := []Object{}
		for _, at := range s.paths(path) {
			if chosen(s.objects[at], r.URL.Query().Get("labelSelector")) {
				o := s.objects[at]
				if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadataList") {
					o = Object{"metadata": o["metadata"]}
				}
				items = append(items, o)
			}
		}
		kind, version := "SecretList", "v1"
		if strings.HasSuffix(path, "/leases") {
			kind, version = "LeaseList", "coordination.k8s.io/v1"
		}
		list := Object{}
		// Pages have at most two objects, so that every client has to request several.
		from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		to := len(items)
		if r.URL.Query().Get("limit") != "" {
			to = min(from+2, len(items))
		}
		if to < len(items) {
			list["continue"] = strconv.Itoa(to)
		}
		answer(w, http.StatusOK, Object{"kind": kind, "apiVersion": version, "metadata": list, "items": items[from:to]})
		return
	}
	o, ok := s.valid(w, path, body)
	if !ok {
		return
	}
	at := path + "/" + metadata(o)["name"].(string)
	if s.objects[at] != nil {
		refuse(w, http.StatusConflict, "AlreadyExists", "the object already exists")
		return
	}
	answer(w, http.StatusCreated, s.store(at, o))
}

func (s *Server) paths(collection string) []string {
	var all []string
	for at := range s.objects {
		if strings.HasPrefix(at, collection+"/") {
			all = append(all, at)
		}
	}
	slices.Sort(all)
	return all
}

// chosen reports whether an object has the labels of a selector, which may contain only equalities.
func chosen(o Object, selector string) bool {
	labels, _ := metadata(o)["labels"].(map[string]any)
	for term := range strings.SplitSeq(selector, ",") {
		k, v, ok := strings.Cut(term, "=")
		if ok && labels[k] != strings.TrimPrefix(v, "=") {
			return false
		}
	}
	return true
}

// valid decodes the object of a request, and reports the errors that the real server reports.
func (s *Server) valid(w http.ResponseWriter, path string, body []byte) (Object, bool) {
	var o Object
	err := json.Unmarshal(body, &o)
	if bytes.HasPrefix(body, magic) {
		o, err = fromProtobuf(body)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "BadRequest", err.Error())
		return nil, false
	}
	if name, ok := metadata(o)["name"].(string); !ok || name == "" {
		refuse(w, http.StatusUnprocessableEntity, "Invalid", "metadata.name: Required value")
		return nil, false
	}
	size := 0
	data, _ := o["data"].(map[string]any)
	for _, v := range data {
		text, _ := v.(string)
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			refuse(w, http.StatusBadRequest, "BadRequest", "illegal base64 data")
			return nil, false
		}
		size += len(raw)
	}
	if size > maxSecret {
		refuse(w, http.StatusUnprocessableEntity, "Invalid", "data: Too long: may not be more than 1048576 bytes")
		return nil, false
	}
	return o, true
}

func (s *Server) object(w http.ResponseWriter, r *http.Request, path string, body []byte) {
	old := s.objects[path]
	if old == nil {
		refuse(w, http.StatusNotFound, "NotFound", "the object was not found")
		return
	}
	switch r.Method {
	case http.MethodGet:
		answer(w, http.StatusOK, old)
	case http.MethodPut:
		o, ok := s.valid(w, path, body)
		if !ok {
			return
		}
		if v := metadata(o)["resourceVersion"]; v != nil && v != "" && v != metadata(old)["resourceVersion"] {
			refuse(w, http.StatusConflict, "Conflict", "the object has been modified")
			return
		}
		metadata(o)["uid"] = metadata(old)["uid"]
		answer(w, http.StatusOK, s.store(path, o))
	case http.MethodDelete:
		var options struct{ Preconditions struct{ UID string } }
		_ = json.Unmarshal(body, &options) // the body may be empty
		if u := options.Preconditions.UID; u != "" && u != metadata(old)["uid"] {
			refuse(w, http.StatusConflict, "Conflict", "the UID in the precondition does not match")
			return
		}
		delete(s.objects, path)
		answer(w, http.StatusOK, Object{"kind": "Status", "apiVersion": "v1", "status": "Success"})
	default:
		refuse(w, http.StatusMethodNotAllowed, "MethodNotAllowed", r.Method)
	}
}
