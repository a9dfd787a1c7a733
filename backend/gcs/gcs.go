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
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/internal/cloud/call"
	"github.com/millipede-iac/millipede/internal/cloud/google"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/tfstate"
)

type store struct {
	session *google.Session
	// api and upload are the addresses of the bucket's objects in the JSON API, without a slash at the end.
	api, upload string

	bucket, prefix, kmsKey string
	// customerKey are the headers of a customer's key: they are sent with every call about a state, never about a
	// lock.
	customerKey http.Header

	transport  *http.Transport
	watches    backend.Watches
	watchEvery time.Duration
}

// Close closes the connections. Locks are kept.
func (b *store) Close() error {
	b.watches.Close()
	b.transport.CloseIdleConnections()
	return nil
}

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
func (b *store) locate(custom string) error {
	if custom == "" {
		custom = b.session.Endpoint("storage") + "/storage/v1/"
	}
	u, err := url.Parse(custom)
	if err != nil || u.Host == "" {
		return fmt.Errorf("the address %q is not a valid URL", custom)
	}
	objects := "/b/" + url.PathEscape(b.bucket) + "/o"
	b.api = u.Scheme + "://" + u.Host + strings.TrimSuffix(u.EscapedPath(), "/") + objects
	b.upload = u.Scheme + "://" + u.Host + "/upload/storage/v1" + objects
	return nil
}

func (b *store) stateObject(workspace string) string { return b.prefix + workspace + ".tfstate" }

func (b *store) lockObject(workspace string) string { return b.prefix + workspace + ".tflock" }

func (b *store) where(object string) string { return "gs://" + b.bucket + "/" + object }

// Describe implements snapshot.Backend.
func (b *store) Describe(workspace string) backend.Description {
	return backend.Description{Where: b.where(b.stateObject(workspace)), Form: tfstate.Compact}
}

// ask sends a request about an object. A missing bucket is a special error.
func (b *store) ask(ctx context.Context, method, object string, query url.Values, header http.Header) (
	*call.Response, error) {
	address := b.api
	if object != "" {
		address += "/" + url.PathEscape(object)
	}
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	answer, err := b.session.Do(ctx, call.Request{Method: method, URL: address, Header: header})
	return answer, b.explain(err)
}

// errNoBucket means that the bucket is missing, not only an object in it.
var errNoBucket = errors.New("it does not exist; Millipede does not create it")

func (b *store) explain(err error) error {
	var e *call.Error
	if errors.As(err, &e) && e.Status == http.StatusNotFound &&
		(e.Code == "NoSuchBucket" || strings.Contains(e.Message, "bucket does not exist")) {
		return fmt.Errorf("the bucket %q: %w", b.bucket, errNoBucket)
	}
	return err
}

// missing reports whether an error means that there is no such object.
func missing(err error) bool { return call.IsStatus(err, http.StatusNotFound) }

// get reads an object, of a generation unless that is empty; nil if there is none.
func (b *store) get(ctx context.Context, object, generation string, header http.Header) ([]byte, error) {
	query := url.Values{"alt": {"media"}}
	if generation != "" {
		query.Set("generation", generation)
	}
	answer, err := b.ask(ctx, http.MethodGet, object, query, header)
	switch {
	case missing(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	want := storedSum(answer.Header)
	if want != "" && want != checksum(answer.Body) {
		return nil, fmt.Errorf("the object %s does not have the check sum %s that the service has for it",
			b.where(object), want)
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
func (b *store) put(ctx context.Context, object string, query url.Values, header http.Header,
	data []byte) (string, error) {
	about, err := json.Marshal(map[string]string{
		"bucket": b.bucket, "name": object, "contentType": contentType, "crc32c": checksum(data),
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
	answer, err := b.session.Do(ctx, call.Request{
		Method: http.MethodPost, URL: b.upload + "?" + query.Encode(), Header: all, Body: body.Bytes(),
	})
	if err != nil {
		return "", b.explain(err)
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

// Read implements snapshot.Backend.
func (b *store) Read(ctx context.Context, workspace string) ([]byte, error) {
	return b.get(ctx, b.stateObject(workspace), "", b.customerKey)
}

// Write implements snapshot.Backend.
func (b *store) Write(ctx context.Context, workspace string, data []byte) error {
	return b.write(ctx, workspace, url.Values{}, data)
}

func (b *store) write(ctx context.Context, workspace string, query url.Values, data []byte) error {
	if b.kmsKey != "" {
		query.Set("kmsKeyName", b.kmsKey)
	}
	_, err := b.put(ctx, b.stateObject(workspace), query, b.customerKey, data)
	return err
}

// Workspaces implements snapshot.Backend.
func (b *store) Workspaces(ctx context.Context) ([]string, error) {
	names := []string{journal.DefaultWorkspace}
	query := url.Values{"delimiter": {"/"}, "prefix": {b.prefix}, "fields": {"items(name),nextPageToken"}}
	for {
		answer, err := b.ask(ctx, http.MethodGet, "", query, nil)
		if err != nil {
			return nil, err
		}
		var page struct {
			Items         []struct{ Name string }
			NextPageToken string
		}
		if err := json.Unmarshal(answer.Body, &page); err != nil {
			return nil, fmt.Errorf("reading the list of objects: %w", err)
		}
		for _, item := range page.Items {
			rest, ok := strings.CutPrefix(item.Name, b.prefix)
			name, state := strings.CutSuffix(rest, ".tfstate")
			if ok && state && name != "" && name != journal.DefaultWorkspace {
				names = append(names, name)
			}
		}
		if page.NextPageToken == "" || page.NextPageToken == query.Get("pageToken") {
			break
		}
		query.Set("pageToken", page.NextPageToken)
	}
	slices.Sort(names[1:])
	return slices.Compact(names), nil
}

// Create implements snapshot.Backend. It stores an empty state, as OpenTofu does, unless the object exists by then:
// the service compares, so no lock is needed. The default workspace exists in any case.
func (b *store) Create(ctx context.Context, workspace string) error {
	if workspace == journal.DefaultWorkspace {
		return nil
	}
	data, err := backend.EmptyState()
	if err != nil {
		return err
	}
	err = b.write(ctx, workspace, url.Values{"ifGenerationMatch": {"0"}}, data)
	if call.IsStatus(err, http.StatusPreconditionFailed) {
		return nil
	}
	return err
}

// Delete implements snapshot.Backend. A workspace that does not exist is not an error.
func (b *store) Delete(ctx context.Context, workspace string) error {
	if workspace == journal.DefaultWorkspace || workspace == "" {
		return backend.ErrDefault
	}
	_, err := b.ask(ctx, http.MethodDelete, b.stateObject(workspace), nil, b.customerKey)
	if missing(err) {
		return nil
	}
	return err
}
