// Package azure is a fake of the calls that Millipede and OpenTofu make to Azure: Blob Storage, tokens of Microsoft's
// directory, keys of the resource manager, a metadata host, and the metadata service of machines.
//
// It implements leases, metadata, conditions and customer-provided keys, and rejects requests without a valid signature
// or token. It is written from the public documentation of the services, for these calls alone. Clients reach it
// through test/stage/clouds/intercept, under the services' own names.
package azure

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/millipede-iac/millipede/internal/cloud/azure"
	"github.com/millipede-iac/millipede/test/stage/clouds/faults"
	"github.com/millipede-iac/millipede/test/stage/clouds/intercept"
)

// The names and credentials that the server accepts.
const (
	Account      = "statesaccount"
	AccessKey    = "a2V5IG9mIHRoZSBzdG9yYWdlIGFjY291bnQ="
	SAS          = "?sv=2021-12-02&ss=b&srt=co&sp=rwdl&sig=c2lnbmF0dXJl%3D"
	Tenant       = "00000000-0000-0000-0000-00000000000a"
	Client       = "00000000-0000-0000-0000-00000000000c"
	Secret       = "the secret of the client"
	Assertion    = "eyJhbGciOiJub25lIn0.e30." // a token of OpenID Connect
	Subscription = "00000000-0000-0000-0000-00000000000f"
	Group        = "group"
	PrivateHost  = "metadata.private.example" // the metadata host of a private cloud
)

// Blob is a stored blob.
type Blob struct {
	Data        []byte
	Meta        map[string]string // the names are in lower case
	Lease       string            // the ID of the lease; empty without a lease
	Key, Scope  string            // the customer-provided key and the encryption scope
	ContentType string
	Snapshots   int
}

// Server is a running server. It is closed at the end of the test.
type Server struct {
	*intercept.Proxy
	Faults faults.Faults

	t testing.TB

	mu         sync.Mutex // guards the fields below
	containers map[string]map[string]*Blob
	blocks     map[string][]byte
	tokens     map[string]string // scopes by token
	requests   []string
	grants     []string // the forms in requests for tokens
	failures   []Failure
}

// Failure is a response that replaces the service's.
type Failure struct {
	Status     int // 0 means no failure
	RetryAfter string
	// Lost is set if the request is executed before it fails.
	Lost bool
	// Until, if it is not nil, delays the response until the channel is closed.
	Until <-chan struct{}
}

// New starts a server with containers.
func New(t testing.TB, containers ...string) *Server {
	s := &Server{t: t, containers: map[string]map[string]*Blob{}, blocks: map[string][]byte{},
		tokens: map[string]string{}}
	for _, c := range containers {
		s.containers[c] = map[string]*Blob{}
	}
	s.Proxy = intercept.New(t, s.Faults.Before(s))
	return s
}

// Fail sets the failures of the next requests to the storage service.
func (s *Server) Fail(failures ...Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = failures
}

// Requests returns the requests until now, as "METHOD HOST PATH?QUERY".
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Grants returns the forms in the requests for tokens until now.
func (s *Server) Grants() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.grants)
}

// Blob returns a copy of a stored blob.
func (s *Server) Blob(container, name string) (Blob, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.containers[container][name]
	if !ok {
		return Blob{}, false
	}
	out := *b
	out.Meta = maps.Clone(b.Meta)
	return out, true
}

