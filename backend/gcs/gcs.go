// Package gcs stores snapshots in a bucket of Google Cloud Storage, or of a compatible service, compatible
// with OpenTofu's backend "gcs".
//
// A workspace is an object. It is locked by a second object, whose generation is the ID of the lock.
package gcs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"

	"github.com/millipede-iac/millipede/backend/bucket"
	"github.com/millipede-iac/millipede/internal/cloud/call"
	"github.com/millipede-iac/millipede/internal/cloud/google"
)

// driver sends the requests about objects and locks.
type driver struct {
	client    *google.Client
	transport *http.Transport
	// api and upload are the addresses of the bucket's objects in the JSON API, without a slash at the end.
	api, upload string

	bucket, prefix, kmsKey string
	// customerKey are the headers of a customer's key: they are sent with every call about a state, never about a
	// lock.
	customerKey http.Header
}

// Close implements bucket.Driver.
func (d *driver) Close() { d.transport.CloseIdleConnections() }

// customerKey returns the headers that transmit a key.
func customerKey(raw []byte) http.Header {
	sum := sha256.Sum256(raw)
	return http.Header{
		"X-Goog-Encryption-Algorithm":  {"AES256"},
		"X-Goog-Encryption-Key":        {base64.StdEncoding.EncodeToString(raw)},
		"X-Goog-Encryption-Key-Sha256": {base64.StdEncoding.EncodeToString(sum[:])},
	}
}

// locate determines the addresses of the bucket's objects. Uploads use another path of the same host.
func (d *driver) locate(custom string) error {
	if custom == "" {
		custom = d.client.Endpoint("storage") + "/storage/v1/"
	}
	u, err := url.Parse(custom)
	if err != nil || u.Host == "" {
		return fmt.Errorf("the address %q is not a valid URL", custom)
	}
	objects := "/b/" + url.PathEscape(d.bucket) + "/o"
	d.api = u.Scheme + "://" + u.Host + strings.TrimSuffix(u.EscapedPath(), "/") + objects
	d.upload = u.Scheme + "://" + u.Host + "/upload/storage/v1" + objects
	return nil
}

// The ends of the names of states and of their locks.
const (
	stateEnd = ".tfstate"
	lockEnd  = ".tflock"
)

// names returns the names of the objects of workspaces.
func (d *driver) names() bucket.Names {
	return bucket.Names{
		Prefix: d.prefix, Suffix: stateEnd, Object: func(workspace string) string { return d.prefix + workspace + stateEnd },
	}
}

// lockObject returns the name of the lock of a state.
func lockObject(state string) string { return strings.TrimSuffix(state, stateEnd) + lockEnd }

// Where implements bucket.Driver.
func (d *driver) Where(object string) string { return "gs://" + d.bucket + "/" + object }

// ask sends a request about an object. A missing bucket is a special error.
func (d *driver) ask(ctx context.Context, method, object string, query url.Values, header http.Header) (
	*call.Response, error) {
	address := d.api
	if object != "" {
		address += "/" + url.PathEscape(object)
	}
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	answer, err := d.client.Do(ctx, call.Request{Method: method, URL: address, Header: header})
	return answer, d.explain(err)
}

// errNoBucket means that the bucket is missing, not only an object in it.
var errNoBucket = errors.New("it does not exist; Millipede does not create it")

func (d *driver) explain(err error) error {
	var e *call.Error
	if errors.As(err, &e) && e.Status == http.StatusNotFound &&
		(e.Code == "NoSuchBucket" || strings.Contains(e.Message, "bucket does not exist")) {
		return fmt.Errorf("the bucket %q: %w", d.bucket, errNoBucket)
	}
	return err
}

// missing reports whether an error means that there is no such object.
func missing(err error) bool { return call.IsStatus(err, http.StatusNotFound) }

