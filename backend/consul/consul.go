// Package consul stores snapshots in Consul's key-value store, compatible with OpenTofu's backend "consul".
//
// A workspace is a key. A state that is too large for one value is stored in chunks, and the key then contains
// their names. The package uses the HTTP API of an agent; it does not use blocking queries.
package consul

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/internal/pattern"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/tfstate"
)

const (
	// between is inserted between the path and the name of a workspace.
	between = "-env:"
	// chunkSize is the maximum size of a value in Consul's default configuration, in bytes.
	chunkSize = 512 << 10
	// readTries is how often a read is attempted while another program replaces the chunks.
	readTries = 3
	// cleanupTime bounds the cleanup after a call has failed or was cancelled.
	cleanupTime = 10 * time.Second
)

type store struct {
	client     *client
	path       string
	gzip, lock bool
	now        func() time.Time

	mu sync.Mutex // guards known and held
	// known has, by workspace, the index of the last value read or written here; 0 if there was none.
	known map[string]uint64
	held  map[string]*heldLock
}

// Close ends the renewal of the locks that are still held, so that they expire with their sessions, and closes the
// connections.
func (b *store) Close() error {
	b.mu.Lock()
	held := b.held
	b.held = map[string]*heldLock{}
	b.mu.Unlock()
	for _, h := range held {
		h.stop()
		<-h.done
	}
	b.client.once.HTTPClient.CloseIdleConnections()
	b.client.often.HTTPClient.CloseIdleConnections()
	return nil
}

// key returns the key of a workspace's state.
func (b *store) key(workspace string) string {
	if workspace == journal.DefaultWorkspace {
		return b.path
	}
	return b.path + between + workspace
}

// below returns the name of a key that belongs to a workspace.
func (b *store) below(workspace, name string) string {
	return strings.TrimRight(b.key(workspace), "/") + "/" + name
}

// Describe implements backend.Backend.
func (b *store) Describe(workspace string) backend.Description {
	where := b.client.base.String() + "/v1/kv/" + b.key(workspace)
	if len(b.client.common) > 0 {
		where += "?" + b.client.common.Encode()
	}
	return backend.Description{Where: where, Form: tfstate.Compact, Unlockable: !b.lock}
}

// index is the value of a key whose state is in chunks. The order of the fields is that of OpenTofu.
type index struct {
	Chunks []string `json:"chunks"`
	Hash   string   `json:"current-hash"` // hexadecimal MD5 of the state before it was compressed
}

// indexOf decodes a value as an index; it returns false for a value that is a state itself.
func indexOf(p *pair) (index, bool) {
	var i index
	if p == nil || json.Unmarshal(p.Value, &i) != nil {
		return index{}, false
	}
	return i, i.Hash != ""
}

func hash(data []byte) string {
	sum := md5.Sum(data) //nolint:gosec // it only names the chunks
	return hex.EncodeToString(sum[:])
}

// Read implements backend.Backend. It reads each form of a value, independent of the argument gzip.
func (b *store) Read(ctx context.Context, workspace string) ([]byte, error) {
	var failed error
	var before uint64
	for range readTries {
		at, err := b.client.get(ctx, b.key(workspace), nil)
		if err != nil {
			return nil, err
		}
		if at == nil {
			b.remember(workspace, 0)
			return nil, nil
		}
		if failed != nil && at.ModifyIndex == before {
			return nil, failed // no concurrent write: the state is damaged
		}
		data, err := b.content(ctx, at)
		if err == nil {
			b.remember(workspace, at.ModifyIndex)
			return data, nil
		}
		var broken *brokenError
		if !errors.As(err, &broken) {
			return nil, err
		}
		failed, before = err, at.ModifyIndex
	}
	return nil, failed
}

func (b *store) remember(workspace string, index uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known[workspace] = index
}

// brokenError means that a value and its chunks are not a state, which also happens while another program writes.
type brokenError struct{ reason string }

func (e *brokenError) Error() string { return e.reason }

