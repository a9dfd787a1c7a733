package azurerm

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/bucket"
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

// properties requests the properties of a blob.
func (d *driver) properties(ctx context.Context, blob string) (*properties, error) {
	answer, err := d.ask(ctx, http.MethodHead, blob, "", d.customerKey, d.lease(blob))
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

// Lock implements bucket.Locks. The lock's ID, a UUID, becomes that of the lease.
func (d *driver) Lock(ctx context.Context, blob string, info journal.LockInfo) (string, error) {
	at, err := d.properties(ctx, blob)
	if err != nil {
		return "", err
	}
	if at == nil {
		// If there is one by now, another process was faster.
		if err := d.Create(ctx, blob, nil); err != nil && !errors.Is(err, bucket.ErrExists) {
			return "", fmt.Errorf("making the blob that is to be locked: %w", err)
		}
	}
	if at != nil && at.leased {
		return "", d.heldBy(at, blob)
	}
	// A repeated attempt with the same ID gets the same lease.
	_, err = d.ask(ctx, http.MethodPut, blob, "lease", http.Header{
		"X-Ms-Lease-Action": {"acquire"}, "X-Ms-Lease-Duration": {"-1"}, "X-Ms-Proposed-Lease-Id": {info.ID},
	})
	if call.IsStatus(err, http.StatusConflict) { // the lease was taken in between
		if at, err = d.properties(ctx, blob); err == nil {
			err = d.heldBy(at, blob)
		}
	}
	if err != nil {
		return "", err
	}
	d.setLease(blob, info.ID)
	info.Path = d.Where(blob)
	if err := d.writeHolder(ctx, blob, base64.StdEncoding.EncodeToString(backend.EncodeLock(info))); err != nil {
		release := d.release(context.WithoutCancel(ctx), blob, info.ID)
		d.setLease(blob, "")
		if release != nil {
			return "", fmt.Errorf(
				"writing who holds the lock: %w; it could not be released either: %w",
				err,
				release,
			)
		}
		return "", fmt.Errorf("writing who holds the lock: %w", err)
	}
	return info.ID, nil
}

// Holds implements bucket.Locks.
func (d *driver) Holds(ctx context.Context, blob, id string) (bool, error) {
	at, err := d.properties(ctx, blob)
	if call.IsCode(err, "LeaseIdMismatchWithBlobOperation", "LeaseNotPresentWithBlobOperation", "LeaseLost") ||
		call.IsStatus(err, http.StatusPreconditionFailed) {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	holder := at.holder()
	return at != nil && at.leased && (holder == nil || holder.ID == id), nil
}

func (d *driver) setLease(blob, id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.leases == nil {
		d.leases = map[string]string{}
	}
	d.leases[blob] = id
}

// heldBy returns the error about another process's lease.
func (d *driver) heldBy(at *properties, blob string) error {
	holder := at.holder()
	if holder == nil {
		holder = &journal.LockInfo{
			Path: d.Where(blob), Info: "the blob is leased, and its metadata do not say to whom: the lease can be " +
				"broken with Azure's tools",
		}
	}
	return &journal.Held{Holder: *holder}
}

// writeHolder writes the holder of the lease to the metadata, or removes it if text is empty. Other metadata are
// kept.
func (d *driver) writeHolder(ctx context.Context, blob, text string) error {
	at, err := d.properties(ctx, blob)
	if err != nil {
		return err
	}
	if at == nil {
		return fmt.Errorf("the blob %s is gone", d.Where(blob))
	}
	delete(at.meta, lockKey)
	if text != "" {
		at.meta[lockKey] = text
	}
	_, err = d.ask(ctx, http.MethodPut, blob, "metadata", at.metadata(), d.customerKey, d.scope, d.lease(blob))
	return err
}

func (d *driver) release(ctx context.Context, blob, id string) error {
	_, err := d.ask(
		ctx,
		http.MethodPut,
		blob,
		"lease",
		http.Header{"X-Ms-Lease-Action": {"release"}, "X-Ms-Lease-Id": {id}},
	)
	if call.IsStatus(err, http.StatusConflict) {
		at, seen := d.properties(ctx, blob)
		if seen == nil && (at == nil || !at.leased) {
			return nil // an attempt without a response has released it
		}
	}
	return err
}

// Unlock implements bucket.Locks. A lease whose holder was killed before it wrote the metadata can also be
// released by its ID: the service compares it.
func (d *driver) Unlock(ctx context.Context, blob, lockID string) error {
	at, err := d.properties(ctx, blob)
	if err != nil &&
		!call.IsStatus(err, http.StatusPreconditionFailed) { // another process has the lease by now
		return err
	}
	if own := d.lease(blob); own.Get("X-Ms-Lease-Id") == lockID || err != nil {
		d.setLease(blob, "")
		if err != nil {
			if at, err = d.properties(ctx, blob); err != nil {
				return err
			}
		}
	}
	holder := at.holder()
	if at == nil || !at.leased {
		return bucket.Match(nil, lockID)
	}
	if holder != nil {
		if err := bucket.Match(holder, lockID); err != nil {
			return err
		}
		delete(at.meta, lockKey)
		_, err := d.ask(ctx, http.MethodPut, blob, "metadata", at.metadata(), d.customerKey, d.scope,
			http.Header{"X-Ms-Lease-Id": {lockID}})
		if call.IsStatus(err, http.StatusPreconditionFailed) {
			return fmt.Errorf("%w: %s; the blob is leased under another ID", backend.ErrNotLocked, lockID)
		}
		if err != nil {
			return fmt.Errorf("removing who holds the lock: %w", err)
		}
	}
	err = d.release(ctx, blob, lockID)
	if holder == nil && call.IsStatus(err, http.StatusConflict, http.StatusBadRequest) {
		return fmt.Errorf("%w: %s; the blob is leased under another ID", backend.ErrNotLocked, lockID)
	}
	return err
}
