package azurerm

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/internal/cloud/call"
	"github.com/millipede-iac/millipede/state/journal"
)

// lockKey is the name of the holder of the lease in the metadata of a blob.
const lockKey = "terraformlockid"

// properties are the properties of a blob. Nil means that there is no blob.
type properties struct {
	leased bool
	meta   map[string]string // names in lower case
}

// metadata returns the headers that keep the blob's metadata.
func (p *properties) metadata() http.Header {
	h := http.Header{}
	if p == nil {
		return h
	}
	for name, value := range p.meta {
		h["X-Ms-Meta-"+name] = []string{value}
	}
	return h
}

// properties requests the properties of a workspace's blob.
func (b *store) properties(ctx context.Context, workspace string) (*properties, error) {
	answer, err := b.ask(ctx, http.MethodHead, workspace, "", b.customerKey, b.lease(workspace))
	switch {
	case missing(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the properties of the blob: %w", err)
	}
	p := &properties{leased: answer.Header.Get("X-Ms-Lease-Status") == "locked", meta: map[string]string{}}
	for name, values := range answer.Header {
		if key, ok := strings.CutPrefix(strings.ToLower(name), "x-ms-meta-"); ok && len(values) > 0 {
			p.meta[key] = values[0]
		}
	}
	return p, nil
}

// holder returns the holder of the lease; nil if the metadata do not contain it.
func (p *properties) holder() *journal.LockInfo {
	if p == nil || p.meta[lockKey] == "" {
		return nil
	}
	text, err := base64.StdEncoding.DecodeString(p.meta[lockKey])
	if err != nil {
		return nil
	}
	info, err := backend.DecodeLock(text)
	if err != nil {
		return nil
	}
	return &info
}

// Lock implements snapshot.Backend. The lock's ID, a UUID, becomes that of the lease.
func (b *store) Lock(ctx context.Context, workspace string, info journal.LockInfo) (backend.Lock, error) {
	at, err := b.properties(ctx, workspace)
	if err != nil {
		return backend.Lock{}, err
	}
	if at == nil {
		err := b.put(ctx, workspace, nil, http.Header{"If-None-Match": {"*"}})
		// another process was faster
		if err != nil && !call.IsStatus(err, http.StatusConflict, http.StatusPreconditionFailed) {
			return backend.Lock{}, fmt.Errorf("making the blob that is to be locked: %w", err)
		}
	}
	if at != nil && at.leased {
		return backend.Lock{}, b.heldBy(at, workspace)
	}
	// A repeated attempt with the same ID gets the same lease.
	_, err = b.ask(ctx, http.MethodPut, workspace, "lease", http.Header{
		"X-Ms-Lease-Action": {"acquire"}, "X-Ms-Lease-Duration": {"-1"}, "X-Ms-Proposed-Lease-Id": {info.ID},
	})
	if call.IsStatus(err, http.StatusConflict) { // the lease was taken in between
		if at, err = b.properties(ctx, workspace); err == nil {
			err = b.heldBy(at, workspace)
		}
	}
	if err != nil {
		return backend.Lock{}, err
	}
	b.setLease(workspace, info.ID)
	info.Path = b.url(workspace)
	if err := b.writeHolder(ctx, workspace, base64.StdEncoding.EncodeToString(backend.EncodeLock(info))); err != nil {
		release := b.release(context.WithoutCancel(ctx), workspace, info.ID)
		b.setLease(workspace, "")
		if release != nil {
			return backend.Lock{}, fmt.Errorf(
				"writing who holds the lock: %w; it could not be released either: %w",
				err,
				release,
			)
		}
		return backend.Lock{}, fmt.Errorf("writing who holds the lock: %w", err)
	}
	lock := b.watches.Start(ctx, b.watchEvery, workspace, info.ID, func(ctx context.Context) (bool, error) {
		at, err := b.properties(ctx, workspace)
		if call.IsCode(err, "LeaseIdMismatchWithBlobOperation", "LeaseNotPresentWithBlobOperation", "LeaseLost") ||
			call.IsStatus(err, http.StatusPreconditionFailed) {
			return false, nil
		}
		if err != nil {
			return true, err
		}
		holder := at.holder()
		return at != nil && at.leased && (holder == nil || holder.ID == info.ID), nil
	})
	return lock, nil
}

func (b *store) setLease(workspace, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.leases == nil {
		b.leases = map[string]string{}
	}
	b.leases[workspace] = id
}

// heldBy returns the error about another process's lease.
func (b *store) heldBy(at *properties, workspace string) error {
	holder := at.holder()
	if holder == nil {
		holder = &journal.LockInfo{
			Path: b.url(
				workspace,
			), Info: "the blob is leased, and its metadata do not say to whom: the lease can be broken with " +
				"Azure's tools",
		}
	}
	return &journal.Held{Holder: *holder}
}

// writeHolder writes the holder of the lease to the metadata, or removes it if text is empty. Other metadata are
// kept.
func (b *store) writeHolder(ctx context.Context, workspace, text string) error {
	at, err := b.properties(ctx, workspace)
	if err != nil {
		return err
	}
	if at == nil {
		return fmt.Errorf("the blob %s is gone", b.url(workspace))
	}
	delete(at.meta, lockKey)
	if text != "" {
		at.meta[lockKey] = text
	}
	_, err = b.ask(ctx, http.MethodPut, workspace, "metadata", at.metadata(), b.customerKey, b.scope,
		b.lease(workspace))
	return err
}

func (b *store) release(ctx context.Context, workspace, id string) error {
	_, err := b.ask(
		ctx,
		http.MethodPut,
		workspace,
		"lease",
		http.Header{"X-Ms-Lease-Action": {"release"}, "X-Ms-Lease-Id": {id}},
	)
	if call.IsStatus(err, http.StatusConflict) {
		at, seen := b.properties(ctx, workspace)
		if seen == nil && (at == nil || !at.leased) {
			return nil // an attempt without a response has released it
		}
	}
	return err
}

// Unlock implements snapshot.Backend. A lease whose holder was killed before it wrote the metadata can also be
// released by its ID: the service compares it.
func (b *store) Unlock(ctx context.Context, workspace, lockID string) error {
	at, err := b.properties(ctx, workspace)
	if err != nil &&
		!call.IsStatus(err, http.StatusPreconditionFailed) { // another process has the lease by now
		return err
	}
	b.watches.Stop(workspace, lockID)
	if own := b.lease(workspace); own.Get("X-Ms-Lease-Id") == lockID || err != nil {
		b.setLease(workspace, "")
		if err != nil {
			if at, err = b.properties(ctx, workspace); err != nil {
				return err
			}
		}
	}
	holder := at.holder()
	switch {
	case at == nil || !at.leased:
		return fmt.Errorf("%w: %s; there is no lock", backend.ErrNotLocked, lockID)
	case holder != nil && holder.ID != lockID:
		return fmt.Errorf("%w: %s; the lock is %s of %s", backend.ErrNotLocked, lockID, holder.ID, holder.Who)
	}
	if holder != nil {
		delete(at.meta, lockKey)
		_, err := b.ask(ctx, http.MethodPut, workspace, "metadata", at.metadata(), b.customerKey, b.scope,
			http.Header{"X-Ms-Lease-Id": {lockID}})
		if call.IsStatus(err, http.StatusPreconditionFailed) {
			return fmt.Errorf("%w: %s; the blob is leased under another ID", backend.ErrNotLocked, lockID)
		}
		if err != nil {
			return fmt.Errorf("removing who holds the lock: %w", err)
		}
	}
	err = b.release(ctx, workspace, lockID)
	if holder == nil && call.IsStatus(err, http.StatusConflict, http.StatusBadRequest) {
		return fmt.Errorf("%w: %s; the blob is leased under another ID", backend.ErrNotLocked, lockID)
	}
	return err
}
