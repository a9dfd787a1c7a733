package cos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/bucket"
	"github.com/millipede-iac/millipede/internal/cloud/call"
	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/state/journal"
)

// tagKey is the key of the tags that exclude others while a lock object is checked and created.
const tagKey = "tencentcloud-terraform-lock"

// How long deleting a tag is retried, and the pause between the attempts.
const (
	tagTime  = 30 * time.Second
	tagPause = time.Second
)

// The error codes for an existing and a missing tag.
const (
	tagExists  = "ResourceInUse.TagDuplicate"
	tagMissing = "ResourceNotFound.TagNonExist"
)

func lockObject(state string) string { return state + ".tflock" }

// tag returns the tag of a lock object.
func (d *driver) tag(object string) map[string]any {
	return map[string]any{"TagKey": tagKey, "TagValue": d.tagValue(object)}
}

func (d *driver) tagValue(object string) string { return checksum([]byte(d.Bucket + ":" + object)) }

// Lock implements bucket.Locks. The lock's ID is the checksum of the lock object.
func (d *driver) Lock(ctx context.Context, state string, info journal.LockInfo) (_ string, err error) {
	object := lockObject(state)
	info.Path = object
	document := backend.EncodeLock(info)
	id := checksum(document)
	if err := d.client.Ask(ctx, "tag", "CreateTag", d.tag(object), nil); err != nil {
		if call.IsCode(err, tagExists) {
			return "", d.heldBy(ctx, object)
		}
		return "", fmt.Errorf("making the tag %s: %w", tagKey, err)
	}
	defer func() {
		if release := d.untag(context.WithoutCancel(ctx), object); release != nil && err == nil {
			err = errors.Join(release, d.Delete(context.WithoutCancel(ctx), object))
		} else {
			err = errors.Join(err, release)
		}
	}()
	holder, err := d.holder(ctx, object)
	switch {
	case err != nil:
		return "", fmt.Errorf("looking for the lock: %w", err)
	case holder != nil && holder.ID != id:
		return "", &journal.Held{Holder: *holder}
	}
	if err := d.Put(ctx, object, document); err != nil {
		return "", fmt.Errorf("writing the lock: %w", err)
	}
	return id, nil
}

// Holds implements bucket.Locks.
func (d *driver) Holds(ctx context.Context, state, id string) (bool, error) {
	holder, err := d.holder(ctx, lockObject(state))
	return err == nil && holder != nil && holder.ID == id, err
}

// heldBy returns the error about an existing tag: another process has the lock, or is about to.
func (d *driver) heldBy(ctx context.Context, object string) error {
	holder, err := d.holder(ctx, object)
	if err != nil {
		return bucket.Unknown(err)
	}
	if holder == nil {
		value := d.tagValue(object)
		holder = &journal.LockInfo{ID: value, Path: object,
			Info: fmt.Sprintf("another program is acquiring the lock at this moment, or ended while it did. In the latter "+
				"case the tag %s = %s has to be deleted, which force-unlock does", tagKey, value)}
	}
	return &journal.Held{Holder: *holder}
}

// holder reads the lock information; nil if there is none.
func (d *driver) holder(ctx context.Context, object string) (*journal.LockInfo, error) {
	data, err := d.Get(ctx, object)
	if err != nil || data == nil {
		return nil, err
	}
	holder := bucket.Named(checksum(data), object, data)
	return &holder, nil
}

// untag deletes the tag of a lock object, if it exists. It retries for half a minute while the service is busy.
func (d *driver) untag(ctx context.Context, object string) error {
	end := time.Now().Add(tagTime)
	for {
		var found struct {
			Tags []struct{ TagKey, TagValue string }
		}
		err := d.client.Ask(ctx, "tag", "DescribeTags", d.tag(object), &found)
		if err == nil && len(found.Tags) == 0 {
			return nil
		}
		if err == nil {
			err = d.client.Ask(ctx, "tag", "DeleteTag", d.tag(object), nil)
		}
		switch {
		case err == nil || call.IsCode(err, tagMissing):
			return nil
		case time.Now().After(end):
			return fmt.Errorf("deleting the tag %s: %w", tagKey, err)
		}
		if err := sleep.For(ctx, tagPause); err != nil {
			return err
		}
	}
}

// Unlock implements bucket.Locks.
func (d *driver) Unlock(ctx context.Context, state, lockID string) error {
	object := lockObject(state)
	holder, err := d.holder(ctx, object)
	if err != nil {
		return err
	}
	if holder == nil && lockID == d.tagValue(object) { // left by a process that was killed while locking
		return d.untag(ctx, object)
	}
	if err := bucket.Match(holder, lockID); err != nil {
		return err
	}
	if err := d.Delete(ctx, object); err != nil {
		return err
	}
	return d.untag(ctx, object)
}
