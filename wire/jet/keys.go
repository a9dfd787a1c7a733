package jet

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/millipede-iac/millipede/wire"
)

// PutKey implements wire.Keys.
func (c *Conn) PutKey(ctx context.Context, pool, run, recipient string, sealed []byte) error {
	if err := c.topology.ensure(ctx, keysStream(pool)); err != nil {
		return err
	}
	if err := c.store(ctx, &nats.Msg{Subject: wire.KeySubject(pool, run, recipient), Data: sealed}); err != nil {
		return fmt.Errorf("storing the key of run %s for pool %s: %w", run, pool, err)
	}
	return nil
}

// PutKeys implements wire.Keys. The keys are one message, because each message costs the server more than a key does.
func (c *Conn) PutKeys(ctx context.Context, pool, run string, sealed []wire.SealedKey) error {
	if len(sealed) > wire.MaxRecipients {
		return fmt.Errorf("storing the key of run %s for pool %s: it has %d recipients, and at most %d are stored at once",
			run, pool, len(sealed), wire.MaxRecipients)
	}
	if err := c.topology.ensure(ctx, keysStream(pool)); err != nil {
		return err
	}
	m := &nats.Msg{Subject: wire.KeysSubject(pool, run), Data: wire.EncodeSealedKeys(sealed)}
	if err := c.store(ctx, m); err != nil {
		return fmt.Errorf("storing the key of run %s for pool %s: %w", run, pool, err)
	}
	return nil
}

// GetKey implements wire.Keys. It looks among the keys that were stored together first, where most are. If a run has
// made a second key, because the server had lost the first one, those are also the newer ones.
func (c *Conn) GetKey(ctx context.Context, pool, run, recipient string) ([]byte, error) {
	sealed, err := c.getKey(ctx, pool, run, recipient)
	if err != nil {
		return nil, fmt.Errorf("reading the key of run %s for pool %s: %w", run, pool, err)
	}
	return sealed, nil
}

func (c *Conn) getKey(ctx context.Context, pool, run, recipient string) ([]byte, error) {
	m, err := c.lastMessage(ctx, keysStream(pool), wire.KeysSubject(pool, run))
	if err != nil && !errors.Is(err, wire.ErrNotFound) {
		return nil, err
	}
	if err == nil {
		list, err := wire.DecodeSealedKeys(m.Data)
		if err != nil {
			return nil, err
		}
		for _, k := range list {
			if k.Recipient == recipient {
				return k.Sealed, nil
			}
		}
	}
	if m, err = c.lastMessage(ctx, keysStream(pool), wire.KeySubject(pool, run, recipient)); err != nil {
		return nil, err
	}
	return m.Data, nil
}

// PurgeKeys implements wire.Keys.
func (c *Conn) PurgeKeys(ctx context.Context, pool, run string) error {
	if err := c.topology.purge(ctx, keysStream(pool), wire.KeyPrefix(pool, run)+"*"); err != nil {
		return fmt.Errorf("removing the keys of run %s for pool %s: %w", run, pool, err)
	}
	return nil
}
