// Package s3 stores snapshots in a bucket of Amazon S3, or of a compatible service, compatible with OpenTofu's
// backend "s3".
//
// A workspace is an object. It is locked by a second object, by an item in a DynamoDB table, or by both.
package s3

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/internal/cloud/aws"
	"github.com/millipede-iac/millipede/internal/cloud/call"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/tfstate"
)

type store struct {
	session *aws.Session
	address *url.URL // of the bucket

	bucket, key, prefix, acl string
	stateTags, lockTags      string
	checksum                 bool
	// putHeaders are sent when storing, keyHeaders with all requests about a state: a customer's key.
	putHeaders, keyHeaders map[string]string

	lockFile             bool
	table, tableEndpoint string

	watches    backend.Watches
	watchEvery time.Duration
}

// Close closes the connections. Locks are kept.
func (b *store) Close() error {
	b.watches.Close()
	b.session.Close()
	return nil
}

// object returns the key of a workspace's state.
func (b *store) object(workspace string) string {
	if workspace == journal.DefaultWorkspace {
		return b.key
	}
	return path.Join(b.prefix, workspace, b.key)
}

// Describe implements snapshot.Backend.
func (b *store) Describe(workspace string) backend.Description {
	return backend.Description{
		Where: "s3://" + b.bucket + "/" + b.object(workspace), Form: tfstate.Compact, Unlockable: !b.lockFile &&
			b.table == "",
	}
}

// ask sends a request about an object; query may be nil.
func (b *store) ask(ctx context.Context, method, key string, query url.Values, header map[string]string,
	body []byte) (*call.Response, error) {
	h := http.Header{}
	for name, v := range header {
		h.Set(name, v)
	}
	u := *b.address
	if key != "" || u.Path == "" {
		u.Path += "/" + key
	}
	u.RawPath = aws.EscapePath(u.Path)
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20")
	return b.session.Do(ctx, "s3", call.Request{Method: method, URL: u.String(), Header: h, Body: body})
}

// readHeaders are the headers of a request that reads an object.
func (b *store) readHeaders() map[string]string {
	h := map[string]string{}
	for k, v := range b.keyHeaders {
		h[k] = v
	}
	if b.checksum {
		h["X-Amz-Checksum-Mode"] = "ENABLED"
	}
	return h
}

// get reads an object; nil if there is none.
func (b *store) get(ctx context.Context, key string) ([]byte, error) {
	answer, err := b.ask(ctx, http.MethodGet, key, nil, b.readHeaders(), nil)
	switch {
	case call.IsCode(err, "NoSuchBucket"):
		return nil, b.noBucket(err)
	case call.IsCode(err, "NoSuchKey", "NotFound"):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if want := answer.Header.Get("X-Amz-Checksum-Sha256"); b.checksum && want != "" && !strings.Contains(want, "-") &&
		want != checksum(answer.Body) {
		return nil, fmt.Errorf("the object %s does not have the check sum %s that S3 has for it", key, want)
	}
	return answer.Body, nil
}

func (b *store) noBucket(err error) error {
	return fmt.Errorf("S3 bucket does not exist: the bucket %q must have been previously created, in this region and "+
		"account; Millipede does not create it: %w", b.bucket, err)
}

// put stores an object.
func (b *store) put(ctx context.Context, key, tags string, more map[string]string, data []byte) error {
	h := map[string]string{"Content-Type": "application/json"}
	for _, headers := range []map[string]string{b.putHeaders, b.keyHeaders, more} {
		for k, v := range headers {
			h[k] = v
		}
	}
	if b.acl != "" {
		h["X-Amz-Acl"] = b.acl
	}
	if tags != "" {
		h["X-Amz-Tagging"] = tags
	}
	if b.checksum {
		h["X-Amz-Checksum-Sha256"], h["X-Amz-Sdk-Checksum-Algorithm"] = checksum(data), "SHA256"
	}
	_, err := b.ask(ctx, http.MethodPut, key, nil, h, data)
	if call.IsCode(err, "NoSuchBucket") {
		return b.noBucket(err)
	}
	return err
}

func checksum(data []byte) string {
	sum := sha256.Sum256(data)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// Read implements snapshot.Backend. If a table has digests, a state that does not match its digest yet is read
// again for a while.
func (b *store) Read(ctx context.Context, workspace string) ([]byte, error) {
	key := b.object(workspace)
	data, err := b.consistent(ctx, key)
	if err != nil || len(data) == 0 {
		return nil, err
	}
	return data, nil
}

// Write implements snapshot.Backend.
func (b *store) Write(ctx context.Context, workspace string, data []byte) error {
	key := b.object(workspace)
	if err := b.put(ctx, key, b.stateTags, nil, data); err != nil {
		return err
	}
	return b.putDigest(ctx, key, data)
}

// Workspaces implements snapshot.Backend. If listing is not permitted, it returns only the default one.
func (b *store) Workspaces(ctx context.Context) ([]string, error) {
	names := []string{journal.DefaultWorkspace}
	query := url.Values{"list-type": {"2"}, "max-keys": {"1000"}}
	prefix := ""
	if b.prefix != "" {
		prefix = b.prefix + "/"
	}
	query.Set("prefix", prefix)
	for {
		answer, err := b.list(ctx, query)
		switch {
		case call.IsCode(err, "AccessDenied"):
			return names, nil
		case call.IsCode(err, "NoSuchBucket"):
			return nil, b.noBucket(err)
		case err != nil:
			return nil, err
		}
		for _, object := range answer.Contents {
			rest, ok := strings.CutPrefix(object.Key, prefix)
			name, key, whole := strings.Cut(rest, "/")
			if ok && whole && name != "" && name != journal.DefaultWorkspace && key == b.key {
				names = append(names, name)
			}
		}
		if answer.NextContinuationToken == "" {
			break
		}
		query.Set("continuation-token", answer.NextContinuationToken)
	}
	slices.Sort(names[1:])
	return slices.Compact(names), nil
}

// listing is the response of ListObjectsV2.
type listing struct {
	Contents              []struct{ Key string }
	NextContinuationToken string
}

func (b *store) list(ctx context.Context, query url.Values) (*listing, error) {
	answer, err := b.ask(ctx, http.MethodGet, "", query, nil, nil)
	if err != nil {
		return nil, err
	}
	var l listing
	if err := xml.Unmarshal(answer.Body, &l); err != nil {
		return nil, fmt.Errorf("reading the list of objects: %w", err)
	}
	return &l, nil
}

// Create implements snapshot.Backend. It stores an empty state, as OpenTofu does.
func (b *store) Create(ctx context.Context, workspace string) error {
	if workspace == journal.DefaultWorkspace {
		return nil
	}
	data, err := b.Read(ctx, workspace)
	if err != nil || data != nil {
		return err
	}
	if data, err = backend.EmptyState(); err != nil {
		return err
	}
	return b.Write(ctx, workspace, data)
}

// Delete implements snapshot.Backend.
func (b *store) Delete(ctx context.Context, workspace string) error {
	if workspace == journal.DefaultWorkspace || workspace == "" {
		return backend.ErrDefault
	}
	key := b.object(workspace)
	_, err := b.ask(ctx, http.MethodDelete, key, nil, nil, nil)
	return errors.Join(err, b.deleteDigest(ctx, key))
}
