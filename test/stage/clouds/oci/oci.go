// Package oci is a fake OCI registry: manifests, pages of tags, blobs, and authentication with passwords and tokens.
//
// It is written from the distribution specification of the Open Container Initiative, and supports only reading.
package oci

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The credentials that the server accepts, if it requires any.
const (
	User     = "somebody"
	Password = "s3cret-of-a-registry"
	token    = "token-of-a-registry"
)

// Auth is how clients authenticate.
type Auth byte

// The kinds of authentication.
const (
	Open   Auth = iota // everybody may read
	Basic              // each request has a name and a password
	Bearer             // each request has a token that the registry has issued for a name and a password
)

// Server is a running registry, with TLS. It is closed at the end of the test.
type Server struct {
	*httptest.Server
	t    testing.TB
	auth Auth

	mu       sync.Mutex // guards the fields below
	content  map[string][]byte
	types    map[string]string
	tags     map[string]map[string]string // digests by repository and tag
	requests []string
	redirect *httptest.Server
	leaked   []string
	failures []int
}

// New starts a registry.
func New(t testing.TB, auth Auth) *Server {
	s := &Server{
		t:       t,
		auth:    auth,
		content: map[string][]byte{},
		types:   map[string]string{},
		tags:    map[string]map[string]string{},
	}
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	return s
}

// Host returns the host of the registry in addresses.
func (s *Server) Host() string { return strings.TrimPrefix(s.URL, "https://") }

// WriteCertificate writes the certificate that clients have to trust to a file.
func (s *Server) WriteCertificate(name string) error {
	return os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600)
}

// Elsewhere makes the registry redirect requests for blobs to another host.
func (s *Server) Elsewhere() {
	other := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if h := r.Header.Get("Authorization"); h != "" {
			s.leaked = append(s.leaked, h)
		}
		_, _ = w.Write(s.content[strings.TrimPrefix(r.URL.Path, "/")])
	}))
	other.TLS = s.TLS.Clone()
	other.StartTLS()
	s.t.Cleanup(other.Close)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.redirect = other
}

// Leaked returns the credentials that clients have sent to the other host.
func (s *Server) Leaked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leaked
}

// Requests returns the requests until now, as "METHOD PATH?QUERY".
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Fail sets the statuses of the next responses; a request with the status 0 is executed.
func (s *Server) Fail(statuses ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = statuses
}

// Descriptor describes a blob or a manifest, as in a manifest.
type Descriptor map[string]any

// Blob stores a blob.
func (s *Server) Blob(mediaType string, data []byte) Descriptor {
	sum := sha256.Sum256(data)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.content[digest], s.types[digest] = data, mediaType
	return Descriptor{"mediaType": mediaType, "digest": digest, "size": len(data)}
}

// Corrupt changes the stored content of a descriptor, so that its digest is wrong.
func (s *Server) Corrupt(d Descriptor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data := slices.Clone(s.content[d["digest"].(string)])
	data[len(data)/2] ^= 1
	s.content[d["digest"].(string)] = data
}

// Manifest stores a manifest or an index, whose layers or manifests are the entries, and tags it unless tag is empty.
func (s *Server) Manifest(repository, tag, mediaType, artifactType string, entries ...Descriptor) Descriptor {
	m := map[string]any{"schemaVersion": 2, "mediaType": mediaType, "artifactType": artifactType}
	if strings.Contains(mediaType, "index") {
		m["manifests"] = entries
	} else {
		m["layers"] = entries
		m["config"] = s.Blob("application/vnd.oci.empty.v1+json", []byte("{}"))
	}
	text, err := json.Marshal(m)
	if err != nil {
		s.t.Fatal(err)
	}
	d := s.Blob(mediaType, text)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tags[repository] == nil {
		s.tags[repository] = map[string]string{}
	}
	if tag != "" {
		s.tags[repository][tag] = d["digest"].(string)
	}
	return d
}

// The media types of manifests.
const (
	Image = "application/vnd.oci.image.manifest.v1+json"
	Index = "application/vnd.oci.image.index.v1+json"
)

// Module stores the package of a module.
func (s *Server) Module(repository, tag string, zip []byte) Descriptor {
	return s.Manifest(repository, tag, Image, "application/vnd.opentofu.modulepkg", s.Blob("archive/zip", zip))
}

// Provider stores the packages of a provider's version, by platform.
func (s *Server) Provider(repository, tag string, packages map[string][]byte) {
	var entries []Descriptor
	for platform, zip := range packages {
		system, architecture, _ := strings.Cut(platform, "_")
		d := s.Manifest(repository, "", Image, "application/vnd.opentofu.provider-target", s.Blob("archive/zip", zip))
		d["artifactType"] = "application/vnd.opentofu.provider-target"
		d["platform"] = map[string]string{"os": system, "architecture": architecture}
		entries = append(entries, d)
	}
	s.Manifest(repository, tag, Index, "application/vnd.opentofu.provider", entries...)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+r.URL.RequestURI())
	if len(s.failures) > 0 {
		status := s.failures[0]
		s.failures = s.failures[1:]
		if status != 0 {
			refuse(w, status, "TOOMANYREQUESTS")
			return
		}
	}
	user, password, basic := r.BasicAuth()
	known := basic && user == User && password == Password
	if r.URL.Path == "/token" {
		if !known {
			refuse(w, http.StatusUnauthorized, "UNAUTHORIZED")
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"token": token})
		return
	}
	switch {
	case s.auth == Basic && !known:
		w.Header().Set("WWW-Authenticate", `Basic realm="fake"`)
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED")
	case s.auth == Bearer && r.Header.Get("Authorization") != "Bearer "+token:
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="fake"`, s.URL))
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED")
	case r.URL.Path == "/v2/":
		_, _ = w.Write([]byte("{}"))
	default:
		s.answer(w, r)
	}
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []map[string]string{{"code": code, "message": "refused"}}})
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/v2/")
	for _, kind := range []string{"/tags/list", "/manifests/", "/blobs/"} {
		repository, reference, ok := strings.Cut(path, kind)
		if !ok {
			continue
		}
		tags := s.tags[repository]
		if tags == nil {
			refuse(w, http.StatusNotFound, "NAME_UNKNOWN")
			return
		}
		if kind == "/tags/list" {
			s.list(w, r, repository)
			return
		}
		if digest, ok := tags[reference]; ok && kind == "/manifests/" {
			reference = digest
		}
		data, ok := s.content[reference]
		switch {
		case !ok:
			refuse(w, http.StatusNotFound, "MANIFEST_UNKNOWN")
		case kind == "/blobs/" && s.redirect != nil:
			http.Redirect(w, r, s.redirect.URL+"/"+reference, http.StatusTemporaryRedirect)
		default:
			w.Header().Set("Content-Type", s.types[reference])
			w.Header().Set("Docker-Content-Digest", reference)
			w.Header().Set("Content-Length", fmt.Sprint(len(data)))
			if r.Method != http.MethodHead {
				_, _ = w.Write(data)
			}
		}
		return
	}
	refuse(w, http.StatusNotFound, "NAME_UNKNOWN")
}

// list lists tags in pages of two.
func (s *Server) list(w http.ResponseWriter, r *http.Request, repository string) {
	var names []string
	for name := range s.tags[repository] {
		if name > r.URL.Query().Get("last") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) > 2 {
		names = names[:2]
		w.Header().Set("Link", fmt.Sprintf(`</v2/%s/tags/list?last=%s&n=2>; rel="next"`, repository, names[1]))
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"name": repository, "tags": names})
}
