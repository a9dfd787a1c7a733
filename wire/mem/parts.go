package mem

import (
	"bytes"
	"context"
	"sync"

	"github.com/millipede-iac/millipede/wire"
)

// parts takes the parts that are sent to one address, on the goroutines of their senders.
type parts struct {
	c    *Conn
	take func([]byte)

	mu     sync.Mutex // held while take runs; guards closed
	closed bool
}

// TakeParts implements wire.Parts.
func (c *Conn) TakeParts(ctx context.Context, pool, address string, take func([]byte)) (stop func(), err error) {
	subject := wire.PartSubject(pool, address)
	p := &parts{c: c, take: take}
	if err := c.do(ctx, "TakeParts", subject, func(Fault) error { c.s.parts[subject] = p; return nil }); err != nil {
		return nil, err
	}
	return func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		c.s.mu.Lock()
		defer c.s.mu.Unlock()
		delete(c.s.parts, subject)
	}, nil
}

// SendPart implements wire.Parts.
func (c *Conn) SendPart(ctx context.Context, pool, address string, data []byte) error {
	subject, times := wire.PartSubject(pool, address), 1
	var p *parts
	err := c.do(ctx, "SendPart", subject, func(f Fault) error {
		if p = c.s.parts[subject]; p == nil || !p.c.cutAt.IsZero() {
			return wire.ErrNotFound
		}
		if f.Twice {
			times = 2
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for range times {
		if p.closed {
			return wire.ErrNotFound
		}
		p.take(bytes.Clone(data))
	}
	return nil
}
