package jet

import (
	"context"
	"fmt"

	"github.com/millipede-iac/millipede/wire"
)

// PutKey implements wire.Keys.
func (c *Conn) PutKey(ctx context.Context, run, recipient string, sealed []byte) error {
	if err := c.topology.ensure(ctx, keysStream); err != nil {
		return err
	}
	if err := c.publish(ctx, wire.KeySubject(run, recipient), sealed, ""); err != nil {
		return fmt.Errorf("storing the key of run %s: %w", run, err)
	}
	return nil
}

// GetKey implements wire.Keys.
func (c *Conn) GetKey(ctx context.Context, run, recipient string) ([]byte, error) {
	m, err := c.lastMessage(ctx, keysStream, wire.KeySubject(run, recipient))
	if err != nil {
		return nil, fmt.Errorf("reading the key of run %s: %w", run, err)
	}
	return m.Data, nil
}
