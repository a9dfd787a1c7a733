package mem

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strings"

	"github.com/millipede-iac/millipede/wire"
)

// PoolBlobs implements wire.PoolBlobs. There is no access control here, so all pools share one store.
func (c *Conn) PoolBlobs(string) wire.Blobs { return c }

// PutBlob implements wire.Blobs.
func (c *Conn) PutBlob(ctx context.Context, sum string, data []byte) error {
	if have := sha256.Sum256(data); hex.EncodeToString(have[:]) != sum {
		return fmt.Errorf("storing blob %s: the data has the hash %x", sum, have)
	}
	return c.do(ctx, "PutBlob", sum, func(Fault) error {
		c.s.blobs[sum] = bytes.Clone(data)
		return nil
	})
}

// GetBlob implements wire.Blobs.
func (c *Conn) GetBlob(ctx context.Context, sum string) ([]byte, error) {
	return c.GetBlobIf(ctx, sum, func(int64) error { return nil })
}

// GetBlobIf implements wire.Blobs.
func (c *Conn) GetBlobIf(ctx context.Context, sum string, fits func(bytes int64) error) (data []byte, err error) {
	err = c.do(ctx, "GetBlob", sum, func(Fault) error {
		there, ok := c.s.blobs[sum]
		if !ok {
			return fmt.Errorf("fetching blob %s: %w", sum, wire.ErrNotFound)
		}
		data = bytes.Clone(there)
		return nil
	})
	if err == nil {
		err = fits(int64(len(data)))
	}
	if err != nil {
		return nil, err
	}
	if have := sha256.Sum256(data); hex.EncodeToString(have[:]) != sum {
		return nil, fmt.Errorf("fetching blob %s: what is stored has the hash %x", sum, have)
	}
	return data, nil
}

// HasBlob implements wire.Blobs.
func (c *Conn) HasBlob(ctx context.Context, sum string) (there bool, err error) {
	err = c.do(ctx, "HasBlob", sum, func(Fault) error {
		_, there = c.s.blobs[sum]
		return nil
	})
	return there, err
}

// NameBlob implements wire.Blobs.
func (c *Conn) NameBlob(ctx context.Context, name, sum string) error {
	return c.do(ctx, "NameBlob", name, func(Fault) error {
		c.s.names[name] = sum
		return nil
	})
}

// LookupBlob implements wire.Blobs.
func (c *Conn) LookupBlob(ctx context.Context, name string) (sum string, err error) {
	err = c.do(ctx, "LookupBlob", name, func(Fault) error {
		there, ok := c.s.names[name]
		if !ok {
			return fmt.Errorf("looking for the blob named %q: %w", name, wire.ErrNotFound)
		}
		sum = there
		return nil
	})
	return sum, err
}

// DamageBlob flips a bit of a stored blob, so that a test can check that it is rejected.
func (s *System) DamageBlob(sum string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if data := s.blobs[sum]; len(data) > 0 {
		data[len(data)/2] ^= 1
	}
}

// PutKey implements wire.Keys.
func (c *Conn) PutKey(ctx context.Context, pool, run, recipient string, sealed []byte) error {
	subject := wire.KeySubject(pool, run, recipient)
	return c.do(ctx, "PutKey", subject, func(Fault) error {
		c.s.keys[subject] = bytes.Clone(sealed)
		return nil
	})
}

// PutKeys implements wire.Keys.
func (c *Conn) PutKeys(ctx context.Context, pool, run string, sealed []wire.SealedKey) error {
	return c.do(ctx, "PutKeys", wire.KeysSubject(pool, run), func(Fault) error {
		for _, k := range sealed {
			c.s.keys[wire.KeySubject(pool, run, k.Recipient)] = bytes.Clone(k.Sealed)
		}
		return nil
	})
}

// PurgeKeys implements wire.Keys.
func (c *Conn) PurgeKeys(ctx context.Context, pool, run string) error {
	prefix := wire.KeyPrefix(pool, run)
	return c.do(ctx, "PurgeKeys", wire.KeysSubject(pool, run), func(Fault) error {
		maps.DeleteFunc(c.s.keys, func(subject string, _ []byte) bool { return strings.HasPrefix(subject, prefix) })
		return nil
	})
}

// GetKey implements wire.Keys.
func (c *Conn) GetKey(ctx context.Context, pool, run, recipient string) (sealed []byte, err error) {
	subject := wire.KeySubject(pool, run, recipient)
	err = c.do(ctx, "GetKey", subject, func(Fault) error {
		there, ok := c.s.keys[subject]
		if !ok {
			return fmt.Errorf("reading the key of run %s for pool %s: %w", run, pool, wire.ErrNotFound)
		}
		sealed = bytes.Clone(there)
		return nil
	})
	return sealed, err
}
