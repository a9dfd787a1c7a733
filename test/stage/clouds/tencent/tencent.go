// Package tencent is a fake of the calls that Millipede and OpenTofu make to Tencent Cloud: its object store, tags, and
// roles.
//
// It rejects requests with a wrong signature. It is written from the public documentation of the services, for these
// calls alone. Clients reach it through test/stage/clouds/intercept.
package tencent

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"hash/crc64"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/internal/cloud/tencent"
	"github.com/millipede-iac/millipede/test/stage/clouds/faults"
	"github.com/millipede-iac/millipede/test/stage/clouds/intercept"
)

// The names and credentials that the server accepts.
const (
	KeyID   = "AKIDexample"
	Secret  = "the secret of the key"
	RoleID  = "AKIDrole"
	RoleKey = "the secret of the role"
	Token   = "the token of the role"
	Role    = "qcs::cam::uin/1:roleName/deploy"
	Bucket  = "states-1250000000"
	Region  = "ap-guangzhou"
)

// Object is a stored object.
type Object struct {
	Data   []byte
	Header http.Header // the headers of the request that stored it
}

// Server is a running server. It is closed at the end of the test.
type Server struct {
	*intercept.Proxy
	Faults faults.Faults

	t testing.TB

	mu       sync.Mutex // guards the fields below
	objects  map[string]Object
	tags     map[string]bool // the values of the tags that exist
	requests []string
	failures []int
}

// New starts a server with the bucket Bucket.
func New(t testing.TB) *Server {
	s := &Server{t: t, objects: map[string]Object{}, tags: map[string]bool{}}
	s.Proxy = intercept.New(t, s.Faults.Before(s))
	return s
}

// Fail sets the statuses of the next responses. A request with the status 0 is executed. A request with a negative
// status is executed, and the response has the absolute value instead of the result.
func (s *Server) Fail(statuses ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = statuses
}

// Requests returns the requests until now, as "METHOD HOST PATH?QUERY OPERATION".
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Object returns a stored object.
func (s *Server) Object(name string) (Object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[name]
	return o, ok
}

// Put stores an object, like another client; with nil data it deletes the object.
func (s *Server) Put(name string, data []byte, sum string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if data == nil {
		delete(s.objects, name)
		return
	}
	s.objects[name] = Object{Data: data, Header: http.Header{"X-Cos-Meta-Md5": {sum}}}
}

// Tags returns the values of all tags.
func (s *Server) Tags() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.tags))
}

// SetTag creates a tag, like another client.
func (s *Server) SetTag(value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tags[value] = true
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Errorf("reading a request: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+r.Host+" "+r.URL.RequestURI()+" "+r.Header.Get("X-Tc-Action"))
	if len(s.failures) > 0 {
		status := s.failures[0]
		s.failures = s.failures[1:]
		if status < 0 {
			s.answer(discard{http.Header{}}, r, body)
			status = -status
		}
		if status != 0 {
			w.WriteHeader(status)
			return
		}
	}
	s.answer(w, r, body)
}

type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, body []byte) {
	host, _, _ := strings.Cut(r.Host, ":")
	bucket, rest, _ := strings.Cut(host, ".")
	switch {
	case rest == "cos."+Region+".myqcloud.com" || rest == "cos.accelerate.myqcloud.com":
		s.store(w, r, body, bucket)
	case strings.HasSuffix(host, ".tencentcloudapi.com"):
		s.api(w, r, body)
	default:
		http.Error(w, "no such host", http.StatusBadGateway)
	}
}

// secret returns the secret of a key; the request must also have the token of the key.
func secret(id, token string) string {
	switch {
	case id == KeyID && token == "":
		return Secret
	case id == RoleID && token == Token:
		return RoleKey
	}
	return ""
}

