package jet

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/millipede-iac/millipede/wire"
)

// PutKey implements wire.Keys.
func (c *Conn) PutKey(ctx context.Context, pool, run, recipient string, sealed []byte) error {
	if err := c.topology.ensure(ctx, keysStream(pool)); err != nil {
		return err
	}
	if err := c.publish(ctx, &nats.Msg{Subject: wire.KeySubject(pool, run, recipient), Data: sealed},
		""); err != nil {
		return fmt.Errorf("storing the key of run %s for pool %s: %w", run, pool, err)
	}
	return nil
}

// GetKey implements wire.Keys.
func (c *Conn) GetKey(ctx context.Context, pool, run, recipient string) ([]byte, error) {
	m, err := c.lastMessage(ctx, keysStream(pool), wire.KeySubject(pool, run, recipient))
	if err != nil {
		return nil, fmt.Errorf("reading the key of run %s for pool %s: %w", run, pool, err)
	}
	return m.Data, nil
}
