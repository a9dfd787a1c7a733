package kubernetes

import (
	"context"
	"fmt"
	"net/http"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/state/journal"
)

// lockInfo is the annotation with the holder of a lease.
const lockInfo = "app.terraform.io/lock-info"

// tries bounds how often a lease is read again after a concurrent change.
const tries = 5

// Lock implements backend.Backend. After a conflict with a concurrent change of the lease, it reads the holder
// again.
func (b *store) Lock(ctx context.Context, workspace string, info journal.LockInfo) (backend.Lock, error) {
	if err := b.checkName(workspace); err != nil {
		return backend.Lock{}, err
	}
	info.Path = ""
	document := string(backend.EncodeLock(info))
	name := b.leaseName(workspace)
	var conflict error
	for range tries {
		lease, err := b.leases().get(ctx, name)
		if err != nil {
			return backend.Lock{}, err
		}
		switch holder := holderOf(lease); {
		case lease == nil:
			err = b.leases().create(ctx, object{
				"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
				"metadata": map[string]any{
					"name": name, "namespace": b.namespace, "labels": b.labelsOf(workspace),
					"annotations": map[string]string{lockInfo: document},
				},
				"spec": map[string]any{"holderIdentity": info.ID},
			})
		case holder == info.ID:
			return b.held(ctx, workspace, info.ID), nil
		case holder != "":
			return backend.Lock{}, &journal.Held{Holder: infoOf(lease)}
		default:
			lease.setChild("spec", "holderIdentity", info.ID)
			lease.setChild("metadata", "annotations", lease.annotationsWith(lockInfo, document))
			err = b.leases().update(ctx, lease)
		}
		if err == nil {
			return b.held(ctx, workspace, info.ID), nil
		}
		if !isStatus(err, http.StatusConflict) {
			return backend.Lock{}, err
		}
		conflict = err
	}
	return backend.Lock{}, conflict
}

// held returns a lock that was taken, and starts the checks.
func (b *store) held(ctx context.Context, workspace, id string) backend.Lock {
	lock := b.checks.Start(ctx, b.checkEvery, workspace, id, func(ctx context.Context) (bool, error) {
		lease, err := b.leases().get(ctx, b.leaseName(workspace))
		return holderOf(lease) == id, err
	})
	return lock
}

// Unlock implements backend.Backend. The lease is kept, without a holder.
func (b *store) Unlock(ctx context.Context, workspace, lockID string) error {
	if err := b.checkName(workspace); err != nil {
		return err
	}
	b.checks.Stop(workspace, lockID)
	var conflict error
	for range tries {
		lease, err := b.leases().get(ctx, b.leaseName(workspace))
		if err != nil {
			return err
		}
		switch holder := holderOf(lease); {
		case holder == "":
			return fmt.Errorf("%w: the lease %s has no holder", backend.ErrNotLocked, b.leaseName(workspace))
		case holder != lockID:
			return fmt.Errorf("%w: the lease %s is held under the ID %q", backend.ErrNotLocked,
				b.leaseName(workspace), holder)
		}
		lease.setChild("spec", "holderIdentity", nil)
		lease.setChild("metadata", "annotations", lease.annotationsWith(lockInfo, ""))
		if err = b.leases().update(ctx, lease); !isStatus(err, http.StatusConflict) {
			return err
		}
		conflict = err
	}
	return conflict
}

// holderOf returns the ID of a lease's holder; empty if there is none.
func holderOf(lease object) string {
	id, _ := lease.child("spec")["holderIdentity"].(string)
	return id
}

// infoOf returns the information about a lease's holder, which is at least its ID.
func infoOf(lease object) journal.LockInfo {
	text, _ := lease.child("metadata", "annotations")[lockInfo].(string)
	info, err := backend.DecodeLock([]byte(text))
	if err != nil || info.ID != holderOf(lease) {
		return journal.LockInfo{ID: holderOf(lease)}
	}
	return info
}
