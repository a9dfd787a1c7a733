package jet

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millipede-iac/millipede/wire"
)

// Blobs are objects of one bucket: a blob under its hash, a name as a small object "name/..." that holds the hash.
const namePrefix = "name/"

func (c *Conn) bucket(ctx context.Context) (jetstream.ObjectStore, error) {
	store, err := c.topology.blobs.get(func() (jetstream.ObjectStore, error) {
		ctx, cancel := c.bounded(ctx)
		defer cancel()
		if !c.opts.Provision {
			return c.js.ObjectStore(ctx, blobBucket)
		}
		store, err := c.js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: blobBucket, Storage: jetstream.FileStorage, Replicas: c.topology.replicas()})
		if errors.Is(err, jetstream.ErrBucketExists) {
			return c.js.ObjectStore(ctx, blobBucket)
		}
		return store, err
	})
	if err != nil {
		return nil, fmt.Errorf("opening the blob store: %w", problem(err))
	}
	return store, nil
}

// PutBlob implements wire.Blobs.
func (c *Conn) PutBlob(ctx context.Context, sum string, data []byte) error {
	if have := sha256.Sum256(data); hex.EncodeToString(have[:]) != sum {
		return fmt.Errorf("storing blob %s: the data has the hash %x", sum, have)
	}
	if there, err := c.HasBlob(ctx, sum); err != nil || there {
		return err
	}
	store, err := c.bucket(ctx)
	if err != nil {
		return err
	}
	if _, err := store.PutBytes(ctx, sum, data); err != nil {
		return fmt.Errorf("storing blob %s: %w", sum, problem(err))
	}
	return nil
}

// GetBlob implements wire.Blobs.
func (c *Conn) GetBlob(ctx context.Context, sum string) ([]byte, error) {
	data, err := c.object(ctx, sum)
	if err != nil {
		return nil, fmt.Errorf("fetching blob %s: %w", sum, err)
	}
	if have := sha256.Sum256(data); hex.EncodeToString(have[:]) != sum {
		return nil, fmt.Errorf("fetching blob %s: what is stored has the hash %x", sum, have)
	}
	return data, nil
}

func (c *Conn) object(ctx context.Context, name string) ([]byte, error) {
	store, err := c.bucket(ctx)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, wire.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	for {
		data, err := store.GetBytes(ctx, name)
		if !errors.Is(err, jetstream.ErrObjectNotFound) {
			return data, problem(err)
		}
		// Any replica answers, also one that is behind. Only the leader knows that there is nothing.
		if err := c.objectAtLeader(ctx, name); err != nil {
			return nil, err
		}
		if err := pause(ctx, replicaPause); err != nil {
			return nil, err
		}
	}
}

// replicaPause is how long a replica is given to catch up.
const replicaPause = 20 * time.Millisecond

// objectAtLeader returns wire.ErrNotFound when the stream's leader has no such object either.
func (c *Conn) objectAtLeader(ctx context.Context, name string) error {
	m, err := c.lastMessage(ctx, "OBJ_"+blobBucket, "$O."+blobBucket+".M."+base64.URLEncoding.EncodeToString([]byte(name)))
	if err != nil {
		return err
	}
	var info jetstream.ObjectInfo
	if err := json.Unmarshal(m.Data, &info); err != nil {
		return fmt.Errorf("reading what is stored as %s: %w", name, err)
	}
	if info.Deleted {
		return wire.ErrNotFound
	}
	return nil
}

// HasBlob implements wire.Blobs.
func (c *Conn) HasBlob(ctx context.Context, sum string) (bool, error) {
	store, err := c.bucket(ctx)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = store.GetInfo(ctx, sum)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for blob %s: %w", sum, problem(err))
	}
	return true, nil
}

// NameBlob implements wire.Blobs.
func (c *Conn) NameBlob(ctx context.Context, name, sum string) error {
	store, err := c.bucket(ctx)
	if err != nil {
		return err
	}
	if _, err := store.PutString(ctx, namePrefix+name, sum); err != nil {
		return fmt.Errorf("naming a blob %q: %w", name, problem(err))
	}
	return nil
}

// LookupBlob implements wire.Blobs.
func (c *Conn) LookupBlob(ctx context.Context, name string) (string, error) {
	sum, err := c.object(ctx, namePrefix+name)
	if err != nil {
		return "", fmt.Errorf("looking for the blob named %q: %w", name, err)
	}
	return string(sum), nil
}

// dropSpilled deletes the messages of a run that were too large for a stream, and their names.
func (c *Conn) dropSpilled(ctx context.Context, run string) error {
	store, err := c.topology.blobs.get(func() (jetstream.ObjectStore, error) {
		ctx, cancel := c.bounded(ctx)
		defer cancel()
		return c.js.ObjectStore(ctx, blobBucket)
	})
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil
	}
	if err != nil {
		return problem(err)
	}
	list, err := store.List(ctx)
	if errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil
	}
	if err != nil {
		return problem(err)
	}
	prefix := namePrefix + wire.SpillPrefix(run)
	for _, info := range list {
		sum, ours := strings.CutPrefix(info.Name, prefix)
		if !ours {
			continue
		}
		for _, name := range []string{sum, info.Name} { // the name last: a crash in between leaves it to be found
			if err := store.Delete(ctx, name); err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
				return problem(err)
			}
		}
	}
	return nil
}