// Change changes a blob like another client. f gets nil if the blob does not exist, and returns nil to delete it.
func (s *Server) Change(container, name string, f func(*Blob) *Blob) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := f(s.containers[container][name]); b != nil {
		s.containers[container][name] = b
	} else {
		delete(s.containers[container], name)
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Errorf("reading a request: %v", err)
	}
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.Host+" "+r.URL.RequestURI())
	var fail Failure
	storage := strings.Contains(r.Host, ".blob.")
	if storage && len(s.failures) > 0 {
		fail, s.failures = s.failures[0], s.failures[1:]
	}
	s.mu.Unlock()
	if fail.Until != nil {
		select {
		case <-fail.Until:
		case <-r.Context().Done():
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if fail.Status != 0 {
		if fail.Lost {
			s.answer(discard{http.Header{}}, r, body)
		}
		if fail.RetryAfter != "" {
			w.Header().Set("Retry-After", fail.RetryAfter)
		}
		refuse(w, fail.Status, "ServerBusy", "The service is out of order.")
		return
	}
	s.answer(w, r, body)
}

type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, body []byte) {
	host, _, _ := strings.Cut(r.Host, ":")
	switch {
	case strings.HasPrefix(host, Account+".blob."):
		s.storage(w, r, body)
	case strings.HasSuffix(host, ".vault.azure.net"):
		s.vault(w, r, body)
	case strings.HasPrefix(host, "login."):
		s.login(w, r, body)
	case strings.HasPrefix(host, "management."):
		s.manage(w, r)
	case host == PrivateHost:
		write(w, map[string]any{
			"authentication": map[string]any{
				"loginEndpoint": "https://login.private.example",
				"audiences":     []string{"https://management.private.example"},
			},
			"resourceManager": "https://management.private.example/",
			"suffixes":        map[string]string{"storage": "private.example"},
		})
	case host == "169.254.169.254" || host == "msi.example":
		s.machine(w, r, body)
	case host == "oidc.example":
		if r.Header.Get("Authorization") != "Bearer request-token" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		write(w, map[string]string{"value": Assertion, "oidcToken": Assertion})
	default:
		http.Error(w, "no such host", http.StatusBadGateway)
	}
}

func write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// login issues tokens to a client with a secret, with an assertion of OpenID Connect, or with an assertion that is
// signed with its certificate (login checks only the format of that one).
func (s *Server) login(w http.ResponseWriter, r *http.Request, body []byte) {
	base := "https://" + r.Host + "/" + Tenant
	switch {
	case r.URL.Path == "/common/discovery/instance":
		write(w, map[string]any{
			"tenant_discovery_endpoint": base + "/v2.0/.well-known/openid-configuration",
			"metadata": []map[string]any{
				{"preferred_network": r.Host, "preferred_cache": r.Host, "aliases": []string{r.Host}},
			},
		})
		return
	case strings.HasSuffix(r.URL.Path, "/.well-known/openid-configuration"):
		write(w, map[string]string{
			"token_endpoint": base + "/oauth2/v2.0/token", "authorization_endpoint": base + "/oauth2/v2.0/authorize",
			"issuer": base + "/v2.0",
		})
		return
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		s.t.Errorf("a request for a token: %v", err)
	}
	s.grants = append(s.grants, form.Encode())
	assertion := form.Get("client_assertion")
	signed := strings.Count(assertion, ".") == 2 && assertion != Assertion && strings.HasPrefix(assertion, "eyJ")
	if r.URL.Path != "/"+Tenant+"/oauth2/v2.0/token" || form.Get("client_id") != Client ||
		form.Get("client_secret") != Secret && assertion != Assertion && !signed {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		write(
			w,
			map[string]string{"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret " +
				"provided."},
		)
		return
	}
	write(w, map[string]any{"access_token": s.token(form.Get("scope")), "token_type": "Bearer", "expires_in": 3599})
}

func (s *Server) token(scope string) string {
	t := rand.Text()
	s.tokens[t] = scope
	return t
}

// machine is the metadata service of a virtual machine, and the endpoint of a Cloud Shell.
func (s *Server) machine(w http.ResponseWriter, r *http.Request, body []byte) {
	if r.Header.Get("Metadata") != "true" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	form, _ := url.ParseQuery(string(body))
	resource := r.URL.Query().Get("resource") + form.Get("resource")
	s.grants = append(s.grants, r.Method+" "+r.Host+" "+resource)
	write(w, map[string]string{
		"access_token": s.token(
			resource,
		), "token_type": "Bearer", "expires_in": "3599", "expires_on": "4102444800", "resource": resource,
	})
}

// bearer reports whether a request has a token for a service. part is a part of the token's scope.
func (s *Server) bearer(r *http.Request, part string) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && strings.Contains(s.tokens[token], part)
}

