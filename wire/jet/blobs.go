package jet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millipede-iac/millipede/wire"
)

// namePrefix is the prefix of the names of small objects that hold a hash; a blob is an object under its hash.
const namePrefix = "name/"

// maxName is the most bytes that the object of a name has: more than any hash.
const maxName = 1 << 10

// bucket is an object store: the one that coordinators write, or one that the workers of a pool write. It implements
// wire.Blobs.
type bucket struct {
	c    *Conn
	name string
}

// poolBucket is the name of the bucket of a pool. Names of buckets have no "=", so the coding is that of tokens with
// "_" in its place, and "__" for "_".
func poolBucket(pool string) string {
	return blobBucket + "_" + bucketPart(pool)
}

// bucketPart is the name of a pool as a part of the name of a bucket.
func bucketPart(pool string) string {
	return strings.ReplaceAll(strings.ReplaceAll(wire.Token(pool), "_", "__"), "=", "_")
}

func (c *Conn) blobs() bucket { return bucket{c, blobBucket} }

// readable returns the buckets with what coordinators have stored for this connection: that of the coordinators or, for
// a worker in a region, those of its pools, which are in the store of the region.
func (c *Conn) readable() []bucket {
	if c.opts.Domain == "" {
		return []bucket{c.blobs()}
	}
	var list []bucket
	for _, pool := range c.opts.Pools {
		list = append(list, bucket{c, poolBucket(pool)})
	}
	return list
}

// firstFound reads from the first of the buckets that has it.
func firstFound[T any](list []bucket, read func(bucket) (T, error)) (v T, err error) {
	for _, b := range list {
		if v, err = read(b); !errors.Is(err, wire.ErrNotFound) {
			break
		}
	}
	return v, err
}

// PoolBlobs implements wire.PoolBlobs.
func (c *Conn) PoolBlobs(pool string) wire.Blobs { return bucket{c, poolBucket(pool)} }

// PutBlob implements wire.Blobs.
func (c *Conn) PutBlob(ctx context.Context, sum string, data []byte) error {
	return c.blobs().PutBlob(ctx, sum, data)
}

// GetBlob implements wire.Blobs.
func (c *Conn) GetBlob(ctx context.Context, sum string) ([]byte, error) {
	return firstFound(c.readable(), func(b bucket) ([]byte, error) { return b.GetBlob(ctx, sum) })
}

// GetBlobIf implements wire.Blobs.
func (c *Conn) GetBlobIf(ctx context.Context, sum string, ok func(bytes int64) error) ([]byte, error) {
	return firstFound(c.readable(), func(b bucket) ([]byte, error) { return b.GetBlobIf(ctx, sum, ok) })
}

// HasBlob implements wire.Blobs.
func (c *Conn) HasBlob(ctx context.Context, sum string) (has bool, err error) {
	for _, b := range c.readable() {
		if has, err = b.HasBlob(ctx, sum); has || err != nil {
			break
		}
	}
	return has, err
}

// NameBlob implements wire.Blobs.
func (c *Conn) NameBlob(ctx context.Context, name, sum string) error {
	return c.blobs().NameBlob(ctx, name, sum)
}

// LookupBlob implements wire.Blobs.
func (c *Conn) LookupBlob(ctx context.Context, name string) (string, error) {
	return firstFound(c.readable(), func(b bucket) (string, error) { return b.LookupBlob(ctx, name) })
}

// preparePool creates what the workers of a pool use and may not create: registers, keys, the stream of results, a
// bucket. It does so once for each connection that may. On an embedded server workers may create all but the results,
// which coordinators read.
func (c *Conn) preparePool(ctx context.Context, pool string) error {
	if !c.opts.Provision {
		return nil
	}
	if c.opts.inProcess != nil {
		return c.topology.ensure(ctx, resultsStream(pool))
	}
	for _, name := range []string{claimsStream(pool), keysStream(pool), resultsStream(pool)} {
		if err := c.topology.ensure(ctx, name); err != nil {
			return err
		}
	}
	if err := c.regions.recheck(ctx, claimsStream(pool)); err != nil {
		return err
	}
	return bucket{c, poolBucket(pool)}.open(ctx)
}

// open prepares the store for writing.
func (b bucket) open(ctx context.Context) error {
	_, err := b.c.topology.bucket(b.name).get(func() (jetstream.ObjectStore, error) {
		ctx, cancel := b.c.bounded(ctx)
		defer cancel()
		if !b.c.opts.Provision {
			return b.c.regions.at(b.stream()).ObjectStore(ctx, b.name)
		}
		return b.create(ctx)
	})
	if err != nil {
		return fmt.Errorf("opening the blob store: %w", problem(err))
	}
	return nil
}

