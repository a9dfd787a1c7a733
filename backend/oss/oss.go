// Package oss stores snapshots in a bucket of Alibaba Cloud's object store, compatible with OpenTofu's backend
// "oss".
//
// A workspace is an object. It is locked by a row in a table of TableStore, which also contains the checksum of the
// state.
package oss

import (
	"context"
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
	"github.com/millipede-iac/millipede/internal/cloud/call"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/tfstate"
)

type store struct {
	objects   *call.Caller
	transport *http.Transport
	address   string // of the bucket, without a slash at the end

	bucket, prefix, key, acl string
	encrypt                  bool

	table      string
	rows       *rows // nil without a table
	watches    backend.Watches
	watchEvery time.Duration
}

// object returns the name of a workspace's object.
func (b *store) object(workspace string) string {
	if workspace == journal.DefaultWorkspace {
		return path.Join(b.prefix, b.key)
	}
	return path.Join(b.prefix, workspace, b.key)
}

// Describe implements snapshot.Backend.
func (b *store) Describe(workspace string) backend.Description {
	return backend.Description{
		Where: "oss://" + b.bucket + "/" + b.object(workspace), Form: tfstate.Compact, Unlockable: b.rows == nil,
	}
}

// Close closes the connections. Locks are kept.
func (b *store) Close() error {
	b.watches.Close()
	b.transport.CloseIdleConnections()
	return nil
}

// ask sends a request about an object; about the bucket if object is empty.
func (b *store) ask(ctx context.Context, method, object string, query url.Values, header http.Header,
	body []byte) (*call.Response, error) {
	u := url.URL{Path: "/" + object, RawQuery: query.Encode()}
	answer, err := b.objects.Do(ctx, call.Request{Method: method, URL: b.address + u.String(),
		Header: header, Body: body})
	if call.IsCode(err, "NoSuchBucket") {
		return nil, fmt.Errorf("the bucket %q does not exist; Millipede does not create it: %w", b.bucket, err)
	}
	return answer, err
}

// get reads an object; nil if there is none.
func (b *store) get(ctx context.Context, object string) ([]byte, error) {
	answer, err := b.ask(ctx, http.MethodGet, object, nil, nil, nil)
	switch {
	case call.IsCode(err, "NoSuchKey"):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return answer.Body, nil
}

// Read implements snapshot.Backend. If a table has checksums, a state that does not match its checksum yet is read
// again for a while.
func (b *store) Read(ctx context.Context, workspace string) ([]byte, error) {
	data, err := b.consistent(ctx, b.object(workspace))
	if err != nil || len(data) == 0 {
		return nil, err
	}
	return data, nil
}

// Write implements snapshot.Backend.
func (b *store) Write(ctx context.Context, workspace string, data []byte) error {
	object := b.object(workspace)
	h := http.Header{"Content-Type": {"application/json"}}
	if b.acl != "" {
		h.Set("X-Oss-Object-Acl", b.acl)
	}
	if b.encrypt {
		h.Set("X-Oss-Server-Side-Encryption", "AES256")
	}
	if _, err := b.ask(ctx, http.MethodPut, object, nil, h, data); err != nil {
		return err
	}
	return b.putDigest(ctx, object, data)
}

// Workspaces implements snapshot.Backend.
func (b *store) Workspaces(ctx context.Context) ([]string, error) {
	names := []string{journal.DefaultWorkspace}
	prefix := b.prefix + "/"
	query := url.Values{"prefix": {prefix}, "max-keys": {"1000"}}
	for {
		answer, err := b.ask(ctx, http.MethodGet, "", query, nil, nil)
		if err != nil {
			return nil, err
		}
		var page struct {
			Contents    []struct{ Key string }
			IsTruncated bool
			NextMarker  string
		}
		if err := xml.Unmarshal(answer.Body, &page); err != nil {
			return nil, fmt.Errorf("reading the list of objects: %w", err)
		}
		last := page.NextMarker
		for _, o := range page.Contents {
			if page.NextMarker == "" {
				last = o.Key
			}
			rest, ok := strings.CutPrefix(o.Key, prefix)
			name, key, whole := strings.Cut(rest, "/")
			if ok && whole && name != "" && name != journal.DefaultWorkspace && key == b.key &&
				o.Key != b.object(journal.DefaultWorkspace) {
				names = append(names, name)
			}
		}
		if !page.IsTruncated || last == query.Get("marker") {
			break
		}
		query.Set("marker", last)
	}
	slices.Sort(names[1:])
	return slices.Compact(names), nil
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
	object := b.object(workspace)
	_, err := b.ask(ctx, http.MethodDelete, object, nil, nil, nil)
	if call.IsCode(err, "NoSuchKey") {
		err = nil
	}
	return errors.Join(err, b.deleteDigest(ctx, object))
}
