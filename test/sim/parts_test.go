package sim

import (
	"context"
	"errors"
)

// Lists are not simulated: they change nothing.

// TakeParts implements wire.Parts.
func (c *conn) TakeParts(context.Context, string, string, func([]byte)) (func(), error) {
	return nil, errors.ErrUnsupported
}

// SendPart implements wire.Parts.
func (c *conn) SendPart(context.Context, string, string, []byte) error { return errors.ErrUnsupported }
