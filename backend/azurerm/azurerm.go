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
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/internal/cloud/call"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/tfstate"
)

type store struct {
	blobs     *call.Caller
	transport *http.Transport
	address   string // of the account's blobs, without a slash at the end

	container, key string
	snapshots      bool
	// customerKey is sent with every call about data or metadata, scope with those that write.
	customerKey, scope http.Header

	watches    backend.Watches
	watchEvery time.Duration

	mu     sync.Mutex        // guards leases
	leases map[string]string // the leases of this process by workspace
}

// blob returns the name of a workspace's blob.
func (b *store) blob(workspace string) string {
	if workspace == journal.DefaultWorkspace {
		return b.key
	}
	return b.key + workspaceMark + workspace
}

const workspaceMark = "env:"

// url returns the address of a workspace's blob.
func (b *store) url(workspace string) string {
	return b.address + "/" + b.container + "/" + url.PathEscape(b.blob(workspace))
}

// Describe implements snapshot.Backend.
func (b *store) Describe(workspace string) backend.Description {
	return backend.Description{Where: b.url(workspace), Form: tfstate.Compact}
}

// Close closes the connections. Locks are kept.
func (b *store) Close() error {
	b.watches.Close()
	b.transport.CloseIdleConnections()
	return nil
}

// ask sends a request about a workspace's blob; comp, if not empty, selects a part of it.
func (b *store) ask(
	ctx context.Context,
	method, workspace, comp string,
	headers ...http.Header,
) (*call.Response, error) {
	return b.send(ctx, method, workspace, url.Values{"comp": {comp}}, nil, headers...)
}

func (b *store) send(ctx context.Context, method, workspace string, query url.Values, body []byte,
	headers ...http.Header,
) (*call.Response, error) {
	all := http.Header{}
	for _, h := range headers {
		for name, values := range h {
			all[name] = values
		}
	}
	address := b.url(workspace)
	if query.Get("comp") == "" {
		query.Del("comp")
	}
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	answer, err := b.blobs.Do(ctx, call.Request{Method: method, URL: address, Header: all, Body: body})
	return answer, b.explain(err)
}

// explain adds which container is missing; a missing blob is not such an error.
func (b *store) explain(err error) error {
	if call.IsCode(err, "ContainerNotFound") {
		return fmt.Errorf("the container %q of %s does not exist; Millipede does not create it", b.container, b.address)
	}
	return err
}

// missing reports whether an error means that there is no such blob.
func missing(err error) bool { return call.IsStatus(err, http.StatusNotFound) }

// lease returns the header with this process's lease of a workspace's blob; nil if there is none.
func (b *store) lease(workspace string) http.Header {
	b.mu.Lock()
	defer b.mu.Unlock()
	if id := b.leases[workspace]; id != "" {
		return http.Header{"X-Ms-Lease-Id": {id}}
	}
	return nil
}

// Read implements snapshot.Backend. An empty blob was created by a lock.
func (b *store) Read(ctx context.Context, workspace string) ([]byte, error) {
	answer, err := b.ask(ctx, http.MethodGet, workspace, "", b.customerKey, b.lease(workspace))
	switch {
	case missing(err):
		return nil, nil
	case err != nil:
		return nil, err
	case len(answer.Body) == 0:
		return nil, nil
	}
	return answer.Body, nil
}

// Write implements snapshot.Backend. The blob's metadata, which contain the lock, are kept.
func (b *store) Write(ctx context.Context, workspace string, data []byte) error {
	lease := b.lease(workspace)
	at, err := b.properties(ctx, workspace)
	if err != nil {
		return err
	}
	// Without a blob there is nothing to snapshot; OpenTofu fails in this case.
	if b.snapshots && at != nil {
		if _, err := b.ask(ctx, http.MethodPut, workspace, "snapshot", b.customerKey, b.scope, lease); err != nil {
			return fmt.Errorf("making a snapshot of the blob: %w", err)
		}
	}
	return b.put(ctx, workspace, data, at.metadata(), lease)
}

// Data larger than maxPut are sent in blocks of blockSize, in bytes.
const (
	maxPut    = 256 << 20
	blockSize = 64 << 20
)

func (b *store) put(ctx context.Context, workspace string, data []byte, headers ...http.Header) error {
	headers = append(headers, b.customerKey, b.scope, http.Header{"X-Ms-Blob-Content-Type": {"application/json"}})
	if len(data) <= maxPut {
		_, err := b.send(
			ctx,
			http.MethodPut,
			workspace,
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
		if _, err := b.send(ctx, http.MethodPut, workspace, query, block, b.customerKey, b.scope,
			b.lease(workspace)); err != nil {
			return err
		}
		list.WriteString("<Latest>" + id + "</Latest>")
	}
	list.WriteString("</BlockList>")
	_, err := b.send(ctx, http.MethodPut, workspace, url.Values{"comp": {"blocklist"}},
		[]byte(list.String()), headers...)
	return err
}

// Workspaces implements snapshot.Backend.
func (b *store) Workspaces(ctx context.Context) ([]string, error) {
	names := []string{journal.DefaultWorkspace}
	prefix := b.key + workspaceMark
	query := url.Values{"restype": {"container"}, "comp": {"list"}, "prefix": {prefix}}
	for {
		answer, err := b.blobs.Do(ctx, call.Request{
			Method: http.MethodGet, URL: b.address + "/" + b.container + "?" + query.Encode(),
		})
		if err != nil {
			return nil, b.explain(err)
		}
		var page struct {
			Blobs      struct{ Blob []struct{ Name string } }
			NextMarker string
		}
		if err := xml.Unmarshal(answer.Body, &page); err != nil {
			return nil, fmt.Errorf("reading the list of blobs: %w", err)
		}
		for _, blob := range page.Blobs.Blob {
			name, ok := strings.CutPrefix(blob.Name, prefix)
			if ok && name != "" && name != journal.DefaultWorkspace && !strings.Contains(name, "/") {
				names = append(names, name)
			}
		}
		if page.NextMarker == "" || page.NextMarker == query.Get("marker") {
			break
		}
		query.Set("marker", page.NextMarker)
	}
	slices.Sort(names[1:])
	return slices.Compact(names), nil
}

// Create implements snapshot.Backend. It stores an empty state, as OpenTofu does, unless the blob exists by then:
// the service compares, so no lock is needed. The default workspace exists in any case.
func (b *store) Create(ctx context.Context, workspace string) error {
	if workspace == journal.DefaultWorkspace {
		return nil
	}
	data, err := backend.EmptyState()
	if err != nil {
		return err
	}
	err = b.put(ctx, workspace, data, http.Header{"If-None-Match": {"*"}})
	if call.IsStatus(err, http.StatusConflict, http.StatusPreconditionFailed) {
		return nil
	}
	return err
}

// Delete implements snapshot.Backend. A workspace that does not exist is not an error; a locked one is.
func (b *store) Delete(ctx context.Context, workspace string) error {
	if workspace == journal.DefaultWorkspace || workspace == "" {
		return backend.ErrDefault
	}
	// A blob with snapshots can be deleted only together with them.
	_, err := b.ask(ctx, http.MethodDelete, workspace, "", http.Header{"X-Ms-Delete-Snapshots": {"include"}})
	switch {
	case missing(err):
		return nil
	case call.IsStatus(err, http.StatusPreconditionFailed):
		return errors.Join(fmt.Errorf("the workspace %q is locked", workspace), err)
	}
	return err
}