func (s *Server) manage(w http.ResponseWriter, r *http.Request) {
	want := "/subscriptions/" + Subscription + "/resourceGroups/" + Group +
		"/providers/Microsoft.Storage/storageAccounts/" + Account + "/listKeys"
	w.Header().Set("Content-Type", "application/json")
	switch {
	case !s.bearer(r, "management"):
		w.WriteHeader(http.StatusUnauthorized)
		write(
			w,
			map[string]any{"error": map[string]string{"code": "AuthenticationFailed",
				"message": "Authentication failed."}},
		)
	case r.URL.Path != want:
		w.WriteHeader(http.StatusNotFound)
		write(
			w,
			map[string]any{"error": map[string]string{"code": "ResourceNotFound",
				"message": "The resource was not found."}},
		)
	default:
		write(w, map[string]any{"keys": []map[string]string{{"keyName": "key1", "value": AccessKey}}})
	}
}

// allowed checks a signature, a token, or a shared access signature.
func (s *Server) allowed(r *http.Request, body []byte) bool {
	authorization := r.Header.Get("Authorization")
	if authorization == "" {
		want, _ := url.ParseQuery(strings.TrimPrefix(SAS, "?"))
		return r.URL.Query().Get("sig") == want.Get("sig")
	}
	if strings.HasPrefix(authorization, "Bearer ") {
		return s.bearer(r, "storage.azure.com")
	}
	key, _ := base64.StdEncoding.DecodeString(AccessKey)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(azure.StringToSign(Account, r.Method, r.URL, r.Header, len(body))))
	return authorization == "SharedKey "+Account+":"+base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("X-Ms-Error-Code", code)
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(
		w,
		"\ufeff<?xml version=\"1.0\" "+
			"encoding=\"utf-8\"?><Error><Code>%s</Code><Message>%s\nRequestId:1\nTime:2</Message></Error>",
		code,
		message,
	)
}

// storage handles requests about blobs.
func (s *Server) storage(w http.ResponseWriter, r *http.Request, body []byte) {
	if !s.allowed(r, body) {
		refuse(w, http.StatusForbidden, "AuthenticationFailed", "Server failed to authenticate the request.")
		return
	}
	container, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	blobs, ok := s.containers[container]
	query := r.URL.Query()
	switch {
	case !ok:
		refuse(w, http.StatusNotFound, "ContainerNotFound", "The specified container does not exist.")
		return
	case query.Get("restype") == "container":
		list(w, blobs, query)
		return
	}
	blob := blobs[name]
	comp := query.Get("comp")
	// A blob that does not exist can be created; all other requests for it fail.
	if blob == nil && !(r.Method == http.MethodPut && (comp == "" || strings.HasPrefix(comp, "block"))) {
		refuse(w, http.StatusNotFound, "BlobNotFound", "The specified blob does not exist.")
		return
	}
	lease := r.Header.Get("X-Ms-Lease-Id")
	if blob != nil && comp != "lease" {
		writes := r.Method == http.MethodPut && comp != "snapshot" || r.Method == http.MethodDelete
		switch {
		case lease != "" && blob.Lease == "":
			refuse(
				w,
				http.StatusPreconditionFailed,
				"LeaseNotPresentWithBlobOperation",
				"There is currently no lease on the blob.",
			)
			return
		case lease != "" && lease != blob.Lease:
			refuse(w, http.StatusPreconditionFailed, "LeaseIdMismatchWithBlobOperation", "The lease ID specified did "+
				"not match.")
			return
		case lease == "" && blob.Lease != "" && writes && r.Header.Get("If-None-Match") == "":
			refuse(w, http.StatusPreconditionFailed, "LeaseIdMissing", "There is currently a lease on the blob.")
			return
		}
	}
	key := r.Header.Get("X-Ms-Encryption-Key")
	if blob != nil && comp != "lease" && r.Method != http.MethodDelete && blob.Key != key &&
		(r.Method != http.MethodPut || comp != "") {
		refuse(
			w,
			http.StatusConflict,
			"BlobUsesCustomerSpecifiedEncryption",
			"The blob is encrypted with customer specified encryption.",
		)
		return
	}
	switch {
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		for k, v := range blob.Meta {
			w.Header().Set("X-Ms-Meta-"+k, v)
		}
		w.Header().Set("X-Ms-Lease-Status", "unlocked")
		if blob.Lease != "" {
			w.Header().Set("X-Ms-Lease-Status", "locked")
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(blob.Data)))
		if r.Method == http.MethodGet {
			_, _ = w.Write(blob.Data)
		}
	case r.Method == http.MethodDelete:
		if blob.Snapshots > 0 && r.Header.Get("X-Ms-Delete-Snapshots") != "include" {
			refuse(w, http.StatusConflict, "SnapshotsPresent", "This operation is not permitted because the blob has "+
				"snapshots.")
			return
		}
		delete(blobs, name)
		w.WriteHeader(http.StatusAccepted)
	case comp == "lease":
		s.lease(w, r, blob)
	case comp == "metadata":
		blob.Meta = metadata(r.Header)
	case comp == "snapshot":
		blob.Snapshots++
		w.WriteHeader(http.StatusCreated)
	case comp == "block":
		s.blocks[query.Get("blockid")] = body
		w.WriteHeader(http.StatusCreated)
	case blob != nil && r.Header.Get("If-None-Match") == "*":
		refuse(w, http.StatusConflict, "BlobAlreadyExists", "The specified blob already exists.")
	case comp == "" && r.Header.Get("X-Ms-Blob-Type") != "BlockBlob":
		refuse(w, http.StatusBadRequest, "MissingRequiredHeader", "An HTTP header that's mandatory is not specified.")
	default:
		n := &Blob{Data: body, Meta: metadata(r.Header), Key: key, Scope: r.Header.Get("X-Ms-Encryption-Scope")}
		n.ContentType = r.Header.Get("X-Ms-Blob-Content-Type")
		if comp == "blocklist" {
			var l struct{ Latest []string }
			if err := xml.Unmarshal(body, &l); err != nil {
				s.t.Errorf("a block list: %v", err)
			}
			n.Data = nil
			for _, id := range l.Latest {
				n.Data = append(n.Data, s.blocks[id]...)
			}
		}
		if blob != nil {
			n.Lease, n.Snapshots = blob.Lease, blob.Snapshots
		}
		blobs[name] = n
		w.WriteHeader(http.StatusCreated)
	}
}