func (b bucket) create(ctx context.Context) (store jetstream.ObjectStore, err error) {
	t := &b.c.topology
	err = t.replicated(b.stream(), func(replicas int) error {
		return t.within(ctx, b.stream(), replicas, func(bytes int64) error {
			store, err = b.c.regions.at(b.stream()).CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
				Bucket: b.name, Storage: b.c.opts.storage(), Replicas: replicas, MaxBytes: bytes,
			})
			return err
		})
	})
	if !errors.Is(err, jetstream.ErrBucketExists) {
		return store, err
	}
	s, err := b.c.regions.at(b.stream()).Stream(ctx, b.stream())
	if err == nil {
		_, err = t.bind(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	return b.c.regions.at(b.stream()).ObjectStore(ctx, b.name)
}

// PutBlob implements wire.Blobs.
func (b bucket) PutBlob(ctx context.Context, sum string, data []byte) error {
	if have := sha256.Sum256(data); hex.EncodeToString(have[:]) != sum {
		return fmt.Errorf("storing blob %s: the data has the hash %x", sum, have)
	}
	if there, err := b.HasBlob(ctx, sum); err != nil || there {
		return err
	}
	if err := b.put(ctx, sum, data); err != nil {
		return fmt.Errorf("storing blob %s: %w", sum, err)
	}
	return nil
}

// GetBlob implements wire.Blobs.
func (b bucket) GetBlob(ctx context.Context, sum string) ([]byte, error) {
	return b.GetBlobIf(ctx, sum, func(int64) error { return nil })
}

// GetBlobIf implements wire.Blobs.
func (b bucket) GetBlobIf(ctx context.Context, sum string, ok func(bytes int64) error) ([]byte, error) {
	data, err := b.read(ctx, sum, ok)
	if err != nil {
		return nil, fmt.Errorf("fetching blob %s: %w", sum, err)
	}
	if have := sha256.Sum256(data); hex.EncodeToString(have[:]) != sum {
		return nil, fmt.Errorf("fetching blob %s: what is stored has the hash %x", sum, have)
	}
	return data, nil
}

// HasBlob implements wire.Blobs.
func (b bucket) HasBlob(ctx context.Context, sum string) (bool, error) {
	info, err := b.info(ctx, sum)
	if errors.Is(err, wire.ErrNotFound) {
		return false, nil
	}
	there := false
	if err == nil {
		there, err = b.whole(ctx, info)
	}
	if err != nil {
		return false, fmt.Errorf("looking for blob %s: %w", sum, err)
	}
	return there, nil
}

// NameBlob implements wire.Blobs. A name that is there already stays as it is: whoever reads it at that moment would
// miss its part.
func (b bucket) NameBlob(ctx context.Context, name, sum string) error {
	if now, err := b.LookupBlob(ctx, name); err == nil && now == sum {
		return nil
	}
	if err := b.put(ctx, namePrefix+name, []byte(sum)); err != nil {
		return fmt.Errorf("naming a blob %q: %w", name, err)
	}
	return nil
}

// LookupBlob implements wire.Blobs.
func (b bucket) LookupBlob(ctx context.Context, name string) (string, error) {
	sum, err := b.read(ctx, namePrefix+name, func(bytes int64) error {
		if bytes > maxName {
			return fmt.Errorf("it has %d bytes", bytes)
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("looking for the blob named %q: %w", name, err)
	}
	return string(sum), nil
}

// dropSpilled deletes the messages of a run that were too large for a stream, and their names, in the bucket of the
// coordinators and in those of some pools at the hub; of all for nil.
func (c *Conn) dropSpilled(ctx context.Context, run string, pools []string) error {
	buckets := []bucket{c.blobs()}
	for _, pool := range pools {
		buckets = append(buckets, bucket{c, poolBucket(pool)})
	}
	if pools == nil {
		names, err := c.topology.list(ctx)
		if err != nil {
			return err
		}
		for _, name := range names {
			if _, kind := poolOf(name); kind == blobsOfPool {
				buckets = append(buckets, bucket{c, strings.TrimPrefix(name, bucket{}.stream())})
			}
		}
	}
	for _, b := range buckets {
		if c.regions.of(b.stream()) != "" {
			continue // see cleanRegion
		}
		if err := b.dropSpilled(ctx, run); err != nil {
			return err
		}
	}
	return nil
}

// dropSpilled reads only the names of the objects, which one request brings, and not their descriptions.
func (b bucket) dropSpilled(ctx context.Context, run string) error {
	names, err := b.objects(ctx)
	if err != nil {
		return err
	}
	prefix := namePrefix + wire.SpillPrefix(run)
	for _, name := range names {
		sum, ours := strings.CutPrefix(name, prefix)
		if !ours {
			continue
		}
		for _, n := range []string{sum, name} { // the name last: a crash in between leaves it to be found
			if err := b.remove(ctx, n); err != nil {
				return err
			}
		}
	}
	return nil
}
