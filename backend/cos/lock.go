package cos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/internal/cloud/call"
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

func (b *store) lockObject(workspace string) string { return b.object(workspace) + ".tflock" }

// tag returns the tag of a lock object.
func (b *store) tag(object string) map[string]any {
	return map[string]any{"TagKey": tagKey, "TagValue": b.tagValue(object)}
}

func (b *store) tagValue(object string) string { return checksum([]byte(b.bucket + ":" + object)) }

// Lock implements snapshot.Backend. The lock's ID is the checksum of the lock object.
func (b *store) Lock(ctx context.Context, workspace string, info journal.LockInfo) (_ backend.Lock, err error) {
	object := b.lockObject(workspace)
	info.Path = object
	document := backend.EncodeLock(info)
	id := checksum(document)
	if err := b.session.Ask(ctx, "tag", "CreateTag", b.tag(object), nil); err != nil {
		if call.IsCode(err, tagExists) {
			return backend.Lock{}, b.heldBy(ctx, object)
		}
		return backend.Lock{}, fmt.Errorf("making the tag %s: %w", tagKey, err)
	}
	defer func() {
		if release := b.untag(context.WithoutCancel(ctx), object); release != nil && err == nil {
			err = errors.Join(release, b.remove(context.WithoutCancel(ctx), object))
		} else {
			err = errors.Join(err, release)
		}
	}()
	holder, err := b.holder(ctx, object)
	switch {
	case err != nil:
		return backend.Lock{}, fmt.Errorf("looking for the lock: %w", err)
	case holder != nil && holder.ID != id:
		return backend.Lock{}, &journal.Held{Holder: *holder}
	}
	if err := b.put(ctx, object, document); err != nil {
		return backend.Lock{}, fmt.Errorf("writing the lock: %w", err)
	}
	lock := b.watches.Start(ctx, b.watchEvery, workspace, id, func(ctx context.Context) (bool, error) {
		holder, err := b.holder(ctx, object)
		return holder != nil && holder.ID == id, err
	})
	return lock, nil
}

// heldBy returns the error about an existing tag: another process has the lock, or is about to.
func (b *store) heldBy(ctx context.Context, object string) error {
	holder, err := b.holder(ctx, object)
	if err != nil {
		return fmt.Errorf("the state is locked, and who holds the lock cannot be read: %w", err)
	}
	if holder == nil {
		value := b.tagValue(object)
		holder = &journal.LockInfo{ID: value, Path: object,
			Info: fmt.Sprintf("somebody takes the lock at this moment; if nobody does, a program died doing it, and "+
				"the tag %s = %s has to be deleted, which force-unlock does", tagKey, value)}
	}
	return &journal.Held{Holder: *holder}
}

// holder reads the lock information; nil if there is none.
func (b *store) holder(ctx context.Context, object string) (*journal.LockInfo, error) {
	data, err := b.get(ctx, object)
	if err != nil || data == nil {
		return nil, err
	}
	info, err := backend.DecodeLock(data)
	if err != nil {
		info = journal.LockInfo{Path: object, Who: "unknown", Info: "the lock object cannot be read: " + err.Error()}
	}
	info.ID = checksum(data)
	return &info, nil
}

// untag deletes the tag of a lock object, if it exists. It retries for half a minute while the service is busy.
func (b *store) untag(ctx context.Context, object string) error {
	end := time.Now().Add(tagTime)
	for {
		var found struct {
			Tags []struct{ TagKey, TagValue string }
		}
		err := b.session.Ask(ctx, "tag", "DescribeTags", b.tag(object), &found)
		if err == nil && len(found.Tags) == 0 {
			return nil
		}
		if err == nil {
			err = b.session.Ask(ctx, "tag", "DeleteTag", b.tag(object), nil)
		}
		switch {
		case err == nil || call.IsCode(err, tagMissing):
			return nil
		case time.Now().After(end):
			return fmt.Errorf("deleting the tag %s: %w", tagKey, err)
		}
		timer := time.NewTimer(tagPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// Unlock implements snapshot.Backend.
func (b *store) Unlock(ctx context.Context, workspace, lockID string) error {
	object := b.lockObject(workspace)
	holder, err := b.holder(ctx, object)
	if err != nil {
		return err
	}
	b.watches.Stop(workspace, lockID)
	switch {
	case holder == nil && lockID == b.tagValue(object): // left by a process that was killed while locking
		return b.untag(ctx, object)
	case holder == nil:
		return fmt.Errorf("%w: %s; there is no lock", backend.ErrNotLocked, lockID)
	case holder.ID != lockID:
		return fmt.Errorf("%w: %s; the lock is %s of %s", backend.ErrNotLocked, lockID, holder.ID, holder.Who)
	}
	if err := b.remove(ctx, object); err != nil {
		return err
	}
	return b.untag(ctx, object)
}