// api handles requests about tags and roles.
func (s *Server) api(w http.ResponseWriter, r *http.Request, body []byte) {
	service, _, _ := strings.Cut(r.Host, ".")
	_, id, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	id, _, _ = strings.Cut(id, "/")
	key := secret(id, r.Header.Get("X-Tc-Token"))
	host, _, _ := strings.Cut(r.Host, ":")
	if key == "" || tencent.APIAuthorization(host, r.Header, body, service, id, key) != r.Header.Get("Authorization") {
		fail(w, "AuthFailure.SignatureFailure")
		return
	}
	var in struct{ TagKey, TagValue, RoleArn, Policy string }
	if err := json.Unmarshal(body, &in); err != nil {
		s.t.Errorf("decoding a request: %v", err)
	}
	switch operation := r.Header.Get("X-Tc-Action"); {
	case operation == "CreateTag" && s.tags[in.TagValue]:
		fail(w, "ResourceInUse.TagDuplicate")
	case operation == "CreateTag":
		s.tags[in.TagValue] = true
		answer(w, map[string]any{})
	case operation == "DescribeTags" && s.tags[in.TagValue]:
		answer(w, map[string]any{"Tags": []map[string]any{{"TagKey": in.TagKey, "TagValue": in.TagValue,
			"CanDelete": 1}}})
	case operation == "DescribeTags":
		answer(w, map[string]any{"Tags": []any{}})
	case operation == "DeleteTag" && !s.tags[in.TagValue]:
		fail(w, "ResourceNotFound.TagNonExist")
	case operation == "DeleteTag":
		delete(s.tags, in.TagValue)
		answer(w, map[string]any{})
	case operation == "AssumeRole" && in.RoleArn == Role:
		answer(w, map[string]any{
			"Credentials": map[string]string{"TmpSecretId": RoleID, "TmpSecretKey": RoleKey, "Token": Token},
			"ExpiredTime": s.Faults.Now().Add(time.Hour).Unix(),
		})
	default:
		fail(w, "InvalidParameter.RoleNotExist")
	}
}

func answer(w http.ResponseWriter, v map[string]any) {
	v["RequestId"] = "1"
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"Response": v})
}

func fail(w http.ResponseWriter, code string) {
	answer(w, map[string]any{"Error": map[string]string{"Code": code, "Message": "refused"}})
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>refused</Message></Error>`,
		code)
}

// signed signs the request itself, and compares the signatures.
func (s *Server) signed(r *http.Request) bool {
	parts, err := url.ParseQuery(strings.ReplaceAll(r.Header.Get("Authorization"), ";", "%3B"))
	if err != nil {
		return false
	}
	id, during := parts.Get("q-ak"), parts.Get("q-sign-time")
	key := secret(id, r.Header.Get("X-Cos-Security-Token"))
	var from, to int64
	if _, err := fmt.Sscanf(during, "%d;%d", &from, &to); key == "" || err != nil {
		return false
	}
	if now := s.Faults.Now().Unix(); now < from || now > to {
		return false
	}
	h := r.Header.Clone()
	h.Set("Host", r.Host)
	h.Set("Content-Length", fmt.Sprint(r.ContentLength))
	names := strings.Split(parts.Get("q-header-list"), ";")
	if !slices.Contains(names, "host") {
		return false
	}
	again := tencent.ObjectAuthorization(r.Method, r.URL, h, names, during, id, key)
	_, want, _ := strings.Cut(again, "q-signature=")
	return parts.Get("q-signature") == want
}

// store handles requests about objects.
func (s *Server) store(w http.ResponseWriter, r *http.Request, body []byte, bucket string) {
	if !s.signed(r) {
		refuse(w, http.StatusForbidden, "SignatureDoesNotMatch")
		return
	}
	if bucket != Bucket {
		refuse(w, http.StatusNotFound, "NoSuchBucket")
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	o, there := s.objects[name]
	sum := func(data []byte) { // clients check this checksum
		w.Header().Set("X-Cos-Hash-Crc64ecma", fmt.Sprint(crc64.Checksum(data, crc64.MakeTable(crc64.ECMA))))
	}
	switch {
	case name == "":
		list(w, s.objects, r.URL.Query())
	case r.Method == http.MethodPut:
		s.objects[name] = Object{Data: body, Header: r.Header.Clone()}
		sum(body)
	case r.Method == http.MethodDelete:
		delete(s.objects, name)
		w.WriteHeader(http.StatusNoContent)
	case !there:
		refuse(w, http.StatusNotFound, "NoSuchKey")
	default:
		sum(o.Data)
		w.Header().Set("X-Cos-Meta-Md5", o.Header.Get("X-Cos-Meta-Md5"))
		_, _ = w.Write(o.Data)
	}
}

// list lists the objects. A request with max-keys gets pages of two, so that clients have to request several pages.
func list(w http.ResponseWriter, objects map[string]Object, query url.Values) {
	type content struct{ Key string }
	var answer struct {
		XMLName     xml.Name `xml:"ListBucketResult"`
		Contents    []content
		IsTruncated bool
		NextMarker  string `xml:",omitempty"`
	}
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		if !strings.HasPrefix(name, query.Get("prefix")) || name <= query.Get("marker") {
			continue
		}
		// OpenTofu does not send max-keys, and reads only one page.
		if len(answer.Contents) == 2 && query.Has("max-keys") {
			answer.IsTruncated, answer.NextMarker = true, answer.Contents[1].Key
			break
		}
		answer.Contents = append(answer.Contents, content{name})
	}
	_ = xml.NewEncoder(w).Encode(answer)
}