// content returns the state in a value.
func (b *store) content(ctx context.Context, at *pair) ([]byte, error) {
	payload := at.Value
	i, chunked := indexOf(at)
	if chunked {
		payload = nil
		for _, name := range i.Chunks {
			chunk, err := b.client.get(ctx, name, nil)
			switch {
			case err != nil:
				return nil, err
			case chunk == nil:
				return nil, &brokenError{fmt.Sprintf("the key %q, which holds a part of the state, does not exist",
					name)}
			case len(payload)+len(chunk.Value) > maxState:
				return nil, fmt.Errorf("the state has more than %d bytes", maxState)
			}
			payload = append(payload, chunk.Value...)
		}
	}
	if bytes.HasPrefix(payload, []byte{0x1f}) {
		plain, err := unpack(payload)
		if err != nil {
			return nil, &brokenError{fmt.Sprintf("unpacking the state at %q: %s", at.Key, err)}
		}
		payload = plain
	}
	if chunked && hash(payload) != i.Hash {
		return nil, &brokenError{fmt.Sprintf("the parts of the state at %q do not have the MD5 sum that the key says: "+
			"it is %s, not %s", at.Key, hash(payload), i.Hash)}
	}
	if payload == nil {
		payload = []byte{}
	}
	return payload, nil
}

func unpack(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxState+1))
	if err == nil && len(plain) > maxState {
		err = fmt.Errorf("it has more than %d bytes", maxState)
	}
	return plain, err
}

func pack(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err := w.Close()
	return b.Bytes(), err
}

// Write implements backend.Backend. It compares the stored value with the last one read or written here. While
// this process has the lock, Consul compares the lock in the same transaction, so that nothing is written under a
// lost lock. The chunks of the former state are deleted last: a crash before that leaves unreferenced keys.
func (b *store) Write(ctx context.Context, workspace string, data []byte) error {
	former, err := b.client.get(ctx, b.key(workspace), nil)
	if err != nil {
		return err
	}
	old, chunked := indexOf(former)
	if chunked && old.Hash == hash(data) && b.isLast(workspace, former.ModifyIndex) {
		return nil // the same state: its chunks have the same names, and are in use
	}
	payload := data
	if b.gzip {
		if payload, err = pack(data); err != nil {
			return err
		}
	}
	var i index
	if len(payload) <= chunkSize { // in a transaction it grows by a third, so Consul may still reject it
		if err = b.store(ctx, workspace, payload); err != nil && !tooLarge(err) {
			return err
		}
	}
	if len(payload) > chunkSize || err != nil {
		if i, err = b.storeChunks(ctx, workspace, hash(data), payload); err != nil {
			return b.abandon(ctx, workspace, i, err)
		}
	}
	if chunked {
		b.dropChunks(ctx, workspace, old, i)
	}
	return nil
}

// isLast reports whether an index is that of the last value read or written here.
func (b *store) isLast(workspace string, index uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	last, known := b.known[workspace]
	return known && last == index
}

// store replaces the value of a workspace's key.
func (b *store) store(ctx context.Context, workspace string, value []byte) error {
	b.mu.Lock()
	last, known := b.known[workspace]
	h := b.held[workspace]
	b.mu.Unlock()
	write := operation{Verb: "set", Key: b.key(workspace), Value: value}
	if known {
		write.Verb, write.Index = "cas", last
	}
	ops := []operation{write}
	if h != nil {
		ops = []operation{{Verb: "check-session", Key: b.below(workspace, lockName), Session: h.id}, write}
	}
	results, err := b.client.transact(ctx, ops...)
	var refused *rolledBack
	switch {
	case errors.As(err, &refused) && refused.operation < len(ops)-1:
		return fmt.Errorf("the lock %s was lost, so the state is not written: %w", h.id, err)
	case errors.As(err, &refused):
		// An attempt without a response may have succeeded.
		if now, again := b.client.get(ctx, write.Key, nil); again == nil && now != nil &&
			bytes.Equal(now.Value, value) {
			b.remember(workspace, now.ModifyIndex)
			return nil
		}
		return fmt.Errorf("another program has changed the state since it was read: consul CAS failed: %w", err)
	case err != nil:
		return err
	}
	for _, r := range slices.Backward(results) {
		if r.Key == write.Key {
			b.remember(workspace, r.ModifyIndex)
			return nil
		}
	}
	return errors.New("writing the state: Consul's response does not contain the written keys")
}

