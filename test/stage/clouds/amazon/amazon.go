// Package amazon is a fake of the calls that Millipede makes to Amazon Web Services: S3, DynamoDB, STS and KMS.
//
// It implements the services' conditions (If-None-Match, condition expressions), and rejects requests with a wrong
// signature. It is written from the public documentation of the services, for these calls alone.
package amazon

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/millipede-iac/millipede/test/stage/clouds/faults"
)

// The credentials that the server accepts.
const (
	AccessKey = "AKIDEXAMPLE"
	SecretKey = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	Account   = "123456789012"
)

// Object is a stored object.
type Object struct {
	Data   []byte
	Header http.Header // the headers of the request that stored it
}

// Server is a running server. It is closed at the end of the test.
type Server struct {
	*httptest.Server
	Faults faults.Faults

	t testing.TB

	mu       sync.Mutex // guards the fields below
	buckets  map[string]map[string]Object
	table    map[string]map[string]string // rows by LockID
	requests []string
	failures []int // statuses of the next responses; 0 executes the request
	hangs    bool
}

// New starts a server with buckets.
func New(t testing.TB, buckets ...string) *Server {
	s := &Server{t: t, buckets: map[string]map[string]Object{}, table: map[string]map[string]string{}}
	for _, b := range buckets {
		s.buckets[b] = map[string]Object{}
	}
	s.Server = httptest.NewServer(s.Faults.Before(s))
	t.Cleanup(s.Close)
	return s
}

// Requests returns the requests until now, as "METHOD PATH" or "OPERATION".
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

// Hang leaves all later requests without a response.
func (s *Server) Hang() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangs = true
}

// Object returns a stored object.
func (s *Server) Object(bucket, key string) (Object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.buckets[bucket][key]
	return o, ok
}

// Put stores an object, like another client.
func (s *Server) Put(bucket, key string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buckets[bucket][key] = Object{Data: data}
}

// Row returns a row of the table.
func (s *Server) Row(id string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table[id]
}

// SetRow writes a row with lock information into the table, like another client.
func (s *Server) SetRow(id string, info []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table[id] = map[string]string{"LockID": id, "Info": string(info)}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Errorf("reading a request: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	target := r.Header.Get("X-Amz-Target")
	what := r.Method + " " + r.URL.EscapedPath()
	if target != "" {
		what = target[strings.Index(target, ".")+1:]
	}
	s.requests = append(s.requests, what)
	if len(s.failures) > 0 {
		status := s.failures[0]
		s.failures = s.failures[1:]
		if status != 0 {
			w.WriteHeader(status)
			return
		}
	}
	if s.hangs {
		s.mu.Unlock()
		<-r.Context().Done()
		s.mu.Lock()
		return
	}
	if !s.signed(r, body) {
		refuse(w, http.StatusForbidden, "SignatureDoesNotMatch")
		return
	}
	switch {
	case strings.HasPrefix(target, "DynamoDB_"):
		s.dynamo(w, what, body)
	case strings.HasPrefix(target, "TrentService."):
		s.kms(w, what, body)
	case r.Method == http.MethodPost && strings.Contains(string(body), "Action=GetCallerIdentity"):
		fmt.Fprintf(w, `<GetCallerIdentityResponse><GetCallerIdentityResult><Account>%s</Account>`+
			`<Arn>arn:aws:iam::%[1]s:user/u</Arn><UserId>U</UserId>`+
			`</GetCallerIdentityResult></GetCallerIdentityResponse>`, Account)
	default:
		s.s3(w, r, body)
	}
}

// signed signs the request itself, and compares the signatures.
func (s *Server) signed(r *http.Request, body []byte) bool {
	authorization := r.Header.Get("Authorization")
	_, scope, ok := strings.Cut(authorization, "Credential=")
	parts := strings.Split(scope, "/")
	if !ok || len(parts) < 5 || parts[0] != AccessKey {
		return false
	}
	_, names, _ := strings.Cut(authorization, "SignedHeaders=")
	names, _, _ = strings.Cut(names, ",")
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil {
		return false
	}
	again, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+r.Host+r.URL.RequestURI(),
		bytes.NewReader(body))
	if err != nil {
		return false
	}
	for _, n := range strings.Split(names, ";") {
		if n != "host" && n != "content-length" {
			again.Header[http.CanonicalHeaderKey(n)] = r.Header[http.CanonicalHeaderKey(n)]
		}
	}
	sum := sha256.Sum256(body)
	err = v4.NewSigner().SignHTTP(r.Context(), sdk.Credentials{AccessKeyID: AccessKey, SecretAccessKey: SecretKey},
		again,
		hex.EncodeToString(sum[:]), parts[3], parts[2], at,
		func(o *v4.SignerOptions) { o.DisableURIPathEscaping = parts[3] == "s3" })
	return err == nil && again.Header.Get("Authorization") == authorization
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>refused</Message></Error>", code)
}

