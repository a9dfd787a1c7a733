// Package alibaba is a fake of the calls that Millipede and OpenTofu make to Alibaba Cloud: its object store,
// TableStore, roles, endpoints of regions, and the metadata service of machines.
//
// It implements conditions of rows, and rejects requests with a wrong signature. It is written from the public
// documentation of the services, for these calls alone. Clients reach it through test/stage/clouds/intercept.
package alibaba

import (
	"encoding/binary"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/millipede-iac/millipede/internal/cloud/alibaba"
	"github.com/millipede-iac/millipede/test/stage/clouds/faults"
	"github.com/millipede-iac/millipede/test/stage/clouds/intercept"
)

// The names and credentials that the server accepts.
const (
	KeyID    = "LTAIexample"
	Secret   = "the secret of the key"
	RoleID   = "STS.role"
	RoleKey  = "the secret of the role"
	Token    = "the token of the role"
	Role     = "acs:ram::1:role/deploy"
	Machine  = "machine"
	Region   = "eu-central-1"
	Table    = "locks"
	TableURL = "https://instance." + Region + ".ots.aliyuncs.com"
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
	buckets  map[string]map[string]Object
	rows     map[string]map[string]string
	requests []string
	// failures are the statuses of the next responses of the store and the table, as of Fail.
	failures []int
}

// New starts a server with buckets, and the table Table.
func New(t testing.TB, buckets ...string) *Server {
	s := &Server{t: t, buckets: map[string]map[string]Object{}, rows: map[string]map[string]string{}}
	for _, b := range buckets {
		s.buckets[b] = map[string]Object{}
	}
	s.Proxy = intercept.New(t, s.Faults.Before(s))
	return s
}

// Plain returns the URL of TableStore with http and an IP address. OpenTofu's client for it does not use the proxy, so
// it cannot reach the fake under the service's name.
func (s *Server) Plain() string {
	server := httptest.NewServer(s.Faults.Before(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			s.t.Errorf("reading a request: %v", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests = append(s.requests, r.Method+" "+r.Host+" "+r.URL.RequestURI())
		s.table(w, r, body)
	})))
	s.t.Cleanup(server.Close)
	return server.URL
}

// Fail sets the statuses of the next responses. A request with the status 0 is executed. A request with a negative
// status is executed, and the response has the absolute value instead of the result.
func (s *Server) Fail(statuses ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = statuses
}

// Requests returns the requests until now, as "METHOD HOST PATH?QUERY".
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Object returns a stored object.
func (s *Server) Object(bucket, name string) (Object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.buckets[bucket][name]
	return o, ok
}

// Put stores an object, like another client.
func (s *Server) Put(bucket, name string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buckets[bucket][name] = Object{Data: data}
}

// Row returns a row of the table.
func (s *Server) Row(key string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.rows[key])
}