// storeChunks writes a payload in parts, and then the key with their names.
func (b *store) storeChunks(ctx context.Context, workspace, sum string, payload []byte) (index, error) {
	i := index{Chunks: []string{}, Hash: sum}
	n := 0
	for part := range slices.Chunk(payload, chunkSize) {
		name := b.below(workspace, fmt.Sprintf("tfstate.%s/%d", sum, n))
		i.Chunks = append(i.Chunks, name)
		switch stored, err := b.client.put(ctx, name, nil, part); {
		case err != nil:
			return i, err
		case !stored:
			return i, fmt.Errorf("writing the key %q: Consul refuses it", name)
		}
		n++
	}
	value, err := json.Marshal(i)
	if err != nil {
		return i, err
	}
	return i, b.store(ctx, workspace, value)
}

// abandon deletes the chunks of a state that could not be written, unless the key refers to them.
func (b *store) abandon(ctx context.Context, workspace string, i index, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	now, unread := b.client.get(ctx, b.key(workspace), nil)
	if unread != nil {
		return err // unreferenced keys are better than an incomplete state
	}
	if there, ok := indexOf(now); !ok || there.Hash != i.Hash {
		b.dropChunks(ctx, workspace, i, index{})
	}
	return err
}

var sum = pattern.Lazy(`^[0-9a-f]{32}$`)

// dropChunks deletes the chunks of a state, except those that another one also has: equal states have the same
// names. Failures are ignored: the chunks are unreferenced.
func (b *store) dropChunks(ctx context.Context, workspace string, old, kept index) {
	switch {
	case !sum().MatchString(old.Hash): // it does not contain names of chunks
	case old.Hash != kept.Hash:
		_ = b.client.remove(ctx, b.below(workspace, "tfstate."+old.Hash+"/"), true)
	default:
		prefix := b.below(workspace, "tfstate."+old.Hash+"/")
		for _, name := range old.Chunks {
			if strings.HasPrefix(name, prefix) && !slices.Contains(kept.Chunks, name) {
				_ = b.client.remove(ctx, name, false)
			}
		}
	}
}

// Workspaces implements backend.Backend.
func (b *store) Workspaces(ctx context.Context) ([]string, error) {
	keys, err := b.client.keys(ctx, b.path+between, "/")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, key := range keys {
		name, ok := strings.CutPrefix(key, b.path+between)
		if ok && name != "" && name != journal.DefaultWorkspace && !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return append([]string{journal.DefaultWorkspace}, slices.Compact(names)...), nil
}

// Create implements backend.Backend. It writes an empty state, as OpenTofu does, unless there is one.
func (b *store) Create(ctx context.Context, workspace string) error {
	if workspace == journal.DefaultWorkspace {
		return nil
	}
	empty, err := backend.EmptyState()
	if err != nil {
		return err
	}
	if b.gzip {
		if empty, err = pack(empty); err != nil {
			return err
		}
	}
	// index 0: only if it is new
	_, err = b.client.transact(ctx, operation{Verb: "cas", Key: b.key(workspace), Value: empty})
	b.mu.Lock()
	delete(b.known, workspace)
	b.mu.Unlock()
	var exists *rolledBack
	if errors.As(err, &exists) {
		now, unread := b.client.get(ctx, b.key(workspace), nil)
		if unread != nil || now != nil {
			return unread
		}
	}
	return err
}

// Delete implements backend.Backend. It also deletes the chunks, which OpenTofu does not.
func (b *store) Delete(ctx context.Context, workspace string) error {
	if workspace == journal.DefaultWorkspace || workspace == "" {
		return backend.ErrDefault
	}
	former, err := b.client.get(ctx, b.key(workspace), nil)
	if err != nil {
		return err
	}
	if err := b.client.remove(ctx, b.key(workspace), false); err != nil {
		return err
	}
	b.mu.Lock()
	delete(b.known, workspace)
	b.mu.Unlock()
	if old, ok := indexOf(former); ok {
		b.dropChunks(ctx, workspace, old, index{})
	}
	return nil
}