// s3 handles path-style requests.
func (s *Server) s3(w http.ResponseWriter, r *http.Request, body []byte) {
	name, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	bucket, ok := s.buckets[name]
	if !ok {
		refuse(w, http.StatusNotFound, "NoSuchBucket")
		return
	}
	object, exists := bucket[key]
	switch {
	case key == "" && r.Method == http.MethodGet:
		list(w, bucket, r.URL.Query())
	case r.Method == http.MethodGet && !exists:
		refuse(w, http.StatusNotFound, "NoSuchKey")
	case r.Method == http.MethodHead && !exists:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		const customer = "X-Amz-Server-Side-Encryption-Customer-Key"
		if object.Header.Get(customer) != r.Header.Get(customer) {
			refuse(w, http.StatusBadRequest, "InvalidRequest")
			return
		}
		if sum := object.Header.Get("X-Amz-Checksum-Sha256"); sum != "" {
			w.Header().Set("X-Amz-Checksum-Sha256", sum)
		}
		_, _ = w.Write(object.Data)
	case r.Method == http.MethodPut && r.Header.Get("If-None-Match") == "*" && exists:
		refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
	case r.Method == http.MethodPut:
		if want := r.Header.Get("X-Amz-Checksum-Sha256"); want != "" {
			if sum := sha256.Sum256(body); want != base64.StdEncoding.EncodeToString(sum[:]) {
				refuse(w, http.StatusBadRequest, "BadDigest")
				return
			}
		}
		bucket[key] = Object{Data: body, Header: r.Header.Clone()}
	case r.Method == http.MethodDelete:
		delete(bucket, key)
		w.WriteHeader(http.StatusNoContent)
	}
}

// list handles ListObjectsV2, in pages of two, so that clients have to request several pages.
func list(w http.ResponseWriter, bucket map[string]Object, query url.Values) {
	type content struct{ Key string }
	var answer struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		Contents              []content
		NextContinuationToken string `xml:",omitempty"`
	}
	var keys []string
	for k := range bucket {
		if strings.HasPrefix(k, query.Get("prefix")) && k > query.Get("continuation-token") {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for i, k := range keys {
		if i == 2 {
			answer.NextContinuationToken = keys[1]
			break
		}
		answer.Contents = append(answer.Contents, content{k})
	}
	_ = xml.NewEncoder(w).Encode(answer)
}

// dynamo handles the calls on one table, whose key is LockID. It knows only the conditions that locks use.
func (s *Server) dynamo(w http.ResponseWriter, operation string, body []byte) {
	type attribute struct{ S string }
	var in struct {
		Item, Key, ExpressionAttributeValues map[string]attribute
		ConditionExpression                  string
	}
	if err := json.Unmarshal(body, &in); err != nil {
		s.t.Errorf("%s: %v", operation, err)
	}
	id := in.Key["LockID"].S + in.Item["LockID"].S
	there := s.table[id]
	fail := func() {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",`+
			`"message":"The conditional request failed"}`)
	}
	switch operation {
	case "PutItem":
		if in.ConditionExpression == "attribute_not_exists(LockID)" && there != nil {
			fail()
			return
		}
		s.table[id] = map[string]string{}
		for k, v := range in.Item {
			s.table[id][k] = v.S
		}
		fmt.Fprint(w, "{}")
	case "GetItem":
		answer := map[string]map[string]attribute{}
		if there != nil {
			answer["Item"] = map[string]attribute{}
			for k, v := range there {
				answer["Item"][k] = attribute{v}
			}
		}
		_ = json.NewEncoder(w).Encode(answer)
	case "DeleteItem":
		if in.ConditionExpression == "Info = :info" &&
			(there == nil || there["Info"] != in.ExpressionAttributeValues[":info"].S) {
			fail()
			return
		}
		delete(s.table, id)
		fmt.Fprint(w, "{}")
	default:
		w.WriteHeader(http.StatusBadRequest)
	}
}

// kms wraps data keys: it does not encrypt them, but inverts their bits.
func (s *Server) kms(w http.ResponseWriter, operation string, body []byte) {
	var in struct{ KeyId, KeySpec, CiphertextBlob string } //nolint:staticcheck // the service's names
	if err := json.Unmarshal(body, &in); err != nil {
		s.t.Errorf("%s: %v", operation, err)
	}
	invert := func(b []byte) []byte {
		out := make([]byte, len(b))
		for i := range b {
			out[i] = b[i] ^ 0xff
		}
		return out
	}
	switch operation {
	case "GenerateDataKey":
		size := 32
		if in.KeySpec == "AES_128" {
			size = 16
		}
		sum := sha256.Sum256([]byte(fmt.Sprint(len(s.requests))))
		key := sum[:size]
		_ = json.NewEncoder(w).Encode(map[string][]byte{"Plaintext": key, "CiphertextBlob": invert(key)})
	case "Decrypt":
		blob, err := base64.StdEncoding.DecodeString(in.CiphertextBlob)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"__type":"InvalidCiphertextException"}`)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string][]byte{"Plaintext": invert(blob)})
	default:
		w.WriteHeader(http.StatusBadRequest)
	}
}
