// Package azurerm stores snapshots in a container of Azure Blob Storage, compatible with OpenTofu's backend
// "azurerm".
//
// A workspace is a blob. It is locked by an infinite lease of that blob; the holder is in the blob's metadata.
package azurerm

import (
	"context"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/millipede-iac/millipede/backend/bucket"
	"github.com/millipede-iac/millipede/internal/cloud/call"
	"github.com/millipede-iac/millipede/state/journal"
)

// driver sends the requests about blobs and their leases.
type driver struct {
	blobs     *call.Caller
	transport *http.Transport
	address   string // of the account's blobs, without a slash at the end

	container, key string
	snapshots      bool
	// customerKey is sent with every call about data or metadata, scope with those that write.
	customerKey, scope http.Header

	mu     sync.Mutex        // guards leases
	leases map[string]string // the leases of this process by blob
}

// workspaceMark is between the key and the workspace in the names of blobs.
const workspaceMark = "env:"

// names returns the names of the blobs of workspaces.
func (d *driver) names() bucket.Names {
	prefix := d.key + workspaceMark
	return bucket.Names{Prefix: prefix, Object: func(workspace string) string {
		if workspace == journal.DefaultWorkspace {
			return d.key
		}
		return prefix + workspace
	}}
}

// Where implements bucket.Driver: it returns the URL of a blob.
func (d *driver) Where(blob string) string {
	return d.address + "/" + d.container + "/" + url.PathEscape(blob)
}

// Close implements bucket.Driver.
func (d *driver) Close() { d.transport.CloseIdleConnections() }

// ask sends a request about a blob; comp, if not empty, selects a part of it.
func (d *driver) ask(
	ctx context.Context,
	method, blob, comp string,
	headers ...http.Header,
) (*call.Response, error) {
	return d.send(ctx, method, blob, url.Values{"comp": {comp}}, nil, headers...)
}

func (d *driver) send(ctx context.Context, method, blob string, query url.Values, body []byte,
	headers ...http.Header,
) (*call.Response, error) {
	all := http.Header{}
	for _, h := range headers {
		for name, values := range h {
			all[name] = values
		}
	}
	address := d.Where(blob)
	if query.Get("comp") == "" {
		query.Del("comp")
	}
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	answer, err := d.blobs.Do(ctx, call.Request{Method: method, URL: address, Header: all, Body: body})
	return answer, d.explain(err)
}

// explain adds which container is missing; a missing blob is not such an error.
func (d *driver) explain(err error) error {
	if call.IsCode(err, "ContainerNotFound") {
		return fmt.Errorf("the container %q of %s does not exist; Millipede does not create it", d.container, d.address)
	}
	return err
}

// missing reports whether an error means that there is no such blob.
func missing(err error) bool { return call.IsStatus(err, http.StatusNotFound) }

// lease returns the header with this process's lease of a blob; nil if there is none.
func (d *driver) lease(blob string) http.Header {
	d.mu.Lock()
	defer d.mu.Unlock()
	if id := d.leases[blob]; id != "" {
		return http.Header{"X-Ms-Lease-Id": {id}}
	}
	return nil
}

// Get implements bucket.Driver. An empty blob was created by a lock.
func (d *driver) Get(ctx context.Context, blob string) ([]byte, error) {
	answer, err := d.ask(ctx, http.MethodGet, blob, "", d.customerKey, d.lease(blob))
	switch {
	case missing(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return answer.Body, nil
}

// Put implements bucket.Driver. The blob's metadata, which contain the lock, are kept.
func (d *driver) Put(ctx context.Context, blob string, data []byte) error {
	lease := d.lease(blob)
	at, err := d.properties(ctx, blob)
	if err != nil {
		return err
	}
	// Without a blob there is nothing to snapshot; OpenTofu fails in this case.
	if d.snapshots && at != nil {
		if _, err := d.ask(ctx, http.MethodPut, blob, "snapshot", d.customerKey, d.scope, lease); err != nil {
			return fmt.Errorf("making a snapshot of the blob: %w", err)
		}
	}
	return d.put(ctx, blob, data, at.metadata(), lease)
}

// Create implements bucket.Creator.
func (d *driver) Create(ctx context.Context, blob string, data []byte) error {
	err := d.put(ctx, blob, data, http.Header{"If-None-Match": {"*"}})
	if call.IsStatus(err, http.StatusConflict, http.StatusPreconditionFailed) {
		return bucket.ErrExists
	}
	return err
}

// Data larger than maxPut are sent in blocks of blockSize, in bytes.
const (
	maxPut    = 256 << 20
	blockSize = 64 << 20
)

func (d *driver) put(ctx context.Context, blob string, data []byte, headers ...http.Header) error {
	headers = append(headers, d.customerKey, d.scope, http.Header{"X-Ms-Blob-Content-Type": {"application/json"}})
	if len(data) <= maxPut {
		_, err := d.send(
			ctx,
			http.MethodPut,
			blob,
			url.Values{},
			data,
			append(headers, http.Header{"X-Ms-Blob-Type": {"BlockBlob"}})...)
		return err
	}
	var list strings.Builder
	list.WriteString(`<?xml version="1.0" encoding="utf-8"?><BlockList>`)
	for i := 0; i*blockSize < len(data); i++ {
		id := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%08d", i))
		query := url.Values{"comp": {"block"}, "blockid": {id}}
		block := data[i*blockSize : min((i+1)*blockSize, len(data))]
		if _, err := d.send(ctx, http.MethodPut, blob, query, block, d.customerKey, d.scope,
			d.lease(blob)); err != nil {
			return err
		}
		list.WriteString("<Latest>" + id + "</Latest>")
	}
	list.WriteString("</BlockList>")
	_, err := d.send(ctx, http.MethodPut, blob, url.Values{"comp": {"blocklist"}},
		[]byte(list.String()), headers...)
	return err
}

// List implements bucket.Driver.
func (d *driver) List(ctx context.Context, prefix, page string) (names []string, next string, err error) {
	query := url.Values{"restype": {"container"}, "comp": {"list"}, "prefix": {prefix}}
	if page != "" {
		query.Set("marker", page)
	}
	answer, err := d.blobs.Do(ctx, call.Request{
		Method: http.MethodGet, URL: d.address + "/" + d.container + "?" + query.Encode(),
	})
	if err != nil {
		return nil, "", d.explain(err)
	}
	var list struct {
		Blobs      struct{ Blob []struct{ Name string } }
		NextMarker string
	}
	if err := xml.Unmarshal(answer.Body, &list); err != nil {
		return nil, "", fmt.Errorf("reading the list of blobs: %w", err)
	}
	for _, blob := range list.Blobs.Blob {
		names = append(names, blob.Name)
	}
	return names, list.NextMarker, nil
}

// Delete implements bucket.Driver. A locked blob is not deleted.
func (d *driver) Delete(ctx context.Context, blob string) error {
	// A blob with snapshots can be deleted only together with them.
	_, err := d.ask(ctx, http.MethodDelete, blob, "", http.Header{"X-Ms-Delete-Snapshots": {"include"}})
	switch {
	case missing(err):
		return nil
	case call.IsStatus(err, http.StatusPreconditionFailed):
		workspace := strings.TrimPrefix(blob, d.names().Prefix)
		return errors.Join(fmt.Errorf("the workspace %q is locked", workspace), err)
	}
	return err
}