// lease acquires and releases infinite leases.
func (s *Server) lease(w http.ResponseWriter, r *http.Request, blob *Blob) {
	id := r.Header.Get("X-Ms-Lease-Id")
	switch r.Header.Get("X-Ms-Lease-Action") {
	case "acquire":
		proposed := r.Header.Get("X-Ms-Proposed-Lease-Id")
		switch {
		case len(proposed) != 36:
			refuse(
				w,
				http.StatusBadRequest,
				"InvalidHeaderValue",
				"The value for one of the HTTP headers is not in the correct format.",
			)
		case blob.Lease != "" && blob.Lease != proposed:
			refuse(w, http.StatusConflict, "LeaseAlreadyPresent", "There is already a lease present.")
		default:
			blob.Lease = proposed
			w.Header().Set("X-Ms-Lease-Id", proposed)
			w.WriteHeader(http.StatusCreated)
		}
	case "release":
		if id == "" || id != blob.Lease {
			refuse(w, http.StatusConflict, "LeaseIdMismatchWithLeaseOperation", "The lease ID specified did not match.")
			return
		}
		blob.Lease = ""
	default:
		refuse(w, http.StatusBadRequest, "InvalidHeaderValue", "An unknown action.")
	}
}

func metadata(h http.Header) map[string]string {
	out := map[string]string{}
	for name, values := range h {
		if key, ok := strings.CutPrefix(strings.ToLower(name), "x-ms-meta-"); ok {
			out[key] = values[0]
		}
	}
	return out
}

// list lists the blobs of a container in pages of two, so that clients have to request several pages.
func list(w http.ResponseWriter, blobs map[string]*Blob, query url.Values) {
	type blob struct{ Name string }
	var answer struct {
		XMLName xml.Name `xml:"EnumerationResults"`
		Blobs   struct{ Blob []blob }
		// The service writes this element even if it is empty.
		NextMarker string
	}
	for _, name := range slices.Sorted(maps.Keys(blobs)) {
		if !strings.HasPrefix(name, query.Get("prefix")) || name <= query.Get("marker") {
			continue
		}
		if len(answer.Blobs.Blob) == 2 {
			answer.NextMarker = answer.Blobs.Blob[1].Name
			break
		}
		answer.Blobs.Blob = append(answer.Blobs.Blob, blob{name})
	}
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(answer)
}