// get reads an object, of a generation unless that is empty; nil if there is none.
func (d *driver) get(ctx context.Context, object, generation string, header http.Header) ([]byte, error) {
	query := url.Values{"alt": {"media"}}
	if generation != "" {
		query.Set("generation", generation)
	}
	answer, err := d.ask(ctx, http.MethodGet, object, query, header)
	switch {
	case missing(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	want := storedSum(answer.Header)
	if want != "" && want != checksum(answer.Body) {
		return nil, fmt.Errorf("the object %s does not have the check sum %s that the service has for it",
			d.Where(object), want)
	}
	if answer.Body == nil {
		return []byte{}, nil
	}
	return answer.Body, nil
}

// storedSum returns the service's checksum of the stored content; empty if there is none.
func storedSum(h http.Header) string {
	if h.Get("X-Goog-Stored-Content-Encoding") == "gzip" {
		return "" // it is not the checksum of the transmitted bytes
	}
	for _, line := range h.Values("X-Goog-Hash") {
		for _, part := range strings.Split(line, ",") {
			if sum, ok := strings.CutPrefix(strings.TrimSpace(part), "crc32c="); ok {
				return sum
			}
		}
	}
	return ""
}

// checksum returns the CRC32C of data in the service's form: base64 of four bytes, big endian.
func checksum(data []byte) string {
	sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

// contentType is the content type of OpenTofu's states and locks.
const contentType = "text/plain; charset=utf-8"

// put stores an object, and returns its generation.
func (d *driver) put(ctx context.Context, object string, query url.Values, header http.Header,
	data []byte) (string, error) {
	about, err := json.Marshal(map[string]string{
		"bucket": d.bucket, "name": object, "contentType": contentType, "crc32c": checksum(data),
	})
	if err != nil {
		return "", err
	}
	var body bytes.Buffer
	body.Grow(len(data) + len(about) + 1024)
	parts := multipart.NewWriter(&body)
	for _, part := range []struct {
		contentType string
		data        []byte
	}{{"application/json; charset=utf-8", about}, {contentType, data}} {
		w, err := parts.CreatePart(textproto.MIMEHeader{"Content-Type": {part.contentType}})
		if err == nil {
			_, err = w.Write(part.data)
		}
		if err != nil {
			return "", err
		}
	}
	if err := parts.Close(); err != nil {
		return "", err
	}
	all := header.Clone()
	if all == nil {
		all = http.Header{}
	}
	all.Set("Content-Type", "multipart/related; boundary="+parts.Boundary())
	query.Set("uploadType", "multipart")
	answer, err := d.client.Do(ctx, call.Request{
		Method: http.MethodPost, URL: d.upload + "?" + query.Encode(), Header: all, Body: body.Bytes(),
	})
	if err != nil {
		return "", d.explain(err)
	}
	return generation(answer)
}

// generation returns the generation of the object in a response.
func generation(answer *call.Response) (string, error) {
	var object struct{ Generation string }
	if err := json.Unmarshal(answer.Body, &object); err != nil {
		return "", fmt.Errorf("reading what the service says about the object: %w", err)
	}
	if n, err := strconv.ParseInt(object.Generation, 10, 64); err != nil || n <= 0 {
		return "", fmt.Errorf("the service says that the generation of the object is %q", object.Generation)
	}
	return object.Generation, nil
}

// Get implements bucket.Driver.
func (d *driver) Get(ctx context.Context, object string) ([]byte, error) {
	return d.get(ctx, object, "", d.customerKey)
}

// Put implements bucket.Driver.
func (d *driver) Put(ctx context.Context, object string, data []byte) error {
	return d.putState(ctx, object, url.Values{}, data)
}

// Create implements bucket.Creator.
func (d *driver) Create(ctx context.Context, object string, data []byte) error {
	err := d.putState(ctx, object, url.Values{"ifGenerationMatch": {"0"}}, data)
	if call.IsStatus(err, http.StatusPreconditionFailed) {
		return bucket.ErrExists
	}
	return err
}

func (d *driver) putState(ctx context.Context, object string, query url.Values, data []byte) error {
	if d.kmsKey != "" {
		query.Set("kmsKeyName", d.kmsKey)
	}
	_, err := d.put(ctx, object, query, d.customerKey, data)
	return err
}

// List implements bucket.Driver.
func (d *driver) List(ctx context.Context, prefix, page string) (names []string, next string, err error) {
	query := url.Values{"delimiter": {"/"}, "prefix": {prefix}, "fields": {"items(name),nextPageToken"}}
	if page != "" {
		query.Set("pageToken", page)
	}
	answer, err := d.ask(ctx, http.MethodGet, "", query, nil)
	if err != nil {
		return nil, "", err
	}
	var list struct {
		Items         []struct{ Name string }
		NextPageToken string
	}
	if err := json.Unmarshal(answer.Body, &list); err != nil {
		return nil, "", fmt.Errorf("reading the list of objects: %w", err)
	}
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	return names, list.NextPageToken, nil
}

// Delete implements bucket.Driver.
func (d *driver) Delete(ctx context.Context, object string) error {
	_, err := d.ask(ctx, http.MethodDelete, object, nil, d.customerKey)
	if missing(err) {
		return nil
	}
	return err
}
