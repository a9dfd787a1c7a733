// Package httpbackend stores a snapshot on a web server, with the protocol of OpenTofu's backend "http".
//
// The server stores the state, and decides about locks. There are no workspaces but the default one.
package httpbackend

import (
	"context"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/tfstate"
)

const (
	// maxState bounds the size of a state, in bytes.
	maxState = 1 << 30
	// maxLock bounds the size of lock information.
	maxLock = 1 << 20
)

type store struct {
	client *retryablehttp.Client

	address, lockAddress, unlockAddress    *url.URL // the latter two may be nil
	updateMethod, lockMethod, unlockMethod string
	username, password                     string
	headers                                map[string]string
	userAgent                              string

	mu   sync.Mutex        // guards held
	held map[string][]byte // by the ID of a lock of this process: the document sent to the server, or nil
}

// Close closes the connections. Locks are kept.
func (b *store) Close() error {
	b.client.HTTPClient.CloseIdleConnections()
	return nil
}

// Describe implements backend.Backend.
func (b *store) Describe(string) backend.Description {
	return backend.Description{Where: b.address.Redacted(), Form: tfstate.Compact, Unlockable: b.unlockAddress == nil}
}

// Read implements backend.Backend.
func (b *store) Read(ctx context.Context, workspace string) ([]byte, error) {
	if workspace != journal.DefaultWorkspace {
		return nil, backend.ErrNoWorkspaces
	}
	answer, err := b.ask(ctx, http.MethodGet, b.address, nil)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() // it was read to its end, or is not needed
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusNoContent, http.StatusNotFound:
		return nil, nil
	default:
		return nil, refused("reading the state", answer)
	}
	if sum := answer.Header.Get("Content-MD5"); sum != "" {
		if _, err := base64.StdEncoding.DecodeString(sum); err != nil {
			return nil, fmt.Errorf("the server sends a malformed Content-MD5 header %q", sum)
		}
	}
	data, err := readAll(answer.Body, maxState)
	if err != nil || len(data) == 0 {
		return nil, err
	}
	return data, nil
}

// Write implements backend.Backend. While this process has a lock, the request contains its ID.
func (b *store) Write(ctx context.Context, workspace string, data []byte) error {
	if workspace != journal.DefaultWorkspace {
		return backend.ErrNoWorkspaces
	}
	to := *b.address
	b.mu.Lock()
	for id, document := range b.held {
		if document == nil {
			continue
		}
		query := to.Query()
		query.Set("ID", id)
		to.RawQuery = query.Encode()
	}
	b.mu.Unlock()
	answer, err := b.ask(ctx, b.updateMethod, &to, data)
	if err != nil {
		return err
	}
	defer drain(answer)
	switch answer.StatusCode {
	case http.StatusOK, http.StatusCreated, http.StatusNoContent:
		return nil
	}
	return refused("writing the state", answer)
}

// Lock implements backend.Backend. Without a lock address it does nothing.
func (b *store) Lock(ctx context.Context, _ string, info journal.LockInfo) (backend.Lock, error) {
	if b.lockAddress == nil {
		b.hold(info.ID, nil)
		return backend.Lock{ID: info.ID}, nil
	}
	info.Path = ""
	document := backend.EncodeLock(info)
	answer, err := b.ask(ctx, b.lockMethod, b.lockAddress, document)
	if err != nil {
		return backend.Lock{}, err
	}
	defer drain(answer)
	switch answer.StatusCode {
	case http.StatusOK:
		b.hold(info.ID, document)
		return backend.Lock{ID: info.ID}, nil
	case http.StatusConflict, http.StatusLocked:
		body, err := readAll(answer.Body, maxLock)
		if err != nil {
			return backend.Lock{}, fmt.Errorf("reading who holds the lock: %w", err)
		}
		holder, err := backend.DecodeLock(body)
		if err != nil {
			holder = info // the server does not return the holder
		} else if holder.ID == info.ID { // an earlier response was lost: this process has the lock
			b.hold(info.ID, document)
			return backend.Lock{ID: info.ID}, nil
		}
		return backend.Lock{}, &journal.Held{Holder: holder}
	}
	return backend.Lock{}, refused("locking the state", answer)
}

// Unlock implements backend.Backend. The server compares the ID.
func (b *store) Unlock(ctx context.Context, _, lockID string) error {
	b.mu.Lock()
	document, own := b.held[lockID]
	b.mu.Unlock()
	if own && (document == nil || b.unlockAddress == nil) { // there is no lock on the server, or no unlock address
		b.forget(lockID)
		return nil
	}
	if b.unlockAddress == nil {
		return fmt.Errorf("%w: the backend has no unlock_address", backend.ErrNotLocked)
	}
	if !own {
		document = backend.EncodeLock(journal.LockInfo{ID: lockID})
	}
	answer, err := b.ask(ctx, b.unlockMethod, b.unlockAddress, document)
	if err != nil {
		return err
	}
	defer drain(answer)
	switch answer.StatusCode {
	case http.StatusOK:
		b.forget(lockID)
		return nil
	case http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusLocked:
		return fmt.Errorf("%w: %w", backend.ErrNotLocked, refused("releasing the lock", answer))
	}
	return refused("releasing the lock", answer)
}

// hold records a lock of this process. document is nil if the server has no lock.
func (b *store) hold(lockID string, document []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held[lockID] = document
}

func (b *store) forget(lockID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.held, lockID)
}

// Workspaces implements backend.Backend: there are none.
func (b *store) Workspaces(context.Context) ([]string, error) { return nil, backend.ErrNoWorkspaces }

// Create implements backend.Backend.
func (b *store) Create(_ context.Context, workspace string) error {
	if workspace == journal.DefaultWorkspace {
		return nil
	}
	return backend.ErrNoWorkspaces
}

// Delete implements backend.Backend.
func (b *store) Delete(context.Context, string) error { return backend.ErrNoWorkspaces }

// ask sends a request, and retries it while the server is busy or unreachable, as often as configured.
func (b *store) ask(ctx context.Context, method string, to *url.URL, body []byte) (*http.Response, error) {
	var content any
	if body != nil {
		content = body
	}
	r, err := retryablehttp.NewRequestWithContext(ctx, method, to.String(), content)
	if err != nil {
		return nil, err
	}
	for name, value := range b.headers {
		r.Header.Set(name, value)
	}
	r.Header.Set("User-Agent", b.userAgent)
	if b.username != "" {
		r.SetBasicAuth(b.username, b.password)
	}
	if body != nil {
		sum := md5.Sum(body) //nolint:gosec // a checksum in the protocol, not a protection
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Content-MD5", base64.StdEncoding.EncodeToString(sum[:]))
	}
	answer, err := b.client.Do(r)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // the address in the outer error may contain a password
		}
		return nil, fmt.Errorf("%s %s: %w", method, to.Redacted(), err)
	}
	return answer, nil
}

// refused returns the error of an error response.
func refused(doing string, answer *http.Response) error {
	switch answer.StatusCode {
	case http.StatusUnauthorized:
		return fmt.Errorf("%s: the server requires authentication (%s)", doing, answer.Status)
	case http.StatusForbidden:
		return fmt.Errorf("%s: the server denies access with these credentials (%s)", doing, answer.Status)
	}
	return fmt.Errorf("%s: the server answered %s", doing, answer.Status)
}

// readAll reads a body of a bounded size.
func readAll(r io.Reader, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("the server's answer has more than %d bytes", most)
	}
	return data, err
}

// drain reads the rest of a response, so that the connection can be reused.
func drain(answer *http.Response) {
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxLock))
	_ = answer.Body.Close()
}