// SetRow writes a row, like another client; nil removes it.
func (s *Server) SetRow(key string, row map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if row == nil {
		delete(s.rows, key)
		return
	}
	s.rows[key] = row
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Errorf("reading a request: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+r.Host+" "+r.URL.RequestURI())
	host, _, _ := strings.Cut(r.Host, ":")
	first, rest, _ := strings.Cut(host, ".")
	store, table := strings.HasPrefix(rest, "oss-"), strings.Contains(rest, ".ots.")
	if (store || table) && len(s.failures) > 0 {
		status := s.failures[0]
		s.failures = s.failures[1:]
		if status < 0 {
			s.answer(discard{http.Header{}}, r, body, first, store, table)
			status = -status
		}
		if status != 0 {
			w.WriteHeader(status)
			return
		}
	}
	s.answer(w, r, body, first, store, table)
}

type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, body []byte, first string, store, table bool) {
	switch {
	case store:
		s.store(w, r, body, first)
	case table:
		s.table(w, r, body)
	case first == "sts" || first == "location-readonly":
		s.rpc(w, r, first)
	case strings.HasPrefix(r.Host, "100.100.100.200"):
		if r.URL.Path != "/latest/meta-data/ram/security-credentials/"+Machine {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(credentials("Code", "Success"))
	default:
		http.Error(w, "no such host", http.StatusBadGateway)
	}
}

func credentials(pairs ...string) map[string]string {
	out := map[string]string{
		"AccessKeyId": RoleID, "AccessKeySecret": RoleKey, "SecurityToken": Token,
		"Expiration": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
	}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
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

func (s *Server) rpc(w http.ResponseWriter, r *http.Request, service string) {
	query := r.URL.Query()
	key := secret(query.Get("AccessKeyId"), query.Get("SecurityToken"))
	text := alibaba.QueryString(r.Method, query)
	switch {
	case key == "" || query.Get("Signature") != alibaba.Mac(key+"&", text):
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"Code":"SignatureDoesNotMatch","Message":"The signature is not the one of this server."}`)
	case service == "location-readonly" && query.Get("Id") == Region:
		fmt.Fprintf(w, `{"Endpoints":{"Endpoint":[{"Type":"innerAPI","Endpoint":"oss-%s-internal.aliyuncs.com"},`+
			`{"Type":"openAPI","Endpoint":"oss-%[1]s.aliyuncs.com"}]}}`, Region)
	case service == "sts" && query.Get("RoleArn") == Role:
		_ = json.NewEncoder(w).Encode(map[string]any{"Credentials": credentials()})
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"Code":"EntityNotExist.Role","Message":"The role does not exist."}`)
	}
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>refused</Message></Error>`,
		code)
}

// store handles requests about the objects of a bucket.
func (s *Server) store(w http.ResponseWriter, r *http.Request, body []byte, name string) {
	id, signature, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "OSS "), ":")
	key := secret(id, r.Header.Get("X-Oss-Security-Token"))
	path := r.URL.Path
	if r.URL.Query().Has("objectMeta") {
		path += "?objectMeta"
	}
	if key == "" || signature != alibaba.Mac(key, alibaba.ObjectString(r.Method, r.Header, name, path)) {
		refuse(w, http.StatusForbidden, "SignatureDoesNotMatch")
		return
	}
	bucket, ok := s.buckets[name]
	if !ok {
		refuse(w, http.StatusNotFound, "NoSuchBucket")
		return
	}
	object := strings.TrimPrefix(r.URL.Path, "/")
	o, there := bucket[object]
	switch {
	case object == "":
		list(w, bucket, r.URL.Query())
	case r.Method == http.MethodPut:
		bucket[object] = Object{Data: body, Header: r.Header.Clone()}
	case r.Method == http.MethodDelete:
		delete(bucket, object)
		w.WriteHeader(http.StatusNoContent)
	case !there:
		refuse(w, http.StatusNotFound, "NoSuchKey")
	default:
		_, _ = w.Write(o.Data)
	}
}

// list lists the objects of a bucket in pages of two, so that clients have to request several pages.
func list(w http.ResponseWriter, bucket map[string]Object, query url.Values) {
	type content struct{ Key string }
	var answer struct {
		XMLName     xml.Name `xml:"ListBucketResult"`
		Contents    []content
		IsTruncated bool
		NextMarker  string `xml:",omitempty"`
	}
	for _, name := range slices.Sorted(maps.Keys(bucket)) {
		if !strings.HasPrefix(name, query.Get("prefix")) || name <= query.Get("marker") {
			continue
		}
		if len(answer.Contents) == 2 {
			answer.IsTruncated, answer.NextMarker = true, answer.Contents[1].Key
			break
		}
		answer.Contents = append(answer.Contents, content{name})
	}
	_ = xml.NewEncoder(w).Encode(answer)
}

func failed(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	m := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), code)
	_, _ = w.Write(protowire.AppendString(protowire.AppendTag(m, 2, protowire.BytesType), "refused"))
}

// instance is the first label of a host's name.
func instance(host string) string {
	name, _, _ := strings.Cut(host, ".")
	return name
}

// table handles requests about rows.
func (s *Server) table(w http.ResponseWriter, r *http.Request, body []byte) {
	h := r.Header
	key := secret(h.Get("X-Ots-Accesskeyid"), h.Get("X-Ots-Ststoken"))
	switch {
	case key == "" || h.Get("X-Ots-Signature") != alibaba.Mac(key, alibaba.TableString(r.URL.Path, h)):
		failed(w, http.StatusForbidden, "OTSAuthFailed")
		return
	case h.Get("X-Ots-Instancename") != instance(r.Host):
		failed(w, http.StatusForbidden, "OTSNoPermissionAccess")
		return
	}
	in := fields(s.t, body)
	if string(in[1]) != Table {
		failed(w, http.StatusNotFound, "OTSObjectNotExist")
		return
	}
	row, columns := cells(s.t, in[2])
	there, exists := s.rows[row]
	expect := byte(0)
	if r.URL.Path != "/GetRow" { // the third field of GetRow has the columns
		if condition := fields(s.t, in[3])[1]; len(condition) > 0 {
			expect = condition[0]
		}
	}
	if expect == 2 && exists || expect == 1 && !exists {
		failed(w, http.StatusForbidden, "OTSConditionCheckFail")
		return
	}
	unit := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1) // read, and written:
	unit = protowire.AppendVarint(protowire.AppendTag(unit, 2, protowire.VarintType), 0)
	capacity := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), unit)
	answer := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), capacity)
	switch r.URL.Path {
	case "/DescribeTable":
		answer = describe()
	case "/GetRow":
		answer = protowire.AppendTag(answer, 2, protowire.BytesType)
		answer = protowire.AppendBytes(answer, plain(row, there))
	case "/PutRow":
		s.rows[row] = columns
	case "/DeleteRow":
		delete(s.rows, row)
	default:
		failed(w, http.StatusBadRequest, "OTSUnsupportedOperation")
		return
	}
	_, _ = w.Write(answer)
}

// describe returns a description of the table with only the required fields.
func describe() []byte {
	tag := func(n protowire.Number, value []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), value)
	}
	number := func(n protowire.Number, value uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.VarintType), value)
	}
	primary := append(tag(1, []byte("LockID")), number(2, 2)...)
	meta := append(tag(1, []byte(Table)), tag(2, primary)...)
	capacity := append(number(1, 0), number(2, 0)...)
	details := append(tag(1, capacity), number(2, 1)...)
	options := slices.Concat(number(1, ^uint64(0)), number(2, 1), number(5, 86400))
	return slices.Concat(tag(1, meta), tag(2, details), tag(3, options), number(4, 1))
}

// fields returns the fields of a message: their bytes, or the first byte of a number. Of a repeated field it returns
// the first value.
func fields(t testing.TB, m []byte) map[protowire.Number][]byte {
	out := map[protowire.Number][]byte{}
	for len(m) > 0 {
		n, kind, size := protowire.ConsumeTag(m)
		if size < 0 {
			t.Errorf("reading a message: %v", protowire.ParseError(size))
			return out
		}
		m = m[size:]
		size = protowire.ConsumeFieldValue(n, kind, m)
		if size < 0 {
			t.Errorf("reading a message: %v", protowire.ParseError(size))
			return out
		}
		value := m[:size]
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(m)
		}
		if _, ok := out[n]; !ok {
			out[n] = value
		}
		m = m[size:]
	}
	return out
}

// sum returns TableStore's checksum of eight bits.
func sum(crc byte, data []byte) byte {
	for _, b := range data {
		crc ^= b
		for range 8 {
			high := crc&0x80 != 0
			crc <<= 1
			if high {
				crc ^= 0x07
			}
		}
	}
	return crc
}

// cells decodes a row whose values are all texts, and checks its checksums.
func cells(t testing.TB, row []byte) (key string, columns map[string]string) {
	columns = map[string]string{}
	if len(row) == 0 {
		return "", columns
	}
	defer func() {
		if recover() != nil {
			t.Errorf("this is not a row: %x", row)
		}
	}()
	u32 := func(at int) int { return int(binary.LittleEndian.Uint32(row[at:])) }
	total, at, data := byte(0), 4, false
	for {
		switch row[at] {
		case 1:
			at++
			continue
		case 2:
			data = true
			at++
			continue
		case 8:
			if want := sum(total, []byte{1}); row[at+2] != want {
				t.Errorf("the check sum of the row is %d, want %d", row[at+2], want)
			}
			return key, columns
		case 9:
			if want := sum(total, []byte{0}); row[at+1] != want {
				t.Errorf("the check sum of the row is %d, want %d", row[at+1], want)
			}
			return key, columns
		}
		n := u32(at + 2) // after the tags of the cell and its name
		name := row[at+6 : at+6+n]
		at += 6 + n + 1 + 4 // the tag and the length of the value
		size := u32(at + 1)
		value := row[at+5 : at+5+size]
		cell := sum(sum(0, name), row[at:at+5+size])
		at += 5 + size
		if row[at] != 10 || row[at+1] != cell {
			t.Errorf("the check sum of the cell %q is %d, want %d", name, row[at+1], cell)
		}
		at += 2
		total = sum(total, []byte{cell})
		if data {
			columns[string(name)] = string(value)
		} else {
			key = string(value)
		}
	}
}

// plain encodes a row; it returns nothing if columns is nil.
func plain(key string, columns map[string]string) []byte {
	if columns == nil {
		return nil
	}
	u32 := func(n int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(n)) }
	total := byte(0)
	cell := func(name, value string, stamp bool) []byte {
		text := slices.Concat([]byte{3}, u32(len(value)), []byte(value))
		crc := sum(sum(0, []byte(name)), text)
		out := slices.Concat([]byte{3, 4}, u32(len(name)), []byte(name), []byte{5}, u32(len(text)), text)
		if stamp { // the time at which the column was written
			at := binary.LittleEndian.AppendUint64(nil, 1790000000000)
			out, crc = slices.Concat(out, []byte{7}, at), sum(crc, at)
		}
		total = sum(total, []byte{crc})
		return append(out, 10, crc)
	}
	out := slices.Concat(u32(0x75), []byte{1}, cell("LockID", key, false), []byte{2})
	for _, name := range slices.Sorted(maps.Keys(columns)) {
		out = append(out, cell(name, columns[name], true)...)
	}
	return append(out, 9, sum(total, []byte{0}))
}
